"""Random histories of several writers, undo and Git: no line ever gets a wrong owner."""

import random
from collections import Counter
from collections.abc import Callable

import pytest

from gitshadow.blame.git_blame import GitOrigins
from gitshadow.blame.owners import Origin, OriginSource
from gitshadow.blame.replay import Replay
from gitshadow.blame.rewrites import Rewrites
from gitshadow.blame.rewritten_commits import RewrittenCommits
from gitshadow.model import Actor, Oid, PathChange, RepoPath
from gitshadow.store.content_diff import line_hunks
from gitshadow.undo.merge import merge
from tests.blame.tokens import BASE, HAND, MemoryGit, Tokens
from tests.conftest import FULL

HISTORIES = 50_000 if FULL else 2_000
GIT = ("amend", "squash", "switch", "pick", "rebase", "revert", "stash", "pop")
MOVES = 30


def played(seed: int) -> Tokens:
    world = Tokens(rng=random.Random(seed))
    for _ in range(world.rng.randint(1, MOVES)):
        world.play_one()
    return world


def closure(events: list[PathChange], path: RepoPath) -> list[PathChange]:
    """Return the events of a path and of its other names, as the journal does."""
    names = {path}
    while True:
        found = [e for e in events if e.path in names or e.old_path in names]
        ends = {end for e in found for end in (e.path, e.old_path) if end is not None}
        if ends <= names:
            return found
        names |= ends


def blamed(world: Tokens, path: RepoPath) -> list[tuple[bytes, Origin]]:
    events = closure(world.events, path)
    git = MemoryGit(world)
    read: Callable[[Oid], bytes] = world.blobs.__getitem__
    rewrites = Rewrites(git, line_hunks)
    rewrites.commits = RewrittenCommits(
        git, read, line_hunks, merge, rewrites.is_written
    )
    replay = Replay(
        read,
        line_hunks,
        rewrites,
        {
            op: {event.seq for event in events if unit.holds(event)}
            for op, unit in world.undoings.items()
        },
    )
    replay.feed(events)
    first = events[0] if events else None
    ground = GitOrigins(git, read, line_hunks, replay.rewrites, first)
    state = replay.at("main", path)
    if state is None:
        assert not events
        return []
    assert state.oid == world.files[path].version.oid
    present = world.blobs.lines(state.oid)
    return list(zip(present, ground.settle(state.vector), strict=True))


def verdict(world: Tokens, text: bytes, origin: Origin) -> str:
    """Compare blame with the model: `right`, `gap` or `wrong`."""
    owner, truth = origin.owner, world.author[text]
    if owner.source is OriginSource.EVENT:
        assert owner.event is not None
        claim = owner.event.attribution
        assert claim is not None
        if claim.session == truth:
            return "right"
        return "gap" if claim.actor is Actor.UNKNOWN else "wrong"
    if owner.source is OriginSource.COMMIT:
        return "right" if truth in (BASE, HAND) else "wrong"
    return "gap"


@pytest.mark.uncounted
def test_no_line_gets_a_wrong_owner() -> None:
    counts: Counter[str] = Counter()
    done: Counter[str] = Counter()
    for seed in range(HISTORIES):
        world = played(seed)
        done += world.done
        for path in sorted(world.files):
            for text, origin in blamed(world, path):
                found = verdict(world, text, origin)
                assert found != "wrong", (seed, path, text, origin.owner)
                counts[found] += 1
    assert counts["right"] > 5 * HISTORIES
    assert counts["gap"] < 0.01 * counts["right"], counts
    moves = (*GIT, "checkout", "undo", "rename")
    rare = [move for move in moves if done[move] < 0.02 * HISTORIES]
    assert rare == [], done
