"""One turn: begun, its calls let in, committed or rolled back.

Invariant: a turn that began ends exactly once, with one commit or one rollback of the host's own
transaction; what ends it carries the report.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from threading import Event
from typing import Any

from gitshadow.errors import ShadowError
from gitshadow.sdk.turns import (
    call_outcome,
    evidence,
    json_values,
    notifications,
    probe,
    savepoints,
    undo_request,
)
from gitshadow.sdk.turns.call_outcome import CallKnowledge
from gitshadow.sdk.turns.call_records import held_row
from gitshadow.sdk.turns.commands import (
    InStore,
    Invoke,
    Pause,
    Procedure,
    Raised,
    Returned,
    Save,
    ask,
    demand,
    now,
)
from gitshadow.sdk.turns.errors import (
    LimitExceeded,
    RoundTripLimitExceeded,
    TimeLimitExceeded,
    ToolCallLimitExceeded,
    TurnCancelled,
    TurnClosed,
    ValidationFailed,
)
from gitshadow.sdk.turns.events import creation
from gitshadow.sdk.turns.file_recording import UNTOLD, Tell
from gitshadow.sdk.turns.option_checks import keyed_by_texts, octets, text
from gitshadow.sdk.turns.policy import Proposal
from gitshadow.sdk.turns.protocols import Means, UndoTransaction, in_store
from gitshadow.sdk.turns.report import UndoKind, UndoReport
from gitshadow.sdk.turns.saga import new_op
from gitshadow.sdk.turns.savepoints import Savepoint, SavepointState
from gitshadow.sdk.turns.settings import TurnSettings
from gitshadow.sdk.turns.turn_states import TurnEvent, TurnStatus, advance
from gitshadow.sdk.turns.undo_request import UndoRequest
from gitshadow.sdk.turns.values import JsonObject, Release, Reversibility, UndoEntry
from gitshadow.store.journal.saga_rows import (
    NewEvent,
    SagaCall,
    SagaEntry,
    SagaOp,
    SagaTurn,
)
from gitshadow.undo.report import State

_NS_PER_S = 1_000_000_000
_FIRST_PAUSE_S = 0.001
_LONGEST_PAUSE_S = 0.05


class Question:
    """One question that waits for a yes or no; the first answer counts."""

    def __init__(self, proposal: Proposal) -> None:
        self.proposal = proposal
        self._is_yes = False
        self._answered = Event()

    def answer(self, value: bool) -> None:
        """Set the answer, from any thread."""
        if not self._answered.is_set():
            self._is_yes = value is True
            self._answered.set()

    def wait(self, timeout_s: float | None) -> bool:
        """Wait for the answer; none in this time is a no."""
        return self._answered.wait(timeout_s) and self._is_yes


@dataclass(slots=True)
class TurnCore:
    """One turn at work; its methods that return a `Procedure` are run by a driver."""

    setting: TurnSettings
    row: SagaTurn
    calls: dict[str, SagaCall] = field(default_factory=dict)
    entries: list[UndoEntry] = field(default_factory=list)
    questions: list[Question] = field(default_factory=list)
    cancelled: bool = False
    started: int = 0
    round_trips: int = 0
    report: UndoReport | None = None
    released: list[Release] = field(default_factory=list)
    is_first: bool = False
    past_pivot: bool = False
    _asked: set[str] = field(default_factory=set)
    _last_words: list[NewEvent] = field(default_factory=list)
    _transaction: UndoTransaction | None = None
    _ends: bool = False
    _host_committed: bool = False
    _points: list[Savepoint] = field(default_factory=list)
    _owners: dict[str, Savepoint | None] = field(default_factory=dict)
    _given_up: set[str] = field(default_factory=set)
    _ungiven: list[UndoEntry] = field(default_factory=list)
    _unwinding: bool = False
    _writing: int = 0

    @property
    def active(self) -> list[str]:
        """Return the ids of its calls that run."""
        found = list(self.setting.active)
        return [call for turn, call in found if turn == self.row.id]

    def has(self, call: str) -> bool:
        """Return whether a call of this id was recorded, or is running and about to be."""
        return call in self.calls or call in self.active

    @property
    def status(self) -> TurnStatus:
        """Return how far the turn got."""
        return TurnStatus(self.row.status)

    def begin(self) -> Procedure[None]:
        """Write the turn down, then open the host's transaction."""
        body = {"label": self.row.label, "agent": self.row.agent}
        note = self.note("turn_begun", body, self.row.started_ns)
        created = (
            [creation(self.row.session, {}, self.row.started_ns)]
            if self.is_first
            else []
        )
        begun = self.event("system", "turn", self.row.label, self.row.started_ns)
        # A crash from here on leaves an open turn, which the next opening marks as interrupted.
        yield Save((self.row, note, *created, begun))
        yield from self.tell(Tell("prompt", self.row.id, label=self.row.label))
        provider = self.setting.host.undo
        if provider is None:
            return
        event = yield from ask(Invoke(provider.begin_transaction, (self.row.label,)))
        if isinstance(event, Returned):
            self._transaction = event.value
            return
        error = event.error if isinstance(event, Raised) else TimeoutError()
        self._ends = True
        yield from self._roll_back(error)
        raise error

    def tell(self, told: Tell) -> Procedure[None]:
        """Report an event to the recorder of files; log what could not be reported."""
        recorder = self.setting.recorder
        if recorder is None:
            return
        told = told._replace(hooked=self.row.lease_ns is not None)
        why = yield from demand(Invoke(recorder.tell, (told,), blocking=True))
        if why is not None:
            moment = yield from now()
            body = {"event": told.event, "why": why}
            yield Save((self.note(UNTOLD, body, moment, told.call),))

    def cancel(self) -> None:
        """Ask the turn to end at the next boundary; one that has ended stays as it is."""
        if self.status is TurnStatus.OPEN:
            self.cancelled = True
            # A call that waits for an answer would keep the turn from ending.
            for question in self.questions:
                question.answer(False)

    def admit(self, moment_ns: int) -> int:
        """Let one more call in and return its number.

        Raises:
            TurnClosed: the turn has ended.
            TurnCancelled: `cancel` was called.
            LimitExceeded: a bound was reached.
        """
        self.check(moment_ns)
        limit = self.setting.policy.limits.tool_calls
        if limit is not None and self.started >= limit:
            raise ToolCallLimitExceeded(
                f"cannot continue {self.row.id}: more than {limit} tool calls"
            )
        self.started += 1
        return self.started

    def check(self, moment_ns: int) -> None:
        """Raise the error that prevents going on: closed, cancelled, out of time."""
        self.check_open()
        self.check_cancelled()
        self.check_time(moment_ns)

    def check_cancelled(self) -> None:
        """Raise `TurnCancelled` when `cancel` was called."""
        if self.cancelled:
            raise TurnCancelled(f"{self.row.id} was cancelled")

    def check_time(self, moment_ns: int) -> None:
        """Raise `TimeLimitExceeded` when the turn takes too long."""
        seconds = self.setting.policy.limits.seconds
        if seconds is None:
            return
        if moment_ns - self.row.started_ns > seconds * _NS_PER_S:
            raise TimeLimitExceeded(
                f"cannot continue {self.row.id}: it took more than {seconds} s"
            )

    def count_round_trip(self) -> None:
        """Count one request to the model.

        Raises:
            RoundTripLimitExceeded: it is one too many.
        """
        limit = self.setting.policy.limits.round_trips
        if limit is not None and self.round_trips >= limit:
            raise RoundTripLimitExceeded(
                f"cannot continue {self.row.id}: more than {limit} round trips"
            )
        self.round_trips += 1

    @contextmanager
    def running(self, call: str) -> Iterator[None]:
        """Count a call as running; it belongs to the savepoint in whose context it begins."""
        self.setting.active[self.row.id, call] = None
        self._owners[call] = savepoints.present_of(self)
        try:
            with savepoints.inside_call(self, call):
                yield
        finally:
            self.setting.active.pop((self.row.id, call), None)

    def record(self, entry: UndoEntry) -> Procedure[None]:
        """Add an entry; the host's transaction gets it when no savepoint can undo it."""
        self.entries.append(entry)
        # Its savepoint may have been undone since its outcome was written.
        if self.calls[entry.tool_call_id].undo != "done":
            self._ungiven.append(entry)
        yield from self._give()

    def _give(self, *, everything: bool = False) -> Procedure[None]:
        # A transaction has no way to remove an entry, so what a savepoint may still undo is held
        # back.
        ended = (SavepointState.KEPT, SavepointState.UNDONE)
        for entry in list(self._ungiven):
            chain = self._chain_of(entry.tool_call_id)
            is_free = all(one.state in ended for one in chain)
            if entry in self._ungiven and (everything or is_free):
                self._ungiven.remove(entry)
                if self._transaction is not None:
                    yield from demand(Invoke(self._transaction.add_entry, (entry,)))

    def _take_out(self, calls: Collection[SagaCall], report: UndoReport) -> None:
        """Drop the entries of calls that were undone; the host gets the others."""
        stays = {one.call_id for one in report.items if one.state is State.NOT_REVERSED}
        gone = {one.id for one in calls} - stays
        self._ungiven = [one for one in self._ungiven if one.tool_call_id not in gone]

    def _chain_of(self, call: str) -> list[Savepoint]:
        """Return the savepoints that a call belongs to."""
        owner = self._owners.get(call)
        return owner.chain() if owner is not None else []

    def as_ended(self, row: SagaCall) -> SagaCall:
        """Return the row of a call that is about to be saved, as it counts after a rollback.

        A rollback that did not wait for its end could not undo it, so it needs a person.

        Raises:
            TurnClosed: the call has not begun its work yet.
        """
        if row.id not in self._given_up:
            return row
        if row.outcome in (None, "held"):
            raise TurnClosed(f"cannot run {row.tool}: {row.turn} was rolled back")
        is_done = call_outcome.from_row(row) is CallKnowledge.DONE
        if not is_done or row.klass == Reversibility.READ_ONLY:
            return row
        return replace(row, undo="failed", error=row.error or probe.TOO_LATE)

    def finish(self, error: BaseException | None) -> Procedure[None]:
        """End the turn: commit, or roll back when something was raised.

        Args:
            error: What left the turn's block, if anything did; it gets the report.

        Raises:
            TurnCancelled: it was cancelled and nothing else had ended it.
            Exception: what the host's commit raised; the turn was rolled back then.
        """
        if self.status is not TurnStatus.OPEN or self._ends:
            return
        yield from self._unwound()
        self._ends = True
        # `cancel` may come after the last call, and then no call has raised it.
        if error is None and self.cancelled:
            cancelled = TurnCancelled(f"{self.row.id} was cancelled")
            yield from self._roll_back(cancelled)
            raise cancelled
        if error is not None:
            yield from self._roll_back(error)
            return
        failed = yield from self._commit()
        if failed is not None:
            yield from self._roll_back(failed)
            raise failed

    @contextmanager
    def savepoint(self, name: str) -> Iterator[Savepoint]:
        """Make a block the inside of a new savepoint.

        Raises:
            TurnClosed: the turn, or the savepoint around it, has ended.
        """
        self.check_open()
        moment = self.setting.host.clock()
        around = savepoints.present()
        point = Savepoint(self, len(self._points) + 1, name, moment, around)
        self._points.append(point)
        with savepoints.inside(point):
            yield point

    def keep_savepoint(self, point: Savepoint) -> Procedure[None]:
        """Keep what belongs to a savepoint, as far as those around it are kept."""
        point.state = SavepointState.KEPT
        yield from self._give()

    def undo_savepoint(self, point: Savepoint, error: BaseException) -> Procedure[None]:
        """Undo what belongs to a savepoint and to those inside it; the turn goes on.

        Raises:
            TurnClosed: the turn has ended, so that it decides what is undone.
        """
        point.state = SavepointState.FAILED
        yield from self._unwound()
        self.check_running()
        self._unwinding = True
        try:
            yield from self._await_calls(point)
            yield from self.ask_pivots()
            op = yield from self._rollback(f"{self.row.id}:{point.name}", point, None)
            report = yield from self._unwind(op)
        finally:
            self._unwinding = False
        self._take_out(self._calls_of(point), report)
        point.state = SavepointState.UNDONE
        _attach(report, error)
        yield from self._give()

    def _unwound(self) -> Procedure[None]:
        """Wait until no savepoint is being undone."""
        while self._unwinding and not self._ends:
            yield Pause(_FIRST_PAUSE_S)

    def _await_calls(self, point: Savepoint | None) -> Procedure[None]:
        """Wait for what runs in a savepoint (None: in the turn), but for calls not too long.

        The end of a call that is given up needs a person.
        """
        for question in self.questions:
            if question.proposal.call_id in self._running_in(point):
                question.answer(False)
        left_s, pause_s = self.setting.policy.limits.rollback_wait_s, _FIRST_PAUSE_S
        while self._writing or (left_s > 0 and self._is_beside(point)):
            yield Pause(pause_s)
            left_s -= pause_s
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        self._given_up.update(self._running_in(point))

    def _is_beside(self, point: Savepoint | None) -> bool:
        """Return whether a call runs there that does not itself wait for this code."""
        return any(
            not savepoints.is_inside_call(self, call)
            for call in self._running_in(point)
        )

    def _running_in(self, point: Savepoint | None) -> list[str]:
        """Return the ids of the calls that run in a savepoint; None: in the turn."""
        return [
            call
            for call in self.active
            if point is None or point in self._chain_of(call)
        ]

    def _calls_of(self, point: Savepoint | None) -> list[SagaCall]:
        """Return the calls of a savepoint and of those inside it; None: of the turn."""
        return [
            call
            for call in self.calls.values()
            if point is None or point in self._chain_of(call.id)
        ]

    def note(
        self, kind: str, body: JsonObject, ts_ns: int, call: str | None = None
    ) -> SagaEntry:
        """Return a row for the log."""
        return replace(evidence.note(self.row, kind, body, ts_ns), call=call)

    def event(
        self, author: str, kind: str, text: str, ts_ns: int, body: str = "{}"
    ) -> NewEvent:
        """Return an event of this turn, to be added to the session's history."""
        return NewEvent(
            session=self.row.session,
            invocation=self.row.id,
            author=json_values.storable(author),
            kind=json_values.storable(kind),
            ts_ns=ts_ns,
            text=json_values.storable(text),
            body=body,
        )

    def say(
        self, author: str, said: str, kind: str, data: JsonObject
    ) -> Procedure[None]:
        """Add an event of the conversation."""
        for option, value in (("author", author), ("text", said), ("kind", kind)):
            text(option, value)
        moment = yield from now()
        self.check_open()
        yield Save(
            (self.event(author, kind, said, moment, json_values.faithful(data)),)
        )

    def conclude(self, author: str, text: str) -> None:
        """Add an event to the history if, and when, the turn commits."""
        kind, moment = author, self.row.started_ns
        self._last_words.append(self.event(author, kind, text, moment))

    def set_state(self, changes: JsonObject) -> Procedure[None]:
        """Change the session's state; None makes a key absent."""
        keyed_by_texts("a change of the state", changes)
        moment = yield from now()
        self.check_open()
        texts = {
            json_values.storable(key): None
            if value is None
            else json_values.faithful(value, key)
            for key, value in changes.items()
        }
        event = self.event("agent", "state", "", moment, self._body({"keys": [*texts]}))
        yield from self._write(Save((replace(event, delta=texts),)))

    def save_artifact(self, name: str, data: bytes) -> Procedure[int]:
        """Save a version of an artifact; return its number."""
        text("the name of an artifact", name)
        octets(f"the artifact {name}", data)
        data = bytes(data)
        moment = yield from now()
        self.check_open()
        session, name = self.row.session, json_values.storable(name)
        event = self.event("agent", "artifact", name, moment, self._body({}))

        def keep(means: Means) -> int:
            # In one command, so that no version saved at the same time gets this number. The bytes
            # are stored before the row that names them. A crash between leaves an object that
            # nothing reaches, and Git's gc deletes it.
            version = means.store.next_version(session, name)
            oid = means.store.keep(session, name, version, data, means.clock())
            means.store.save([replace(event, artifacts={name: oid})])
            return version

        version: int = yield from self._write(InStore(keep))
        return version

    def _body(self, body: JsonObject) -> str:
        """Return the body of an event with the savepoint that it belongs to."""
        point = savepoints.present_of(self)
        more = {} if point is None else {"savepoint": point.number}
        return json_values.canonical({**body, **more})

    def _write(self, command: Save | InStore) -> Procedure[Any]:
        # The undo of a savepoint computes which values to restore, and must not overwrite one that
        # is set meanwhile.
        yield from self._unwound()
        self.check_open()
        self._writing += 1
        try:
            return (yield command)
        finally:
            self._writing -= 1

    def check_open(self) -> None:
        """Raise `TurnClosed` where the turn, or the savepoint of this context, has ended."""
        self.check_running()
        point = savepoints.present_of(self)
        for one in point.chain() if point is not None else ():
            if one.state in (SavepointState.FAILED, SavepointState.UNDONE):
                raise TurnClosed(
                    f"cannot continue {self.row.id}: savepoint {one.name} was undone"
                )

    def check_running(self) -> None:
        """Raise `TurnClosed` where the turn has ended, or is about to."""
        if self.status is not TurnStatus.OPEN or self._ends:
            raise TurnClosed(f"cannot continue {self.row.id}: it has ended")

    def _commit(self) -> Procedure[BaseException | None]:
        """Commit; return what the host's transaction raised instead."""
        # The host commits first: its commit may fail, and the journal must not say that a turn
        # was committed which was not. If the journal fails after it, the report says so.
        yield from self._give(everything=True)
        # A call that ends from here on, or is sent later, is no part of the transaction.
        host, self._transaction = self._transaction, None
        if host is not None:
            event = yield from ask(Invoke(host.commit))
            if isinstance(event, Raised):
                self._transaction = host
                return event.error
            self._host_committed = True
        try:
            yield from self._enter(TurnEvent.COMMIT)
        except ShadowError as error:
            # The commit is not on disk, so the turn is rolled back.
            return error
        yield from self.tell(Tell("turn_end", self.row.id))
        return None

    def _roll_back(self, error: BaseException) -> Procedure[None]:
        self.row = replace(self.row, cause=_cause(error))
        why = None
        if isinstance(error, ValidationFailed):
            why = self._hidden(f"rolled back: {error}")
        yield from self._await_calls(None)
        yield from self.ask_pivots()
        # Which pivots were passed decides what is undone, so their probes are asked before the
        # undo is written.
        is_kept = self.kept_of(None) is not None
        op = yield from self._rollback(self.row.id, None, why)
        # In one transaction: a crash from here on leaves an undo for `recover` to finish.
        yield from self._enter(TurnEvent.FAIL, op)
        yield from self.tell(Tell("turn_end", self.row.id))
        report = yield from self._unwind(op)
        if self._transaction is not None:
            report = yield from self._end_transaction(report, is_kept=is_kept)
        if self._host_committed:
            said = "it had committed before the journal could"
            report = report.with_trouble("the host's undo", said)
        self.report = report
        _attach(report, error)
        done = TurnEvent.UNWOUND if report.ok else TurnEvent.STUCK
        yield from self._enter(done)

    def _hidden(self, text: str) -> str:
        """Return a text of the host's without the secrets of the turn's calls."""
        return self.setting.given.hide_text(self.row.id, text)

    def _end_transaction(
        self, report: UndoReport, *, is_kept: bool
    ) -> Procedure[UndoReport]:
        """End the host's transaction after a rollback; return the report with what it raised."""
        if is_kept:
            # After a point of no return, the host's document stays too: it belongs to what is
            # kept.
            self._take_out(self._calls_of(None), report)
            yield from self._give(everything=True)
        # A call that ends from here on is no part of it.
        host, self._transaction = self._transaction, None
        assert host is not None, "asked before"
        event = yield from ask(Invoke(host.commit if is_kept else host.rollback))
        if isinstance(event, Raised):
            said = self._hidden(str(event.error))
            return report.with_trouble("the host's undo", said)
        return report

    def pivot_of(self, point: Savepoint | None) -> SagaCall | None:
        """Return the last point of no return that was passed in a savepoint; None: in the turn.

        One of which nobody knows whether it happened counts as passed.
        """
        passed = [
            call
            for call in self._calls_of(point)
            if call_outcome.from_row(call) is not CallKnowledge.NOT_DONE
            and call.undo != "skipped"
            and json_values.readable(call.intent).get("pivot") is True
        ]
        return max(passed, key=lambda call: call.ordinal, default=None)

    def ask_pivots(self) -> Procedure[None]:
        """Ask the probes of points of no return whose outcome is unknown."""
        for call in list(self.calls.values()):
            is_pivot = json_values.readable(call.intent).get("pivot") is True
            in_doubt = (
                call_outcome.from_row(call) is CallKnowledge.UNKNOWN
                and call.undo == "none"
                and call.id not in self.active
            )
            if not is_pivot or not in_doubt or call.id in self._asked:
                continue
            self._asked.add(call.id)
            moment = yield from now()
            self.calls[call.id] = yield from probe.settled(call, self.setting, moment)

    def kept_of(self, point: Savepoint | None) -> SagaCall | None:
        """Return the call up to which a rollback keeps what was done, or None for none."""
        return None if self.past_pivot else self.pivot_of(point)

    def _rollback(
        self, target: str, point: Savepoint | None, why: str | None
    ) -> Procedure[SagaOp]:
        """Return the undo of a savepoint or (None) of the turn, not written down yet."""
        moment = yield from now()
        op = new_op(self.row.session, UndoKind.ROLLBACK, target, moment)
        calls, pivot = self._calls_of(point), self.kept_of(point)
        last = pivot.ordinal if pivot is not None else 0
        request = UndoRequest(
            why=why if pivot is None else kept_up_to(pivot, why),
            declined=tuple(call.id for call in calls if call.ordinal <= last),
        )
        if point is not None:
            inner = [one.number for one in self._points if point in one.chain()]
            request = request._replace(
                savepoints=tuple(inner),
                calls=tuple(call.id for call in calls),
                since_ns=point.at_ns,
            )
        if pivot is not None:
            request = request._replace(since_ns=pivot.started_ns)
        return replace(op, request=undo_request.to_text(request))

    def _unwind(self, op: SagaOp) -> Procedure[UndoReport]:
        whole = yield from in_store(lambda means: means.composed(op))
        report = yield from notifications.undo(self.setting, whole)
        self.calls.update({call.id: call for call in whole.left()})
        return report

    def _enter(self, event: TurnEvent, *more: SagaOp) -> Procedure[None]:
        moment = yield from now()
        status, before = advance(self.status, event), self.row
        self.row = replace(self.row, status=status.value, ended_ns=moment)
        body = {"status": status.value, "cause": self.row.cause}
        note = self.note("turn_" + status.value, body, moment)
        commits = status is TurnStatus.COMMITTED
        words = [replace(one, ts_ns=moment) for one in self._last_words if commits]
        held = [one for one in self.calls.values() if one.outcome == "held"]
        # Held calls become due in the transaction that commits the turn, so what did not commit
        # is never sent.
        sent = [held_row(one, committed_ns=moment) for one in held if commits]
        try:
            yield Save((self.row, note, *words, *sent, *more))
        except ShadowError:
            # Nothing was written, so the turn still has its earlier status.
            self.row = before
            raise


def kept_up_to(pivot: SagaCall, why: str | None) -> str:
    """Return what a report says where a rollback stopped at a point of no return."""
    said = (
        f"kept everything up to {pivot.tool} {pivot.id}, a point of no return,"
        f" including state, artifacts and the host's document"
    )
    return said if why is None else f"{why}; {said}"


def _attach(report: UndoReport, error: BaseException) -> None:
    # An exception class with slots has no room for the report.
    with suppress(AttributeError, TypeError):
        error.undo_report = report  # type: ignore[attr-defined]


def _cause(error: BaseException) -> str:
    """Return in one word why a turn was rolled back."""
    if isinstance(error, LimitExceeded):
        return "limit"
    if isinstance(error, ValidationFailed):
        return "validation"
    name = type(error).__name__
    return "cancelled" if name in ("TurnCancelled", "CancelledError") else name
