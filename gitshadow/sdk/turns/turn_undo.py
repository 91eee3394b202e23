"""Undos put together from their phases: those of a turn, a rewind or a redo, read from the store.

To be called under the session's lock: what is read stays true until it is released. All undos have
their phases in one order: record the present, effects, state and artifacts, files, effects that
wait for the files.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from gitshadow.errors import RefusedError, UsageError
from gitshadow.messages.undo import ProgramCall, Uncovered
from gitshadow.sdk.turns import (
    events,
    evidence,
    file_undo,
    json_values,
    reversibility,
    rewind,
    undo_request,
)
from gitshadow.sdk.turns.commands import Procedure
from gitshadow.sdk.turns.file_undo import FileWork
from gitshadow.sdk.turns.option_checks import text
from gitshadow.sdk.turns.protocols import SessionStore
from gitshadow.sdk.turns.report import (
    Domain,
    UndoItem,
    UndoKind,
    UndoReport,
)
from gitshadow.sdk.turns.reversibility import JudgedCalls
from gitshadow.sdk.turns.saga import Unwind, effects, new_op
from gitshadow.sdk.turns.settings import TurnSettings
from gitshadow.sdk.turns.state_rollback import (
    Stretch,
    Taking,
    changes_of,
    changes_of_part,
    stretch_of,
)
from gitshadow.sdk.turns.turn_states import TurnEvent, TurnStatus, way
from gitshadow.sdk.turns.undo_operation import (
    PhaseResult,
    UndoPhase,
    Whole,
    begun,
    blank,
    ended_phases,
    report_of,
)
from gitshadow.sdk.turns.undo_request import WITHOUT_EFFECTS, UndoRequest
from gitshadow.sdk.turns.values import EVERYTHING, Reversibility, Scope
from gitshadow.store.journal.saga_rows import MARKER, SagaCall, SagaOp, SagaTurn
from gitshadow.undo.report import Reason, Status
from gitshadow.words import did_you_mean

_SCOPES = {
    UndoKind.ROLLBACK: EVERYTHING - {Scope.EVENTS},
    UndoKind.REWIND: WITHOUT_EFFECTS,
}
_FILES = "files"
_SHOWN = 5
"""How many later calls a warning names."""
# The file ops of one undo are numbered. Those that redo files begin here, so that they never have
# the id of an attempt to undo.
_AGAIN = 100


class _Parts(NamedTuple):
    """What an undo is about, part by part; `calls` are those of each turn, newest first.

    `settled` are calls that a redo does not make again.
    """

    calls: Sequence[Sequence[SagaCall]] = ()
    history: Taking | None = None
    files: FileWork | None = None
    again: FileWork | None = None
    settled: Sequence[SagaCall] = ()


class Undoing:
    """Make the undos of one session."""

    def __init__(self, store: SessionStore, setting: TurnSettings) -> None:
        self.store = store
        self.setting = setting
        self._session = setting.session

    def undo(self, target: str, request: UndoRequest) -> Whole:
        """Return the undo of a turn, or of one call alone, not begun yet.

        Raises:
            UsageError: there is no such turn or call, or several turns have that call.
        """
        text("a turn or call", target)
        op = self._new(UndoKind.UNDO, target, request)
        if self.store.turn(self._session, target) is None:
            op = _narrowed(op, self.store, request)
        elif request.only is not None:
            known = {call.id for call in self.calls(target)}
            for name in sorted(set(request.only) - known):
                near = did_you_mean(name, known)
                raise UsageError(f"cannot find call {name} in {target}", hint=near)
        return self.of(op, request.token)

    def rewind(self, before: str, request: UndoRequest) -> Whole:
        """Return a rewind, not begun yet.

        Raises:
            SessionNotFound: the session has no history.
            InvocationNotFound: it has no such invocation.
            RefusedError: it returns to what was rewound, and effects are not made again.
        """
        first = rewind.find(self.store, self._session, before)
        gaps = events.hidden(self.store.markers(self._session))
        if request.covers(Scope.EFFECTS) and not events.is_live(first, gaps):
            raise RefusedError(
                f"cannot rewind before {before} with effects: it was rewound already,"
                " and an undone effect is not repeated",
                hint="exclude effects from the scope",
            )
        return self.of(self._new(UndoKind.REWIND, before, request), request.token)

    def redo(self, op_id: str, token: str | None = None) -> Whole:
        """Return what redoes the files, state and artifacts of an undo.

        Raises:
            UsageError: this session has no such undo.
        """
        return self.of(self._new(UndoKind.REDO, op_id, UndoRequest()), token)

    def of(self, op: SagaOp, token: str | None = None) -> Whole:
        """Return the undo of an op, new or continued: what it did stays done.

        Raises:
            UsageError: what it is about is not there.
        """
        kind = UndoKind(op.kind)
        request = undo_request.from_text(op.request)
        if request.scope is None:
            request = request._replace(scope=tuple(_SCOPES.get(kind, EVERYTHING)))
        is_known = self.store.op(op.id) is not None
        log = list(self.store.log(self._session)) if is_known else []
        make = {UndoKind.REWIND: self._rewind, UndoKind.REDO: self._redo}
        parts = make.get(kind, self._turn)(op, request)
        # Asked for the same id again, the recorder returns the report that it has. So an
        # interrupted attempt at the files keeps its id, and an attempt after a finished one gets
        # a new id.
        tries = begun(op, log, _FILES)
        number = len(tries) + (not tries or tries[-1])
        unwinds = [
            self._unwind(op, calls, request)
            for calls in parts.calls
            if request.covers(Scope.EFFECTS)
        ]
        return Whole(
            op=op,
            phases=tuple(self._phases(op, unwinds, parts, number)),
            left=lambda: [call for unwind in unwinds for call in unwind.after],
            request=request._replace(token=token),
            ended=ended_phases(op, log),
            not_covered=tuple(self._outstanding(op, request, parts)),
            closing=partial(self._turn_after, op),
        )

    def _turn_after(self, op: SagaOp, report: UndoReport) -> list[SagaTurn]:
        """Return the row of the turn that ends with an undo of all of it, or with the redo."""
        of = self._undone(op.target) if op.kind == UndoKind.REDO else op
        event = _event_of(op, of, report)
        turn = event and self.store.turn(self._session, turn_of(of))
        status = event and turn and way(TurnStatus(turn.status), event)
        if not turn or not status:
            return []
        if status is TurnStatus.COMMITTED and turn.cause is not None:
            # It never ended by itself.
            status = TurnStatus.INTERRUPTED
        return [replace(turn, status=status.value)]

    def calls(self, turn: str) -> list[SagaCall]:
        """Return the calls of a turn in the order in which they started.

        Raises:
            UsageError: there is no such turn.
        """
        return self.store.calls(self._session, self._row(turn).id)

    def _row(self, turn: str) -> SagaTurn:
        row = self.store.turn(self._session, turn)
        if row is None:
            raise _no_turn(self.store, self._session, turn)
        return row

    def _unwind(
        self, op: SagaOp, calls: Sequence[SagaCall], request: UndoRequest
    ) -> Unwind:
        """Return the undo of these calls, as a part of an op."""
        log = [
            row
            for turn in dict.fromkeys(call.turn for call in calls)
            for row in self.store.log(self._session, turn)
        ]
        altered = evidence.altered(calls, log)
        outside = evidence.reaching_outside(calls)
        # The log was changed by hand. An inverse that reaches outside the program could be
        # forged, so none of them runs.
        if outside and self.store.broken_at() is not None:
            altered = {**altered, **dict.fromkeys(outside, evidence.UNLOGGED)}
        scene = JudgedCalls(
            setting=self.setting,
            op=op,
            request=request,
            now_ns=op.started_ns,
            altered=altered,
            resolutions=evidence.resolutions(log),
        )
        return Unwind(tuple(evidence.without_inverse(calls, altered)), scene)

    def _new(self, kind: UndoKind, target: str, request: UndoRequest) -> SagaOp:
        op = new_op(self._session, kind, target, self.setting.host.clock())
        return replace(op, request=undo_request.to_text(request))

    def _phases(
        self, op: SagaOp, unwinds: Sequence[Unwind], parts: _Parts, number: int
    ) -> Iterator[UndoPhase]:
        """Yield all phases, in their order; `number` counts the attempts at the files."""
        work, again = parts.files, parts.again
        if work is not None and number > 1:
            work = replace(work, op_id=f"{op.id}-{number}")
        if again is not None:
            again = replace(again, op_id=f"{op.id}-{_AGAIN + number}")
        if work is not None and op.kind in (UndoKind.UNDO, UndoKind.REWIND):
            yield UndoPhase("snapshot", work.snapshot)
        if parts.settled:
            yield UndoPhase("effects", partial(_not_made_again, op, parts.settled))
        if unwinds:
            yield effects(unwinds, late=False)
        if parts.history is not None:
            yield UndoPhase("state", parts.history.act)
        for name, one in ((_FILES, work), ("files_again", again)):
            if one is not None and (one.turns or one.calls or one.ops):
                yield UndoPhase(name, one.act)
        if any(unwind.has_late for unwind in unwinds):
            yield effects(unwinds, late=True)

    def _outstanding(
        self, op: SagaOp, request: UndoRequest, parts: _Parts
    ) -> Iterator[Uncovered]:
        for calls in () if request.covers(Scope.EFFECTS) else parts.calls[::-1]:
            yield from _outstanding(op, calls)

    def _turn(self, op: SagaOp, request: UndoRequest) -> _Parts:
        turn = turn_of(op)
        row = self._row(turn)
        calls = self.store.calls(self._session, row.id)
        if request.calls is not None:
            calls = [one for one in calls if one.id in request.calls]
        if request.turn is not None:
            calls = _with_needed(calls, op.target)
        is_all = request.only is None and not request.declined
        work = self._work(op, request, [turn], calls)
        if work is not None and is_all and not is_of_savepoint(op):
            work = replace(work, turns=file_undo.began([row]))
        elif work is not None:
            work = _of_calls(work, row, calls, request)
        history = self._turn_history(op, turn, request) if is_all else None
        return _Parts([calls], history, work)

    def _turn_history(
        self, op: SagaOp, turn: str, request: UndoRequest
    ) -> Taking | None:
        """Return what undoes the state and conversation of a turn, if it has any."""
        store, session = self.store, self._session
        stretch = stretch_of(store, session, turn)
        if stretch is None:
            return None
        is_rollback = op.kind == UndoKind.ROLLBACK
        drift, mine = request.on_drift, request.savepoints
        if is_of_savepoint(op):
            undone = self._undone_savepoints(op)
            changes = changes_of_part(store, session, stretch, mine, undone)
        else:
            changes = changes_of(store, session, stretch, drift, every=is_rollback)
        is_live = events.is_live(stretch.first, events.hidden(store.markers(session)))
        hides = stretch if request.covers(Scope.EVENTS) and is_live else None
        seq = store.last_seq(session) + 1
        what = "Savepoint" if is_of_savepoint(op) else "Turn"
        return Taking(
            op=op,
            changes=changes.within(request),
            text=f"{what} rolled back" if is_rollback else "Turn undone",
            invocation=turn if is_rollback else f"u-{seq}",
            hides=hides,
            hidden=(turn,),
            body={"undone": op.target, **({"savepoint": mine[0]} if mine else {})},
            seq=seq,
        )

    def _undone_savepoints(self, op: SagaOp) -> frozenset[int]:
        """Return the savepoints of the same turn whose state other ops undid."""
        return frozenset(
            number
            for one in self.store.ops(self._session)
            if one.id != op.id and turn_of(one) == turn_of(op)
            if not (request := undo_request.from_text(one.request)).declined
            for number in request.savepoints
        )

    def _rewind(self, op: SagaOp, request: UndoRequest) -> _Parts:
        store, session = self.store, self._session
        first, last = rewind.find(store, session, op.target), store.last_seq(session)
        hidden = tuple(store.invocations_since(session, first))
        history = Taking(
            op=op,
            changes=changes_of(store, session, Stretch(first, last)).within(request),
            text="Session rewound",
            invocation=f"r-{last + 1}",
            hides=Stretch(first, last + 1) if request.covers(Scope.EVENTS) else None,
            hidden=hidden,
            body={"rewind_before_invocation_id": op.target},
            seq=last + 1,
        )
        rows = [store.turn(session, one) for one in hidden]
        turns = [row for row in rows if row is not None]
        calls = [store.calls(session, row.id) for row in reversed(turns)]
        made = [call for of_turn in reversed(calls) for call in of_turn]
        work = self._work(op, request, [row.id for row in turns], made)
        if work is not None:
            work = replace(work, turns=file_undo.began(turns))
        return _Parts(calls, history, work, self._back_again(work, first))

    def _back_again(self, work: FileWork | None, first: int) -> FileWork | None:
        """Return the files that a rewind had changed, if that rewind is undone."""
        # If the target is the marker of a rewind, this rewind undoes that one and restores its
        # files.
        event = self.store.events(self._session)[first]
        before = (
            json_values.readable(event.body).get("op") if event.kind == MARKER else None
        )
        if work is None or before is None:
            return None
        ops = tuple(self._file_ops(str(before)))
        return replace(work, verb="redo", turns=(), ops=ops, told=())

    def _redo(self, op: SagaOp, request: UndoRequest) -> _Parts:
        before = self._undone(op.target)
        work = self._work(op, request, [], [])
        if work is not None:
            ops = tuple(self._file_ops(before.id))
            work = replace(work, verb="redo", ops=ops)
        history = self._redone_history(op, before)
        return _Parts((), history, work, settled=self._settled_by(before))

    def _undone(self, op_id: str) -> SagaOp:
        op = self.store.op(op_id)
        kinds = (UndoKind.UNDO, UndoKind.ROLLBACK, UndoKind.REWIND)
        if op is None or op.session != self._session or op.kind not in kinds:
            raise UsageError(
                f"cannot redo {op_id}: session {self._session} has no such undo"
            )
        return op

    def _settled_by(self, op: SagaOp) -> list[SagaCall]:
        """Return the calls that an op, or one before it, undid or kept from being sent.

        Newest first. A redo repeats none of them, even if a person settled them.
        """
        report = report_of(op)
        named = {one.call_id for one in report.items} if report is not None else ()
        turns = [turn.id for turn in self.store.turns(self._session)]
        found = (c for turn in turns for c in self.store.calls(self._session, turn))
        mine = [one for one in found if one.op == op.id or one.id in named]
        mine = [one for one in mine if one.undo == "done" or one.outcome == "dropped"]
        return mine[::-1]

    def _redone_history(self, op: SagaOp, before: SagaOp) -> Taking | None:
        """Return what gives state and artifacts the values that an undo took from them."""
        store, session = self.store, self._session
        event = next(
            (
                one
                for one in store.events(session)
                if one.kind in (MARKER, "state")
                and json_values.readable(one.body).get("op") == before.id
            ),
            None,
        )
        if event is None:
            return None
        own = Stretch(event.seq, event.seq)
        gaps = events.hidden(store.markers(session))
        counts = any(gap.by == event.seq for gap in gaps)
        seq = store.last_seq(session) + 1
        return Taking(
            op=op,
            changes=changes_of(store, session, own, every=True),
            text="Undo reversed",
            invocation=f"u-{seq}",
            hides=own if counts else None,
            hidden=(event.invocation,),
            body={"redone": before.id},
            seq=seq,
        )

    def _file_ops(self, op_id: str) -> Iterator[str]:
        """Yield the ids by which the recorder may know an op's files, newest first."""
        op = self.store.op(op_id)
        if op is not None:
            tries = len(begun(op, self.store.log(self._session), _FILES))
            yield from (f"{op_id}-{number}" for number in range(tries, 1, -1))
            yield op_id

    def _work(
        self,
        op: SagaOp,
        request: UndoRequest,
        turns: Sequence[str],
        calls: Sequence[SagaCall],
    ) -> FileWork | None:
        """Return the work on files without what it is about; None where that is not meant."""
        recorder = self.setting.recorder
        if recorder is None or not request.covers(Scope.FILES):
            return None
        log = (row for turn in turns for row in self.store.log(self._session, turn))
        return FileWork(
            op=op,
            recorder=recorder,
            op_id=op.id,
            on_conflict=request.on_conflict,
            told=(*file_undo.untold(log), *file_undo.elsewhere(calls)),
        )


