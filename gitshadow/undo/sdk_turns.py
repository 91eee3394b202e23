"""Turns of agent programs among the recorder's: which row holds what a turn wrote to files.

A program's turn is told of under its own id, in a session whose native id is the program's.
Invariant: a turn that another one of that id came before is never taken for it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from gitshadow.adapters.generic import NAME as GENERIC
from gitshadow.adapters.payload import shortened_id
from gitshadow.errors import UsageError
from gitshadow.model import Burst, OpKind, OpStatus, RepoPath, Session, Turn
from gitshadow.recording.context import RecorderContext
from gitshadow.store.journal import bursts, events, ops, saga, sessions, turns
from gitshadow.store.journal.db import Db
from gitshadow.store.journal.events import EventFilter
from gitshadow.store.journal.saga_rows import SagaTurn
from gitshadow.store.refs import display_path
from gitshadow.undo import run as undo_run
from gitshadow.undo.engine import UndoEngine
from gitshadow.undo.port import FileUndoRequest
from gitshadow.undo.report import Report
from gitshadow.undo.targets import Named, Target, family, is_undoable, resolve

_SLACK_NS = 2_000_000_000
"""By how much the program's clock may be ahead of the file system's."""


class ProgramTarget(NamedTuple):
    """Store what an undo of a program's work is about.

    `missing` are turns that the recorder was not told of, `loose` paths that were written by the
    turn in that time and by none of its calls. `session` is the recorder's.
    """

    targets: tuple[Target, ...]
    missing: tuple[str, ...] = ()
    loose: tuple[str, ...] = ()
    session: str | None = None


def wanted(context: RecorderContext, told: object) -> ProgramTarget | None:
    """Return what a program's request names; None for a request that is not a program's.

    A program names turns, or calls of one, or ops of ours, by its own ids, each with the time at
    which its turn began: `{session, turns: [{id, agent, since_ns}], calls: [{turn, agent, since_ns,
    id}], loose_since_ns, ops}`.

    Raises:
        UsageError: it is not in that form.
    """
    if told is None:
        return None
    if not isinstance(told, dict):
        raise UsageError("cannot read which turns to undo")
    context.observer.settle()
    try:
        return _Reading(context, told).wanted()
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError("cannot read which turns to undo") from error


def hand_over(
    context: RecorderContext, engine: UndoEngine, request: FileUndoRequest
) -> dict[str, object] | None:
    """Return whose an undo or redo is: a program's turn, session or undo; None for all else.

    A program's turn has effects and a state too, which only its own functions can take back. Of a
    session `before` is its first turn.
    """
    db = context.workspace.db
    if not saga.turns(db):
        return None
    if request.kind is OpKind.UNDO:
        worktree = context.workspace.layout.worktree
        things = [resolve(db, worktree, target) for target in request.targets]
        found = (_program_of(db, thing) for thing in things)
        return next((whose for whose in found if whose is not None), None)
    named = saga.op(db, request.targets[0].text) if request.targets else None
    if named is not None and request.kind is OpKind.REDO:
        return {"session": named.session, "op": named.id}
    plan = undo_run.run(engine, replace(request, apply=False, token=None, choice=None))
    if request.kind is OpKind.REDO:
        op = saga.op(db, plan.target)
        return None if op is None else {"session": op.session, "op": op.id}
    burst = bursts.get(db, plan.target)
    return None if burst is None else _program_of(db, burst)


def _program_of(db: Db, thing: Named | RepoPath) -> dict[str, object] | None:
    """Return whose a thing is that stands for a whole turn, or for turns; a write does not."""
    if isinstance(thing, Session):
        below = family(db, thing.id)
        first = next((turn for turn, row in _told(db) if row.session in below), None)
        return None if first is None else {"session": first.session, "before": first.id}
    if isinstance(thing, Turn):
        wanted: tuple[str, str | None] = (thing.session, thing.id)
    elif isinstance(thing, Burst):
        wanted = (thing.session, thing.turn)
    else:
        return None
    fitting = [turn for turn, row in _told(db) if (row.session, row.id) == wanted]
    found = fitting[-1] if fitting else None
    return None if found is None else {"session": found.session, "turn": found.id}


def _told(db: Db) -> Iterator[tuple[SagaTurn, Turn]]:
    """Yield the turns of programs that the recorder was told of, each with its row of it."""
    for turn in saga.turns(db):
        row = recorded_turn(db, turn.session, turn.agent, turn.id, turn.started_ns)
        if row is not None:
            yield turn, row


def nothing(request: FileUndoRequest) -> Report:
    """Return the report of an undo that found nothing recorded."""
    return Report(
        kind=request.kind, target="", items=(), token="none", planned=not request.apply
    )


@dataclass(slots=True)
class _Reading:
    context: RecorderContext
    told: Mapping[str, object]

    def wanted(self) -> ProgramTarget:
        turns_of = [(row, self._turn(row["id"], row)) for row in self._rows("turns")]
        calls_of = [(row, self._turn(row["turn"], row)) for row in self._rows("calls")]
        known = [turn for _, turn in (*turns_of, *calls_of) if turn is not None]
        named = [f"{turn.session}:{turn.id}" for _, turn in turns_of if turn]
        named += [
            f"{turn.session}:{call}"
            for row, turn in calls_of
            if turn and (call := self._call(turn, row)) is not None
        ]
        named += [op for op in self._texts("ops") if self._is_done(op)]
        missing = [str(row["id"]) for row, turn in turns_of if turn is None]
        return ProgramTarget(
            tuple(Target(one) for one in named),
            tuple(missing),
            tuple(self._loose(known[0])) if known and not turns_of else (),
            known[0].session if known else None,
        )

    def _turn(self, turn: object, row: Mapping[str, object]) -> Turn | None:
        agent = row.get("agent")
        return recorded_turn(
            self.context.workspace.db,
            str(self.told["session"]),
            None if agent is None else str(agent),
            str(turn),
            int(str(row["since_ns"])),
        )

    def _call(self, turn: Turn, row: Mapping[str, object]) -> str | None:
        """Return a call's id; None for one of that id in another turn."""
        name = shortened_id(str(row["id"]))
        call = turns.get_call(self.context.workspace.db, turn.session, name)
        return name if call is not None and call.turn == turn.id else None

    def _loose(self, turn: Turn) -> Sequence[str]:
        """Return the paths that a turn wrote outside its calls since a moment."""
        since = self.told.get("loose_since_ns")
        if not isinstance(since, int):
            return ()
        ws = self.context.workspace
        asked = EventFilter(
            worktree=ws.layout.worktree,
            sessions=(turn.session,),
            turn=turn.id,
            since_ns=since,
        )
        rows = (row for row in events.rows(ws.db, asked) if is_undoable(row))
        found = {
            display_path(row.path)
            for row in rows
            if row.path and row.attribution and row.attribution.call is None
        }
        return sorted(found)

    def _is_done(self, op: str) -> bool:
        known = ops.get(self.context.workspace.db, op)
        return known is not None and known.status is OpStatus.DONE

    def _rows(self, key: str) -> Sequence[Mapping[str, object]]:
        found = self.told.get(key, [])
        if not isinstance(found, list) or not all(isinstance(r, dict) for r in found):
            raise TypeError(key)
        return found

    def _texts(self, key: str) -> Sequence[str]:
        found = self.told.get(key, [])
        if not isinstance(found, list):
            raise TypeError(key)
        return [str(one) for one in found]


def recorded_turn(
    db: Db, native: str, agent: str | None, turn: str, since_ns: int
) -> Turn | None:
    """Return the recorder's row of a program's turn, or None where it was not told of it.

    Args:
        db: The journal.
        native: The program's id of its session.
        agent: The name that it gives itself.
        turn: Its id of the turn; the recorder adds a number where that was taken.
        since_ns: When the turn began: one that began before is another one.
    """
    session = sessions.find_native(db, agent or GENERIC, native)
    if session is None:
        return None
    found = (
        one
        for one in turns.list_turns(db, session.id)
        if one.id == turn or one.id.startswith(turn + "~")
    )
    later = (one for one in found if one.started_ns >= since_ns - _SLACK_NS)
    return min(later, key=lambda one: one.started_ns, default=None)
