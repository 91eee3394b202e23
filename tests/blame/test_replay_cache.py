"""Snapshots of blame in the journal: what they save, and what makes them void."""

import random
import sqlite3
from collections import Counter
from collections.abc import Iterator

import pytest

from gitshadow.blame import replay_cache
from gitshadow.blame.file_blame import BlameQuery, Blaming, past_of
from gitshadow.blame.replay import Replay
from gitshadow.blame.replay_cache import Resuming
from gitshadow.blame.snapshots import DoubtError
from gitshadow.errors import UsageError
from gitshadow.model import PathChange, RepoPath
from gitshadow.store.journal import blame
from tests.blame.test_snapshots import Answer, described
from tests.conftest import FULL
from tests.support.context import Near, desk_of
from tests.support.repo import Repo

MOVES = 400 if FULL else 60
A = RepoPath(b"a")


@pytest.fixture
def near(repo: Repo) -> Iterator[Near]:
    with desk_of(repo) as context:
        yield Near(repo, context)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have snapshots taken after every third event, and kept after each tenth."""
    monkeypatch.setattr(replay_cache, "_STEPS", (3, 10))


@pytest.fixture
def outcomes(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count how replays began: at a snapshot, at the first event, or anew after a doubt."""
    counts: Counter[str] = Counter()
    real = Resuming.resume

    def counting(
        self: Resuming, replay: Replay, until: int | None
    ) -> PathChange | None:
        try:
            found = real(self, replay, until)
        except DoubtError:
            counts["doubt"] += 1
            raise
        counts["new" if found is None else "resumed"] += 1
        return found

    monkeypatch.setattr(Resuming, "resume", counting)
    return counts


def blamed(near: Near, path: RepoPath = A) -> Answer:
    return described(Blaming(near.context, BlameQuery(path=path)).answer().vector)


def anew(near: Near, path: RepoPath = A) -> Answer:
    """Return the answer without snapshots: what was removed is known to no snapshot."""
    return described(
        Blaming(near.context, BlameQuery(path=path, removed=True)).answer().vector
    )


def edits(near: Near, count: int, path: str = "a") -> None:
    """Append lines, as a person, each an event."""
    for number in range(count):
        near.repo.append(path, f"line {number} of a person, by hand\n")
        near.context.observer.settle()


def stored(near: Near) -> list[tuple[int, int]]:
    rows = near.context.workspace.db.rows(
        "SELECT fed, seq FROM blame_states ORDER BY seq"
    )
    return [(fed, seq) for fed, seq in rows]


def test_few_events_need_no_snapshot(near: Near) -> None:
    edits(near, 5)
    blamed(near)
    assert stored(near) == []


@pytest.mark.usefixtures("steps")
def test_replay_begins_at_the_newest_snapshot(
    near: Near, outcomes: Counter[str]
) -> None:
    edits(near, 7)
    first = blamed(near)
    assert [fed for fed, _ in stored(near)] == [6, 7]
    assert blamed(near) == first
    edits(near, 1)
    assert blamed(near) == anew(near)
    assert outcomes == {"new": 1, "resumed": 2}


@pytest.mark.usefixtures("steps")
def test_old_versions_are_not_read_again(near: Near) -> None:
    edits(near, 12)
    blamed(near)
    read: list[object] = []
    past = past_of(near.context)
    ws = near.context.workspace

    def counting(oid: object) -> bytes:
        read.append(oid)
        return ws.repo.read_blob(oid)  # type: ignore[arg-type]

    blaming = Blaming(near.context, BlameQuery(path=A), past)
    replay = Replay(counting, blaming._diff, blaming._replay({}).rewrites)
    assert Resuming(ws.db, past, "main", A).resume(replay, None) is not None
    assert len(read) == 1


@pytest.mark.usefixtures("steps")
def test_only_the_newest_of_each_step_are_kept(near: Near) -> None:
    for _ in range(14):
        edits(near, 1)
        blamed(near)
    assert [fed for fed, _ in stored(near)] == [10, 12]