def _outstanding(op: SagaOp, calls: Sequence[SagaCall]) -> Iterator[Uncovered]:
    """Yield the effects that an undo without effects leaves as they are."""
    for call in reversibility.mutating(calls):
        settled = call.undo in ("done", "skipped", "resolved")
        if call.klass == Reversibility.READ_ONLY or settled:
            continue
        # What it changed is restored with the files of its turn.
        if reversibility.is_files_only(call):
            continue
        why = f"outstanding: a plain {op.kind} does not undo outside effects"
        if call.outcome == "held":
            why = f"held: a plain {op.kind} does not stop it from being sent"
        yield Uncovered(f"{call.tool} {call.id}", why)


def _not_made_again(
    op: SagaOp, calls: Sequence[SagaCall], planned: bool
) -> Procedure[PhaseResult]:
    """Name the effects that a redo does not make again."""
    yield from ()
    return PhaseResult(replace(blank(op), items=tuple(map(_gone, calls))))


def _gone(call: SagaCall) -> UndoItem:
    if call.outcome == "dropped":
        said = "it was held and dropped; it is not held again"
        item = reversibility.left(call, Reason.NON_REVERSIBLE, said)
        return replace(item, domain=Domain.OUTBOX)
    said = "it was undone; an effect is not repeated"
    return reversibility.left(call, Reason.NON_REVERSIBLE, said)


