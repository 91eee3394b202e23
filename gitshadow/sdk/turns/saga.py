"""The undo of calls: judge each one, run its inverse, record each step, report the result.

Newest first, by the order in which calls started. A failure is reported and the rest goes on, but
never past a dependency. Inverses come from the log only, and only a call whose inverse ran to its
end counts as undone.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import urandom

from gitshadow.errors import ShadowError
from gitshadow.sdk.turns import (
    call_outcome,
    external_inverses,
    json_values,
    reversibility,
    telemetry,
)
from gitshadow.sdk.turns.call_outcome import CallKnowledge
from gitshadow.sdk.turns.commands import (
    ClaimCompensation,
    Event,
    Invoke,
    Part,
    Pause,
    Procedure,
    Raised,
    Save,
    TimedOut,
    ask,
    now,
)
from gitshadow.sdk.turns.drift import Comparison, Drift, VerificationFinding
from gitshadow.sdk.turns.errors import FinalFailure, ToolFailure
from gitshadow.sdk.turns.evidence import note
from gitshadow.sdk.turns.external_inverses import patience_s
from gitshadow.sdk.turns.json_values import StoredInverse
from gitshadow.sdk.turns.probe import settled
from gitshadow.sdk.turns.protocols import in_store
from gitshadow.sdk.turns.redaction import Secrets
from gitshadow.sdk.turns.report import UndoItem, UndoKind, UndoReport, item_from_json
from gitshadow.sdk.turns.reversibility import JudgedCalls
from gitshadow.sdk.turns.settings import TurnSettings
from gitshadow.sdk.turns.tool import Tool
from gitshadow.sdk.turns.undo_operation import PhaseResult, UndoPhase, blank, joined
from gitshadow.sdk.turns.values import JsonObject, OnDrift, Outcome
from gitshadow.store.journal.saga_rows import CallName, SagaCall, SagaEntry, SagaOp
from gitshadow.undo.report import Reason, State

_NS_PER_S = 1_000_000_000
_LEASE_S = 60.0
# Other hosts may name theirs in the same database of an engine.
_ID_BYTES = 8


def new_op(session: str, kind: UndoKind, target: str, now_ns: int) -> SagaOp:
    """Return a new undo under an id that nobody else has."""
    return SagaOp(
        id=f"op-{urandom(_ID_BYTES).hex()}",
        session=session,
        kind=kind.value,
        target=target,
        status="applying",
        token="",
        started_ns=now_ns,
        request="{}",
    )


@dataclass(slots=True)
class Unwind:
    """The undo of some calls; `after` has their rows as it left them."""

    calls: tuple[SagaCall, ...]
    scene: JudgedCalls
    after: list[SagaCall] = field(default_factory=list)
    _order: Mapping[bool, Sequence[SagaCall]] = field(init=False)
    _planning: JudgedCalls = field(init=False)

    def __post_init__(self) -> None:
        found = reversibility.in_undo_order(reversibility.mutating(self.calls))
        after = reversibility.after_files(found)
        self._order = {
            late: [call for call in found if (call.id in after) is late]
            for late in (False, True)
        }

    @property
    def setting(self) -> TurnSettings:
        """Return what the turns of the session share."""
        return self.scene.setting

    @property
    def has_late(self) -> bool:
        """Return whether some calls are undone after the files."""
        return bool(self._order[True])

    def plan(self, *, late: bool) -> Procedure[UndoReport]:
        """Return what a run would do; write nothing and call no inverse.

        Args:
            late: Whether it is about the calls that are undone after the files; their plan
                goes on from that of the others.
        """
        drift = Drift(self.setting)
        if not late:
            # A plan marks calls as stuck, too; the run that follows it must judge them again.
            self._planning = replace(self.scene, stuck={})
        scene = self._planning
        items = []
        for call in self._order[late]:
            item = reversibility.judge(call, scene)
            if item is None:
                item = yield from self._compared(call, drift.look(call))
                if item is None:
                    drift.expect()
                    item = reversibility.promised(call)
            if item.state is State.NOT_REVERSED:
                scene.stuck[call.id] = call
            items.append(item)
        return self._report(items)

    def run(self, *, late: bool) -> Procedure[UndoReport]:
        """Undo the calls, each in a part of its own."""
        items = []
        for call in self._order[late]:
            # One part per call: an engine that records parts does not repeat the finished ones.
            try:
                row = yield Part(f"take back {call.id}", self._take_back(call))
                item = item_from_json(row)
            except (ShadowError, OSError) as error:
                # The journal cannot be written, so its inverse was not claimed.
                item = reversibility.left(call, Reason.FAILED, str(error))
            if item.state is State.NOT_REVERSED:
                # The row after its part; one that an engine replays was read after it.
                done = self.after[-1:]
                is_own = bool(done) and done[0].id == call.id
                self.scene.stuck[call.id] = done[0] if is_own else call
            items.append(item)
        return self._report(items)

    def _take_back(self, call: SagaCall) -> Procedure[JsonObject]:
        if reversibility.is_doubtful(call) or (
            call.outcome == "held" and call.undo == "none"
        ):
            call = yield from self._dropped(call)
        if reversibility.is_doubtful(call) and call.id not in self.scene.altered:
            moment = yield from now()
            call = yield from settled(
                call,
                self.setting,
                moment,
                self.scene.op.id,
                before=self.calls,
            )
        # Undo windows may end while earlier inverses run.
        self.scene.now_ns = yield from now()
        item = reversibility.judge(call, self.scene)
        if item is None:
            call, item = yield from self._compensate(call)
        elif item.reason is Reason.IN_DOUBT and call.undo == "running":
            call = yield from self._settle(call, "in_doubt", item.detail)
        self.after.append(call)
        return item.to_json()

    def _compensate(self, call: SagaCall) -> Procedure[tuple[SagaCall, UndoItem]]:
        inverse = json_values.stored_inverse(call.inverse or "")
        handler = self.scene.handler(inverse)
        assert handler is not None, "judged before"
        # Drift comes before approval: nobody is asked about an inverse that will be skipped.
        drift = Drift(self.setting)
        item = yield from self._compared(call, drift.look(call))
        if item is not None:
            return (yield from self._without_inverse(call, item))
        # Functions of the program are trusted; what runs outside needs the policy or a person.
        if handler.foreign:
            policy = self.setting.policy
            no = yield from external_inverses.approval(policy, call, inverse)
            if no is not None:
                return call, reversibility.left(call, Reason.DECLINED, no)
        # The rules let a call in doubt pass only if a second attempt does no harm.
        if call.undo == "in_doubt":
            call = yield from self._settle(call, "failed", call.error)
        for attempt in range(1, inverse.retry.attempts + 1):
            # Each attempt is claimed in the journal first. Two processes then never run one
            # inverse at the same time, and after a crash in the handler the next undo knows that
            # it was tried.
            claimed = yield from self._claim(call, inverse, handler)
            if claimed is None:
                # Not ours to judge: the other process records how it ends.
                said = "another process is undoing it"
                return call, reversibility.left(call, Reason.IN_DOUBT, said)
            call = claimed
            event, trouble = yield from self._attempt(call, inverse, handler)
            found = None
            if trouble is None:
                # That a handler returned proves nothing; the tool's own view of the world
                # decides.
                found = yield from drift.still_there(call)
                if found is None:
                    call = yield from self._settle(call, "done", None)
                    return call, reversibility.taken_back(call)
                trouble = found.text
            # A second run of a handler that is not repeatable could do harm, so a person has to
            # look.
            doubt = _doubt(event, found, handler)
            if doubt is not None:
                call = yield from self._settle(call, "in_doubt", trouble)
                return call, reversibility.left(call, Reason.IN_DOUBT, doubt)
            call = yield from self._settle(call, "failed", trouble)
            # It returned without an effect and must not be repeated.
            lied = found is not None and not handler.repeatable
            final = lied or _is_final(event, inverse)
            if attempt == inverse.retry.attempts or final:
                break
            ours = yield from drift.seen(drift.recorded(call))
            yield Pause(inverse.retry.pause_s(attempt))
            # A person may have repaired by hand what could not be undone.
            item = yield from self._compared(call, drift.look(call, ours.text))
            if item is not None:
                return (yield from self._without_inverse(call, item))
        return call, reversibility.left(call, Reason.FAILED)

    def _compared(
        self, call: SagaCall, comparison: Procedure[Comparison]
    ) -> Procedure[UndoItem | None]:
        """Return the item of a call whose inverse must not run, as the world is; None: it may."""
        if self.scene.request.on_drift != OnDrift.SKIP:
            return None
        found = yield from comparison
        if found.undone:
            return reversibility.found_undone(call)
        if found.moved is None:
            return None
        return reversibility.left(call, Reason.DRIFTED, found.moved)

    def _without_inverse(
        self, call: SagaCall, item: UndoItem
    ) -> Procedure[tuple[SagaCall, UndoItem]]:
        if item.state is not State.NOT_REVERSED:
            call = yield from self._settle(call, "done", None)
        return call, item

    def _claim(
        self, call: SagaCall, inverse: StoredInverse, handler: Tool
    ) -> Procedure[SagaCall | None]:
        """Claim the call for one attempt, and log that; None if another process has it."""
        moment = yield from now()
        # The lease is longer than an attempt may take: once it has expired, another process
        # repeats the inverse.
        lease_s = _LEASE_S + (inverse.retry.timeout_s or _LEASE_S)
        until = moment + int(lease_s * _NS_PER_S)
        attempts = call.attempts + 1
        body = {"attempt": attempts, "handler": handler.name, "key": call.key}
        name, owner = CallName(call.session, call.turn, call.id), self.setting.owner
        begun = self._note("undo_attempt", body, call)
        claim = ClaimCompensation(name, owner, moment, until, then=(begun,))
        is_ours: bool = yield claim
        if not is_ours:
            return None
        return replace(
            call,
            undo="running",
            attempts=attempts,
            owner=self.setting.owner,
            lease_ns=until,
        )

    def _attempt(
        self, call: SagaCall, inverse: StoredInverse, handler: Tool
    ) -> Procedure[tuple[Event, str | None]]:
        """Run a handler once; return what went wrong too."""
        looked_up: list[str] = []

        def look_up(name: str) -> str:
            looked_up.append(self.setting.host.secret(name))
            return looked_up[-1]

        try:
            # Secrets are looked up at the last moment; an error's text is searched for their
            # values.
            arguments = inverse.resolved(look_up)
        except KeyError as error:
            event: Event = Raised(FinalFailure(f"no such secret: {error}"))
            return event, _trouble(event)
        except Exception as error:  # noqa: BLE001 - the host's own code looks secrets up
            # Its text may have a secret, and the next attempt may find a server that answers.
            said = f"cannot look up a secret: {type(error).__name__}"
            event = Raised(ToolFailure(said))
            return event, _trouble(event)
        # All attempts have one key, so a server that heeds it does the work once.
        if "idempotency_key" in handler.takes:
            arguments = {**arguments, "idempotency_key": call.key}
        with telemetry.of_undo(
            self.setting.host.telemetry, call, handler.name
        ) as watch:
            command = Invoke(
                watch.around(handler.function),
                kwargs=arguments,
                timeout_s=patience_s(inverse, handler),
                blocking=handler.blocking,
            )
            event = _not_called(handler, arguments, (yield from ask(command)))
            trouble = _trouble(event)
            watch.outcome = "done" if trouble is None else "failed"
        if trouble is None:
            return event, None
        given = self.setting.given.of(call, json_values.intent(call.intent))
        return event, given.hide_text(Secrets(looked_up).hide_text(trouble))

    def _settle(
        self, call: SagaCall, undo: str, error: str | None
    ) -> Procedure[SagaCall]:
        """Write down how an attempt ended, with the claim of the next one where that follows."""
        after = replace(
            call, undo=undo, error=error, op=self.scene.op.id, owner=None, lease_ns=None
        )
        row = self._note(f"undo_{undo}", {"error": error, "key": call.key}, call)
        # Nothing of the host runs before the next save, so these rows may share its transaction.
        yield Save((after, row), rides=True)
        return after

    def _dropped(self, call: SagaCall) -> Procedure[SagaCall]:
        """Keep a held call that is meant from being sent; one half sent is in doubt."""
        only = self.scene.request.only
        if only is not None and call.id not in only:
            return call
        name = CallName(call.session, call.turn, call.id)
        if not (yield from in_store(lambda means: means.store.withdraw(name))):
            return replace(call, outcome=None) if call.outcome == "held" else call
        after = replace(call, outcome="dropped", undo="skipped", op=self.scene.op.id)
        yield Save((after, self._note("dropped", {"key": call.key}, call)))
        return after

    def _report(self, items: Sequence[UndoItem]) -> UndoReport:
        return replace(
            blank(self.scene.op),
            items=tuple(items),
            token=self._token(items),
            notes=tuple(self._notes()),
        )

    def _token(self, items: Sequence[UndoItem]) -> str:
        # The token covers the inverses: a confirmed plan allows exactly these and no others.
        inverses = {call.id: call.inverse for call in self.calls}
        rows = [
            [
                *(item.call_id, item.state, item.reason, item.already),
                inverses.get(item.call_id),
            ]
            for item in items
        ]
        return json_values.token(
            [self.scene.op.target, self.scene.request.on_drift, rows]
        )

    def _notes(self) -> Iterator[str]:
        """Yield the dependencies that nothing can honour, and the tools declared differently now.

        The class at the time counts.
        """
        yield from reversibility.unmet(self.calls)
        for call in reversibility.mutating(self.calls):
            tool = self.setting.registry.find(call.tool)
            declared = tool.reversibility if tool is not None else None
            if tool is not None and (declared or "undeclared") != call.klass:
                yield (
                    f"{call.tool} was {call.klass} when {call.id} ran and is now"
                    f" {declared or 'undeclared'}: the former applies"
                )

    def _note(self, kind: str, body: JsonObject, call: SagaCall) -> SagaEntry:
        return note(call, kind, {"op": self.scene.op.id, **body}, self.scene.now_ns)


def effects(unwinds: Sequence[Unwind], *, late: bool) -> UndoPhase:
    """Return what undoes the calls of turns, before the files or after them."""

    def act(planned: bool) -> Procedure[PhaseResult]:
        parts = []
        for unwind in unwinds:
            undo = unwind.plan(late=late) if planned else unwind.run(late=late)
            parts.append((yield from undo))
        whole = parts[0]
        for part in parts[1:]:
            # The token of each turn is part of the whole one, so a change in any of them refuses
            # the plan.
            whole = replace(joined(whole, part), token=whole.token + part.token)
        return PhaseResult(whole)

    return UndoPhase("late_effects" if late else "effects", act, in_parts=True)


def _not_called(handler: Tool, arguments: JsonObject, event: Event) -> Event:
    """Return the event of an attempt; a decorated handler that was not called did nothing."""
    if not isinstance(event, Raised):
        return event
    misfit = handler.misfit_inside(event.error, arguments)
    return event if misfit is None else Raised(FinalFailure(misfit))


def _trouble(event: Event) -> str | None:
    """Return what went wrong in an attempt, or None where nothing did."""
    if isinstance(event, TimedOut):
        return f"no answer after {event.seconds:g} s"
    if isinstance(event, Raised):
        return json_values.in_words(event.error)
    value = event.value
    return value.text if isinstance(value, Outcome) and not value.ok else None


def _doubt(
    event: Event, found: VerificationFinding | None, handler: Tool
) -> str | None:
    """Return why nobody knows what an attempt did, so that no other one follows; None: go on."""
    if isinstance(event, TimedOut) and event.goes_on and not handler.heeds_key:
        return f"{handler.name} may still be running: it could not be stopped"
    is_clean = call_outcome.from_event(event, handler) is CallKnowledge.NOT_DONE
    harmless = found.sure if found is not None else is_clean
    if handler.repeatable or harmless:
        return None
    return f"{handler.name} is not declared safe to repeat"


def _is_final(event: Event, inverse: StoredInverse) -> bool:
    """Return whether no further attempt can succeed after an error."""
    if not isinstance(event, Raised):
        return False
    if isinstance(event.error, FinalFailure):
        return True
    # The journal has names, as it cannot store classes; a subclass of a named error counts.
    names = {kind.__name__ for kind in type(event.error).__mro__}
    return not names.isdisjoint(inverse.non_retryable)
