"""Snapshots of replays: taken, kept in the journal, and used while all they rest on still holds.

They rest on the rows of the file's names, which a trigger guards against deletion and change and
whose number shows late ones; on the commits where HEAD was, as far as they hold content that
was met; and on the programs that made them.
Invariant: what cannot be used, or not be stored, is as if it were not there.
"""

import contextlib
from collections.abc import Collection, Mapping, Sequence
from functools import partial

from gitshadow.blame import snapshots
from gitshadow.blame.git_history import GitPast
from gitshadow.blame.replay import Replay
from gitshadow.blame.snapshots import DoubtError, FingerprintSet, mark_of_oid
from gitshadow.errors import JournalError
from gitshadow.model import PathChange, RepoPath, paths_of
from gitshadow.store.content_diff import LIBGIT2_VERSION
from gitshadow.store.digests import digest
from gitshadow.store.journal import blame, bursts, events, ops
from gitshadow.store.journal.blame import BlameState
from gitshadow.store.journal.db import Db
from gitshadow.undo.targets import unit_of_ids

# Blames of the past need snapshots in between; each step four times as far keeps them few.
_STEPS = (64, 256, 1024, 4096)
"""A snapshot is kept after this number of events and each multiple: the newest one of each."""
_MOST_BYTES = 16 << 20
"""So much the snapshots of one journal may take."""
# Another libgit2 may diff otherwise, so its snapshots are not used.
_MADE_BY = f"{snapshots.VERSION} {LIBGIT2_VERSION}"