def _event_of(op: SagaOp, of: SagaOp, report: UndoReport) -> TurnEvent | None:
    """Return what the end of an op is for its turn; None where it is about a part of it.

    `of` is the undo that a redo is about, else the op itself.
    """
    if op.kind == UndoKind.ROLLBACK and not is_of_savepoint(op):
        return TurnEvent.UNWOUND if report.ok else TurnEvent.STUCK
    is_whole = undo_request.from_text(of.request).is_whole
    if of.kind != UndoKind.UNDO or not is_whole:
        return None
    if op.kind == UndoKind.REDO:
        undone = report_of(of)
        # An undo that found nothing left has nothing to give back. A redo never makes effects
        # again, so it is seldom complete.
        has_nothing = undone is not None and undone.status is Status.NOTHING_TO_DO
        return None if has_nothing else TurnEvent.REDO
    return TurnEvent.UNDO if report.ok else None


def _of_calls(
    work: FileWork, row: SagaTurn, calls: Sequence[SagaCall], request: UndoRequest
) -> FileWork:
    """Return the files of some calls of a turn."""
    chosen = [
        one
        for one in calls
        if one.id not in request.declined
        and (request.only is None or one.id in request.only)
    ]
    return replace(
        work,
        calls=tuple(
            ProgramCall(one.id, row.id, row.started_ns, row.agent) for one in chosen
        ),
        loose_since_ns=request.since_ns,
    )


