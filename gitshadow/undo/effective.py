"""Find which ops and bursts are in effect at present, and note what became of interrupted ops.

Invariant: an op counts unless an op that counts undid it; only finished ops are looked at. A note
about an op that a crash interrupted is shown once: who takes the notes shows them.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gitshadow.model import Confidence, Op, OpKind, PathChange, RepoPath, paths_of
from gitshadow.store.journal import events, meta, ops
from gitshadow.store.journal.db import Db
from gitshadow.store.journal.events import EventFilter
from gitshadow.store.journal.stretches import Singles
from gitshadow.undo.targets import Undoings, Unit, unit_of_ids

BACKWARD = (OpKind.OOPS, OpKind.UNDO, OpKind.RESTORE)
"""The kinds of ops that `redo` reverses."""
_NOTED = "recovered:"


class EffectiveOps(NamedTuple):
    """The ops in effect, newest first, and which of them undid each id."""

    ops: Sequence[Op]
    undone_by: Mapping[str, Op]


def standing(db: Db, worktree: str | None = None) -> EffectiveOps:
    """Return which ops (of one worktree) are in effect, and what each undid."""
    undone: dict[str, Op] = {}
    found: list[Op] = []
    # Newest first: an op that a newer op in effect undid does not count, nor what it undid itself.
    for op in ops.done_in_order(db, worktree):
        if op.id in undone:
            continue
        undone.update(dict.fromkeys(set(op.undoes) - undone.keys(), op))
        found.append(op)
    return EffectiveOps(found, undone)


def effective_ops(db: Db, worktree: str | None = None) -> Sequence[Op]:
    """Return the ops (of one worktree) that are in effect, newest first."""
    return standing(db, worktree).ops


def newest_backward(db: Db, worktree: str) -> Op | None:
    """Return the newest op in effect that `redo` reverses, None if there is none."""
    for op in effective_ops(db, worktree):
        if op.kind in BACKWARD:
            return op
    return None


def undoings_of(db: Db, op_ids: Iterable[str | None]) -> Undoings:
    """Return what each op undid; None is no op."""
    found: dict[str, Unit] = {}
    for op_id in {one for one in op_ids if one is not None}:
        op = ops.get(db, op_id)
        if op is not None and op.undoes:
            found[op_id] = unit_of_ids(db, op.undoes)
    return found


@dataclass(slots=True)
class _Back:
    op: Op
    unit: Unit
    paths: frozenset[RepoPath] | None = None
    last_seq: int | None = None


class Undone:
    """Which events of a worktree are undone at present."""

    def __init__(self, db: Db, worktree: str) -> None:
        self._db = db
        found = effective_ops(db, worktree)
        self._backs = [
            _Back(op, unit_of_ids(db, op.undoes)) for op in found if op.undoes
        ]

    @property
    def singles(self) -> Singles:
        """Return what ops in effect undid one by one."""
        return singles_of(back.unit for back in self._backs)

    def by(self, event: PathChange) -> Op | None:
        """Return the op that undid an event, None if the event is in effect.

        What an op skipped for a conflict counts as undone, so that the next `oops` goes
        on; a `low` event only where the op did change its path.
        """
        for back in self._backs:
            if not back.unit.holds(event) or event.seq > self._last_seq(back):
                continue
            if not _is_low(event) or event.path in self._paths(back):
                return back.op
        return None

    def all(self, found: Collection[PathChange]) -> Op | None:
        """Return the newest op that undid some of the events; None if one is in effect."""
        newest: Op | None = None
        for event in found:
            op = self.by(event)
            if op is None:
                return None
            if newest is None or op.ts_ns > newest.ts_ns:
                newest = op
        return newest

    def _last_seq(self, back: _Back) -> int:
        """Return an op's newest row: what came after it is not undone, by any clock."""
        if back.last_seq is None:
            # Asked only for an op whose unit has the event: most events are in none.
            rows = events.changes(self._db, EventFilter(op=back.op.id, limit=1))
            back.last_seq = rows[0].seq if rows else 0
        return back.last_seq

    def _paths(self, back: _Back) -> frozenset[RepoPath]:
        if back.paths is None:
            rows = events.changes(self._db, EventFilter(op=back.op.id))
            back.paths = paths_of(rows)
        return back.paths


def singles_of(units: Iterable[Unit]) -> Singles:
    """Return what some units name one by one."""
    found = list(units)
    return Singles(
        frozenset().union(*(unit.seqs for unit in found)),
        frozenset().union(*(unit.calls for unit in found)),
    )


def _is_low(event: PathChange) -> bool:
    return event.attribution.confidence is Confidence.LOW


def add_notes(db: Db, worktree: str, sentences: Sequence[str]) -> None:
    """Keep sentences about interrupted ops until they are shown."""
    if sentences:
        said = [*_noted(db, worktree), *sentences]
        with db.write():
            meta.put(db, _NOTED + worktree, json.dumps(said))


def take_notes(db: Db, worktree: str) -> list[str]:
    """Return and drop the sentences about interrupted ops, so that each is shown once."""
    said = _noted(db, worktree)
    # No write without a note: every command takes the notes, and most find none.
    if said:
        with db.write():
            meta.put(db, _NOTED + worktree, "[]")
    return said


def _noted(db: Db, worktree: str) -> list[str]:
    said: list[str] = json.loads(meta.get(db, _NOTED + worktree) or "[]")
    return said