@pytest.mark.usefixtures("steps")
def test_moment_is_served_by_a_snapshot_before_it(
    near: Near, outcomes: Counter[str]
) -> None:
    edits(near, 8)
    blamed(near)
    rows = near.context.workspace.db.rows("SELECT seq FROM events WHERE path = ?", (A,))
    events = sorted(row[0] for row in rows)
    content = near.context.workspace.states.get(A)
    assert content is not None
    for seq in (events[6], events[2]):
        oid = near.context.workspace.db.row(
            "SELECT after_oid FROM events WHERE seq = ?", (seq,)
        )
        assert oid is not None
        version = type(content.version)(oid[0], content.version.mode)
        wish = BlameQuery(path=A, seq=seq, content=version)
        found = described(Blaming(near.context, wish).answer().vector)
        assert [row[2] for row in found if row[2]] == [
            one for one in events if one <= seq
        ]
    assert outcomes == {"new": 2, "resumed": 1}


@pytest.mark.usefixtures("steps")
def test_row_that_goes_or_changes_drops_every_snapshot(near: Near) -> None:
    db = near.context.workspace.db
    edits(near, 4)
    for change in (
        "UPDATE events SET note = 'x' WHERE seq = (SELECT MAX(seq) FROM events)",
        "DELETE FROM events WHERE seq = (SELECT MAX(seq) FROM events)",
    ):
        blamed(near)
        assert stored(near) != []
        with db.write():
            db.run(change)
        assert stored(near) == []


@pytest.mark.usefixtures("steps")
def test_late_row_makes_a_snapshot_void(near: Near, outcomes: Counter[str]) -> None:
    edits(near, 4)
    near.repo.write("b", "something else\n")
    near.context.observer.settle()
    edits(near, 2)
    blamed(near)
    db = near.context.workspace.db
    row = db.row("SELECT * FROM events WHERE path = ?", (b"b",))
    assert row is not None
    values = [A if value == b"b" else value for value in row]
    with db.write():
        db.run("DELETE FROM events WHERE path = ?", (b"b",))
    blamed(near)
    with db.write():
        db.run(f"INSERT INTO events VALUES ({', '.join('?' * len(values))})", values)
    assert blamed(near) == anew(near)
    assert outcomes == {"new": 3}


@pytest.mark.usefixtures("steps")
def test_rename_that_brings_older_events_makes_a_snapshot_void(
    near: Near, outcomes: Counter[str]
) -> None:
    edits(near, 4, "b")
    edits(near, 4)
    blamed(near)
    near.repo.delete("a")
    near.context.observer.settle()
    near.repo.rename("b", "a")
    near.context.observer.settle()
    assert blamed(near) == anew(near)
    assert outcomes == {"new": 2}


@pytest.mark.usefixtures("steps")
def test_commit_of_what_was_seen_before_makes_a_snapshot_void(
    near: Near, outcomes: Counter[str]
) -> None:
    edits(near, 3)
    near.repo.git("add", "a")
    edits(near, 4)
    blamed(near)
    near.repo.git("commit", "-q", "-m", "what was staged")
    near.context.observer.settle()
    assert blamed(near) == anew(near)
    assert outcomes == {"new": 2}


@pytest.mark.usefixtures("steps")
def test_commit_of_other_files_leaves_it_as_it_is(
    near: Near, outcomes: Counter[str]
) -> None:
    edits(near, 4)
    blamed(near)
    near.repo.write("b", "something else\n")
    near.repo.git("commit", "-q", "-m", "another", "b")
    near.context.observer.settle()
    assert blamed(near) == anew(near)
    assert outcomes == {"new": 1, "resumed": 1}