def _narrowed(op: SagaOp, store: SessionStore, request: UndoRequest) -> SagaOp:
    """Return the undo of the call that an op names, with what there is to say of the others.

    Raises:
        UsageError: no turn has such a call, or several have.
    """
    found = [
        call
        for turn in store.turns(op.session)
        for call in store.calls(op.session, turn.id)
        if call.id == op.target
    ]
    if not found:
        raise _no_turn(store, op.session, op.target)
    if len(found) > 1:
        turns = ", ".join(call.turn for call in found)
        raise UsageError(
            f"ambiguous call {op.target}: {turns} have one",
            hint="undo it by its turn, with only=",
        )
    (call,) = found
    # Later calls may have used the effect, and only a person can know that.
    why = _later(call, store.calls(op.session, call.turn))
    meant = request._replace(only=(call.id,), turn=call.turn, why=why)
    return replace(op, request=undo_request.to_text(meant))


def _no_turn(store: SessionStore, session: str, turn: str) -> UsageError:
    """Return the error for a turn that a session does not have."""
    known = [one.id for one in store.turns(session)]
    return UsageError(
        f"cannot find turn {turn} in session {session}", hint=did_you_mean(turn, known)
    )


def turn_of(op: SagaOp) -> str:
    """Return the turn that an undo is about; the target of a savepoint's is `turn:name`."""
    turn = undo_request.from_text(op.request).turn
    return op.target.partition(":")[0] if turn is None else turn


