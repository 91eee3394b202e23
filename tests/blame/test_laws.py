"""Property tests of blame on real repositories."""

import random
from collections.abc import Callable, Iterator
from itertools import cycle

import pytest

from gitshadow.api import run
from gitshadow.blame.file_blame import BlameQuery, Blaming
from gitshadow.blame.owners import OriginSource, count_lines
from gitshadow.model import RepoPath
from gitshadow.store.journal import sessions
from gitshadow.store.refs import parse_message
from tests.blame.test_replay_cache import Life
from tests.blame.test_snapshots import Answer, described
from tests.conftest import FULL
from tests.support import porcelain
from tests.support.context import Near, desk_of
from tests.support.repo import Repo

SEEDS = range(12 if FULL else 2)
FILES = "abcd"


@pytest.fixture
def near(make_repo: Callable[..., Repo]) -> Iterator[Near]:
    repo = make_repo(files=FILES)
    with desk_of(repo) as context:
        yield Near(repo, context)


def write_in_turn(near: Near, rng: random.Random, rounds: int) -> None:
    """Have two agents and a person write in turn, never twice in a row into the same file.

    So a sync commit holds one write of somebody else to each file, and its diff is that write's.
    """
    agents = {name: near.agent(name) for name in ("s1", "s2")}
    for agent in agents.values():
        agent.start()
        agent.prompt("go")
    last = ""
    for number, who in zip(range(3 * rounds), cycle(("s1", "s2", "")), strict=False):
        path = rng.choice([name for name in FILES if name != last])
        last = path
        lines = near.repo.read(path).decode().splitlines()
        for _ in range(rng.randint(1, 3)):
            at = rng.randint(0, len(lines))
            new = [f"{who or 'hand'} {number} {rng.random()}"] * rng.randint(0, 2)
            lines[at : at + rng.randint(0, 2)] = (
                [*new, ""] if rng.random() < 0.2 else new
            )
        text = "".join(f"{line}\n" for line in lines)
        if who:
            agents[who].write(path, text)
        else:
            near.repo.write(path, text)
        near.context.observer.settle()


@pytest.mark.parametrize("seed", SEEDS)
def test_replay_is_git_blame_on_the_chain_of_every_session(
    near: Near, seed: int
) -> None:
    """BLAME-21: a line is a session's by its commit if Git finds it there on that session's ref."""
    write_in_turn(near, random.Random(seed), 8)
    chains = sessions.chains(near.context.workspace.db, "main")
    own = 0
    for chain in chains:
        for path in near.repo.git("ls-tree", "--name-only", chain.ref).split():
            own += compared(near, chain.tip, chain.session, path)
    assert len(chains) == 3
    assert own > 20


def compared(near: Near, tip: str, session: str, path: str) -> int:
    """Compare a file at the tip of a chain; return how many lines are the session's own."""
    said = near.repo.git("blame", "--porcelain", tip, "--", path) + "\n"
    theirs = porcelain.parse(said.encode("utf-8", "surrogateescape"))
    params = {"path": path, "at": tip, "cwd": str(near.repo.root)}
    document = run(near.context, "blame", params)
    owners, lines = document["owners"], document["lines"]
    assert isinstance(owners, list)
    assert isinstance(lines, list)
    assert len(lines) == len(theirs)
    own = 0
    for entry, (number, owner, origin) in zip(theirs, lines, strict=True):
        message = near.context.workspace.repo.commit(entry.commit).message  # type: ignore[arg-type]
        commit = parse_message(message)
        if commit is not None and commit.kind == "write":
            found = owners[owner]["commit"], origin
            assert found == (entry.commit, entry.source_line), (path, number)
            own += 1
        else:
            assert owners[owner].get("session") != session, (path, number)
    return own


def owners_of_all(near: Near) -> dict[bytes, Answer]:
    """Blame every file of the worktree; each line has exactly one settled owner (BLAME-22)."""
    found: dict[bytes, Answer] = {}
    for name in near.repo.tree_snapshot():
        path = RepoPath(name.encode())
        data = near.repo.read(path)
        vector = Blaming(near.context, BlameQuery(path=path)).answer().vector
        assert len(vector) == count_lines(data), path
        assert all(owner.source is not OriginSource.GROUND for owner, _ in vector)
        assert [line for _, line in vector if line < 1] == []
        found[path] = described(vector)
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_oops_and_its_undo_leave_tree_and_owners_as_they_were(
    near: Near, seed: int
) -> None:
    """BLAME-22, BLAME-23, after edits, undos, renames, commits, stashes and switches."""
    life = Life(near, random.Random(1000 + seed))
    changed = 0
    for _ in range(40 if FULL else 25):
        life.move()
        before = near.context.workspace.recorder.tree, owners_of_all(near)
        report = near.undo("oops")
        if report["op_id"] is None:
            continue
        near.context.observer.settle()
        changed += near.context.workspace.recorder.tree != before[0]
        near.undo("undo", str(report["op_id"]))
        near.context.observer.settle()
        after = near.context.workspace.recorder.tree, owners_of_all(near)
        assert after == before
    assert changed > 3