@pytest.mark.usefixtures("steps")
def test_snapshot_of_another_version_is_not_used(
    near: Near, outcomes: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    edits(near, 4)
    blamed(near)
    monkeypatch.setattr(replay_cache, "_MADE_BY", "something newer")
    blamed(near)
    assert outcomes == {"new": 2}
    assert {made for _, made, _ in standing(near)} == {"something newer"}


def standing(near: Near) -> list[tuple[int, str, str]]:
    return blame.states_at(near.context.workspace.db, "main", A)


@pytest.mark.usefixtures("steps")
def test_snapshot_that_rotted_is_made_anew(near: Near) -> None:
    edits(near, 4)
    expected = blamed(near)
    db = near.context.workspace.db
    with db.write():
        db.run("UPDATE blame_states SET data = x'00ff00ff00ff'")
    assert blamed(near) == expected
    assert db.number("SELECT MIN(length(data)) FROM blame_states") > 6


@pytest.mark.usefixtures("steps")
def test_journal_that_others_hold_costs_the_snapshot_alone(near: Near) -> None:
    edits(near, 4)
    near.context.workspace.db.run("PRAGMA busy_timeout = 1")
    other = sqlite3.connect(near.context.workspace.db.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert blamed(near) == anew(near)
    other.execute("ROLLBACK")
    other.close()
    assert stored(near) == []


@pytest.mark.usefixtures("steps")
def test_snapshots_take_a_bounded_room(
    near: Near, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay_cache, "_MOST_BYTES", 1)
    edits(near, 4)
    blamed(near)
    assert stored(near) == []


class Life:
    """Play random moves of an agent, a person, undo and Git on one file."""

    def __init__(self, near: Near, rng: random.Random) -> None:
        self.near = near
        self.rng = rng
        self.count = 0

    @property
    def repo(self) -> Repo:
        return self.near.repo

    def text(self) -> str:
        self.count += 1
        lines = self.repo.read("a").decode().splitlines() if self.has("a") else []
        at = self.rng.randint(0, len(lines))
        lines[at : at + self.rng.randint(0, 2)] = [f"written as number {self.count}"]
        return "".join(f"{line}\n" for line in lines)

    def has(self, path: str) -> bool:
        return self.repo.exists(path)

    def move(self) -> None:
        names = ("edit", "edit", "hand", "hand", "commit", "undo", "redo", "switch")
        more = ("delete", "rename", "like", "stash", "pop", "amend", "old", "pick")
        getattr(self, "do_" + self.rng.choice(names + more))()
        self.near.context.observer.settle()

    def do_edit(self) -> None:
        agent = self.near.agent(self.rng.choice(["s1", "s2"]))
        agent.prompt("go")
        agent.write("a", self.text())
        agent.stop()

    def do_hand(self) -> None:
        self.repo.write("a", self.text())

    def do_old(self) -> None:
        """Bring an older version back by hand."""
        rows = self.near.context.workspace.db.rows(
            "SELECT after_oid FROM events WHERE path = ? AND after_oid IS NOT NULL",
            (A,),
        )
        if rows:
            oid = self.rng.choice(rows)[0]
            self.repo.write("a", self.near.context.workspace.repo.read_blob(oid))

    def do_undo(self) -> None:
        self.near.undo("oops")

    def do_redo(self) -> None:
        self.near.undo("redo")

    def do_commit(self) -> None:
        self.repo.git("add", "-A")
        self.repo.git("commit", "-q", "--allow-empty", "-m", "c")

    def do_amend(self) -> None:
        self.repo.git("commit", "-q", "-a", "--amend", "--allow-empty", "-m", "c")

    def do_switch(self) -> None:
        self.do_commit()
        flag = [] if self.repo.git("branch", "--list", "side") else ["-b"]
        now = self.repo.git("branch", "--show-current")
        other = "main" if now == "side" else "side"
        self.repo.git("checkout", "-q", *flag, other)

    def do_pick(self) -> None:
        self.do_commit()
        if self.repo.git("branch", "--list", "side"):
            self.repo.git("cherry-pick", "main", "side", check=False)
            self.repo.git("cherry-pick", "--abort", check=False)
            self.repo.git("reset", "-q", "--hard")

    def do_delete(self) -> None:
        if self.has("a"):
            self.repo.delete("a")

    def do_rename(self) -> None:
        for old, new in (("a", "d"), ("d", "a")):
            if self.has(old) and not self.has(new):
                self.repo.rename(old, new)
                return

    def do_like(self) -> None:
        """Move the file away and put its like in its place."""
        if self.has("a"):
            agent = self.near.agent("s1")
            agent.prompt("go")
            for command in ["rm e"] if self.has("e") else ["mv a e", "cp e a"]:
                agent.shell(command)
            agent.stop()

    def do_stash(self) -> None:
        self.repo.git("stash", "-q", check=False)

    def do_pop(self) -> None:
        self.repo.git("stash", "pop", "-q", check=False)
        if "U" in self.repo.git("status", "--porcelain")[:2]:
            self.repo.git("checkout", "-q", "-f", "HEAD")


@pytest.mark.usefixtures("steps")
@pytest.mark.parametrize("seed", range(20 if FULL else 2))
def test_answer_is_the_same_as_without_snapshots(
    near: Near, outcomes: Counter[str], seed: int
) -> None:
    life = Life(near, random.Random(seed))
    for number in range(MOVES):
        life.move()
        for path in (A, RepoPath(b"d")):
            try:
                expected = anew(near, path)
            except UsageError:
                continue
            assert blamed(near, path) == expected, number
    assert outcomes["resumed"] > MOVES / 4, outcomes