def is_of_savepoint(op: SagaOp) -> bool:
    """Return whether an op undoes a savepoint."""
    return op.kind == UndoKind.ROLLBACK and ":" in op.target


def _with_needed(calls: Sequence[SagaCall], name: str) -> list[SagaCall]:
    """Return a call, and those whose inverses its own has to wait for."""
    by_id = {call.id: call for call in calls}
    wanted, found = [name], dict.fromkeys([name])
    while wanted:
        for one in reversibility.needed(by_id[wanted.pop()]):
            if one in by_id and one not in found:
                found[one] = None
                wanted.append(one)
    return [call for call in calls if call.id in found]


def _later(call: SagaCall, calls: Sequence[SagaCall]) -> str | None:
    """Warn of what came later in the same turn and was not undone."""
    later = [
        f"{one.id} ({one.tool})"
        for one in reversibility.mutating(calls)
        if one.ordinal > call.ordinal
        and one.klass != Reversibility.READ_ONLY
        and one.undo not in ("done", "skipped", "resolved")
    ]
    if not later:
        return None
    more = f" and {len(later) - _SHOWN} more" if len(later) > _SHOWN else ""
    named = ", ".join(later[:_SHOWN])
    return f"only this call was undone; later calls were kept and may depend on it: {named}{more}"
