"""A replay that begins at a snapshot answers as one from the first event, or doubts."""

import random
from collections import Counter
from collections.abc import Collection, Mapping

import pytest

from gitshadow.blame.git_blame import GitOrigins
from gitshadow.blame.owners import Vector
from gitshadow.blame.replay import Replay
from gitshadow.blame.rewrites import Rewrites
from gitshadow.blame.snapshots import (
    DoubtError,
    EventPlace,
    FingerprintSet,
    GrowingMarks,
    mark_of,
    pack,
    unpack,
)
from gitshadow.model import PathChange, RepoPath
from gitshadow.store.content_diff import line_hunks
from tests.blame.test_fuzz import closure, played
from tests.blame.tokens import MemoryGit, Tokens
from tests.conftest import FULL

HISTORIES = 20_000 if FULL else 1_500

Answer = list[tuple[object, ...]]


def replay_of(world: Tokens, events: Collection[PathChange], since: int = 0) -> Replay:
    """Return a replay; what an op took back before `since` is not told, as the journal cannot."""
    taken = {
        op: {event.seq for event in events if unit.holds(event)}
        for op, unit in world.undoings.items()
    }
    told = {op: seqs for op, seqs in taken.items() if min(seqs, default=since) >= since}
    rewrites = Rewrites(MemoryGit(world), line_hunks)
    return Replay(world.blobs.__getitem__, line_hunks, rewrites, told)


def answer(world: Tokens, path: RepoPath, replay: Replay, first: PathChange) -> Answer:
    state = replay.at("main", path)
    assert state is not None
    read = world.blobs.__getitem__
    ground = GitOrigins(MemoryGit(world), read, line_hunks, replay.rewrites, first)
    return described(ground.settle(state.vector))


def described(vector: Vector) -> Answer:
    found: Answer = []
    for owner, line in vector:
        seq = owner.event.seq if owner.event is not None else None
        found.append((owner.source, owner.path, seq, owner.commit, owner.note, line))
    return found


def resumed(
    world: Tokens, path: RepoPath, events: list[PathChange], cut: int
) -> Answer:
    """Answer from snapshots alone: one after `cut` events, and another on top of it."""
    known = {(event.seq, event.path): event for event in events}
    by_seq = {event.seq: event for event in events}
    while cut < len(events) and events[cut].seq == events[cut - 1].seq:
        cut += 1

    def fetch(places: Collection[EventPlace]) -> Mapping[EventPlace, PathChange]:
        return {one: known.get(one) or by_seq[one[0]] for one in places}

    begin = replay_of(world, events)
    begin.feed(events[:cut])
    middle = cut + (len(events) - cut) // 2
    while cut < middle < len(events) and events[middle].seq == events[middle - 1].seq:
        middle += 1
    for start, end in ((cut, middle), (middle, len(events))):
        data = pack(begin.snapshot())
        begin = replay_of(world, events, events[start - 1].seq + 1)
        begin.resume(unpack(data, world.blobs.__getitem__, fetch))
        begin.feed(events[start:end])
    return answer(world, path, begin, events[0])


def test_snapshot_gives_the_answer_of_a_whole_replay_or_a_doubt() -> None:
    counts: Counter[str] = Counter()
    for seed in range(HISTORIES):
        world, rng = played(seed), random.Random(seed)
        for path in sorted(world.files):
            events = closure(world.events, path)
            if len(events) < 2:
                continue
            whole = replay_of(world, events)
            whole.feed(events)
            expected = answer(world, path, whole, events[0])
            try:
                found = resumed(world, path, events, rng.randint(1, len(events) - 1))
            except DoubtError:
                counts["doubt"] += 1
                continue
            assert found == expected, (seed, path)
            counts["equal"] += 1
    assert counts["equal"] > HISTORIES / 4, counts


def packed_one() -> tuple[Tokens, bytes, list[PathChange]]:
    world = Tokens(rng=random.Random(5))
    while len(world.events) < 9:
        world.do_edit()
    events = list(world.events)
    replay = replay_of(world, events)
    replay.feed(events)
    return world, pack(replay.snapshot()), events


def test_snapshot_that_was_cut_or_changed_is_a_doubt() -> None:
    world, data, _ = packed_one()
    flipped = data[:20] + bytes([data[20] ^ 1]) + data[21:]
    for wrong in (b"", b"x", data[:-1], data[1:], flipped):
        with pytest.raises(DoubtError):
            unpack(wrong, world.blobs.__getitem__, lambda _: {})


def test_snapshot_whose_events_are_gone_is_a_doubt() -> None:
    world, data, _ = packed_one()
    with pytest.raises(DoubtError):
        unpack(data, world.blobs.__getitem__, lambda _: {})


def test_snapshot_of_another_version_is_a_doubt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, data, events = packed_one()
    by_seq = {event.seq: event for event in events}
    monkeypatch.setattr("gitshadow.blame.snapshots.VERSION", 999)
    with pytest.raises(DoubtError):
        unpack(
            data,
            world.blobs.__getitem__,
            lambda places: {p: by_seq[p[0]] for p in places},
        )


def test_marks_of_a_growing_set_are_in_order() -> None:
    marks, things = GrowingMarks(mark_of), {b"%d" % number for number in range(50)}
    assert list(marks.of(things)) == sorted(map(mark_of, things))
    things |= {b"x", b"y"}
    assert list(marks.of(things)) == sorted(map(mark_of, things))


def test_marks_hold_what_was_put_in() -> None:
    some = [mark_of(b"%d" % number) for number in range(100)]
    marks = FingerprintSet.of(some[:50]).with_more(some[40:60])
    assert [mark in marks for mark in some] == [True] * 60 + [False] * 40
    assert len(FingerprintSet(marks.data)) == 60