class Resuming:
    """Serve the replays of one file, as one worktree sees Git's past."""

    def __init__(self, db: Db, past: GitPast, worktree: str, path: RepoPath) -> None:
        self._db = db
        self._past = past
        self._worktree = worktree
        self._path = path

    def resume(self, replay: Replay, until: int | None) -> PathChange | None:
        """Begin a replay at the newest snapshot that holds, and feed it the events since.

        Args:
            replay: One that was fed nothing.
            until: The last event that counts, None for all.

        Returns:
            The file's first event; None where there is no such snapshot.

        Raises:
            DoubtError: the events since need what it does not have.
        """
        for row in blame.newest_states(self._db, self._worktree, self._path, until):
            # Whether the rows still fit is asked before the row is unpacked: it is the cheaper
            # question.
            tail = self._tail(row)
            if tail is None or not self._begin(replay, row):
                continue
            if until is not None:
                tail = [event for event in tail if event.seq <= until]
            replay.taken_back = self._taken_back(tail, row.seq)
            if until is None:
                self._feed(replay, tail, row.fed, paths_of(tail).union(row.names))
            else:
                replay.feed(tail)
            return events.first(self._db, row.names)
        return None

    def feed(self, replay: Replay, history: Sequence[PathChange]) -> None:
        """Feed a replay all events of the file, oldest first, and keep what it comes to."""
        self._feed(replay, history, 0, paths_of(history) | {self._path})

    def _tail(self, row: BlameState) -> list[PathChange] | None:
        """Return the events since a snapshot; None where those up to it are others now."""
        if row.made_by != _MADE_BY:
            return None
        # After a crash rows may come late with lower numbers, and no trigger reports an insert.
        if events.count_named(self._db, row.names, row.seq) != row.named:
            return None
        found = events.history(self._db, None, row.names, row.seq + 1)
        # A later rename may join a file that had events of its own before the snapshot.
        more = paths_of(found).difference(row.names)
        if events.is_named(self._db, more, row.seq):
            return None
        return found

    def _begin(self, replay: Replay, row: BlameState) -> bool:
        fetch = partial(events.by_places, self._db)
        try:
            snapshot = snapshots.unpack(row.data, replay.read, fetch)
        except DoubtError:
            self._drop(row)
            return False
        contents = snapshot.before.contents
        # Most moves of HEAD concern other files: then the digest is the same all the same.
        same_heads = row.heads == self._past.heads()
        if not same_heads and row.committed != self._committed(row.names, contents):
            return False
        replay.resume(snapshot)
        return True

    def _taken_back(
        self, tail: Sequence[PathChange], after: int
    ) -> Mapping[str, frozenset[int]]:
        """Return what each op among some events undid, without ops that reach further."""
        found: dict[str, frozenset[int]] = {}
        for op_id in {event.op for event in tail if event.op is not None}:
            op = ops.get(self._db, op_id)
            if op is None:
                found[op_id] = frozenset()
            # What an op undid before the snapshot is not in the tail; without an entry, a replay
            # doubts.
            elif all(self._is_after(one, after) for one in op.undoes):
                unit = unit_of_ids(self._db, op.undoes)
                found[op_id] = frozenset(row.seq for row in tail if unit.holds(row))
        return found

    def _is_after(self, one: str, seq: int) -> bool:
        """Return whether what an id names began after an event."""
        if one.isdigit():
            return int(one) > seq
        burst = bursts.get(self._db, one)
        return burst is not None and burst.first_seq > seq

    def _committed(self, names: Sequence[RepoPath], contents: FingerprintSet) -> str:
        """Return a digest of which of the contents were committed under which name."""
        found = []
        for name in names:
            oids = sorted(self._past.committed(name))
            met = [oid for oid in oids if mark_of_oid(oid) in contents]
            found.append(
                b"%d:%b %b\n" % (len(name), name, "".join(met).encode("ascii"))
            )
        return digest(b"".join(found))

    def _feed(
        self,
        replay: Replay,
        events_since: Sequence[PathChange],
        fed: int,
        names: frozenset[RepoPath],
    ) -> None:
        """Feed a replay that was fed some events; stop where snapshots are to be taken."""
        end = fed + len(events_since)
        wanted = {end - end % step for step in _STEPS}
        stops = sorted(stop for stop in wanted if stop > fed)
        if stops and fed == 0:
            # The first replay also stores its end, because the next blame begins there.
            stops = sorted({*stops, end})
        standing = self._standing()
        taken: list[BlameState] = []
        at = 0
        for stop in stops:
            part = events_since[at : stop - fed]
            replay.feed(part)
            at = stop - fed
            # A switch that changed several names of the file has one number: both are fed or none.
            splits = at < len(events_since) and events_since[at].seq == part[-1].seq
            if part[-1].seq not in standing and not splits:
                taken.append(self._row(replay, part[-1].seq, stop, names))
        replay.feed(events_since[at:])
        if taken:
            self._store(taken, wanted)

    def _standing(self) -> set[int]:
        """Return after which events there are snapshots that fit the present reflog."""
        found = blame.states_at(self._db, self._worktree, self._path)
        ours = _MADE_BY, self._past.heads()
        return {seq for seq, *made in found if tuple(made) == ours}

    def _row(
        self, replay: Replay, seq: int, fed: int, names: frozenset[RepoPath]
    ) -> BlameState:
        ordered, snapshot = tuple(sorted(names)), replay.snapshot()
        return BlameState(
            worktree=self._worktree,
            path=self._path,
            seq=seq,
            made_by=_MADE_BY,
            heads=self._past.heads(),
            fed=fed,
            named=events.count_named(self._db, ordered, seq),
            names=ordered,
            committed=self._committed(ordered, snapshot.before.contents),
            data=snapshots.pack(snapshot),
        )

    def _drop(self, row: BlameState) -> None:
        with contextlib.suppress(JournalError), self._db.write():
            blame.drop_state(self._db, row)

    def _store(self, taken: Sequence[BlameState], wanted: Collection[int]) -> None:
        with contextlib.suppress(JournalError), self._db.write():
            for row in taken:
                blame.put_state(self._db, row)
            # Snapshots of other steps are left over from when the file had fewer events.
            blame.keep_states(self._db, self._worktree, self._path, wanted)
            blame.trim_states(self._db, _MOST_BYTES)
