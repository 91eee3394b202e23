"""The observer: every hint is followed by a look, and every directory is watched as it is now."""

import os
import shutil
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gitshadow.config import WatchBackend
from gitshadow.model import (
    Baseline,
    Confidence,
    Event,
    EventKind,
    Gap,
    HeadChange,
    PathChange,
    RepoPath,
)
from gitshadow.platform import current
from gitshadow.platform.linux import inotify, machine
from gitshadow.platform.watching import EventSink, Hints, Watcher, directory_inode
from gitshadow.recording import observer as observing
from gitshadow.recording.context import RecorderContext
from gitshadow.store.journal import events
from gitshadow.store.journal.events import EventFilter
from tests.support import audit
from tests.support.claude import Claude
from tests.support.context import Near, desk_of
from tests.support.examples import shares_fixture
from tests.support.repo import Repo

# The other watcher does not know what was lost: each of its barriers walks.
only_inotify = pytest.mark.parametrize("watcher", [WatchBackend.INOTIFY], indirect=True)
_LATER_S = 10.0
_NEVER_S = 1e9


@dataclass(slots=True)
class FakeTime:
    """Stand in for the module `time`: what is put off is due when a test says so."""

    now: float = field(default_factory=time.monotonic)

    def monotonic(self) -> float:
        return self.now

    def time_ns(self) -> int:
        return time.time_ns()

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def context(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> Iterator[RecorderContext]:
    monkeypatch.setattr(observing, "_BACKGROUND_WALK_S", _NEVER_S)
    with desk_of(repo) as opened:
        opened.observer.settle()
        yield opened


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeTime:
    fake = FakeTime()
    monkeypatch.setattr(observing, "time", fake)
    return fake


@pytest.fixture(params=[WatchBackend.INOTIFY, WatchBackend.WATCHFILES])
def watcher(
    context: RecorderContext, request: pytest.FixtureRequest
) -> Iterator[Watcher]:
    """Return the watcher with which the context has begun to watch."""
    made = current().open_watcher(request.param, context.workspace.layout, lambda: None)
    context.observer.start(made)
    yield made
    made.close()


def hint(context: RecorderContext, *paths: str) -> None:
    """Report paths to the observer as a watcher does."""
    context.observer.hints(Hints(frozenset(RepoPath(one.encode()) for one in paths)))


def wait_out(context: RecorderContext, clock: FakeTime) -> None:
    """Let time pass until nothing is put off any more."""
    while context.observer.due() is not None:
        clock.now += _LATER_S
        context.observer.tick()


def rows(context: RecorderContext) -> list[Event]:
    """Return all events, oldest first."""
    return list(reversed(list(events.rows(context.workspace.db, EventFilter()))))


def test_hint_is_judged_by_the_rules_that_apply_now(
    repo: Repo, context: RecorderContext, clock: FakeTime
) -> None:
    """No watcher hints at a rule file outside the worktree."""
    repo.write(".git/info/exclude", "*.log\n")
    repo.write("x.log", "x")
    hint(context, "x.log")
    wait_out(context, clock)
    assert [row for row in rows(context) if isinstance(row, PathChange)] == []


def _old_path(row: Event) -> str | None:
    found = row.old_path if isinstance(row, PathChange) else None
    return os.fsdecode(found) if found else None


def told(
    context: RecorderContext, *kinds: EventKind
) -> list[tuple[str, str, str | None]]:
    """Return kind, path and old path of what was recorded, sorted by path."""
    found = [
        (
            row.kind.value,
            "" if isinstance(row, HeadChange) else os.fsdecode(row.path or b""),
            _old_path(row),
        )
        for row in rows(context)
        if not isinstance(row, Baseline) and (not kinds or row.kind in kinds)
    ]
    return sorted(found, key=lambda row: row[1])


def check_states(repo: Repo, context: RecorderContext, top: str = "") -> None:
    """Check that what is recorded below a directory is what is on the disk."""
    states = context.workspace.states
    known = {
        path: (states.all()[path].version.oid, states.all()[path].version.mode)
        for path in states.below(RepoPath(top.encode()))
    }
    found, objects = {}, repo.object_format
    for directory, _, names in os.walk(repo.path(top)):
        if b".git" not in directory.split(b"/"):
            for name in names:
                path = os.path.join(directory, name)
                name = RepoPath(os.path.relpath(path, repo.path()))
                found[name] = audit.disk_state(path, objects)
    assert known == found


def test_directory_swapped_while_it_is_put_off_is_entered(
    repo: Repo, context: RecorderContext, clock: FakeTime
) -> None:
    """The old directory left the tree, another one has its name, the old one comes back."""
    repo.write("dir/1/a/f", "old\n")
    context.observer.settle()
    outside = repo.root.parent / "outside"
    os.rename(repo.root / "dir", outside)
    hint(context, "dir")
    repo.write("dir/1/b/f", "new\n")
    hint(context, "dir")
    os.rename(outside, repo.root / "moved")
    hint(context, "moved")
    clock.now += _LATER_S
    context.observer.tick()
    assert told(context)[-2:] == [
        ("create", "dir/1/b/f", None),
        ("rename", "moved/1/a/f", "dir/1/a/f"),
    ]
    check_states(repo, context, "dir")


def test_directory_whose_second_hint_comes_with_its_other_end_is_entered(
    repo: Repo, context: RecorderContext, clock: FakeTime
) -> None:
    repo.write("dir/f", "old\n")
    context.observer.settle()
    os.rename(repo.root / "dir", repo.root / "dir.old")
    hint(context, "dir")
    repo.write("dir/g", "new\n")
    hint(context, "dir.old")
    clock.now += _LATER_S
    context.observer.tick()
    assert told(context, EventKind.RENAME) == [("rename", "dir.old/f", "dir/f")]
    check_states(repo, context)


def test_file_that_comes_back_while_its_deletion_is_put_off_is_recorded_at_once(
    repo: Repo, context: RecorderContext, clock: FakeTime
) -> None:
    os.unlink(repo.root / "a")
    hint(context, "a")
    os.symlink("b", repo.root / "a")
    hint(context, "a")
    assert told(context)[-1:] == [("type", "a", None)]


_PLACES = ("d", "d/s", "e", "new")
_STEPS = st.lists(
    st.tuples(
        st.sampled_from(["write", "leave", "return", "move", "remove"]),
        st.sampled_from(_PLACES),
        st.sampled_from(_PLACES),
        st.sampled_from(["at once", "with the next", "later", "much later"]),
    ),
    min_size=3,
    max_size=15,
)


_SWAP = [
    ("leave", "d", "d", "at once"),
    ("write", "d/s", "d", "at once"),
    ("return", "new", "d", "at once"),
]


class Inodes:
    """Watch directories as inotify does: by inode, whatever their names become."""

    def __init__(self, root: str) -> None:
        self.root = os.fsencode(root)
        self.seen: set[int] = set()

    def add(self, directories: Iterable[RepoPath]) -> None:
        for path in directories:
            with suppress(OSError):
                self.seen.add(os.stat(os.path.join(self.root, path)).st_ino)

    def replace(self, directories: Iterable[RepoPath]) -> None:
        self.add(directories)

    def enter(self, directories: Mapping[RepoPath, int]) -> None:
        return

    def barrier(self) -> Hints:
        return Hints()

    def watching(self, paths: Collection[RepoPath]) -> set[RepoPath]:
        return set()

    def unwatched(self, directories: Iterable[RepoPath]) -> set[RepoPath]:
        return set()

    def degraded(self) -> None:
        return None

    def follow(self, order: EventSink) -> None:
        return


class Ground:
    """A directory in which things happen, with the hints that a watcher gives of them."""

    def __init__(self, repo: Repo, port: Inodes, number: int) -> None:
        self.port = port
        self.top = f"ground{number}"
        self.outside = repo.root.parent / f"outside{number}"
        self.root = repo.root / self.top
        self.root.mkdir()
        self.outside.mkdir()
        self.hinted: list[str] = [self.top]
        self.count = 0
        (self.root / "d" / "s").mkdir(parents=True)
        (self.root / "e").mkdir()
        (self.root / "d" / "s" / "f0").write_text("0\n")
        (self.root / "e" / "f0").write_text("0\n")

    def do(self, act: str, place: str, other: str) -> None:
        with suppress(OSError):
            getattr(self, f"_{act}")(place, other)

    def _hint(self, path: Path) -> None:
        """Report a path, if the directory that holds it is watched."""
        if path.parent.stat().st_ino in self.port.seen:
            self.hinted.append(f"{self.top}/{path.relative_to(self.root)}")

    def _write(self, place: str, _: str) -> None:
        for one in {place.partition("/")[0]: None, place: None}:
            if not (self.root / one).is_dir():
                (self.root / one).mkdir()
                self._hint(self.root / one)
        self.count += 1
        path = self.root / place / f"f{self.count % 3}"
        path.write_text(f"{self.count}\n")
        self._hint(path)

    def _remove(self, place: str, _: str) -> None:
        for path in sorted((self.root / place).rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
            self._hint(path)
        (self.root / place).rmdir()
        self._hint(self.root / place)

    def _leave(self, place: str, _: str) -> None:
        os.rename(self.root / place, self.outside / "kept")
        self._hint(self.root / place)

    def _return(self, place: str, _: str) -> None:
        os.rename(self.outside / "kept", self.root / place)
        self._hint(self.root / place)

    def _move(self, place: str, other: str) -> None:
        os.rename(self.root / place, self.root / other)
        self._hint(self.root / place)
        self._hint(self.root / other)


def test_every_hint_is_followed_by_a_look(
    repo: Repo, context: RecorderContext, clock: FakeTime
) -> None:
    """Once nothing is put off any more, what was hinted is recorded as it is on the disk."""
    number = 0
    port = Inodes(str(repo.root))
    context.observer.start(port)

    @shares_fixture
    @given(_STEPS)
    @example(_SWAP)
    def play(steps: list[tuple[str, str, str, str]]) -> None:
        nonlocal number
        number += 1
        ground = Ground(repo, port, number)
        hint(context, ground.top)
        wait_out(context, clock)
        ground.hinted.clear()
        for act, place, other, when in steps:
            ground.do(act, place, other)
            if when == "with the next":
                continue
            hint(context, *ground.hinted)
            ground.hinted.clear()
            clock.now += {"later": 0.03, "much later": 2.0}.get(when, 0.0)
            context.observer.tick()
        hint(context, *ground.hinted)
        wait_out(context, clock)
        check_states(repo, context, ground.top)
        shutil.rmtree(ground.root)
        shutil.rmtree(ground.outside)
        context.observer.settle()

    play()


def test_deletions_of_a_call_are_recorded_before_its_end_is_answered(
    repo: Repo, context: RecorderContext, watcher: Watcher
) -> None:
    """What a person writes there next is the person's, with old bytes as well."""
    before = repo.read("c")
    near = Near(repo, context)
    claude = Claude(near)
    claude.prompt("remove them")
    claude.shell("rm b c")
    repo.write("b", "by hand\n")
    repo.write("c", before)
    context.observer.settle()
    found = [
        (row.kind, row.path, row.attribution.confidence)
        for row in sorted(
            events.path_changes(rows(context)), key=lambda row: (row.kind, row.path)
        )
    ]
    assert found == [
        (EventKind.CREATE, b"b", Confidence.LOW),
        (EventKind.CREATE, b"c", Confidence.LOW),
        (EventKind.DELETE, b"b", Confidence.MEDIUM),
        (EventKind.DELETE, b"c", Confidence.MEDIUM),
    ]
    report = near.undo("oops")
    assert isinstance(report["items"], list)
    assert [(item["path"], item["state"]) for item in report["items"]] == [
        ("b", "not_reversed"),
        ("c", "no_effect"),
    ]


@pytest.fixture
def others_write(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a watcher take this for a file system to which other machines write."""
    mounts = Path("/proc/self/mountinfo").read_bytes()
    kind = machine._kind_of(mounts, os.stat(repo.root).st_dev)
    monkeypatch.setattr(machine, "_SHARED", frozenset({kind}))


@pytest.mark.usefixtures("others_write")
def test_write_of_another_machine_is_recorded_without_a_hint(
    repo: Repo, context: RecorderContext, watcher: Watcher
) -> None:
    """LAW-06: a name outside the tree leads to the file, so no directory in it is told."""
    outside = repo.root.parent / "outside"
    os.link(repo.path("a"), outside)
    context.observer.settle()
    outside.write_text("written elsewhere\n")
    assert watcher.barrier() == Hints(lost=True)
    context.observer.settle()
    assert told(context)[-1:] == [("modify", "a", None)]
    check_states(repo, context)
    assert "without a report to this machine" in str(context.observer.degraded)


@pytest.mark.parametrize("is_replaced", [True, False])
def test_write_by_a_name_that_is_given_up_at_once_is_seen_by_the_others(
    repo: Repo, context: RecorderContext, watcher: Watcher, is_replaced: bool
) -> None:
    """CAP-01: nothing is hinted for the names that the file keeps."""
    os.link(repo.path("a"), repo.path("linked"))
    context.observer.settle()
    repo.append("linked", "written\n")
    if is_replaced:
        repo.write("other", "another file\n")
        os.rename(repo.path("other"), repo.path("linked"))
    else:
        repo.delete("linked")
    context.observer.settle()
    assert ("modify", "a", None) in told(context)
    check_states(repo, context)


def swap_unheard(repo: Repo, watcher: Watcher) -> None:
    """Put another directory in the place of `dir`, and lose what the watcher saw of it."""
    os.rename(repo.root / "dir", repo.root.parent / "gone")
    repo.write("dir/f", "new\n")
    watcher.barrier()


def gaps(context: RecorderContext) -> list[tuple[bytes | None, str | None]]:
    return [(row.path, row.note) for row in rows(context) if isinstance(row, Gap)]


@only_inotify
def test_end_of_a_call_looks_only_at_the_directories_that_were_touched(
    repo: Repo,
    context: RecorderContext,
    watcher: Watcher,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each directory that is replaced is hinted by the one above it."""
    for number in range(200):
        repo.write(f"many/{number}/f", "x\n")
    context.observer.settle()
    context.observer.settle()
    looked: list[str] = []

    def look(path: str | bytes) -> int | None:
        looked.append(os.fsdecode(path))
        return directory_inode(path)

    monkeypatch.setattr(inotify, "directory_inode", look)
    repo.write("many/7/f", "written by the call\n")
    context.observer.settle_call()
    assert ("modify", "many/7/f", None) in told(context)
    assert len(looked) < 20


@only_inotify
def test_barrier_names_a_directory_that_was_swapped_without_a_look(
    repo: Repo, context: RecorderContext, watcher: Watcher
) -> None:
    """The hint came and whoever took it did nothing: the inode says so."""
    repo.write("dir/f", "old\n")
    context.observer.settle()
    swap_unheard(repo, watcher)
    context.observer.settle()
    check_states(repo, context, "dir")
    assert gaps(context) == [(b"dir", observing._UNWATCHED)]
    repo.write("dir/probe", "later\n")
    context.observer.settle()
    check_states(repo, context, "dir")
    assert len(gaps(context)) == 1


@only_inotify
def test_walk_in_the_background_names_what_no_hint_came_for(
    repo: Repo, context: RecorderContext, watcher: Watcher, clock: FakeTime
) -> None:
    repo.write("dir/f", "old\n")
    context.observer.settle()
    repo.write("a", "unheard\n")
    os.unlink(repo.root / "b")
    os.mkdir(repo.root / "new")
    repo.write("new/g", "unheard\n")
    watcher.barrier()
    clock.now += 2 * _NEVER_S
    context.observer.tick()
    check_states(repo, context)
    assert sorted(gaps(context)) == [
        (b"a", observing._UNHEARD),
        (b"b", observing._UNHEARD),
        (b"new", observing._UNWATCHED),
    ]


def test_walk_in_the_background_says_nothing_where_all_was_heard(
    repo: Repo, context: RecorderContext, watcher: Watcher, clock: FakeTime
) -> None:
    repo.write("a", "heard\n")
    os.unlink(repo.root / "b")
    repo.write("new/g", "heard\n")
    clock.now += 2 * _NEVER_S
    context.observer.tick()
    context.observer.settle()
    check_states(repo, context)
    assert gaps(context) == []


@pytest.mark.parametrize("outside", [True, False])
@pytest.mark.parametrize("odd", [True, False])
@pytest.mark.sampled
def test_swapped_directories_are_recorded_and_watched(
    repo: Repo, context: RecorderContext, watcher: Watcher, *, outside: bool, odd: bool
) -> None:
    """With a name that is not UTF-8 in the directory above, which ends a watch of watchfiles."""
    if odd:
        repo.write(b"w/caf\xe9", "odd\n")
    for number in range(5):
        repo.write(f"w/dir/{number}/a/f", f"old {number}\n")
        context.observer.settle()
        aside = repo.root / "w" / f"old{number}"
        if outside:
            aside = repo.root.parent / "aside"
        os.rename(repo.root / "w" / "dir", aside)
        context.observer.hints(watcher.take())
        repo.write(f"w/dir/{number}/b/f", "new\n")
        context.observer.hints(watcher.take())
        if outside:
            os.rename(aside, repo.root / "w" / f"moved{number}")
        context.observer.settle()
        repo.write(f"w/dir/{number}/b/probe", "probe\n")
        context.observer.settle()
        check_states(repo, context)
    assert gaps(context) == []


def test_a_file_that_a_walk_leaves_for_later_keeps_the_time_of_its_write(
    context: RecorderContext, watcher: Watcher, repo: Repo, clock: FakeTime
) -> None:
    """Events are lost, and the walk in their place finds a save that seems unfinished."""
    repo.write("a", "")
    context.observer.hints(Hints(lost=True))
    wrote_ns = repo.root.joinpath("a").stat().st_mtime_ns
    assert [row for row in rows(context) if isinstance(row, PathChange)] == []
    wait_out(context, clock)
    (row,) = (row for row in rows(context) if isinstance(row, PathChange))
    assert row.ts_ns // 1000 == wrote_ns // 1000
