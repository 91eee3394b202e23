"""One call of a tool: admit it, judge it, record it, run it, record its end with its inverse.

The intent is on disk before the tool runs; outcome and inverse follow in one transaction. A crash
in between leaves an intent without an outcome: the call is in doubt. The tool's function gets
exactly the model's arguments, and its result is not changed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from gitshadow.errors import UsageError
from gitshadow.sdk.turns import (
    authorization,
    call_outcome,
    drift,
    json_values,
    path_images,
    telemetry,
)
from gitshadow.sdk.turns.call_outcome import CallKnowledge
from gitshadow.sdk.turns.call_records import (
    CallRequest,
    arguments_of,
    held_row,
    key_of,
    paths_of,
    row_of,
)
from gitshadow.sdk.turns.commands import (
    Event,
    Invoke,
    Procedure,
    Raised,
    Returned,
    Save,
    ask,
    demand,
    now,
)
from gitshadow.sdk.turns.errors import ToolFailure
from gitshadow.sdk.turns.file_recording import Tell
from gitshadow.sdk.turns.inverse_binding import InverseParts, bound, trouble_in
from gitshadow.sdk.turns.json_values import NOT_OBSERVED, NotStorableError, Observation
from gitshadow.sdk.turns.kept_secrets import completed, copies_of, parts_of
from gitshadow.sdk.turns.policy import Proposal
from gitshadow.sdk.turns.redaction import NO_SECRETS, REDACTED, Secrets
from gitshadow.sdk.turns.telemetry import WorkSpan
from gitshadow.sdk.turns.tool import Tool
from gitshadow.sdk.turns.turn import TurnCore
from gitshadow.sdk.turns.values import (
    JsonObject,
    Outcome,
    OutcomeKind,
    Reversibility,
    Revision,
    UndoEntry,
)
from gitshadow.store.journal.saga_rows import SagaCall, SagaRow, logged

_NS_PER_S = 1_000_000_000
_End = TypeVar("_End", bound=Outcome | BaseException)


@dataclass(frozen=True, slots=True)
class _Prepared:
    """What was read before a call: copies, which nobody changes later."""

    arguments: JsonObject
    paths: tuple[str, ...]
    captured: object = None
    trouble: str | None = None
    before: Observation = NOT_OBSERVED
    revision: Revision = None
    files: Mapping[str, str | None] = field(default_factory=dict)


def run(turn: TurnCore, request: CallRequest) -> Procedure[Outcome]:
    """Run one call.

    Raises:
        UsageError: the id is that of an earlier call of this turn.
        TurnClosed, TurnCancelled, LimitExceeded: the turn does not go on.
        Exception: what the tool raised; the turn should end with it.
    """
    call, tool = yield from _admitted(turn, request)
    with turn.running(call.row.id):
        outcome = yield from call.watched(call.run(tool))
    # Checked after the call too: the rollback then includes a call that took too long.
    turn.check_time((yield from now()))
    return outcome


def announce(turn: TurnCore, request: CallRequest) -> Procedure[Outcome | None]:
    """Write down a call that runs elsewhere; an outcome says that it must not run.

    Raises:
        UsageError: the id is that of an earlier call of this turn.
        TurnClosed, LimitExceeded: the turn does not go on.
    """
    call, tool = yield from _admitted(turn, request)
    if tool is None:
        return (yield from call.unknown())
    opened = yield from call.open(tool)
    return opened if isinstance(opened, Outcome) else None


def conclude(
    turn: TurnCore,
    call_id: str,
    ended: Outcome | Exception,
    arguments: JsonObject | None = None,
) -> Procedure[None]:
    """Write down how an announced call ended; `arguments` has the secret ones, if any are.

    Raises:
        UsageError: no such call is running.
    """
    row = turn.calls.get(call_id)
    if row is None or row.outcome is not None:
        raise UsageError(f"cannot conclude {call_id}: no such call is running")
    tool = turn.setting.registry.find(row.tool)
    if tool is None:
        raise UsageError(f"cannot conclude {row.id}: {row.tool} is not registered")
    intent = json_values.intent(row.intent)
    given = turn.setting.given.of(row, intent)
    # What a hook reports now may have been changed by the tool, so only secrets are taken from it.
    known = completed(given.arguments, arguments or {})
    kept, _ = parts_of(known)
    prepared = _Prepared(
        known,
        tuple(paths_of(kept, tool.options.get("paths", ()))),
        intent.get("capture"),
        trouble_in(intent),
    )
    call = _Call(turn, row, kept, _secrets(tool, kept))
    if isinstance(ended, Exception):
        yield from call.fail(tool, prepared, ended)
    else:
        yield from call.close(tool, prepared, ended)


def run_held(
    turn: TurnCore, row: SagaCall, tool: Tool
) -> Procedure[Outcome | BaseException]:
    """Run a call that was held; what its tool raised is returned, and ends nothing."""
    arguments = arguments_of(row)
    call = _Call(turn, row, arguments, _secrets(tool, arguments))
    return (yield from call.watched(call.send(tool)))


def _result(event: Event, tool: Tool, arguments: JsonObject) -> Outcome | BaseException:
    """Return how a tool ended; what it raised to end the turn is an exception."""
    if isinstance(event, Returned):
        value = event.value
        return value if isinstance(value, Outcome) else Outcome.success(value)
    error = event.error if isinstance(event, Raised) else TimeoutError()
    if isinstance(error, ToolFailure):
        return Outcome.failed(str(error))
    misfit = tool.misfit_inside(error, arguments)
    return error if misfit is None else _not_called(tool.name, misfit)


def _not_called(tool: str, misfit: str) -> Outcome:
    return Outcome.failed(f"cannot call {tool}: {misfit}")


def _admitted(
    turn: TurnCore, request: CallRequest
) -> Procedure[tuple["_Call", Tool | None]]:
    moment = yield from now()
    ordinal = turn.admit(moment)
    tool = turn.setting.registry.find(request.tool)
    if tool is not None and request.function is not None:
        tool = replace(tool, function=request.function)
    row = row_of(turn.row, request, ordinal, tool, moment, turn.setting.store_id)
    # The id is part of the idempotency key, so a second call with it could have no effect of its
    # own.
    if turn.has(row.id):
        raise UsageError(
            f"cannot call {request.tool}: the id {row.id} was already used"
        )
    arguments, origin = request.arguments, request.origin
    secrets = NO_SECRETS if tool is None else _secrets(tool, arguments)
    call = _Call(turn, row, arguments, secrets, again=request.again, origin=origin)
    return call, tool


def _secrets(tool: Tool, arguments: JsonObject) -> Secrets:
    try:
        return Secrets.of(arguments, tool.options.get("secrets", ()))
    except Exception as error:  # it runs code of the host's own classes
        # What cannot be read cannot be hidden either.
        said = f"cannot call {tool.name}: reading a secret argument raised"
        raise UsageError(f"{said} {type(error).__name__}") from error


@dataclass(slots=True)
class _Call:
    turn: TurnCore
    row: SagaCall
    arguments: JsonObject
    secrets: Secrets = NO_SECRETS
    again: bool = False
    origin: str | None = None
    watch: WorkSpan = field(default_factory=lambda: WorkSpan(None))

    def watched(self, work: Procedure[_End]) -> Procedure[_End]:
        """Do the work of the call, and report it to telemetry."""
        with telemetry.of_call(self.turn.setting.host.telemetry, self.row) as watch:
            self.watch = watch
            ended = yield from work
            watch.outcome = ended.kind.value if isinstance(ended, Outcome) else None
            return ended

    def run(self, tool: Tool | None) -> Procedure[Outcome]:
        """Do all of it."""
        # Arguments that do not fit cannot have an effect, so such a call leaves no intent.
        misfit = None if tool is None else tool.misfit(self.arguments)
        if misfit is not None:
            return (yield from self._ended(_not_called(self.row.tool, misfit)))
        if tool is None:
            return (yield from self.unknown())
        opened = yield from self.open(tool)
        if isinstance(opened, Outcome):
            return opened
        outcome = yield from self._execute(tool, opened)
        return (yield from self.close(tool, opened, outcome))

    def unknown(self) -> Procedure[Outcome]:
        """Record that there is no such tool."""
        return (yield from self._ended(Outcome.unknown_tool(self.row.tool)))

    def open(self, tool: Tool) -> Procedure[Outcome | _Prepared]:
        """Let the call in and write down what is about to be done; an outcome is a no."""
        # Before the guards: nobody should be asked about a call that will not run.
        repeats = yield from authorization.repeats(
            self.turn, tool, self.arguments, self.origin
        )
        if repeats is not None and not self.again:
            return (yield from self._ended(Outcome.duplicate(repeats)))
        proposal = Proposal(self.row.id, tool.name, self.arguments, tool.effective)
        reason = yield from authorization.refusal(self.turn, proposal)
        if reason is not None:
            return (yield from self._ended(Outcome.denied(reason)))
        if tool.holds:
            return (yield from self._held(tool))
        begun = yield from self._begun(tool)
        if isinstance(begun, _Prepared):
            yield from self._tell("before", tool, begun)
        return begun

    def _begun(self, tool: Tool) -> Procedure[Outcome | _Prepared]:
        """Write down what is about to be done; an outcome is a no."""
        prepared = yield from self._prepare(tool)
        refuse = tool.options.get("on_capture_failure", "refuse") == "refuse"
        if prepared.trouble is not None and refuse:
            said = f"cannot prepare to undo {tool.name}: {prepared.trouble}"
            return (yield from self._ended(Outcome.failed(said)))
        # The intent is on disk before the tool runs. Without it, a crash inside the tool would
        # leave an effect that no undo knows of.
        yield from self._intend(tool, prepared)
        return prepared

    def close(
        self, tool: Tool, prepared: _Prepared, outcome: Outcome
    ) -> Procedure[Outcome]:
        """Write down how the tool's work ended."""
        # The recorder's window ends first: what is written later is not the tool's work.
        yield from self._tell("after" if outcome.ok else "failed", tool, prepared)
        if not outcome.ok:
            return (yield from self._ended(outcome))
        yield from self._succeeded(tool, prepared, outcome)
        return outcome

    def _held(self, tool: Tool) -> Procedure[Outcome]:
        """Write the call down to be run when its turn has committed."""
        try:
            # A held call runs later from the journal alone, perhaps in another process. Arguments
            # that JSON changes would make it another call.
            json_values.faithful(self.arguments)
        except NotStorableError as error:
            said = f"cannot hold {tool.name}: its arguments are {error}"
            return (yield from self._ended(Outcome.failed(said)))
        delay_s = tool.options.get("delay_s", 0.0)
        prepared = _Prepared(copies_of(self.arguments), ())
        yield from self._intend(
            tool, prepared, kind="held", delay_ns=int(delay_s * _NS_PER_S)
        )
        later = f", {delay_s:g} s later" if delay_s else ""
        return Outcome.held(
            f"Held: {tool.name} has not run yet. It runs when this turn has committed{later}."
        )

    def send(self, tool: Tool) -> Procedure[Outcome | BaseException]:
        """Run a held call now; what the tool raised is returned."""
        prepared = yield from self._begun(tool)
        if isinstance(prepared, Outcome):
            return prepared
        event = yield from ask(self._command(tool, prepared))
        ended = _result(event, tool, self.arguments)
        if isinstance(ended, BaseException):
            yield from self._raised(tool, ended)
        elif ended.ok:
            yield from self._succeeded(tool, prepared, ended)
        else:
            ended = yield from self._ended(ended)
        return ended

    def _prepare(self, tool: Tool) -> Procedure[_Prepared]:
        """Read what must be known before the call: revision, prior values, the world."""
        revision = yield from self._revision()
        captured, trouble = yield from self._captured(tool)
        # An error is stored by its type alone: its text may have a secret that only the inverse
        # names, which is not made yet.
        before = yield from drift.observed(
            tool,
            self.row,
            self.arguments,
            self.secrets,
            lambda error: type(error).__name__,
        )
        paths = tuple(paths_of(self.arguments, tool.options.get("paths", ())))
        files: Mapping[str, str | None] = {}
        if self._is_files_only(tool):
            files = yield from path_images.taken(self.turn.setting.root, paths)
        arguments = copies_of(self.arguments)
        return _Prepared(arguments, paths, captured, trouble, before, revision, files)

    def _captured(self, tool: Tool) -> Procedure[tuple[object, str | None]]:
        """Return a copy of what the tool reads for its inverse, or why there is none."""
        capture = tool.options.get("capture")
        if capture is None:
            return None, None
        extras = tool.extras("capture", key_of(self.row, "do"))
        event = yield from ask(Invoke(capture, (self.arguments,), extras))
        if not isinstance(event, Returned):
            error = event.error if isinstance(event, Raised) else TimeoutError()
            return None, self._said(error)
        try:
            return json_values.copied(event.value), None
        except NotStorableError as error:
            return None, self.secrets.hide_text(f"what was captured {error}")

    def _revision(self) -> Procedure[Revision]:
        provider = self.turn.setting.host.revisions
        if provider is None:
            return None
        value = yield from demand(Invoke(provider.current_revision))
        assert value is None or isinstance(value, int | str), (
            "a revision must be int or str"
        )
        return value

    def _said(self, error: BaseException) -> str:
        return self.secrets.hide_text(json_values.in_words(error))

    def _intend(
        self,
        tool: Tool,
        prepared: _Prepared,
        *,
        kind: str = "intent",
        delay_ns: int = 0,
    ) -> Procedure[None]:
        """Write down what is about to be done, now or (`held`) when the turn has committed."""
        intent: dict[str, object] = {
            "arguments": json_values.shown_arguments(self.arguments, self.secrets),
            "capture": json_values.hidden(prepared.captured, self.secrets),
            "trouble": prepared.trouble,
            "before": prepared.before.text,
            "unseen": prepared.before.trouble,
            "verify": bool(tool.options.get("verify", False)),
            "revision": json_values.hidden(prepared.revision, self.secrets),
            "follow_up": tool.options.get("follow_up"),
            "files_only": self._is_files_only(tool),
            "files": self._images(prepared.files),
            "delay_ns": delay_ns,
            "pivot": tool.options.get("pivot", False),
            "trace": self.watch.reference,
        }
        shown = self.secrets.without(self.arguments)
        altered = json_values.altered(shown, "arguments")
        why = altered or json_values.altered(prepared.captured, "capture")
        if why is None and self.secrets.are_in(prepared.captured):
            why = "stored without a secret"
        values = [shown, prepared.captured]
        # A process that looks at or binds the inverse after a crash would get other values.
        if why is not None:
            why = f"its arguments or what was captured are {why}"
            intent["altered"] = self.secrets.hide_text(why)
            intent["altered_arguments"] = altered is not None
        # A key on the way to a tuple may be hidden.
        elif not self.secrets.are_in(shown) and (
            paths := json_values.tuples_in(values)
        ):
            intent["tuples"] = paths
        text = json_values.lenient(intent, sort_keys=False)
        # What an undo asks later needs the secret arguments, so this process keeps them.
        if REDACTED in text:
            self.turn.setting.given.keep(self.row, prepared.arguments, self.secrets)
        said = yield from self._described(tool, prepared)
        outcome = "held" if kind == "held" else None
        self.row = replace(self.row, intent=text, description=said, outcome=outcome)
        more: list[SagaRow] = [
            *authorization.begun(self.row, tool, self.arguments, self.origin)
        ]
        if kind == "held":
            more.append(held_row(self.row))
        body = {"tool": tool.name, "intent": logged(text)}
        yield from self._write(kind, body, *more)

    def _images(self, files: Mapping[str, str | None]) -> dict[str, str | None]:
        """Return what files were like; of a path with a secret nothing is known later."""
        return {
            self.secrets.hide_text(path): None if self.secrets.are_in(path) else image
            for path, image in files.items()
        }

    def _is_files_only(self, tool: Tool) -> bool:
        """Return whether undoing the turn's files undoes the whole call."""
        only = tool.options.get("files_only", False) and "inverse" not in tool.options
        return only and self.turn.setting.recorder is not None

    def _described(self, tool: Tool, prepared: _Prepared) -> Procedure[str]:
        """Return the text of the entry; a `describe` that fails costs only its words."""
        describe = tool.options.get("describe")
        if describe is None:
            return self.row.description
        event = yield from ask(Invoke(describe, (copies_of(prepared.arguments),)))
        said = json_values.text_of(event.value) if isinstance(event, Returned) else ""
        said = self.secrets.hide_text(said or self.row.description)
        return json_values.storable(said)

    def _execute(self, tool: Tool, prepared: _Prepared) -> Procedure[Outcome]:
        event = yield from ask(self._command(tool, prepared))
        ended = _result(event, tool, self.arguments)
        if isinstance(ended, Outcome):
            return ended
        yield from self.fail(tool, prepared, ended)
        raise ended

    def _command(self, tool: Tool, prepared: _Prepared) -> Invoke[object]:
        extras: dict[str, object] = {}
        if "revision" in tool.takes:
            extras["revision"] = prepared.revision
        if "idempotency_key" in tool.takes:
            extras["idempotency_key"] = key_of(self.row, "do")
        # Inside the span, so that spans of the tool itself become its children.
        function = self.watch.around(tool.function)
        return Invoke(function, kwargs={**self.arguments, **extras})

    def fail(
        self, tool: Tool, prepared: _Prepared, error: BaseException
    ) -> Procedure[None]:
        """Record that the tool raised; its files are reported to the recorder."""
        yield from self._tell("failed", tool, prepared)
        yield from self._raised(tool, error)

    def _tell(self, event: str, tool: Tool, prepared: _Prepared) -> Procedure[None]:
        """Report to the recorder of files that a tool that may write begins or has ended."""
        if tool.reversibility is Reversibility.READ_ONLY:
            return
        paths = tuple(path for path in prepared.paths if not self.secrets.are_in(path))
        told = Tell(event, self.turn.row.id, "", self.row.id, tool.name, paths)
        yield from self.turn.tell(told)

    def _raised(self, tool: Tool, error: BaseException) -> Procedure[None]:
        """Write down that the tool raised, and whether it may have had its effect.

        Files need no probe: the recorder knows when the call ended, so the turn's undo restores
        what it wrote.
        """
        if call_outcome.from_event(Raised(error), tool) is CallKnowledge.NOT_DONE:
            yield from self._ended(Outcome.failed(json_values.in_words(error)))
            return
        moment = yield from now()
        said = self._said(error)
        undo = "skipped" if self._is_files_only(tool) else "none"
        self.row = replace(
            self.row,
            ended_ns=moment,
            outcome=call_outcome.RAISED,
            error=said,
            content=None,
            undo=undo,
        )
        yield from self._write(call_outcome.RAISED, {"error": said})

    def _succeeded(
        self, tool: Tool, prepared: _Prepared, outcome: Outcome
    ) -> Procedure[None]:
        """Write down outcome and inverse together, then the entry."""
        # Outcome and inverse are saved in one transaction. A crash before it leaves the call in
        # doubt, never a success without its inverse.
        after = NOT_OBSERVED
        if "inverse" in tool.options and prepared.trouble is None:
            given = copies_of(prepared.arguments)
            after = yield from drift.observed(tool, self.row, given, self.secrets)
        parts = InverseParts(
            copies_of(prepared.arguments),
            prepared.captured,
            outcome.content,
            after,
            self.secrets,
            prepared.trouble,
            self.turn.setting.host.secret,
        )
        moment = yield from now()
        registry = self.turn.setting.registry
        self.row = yield from bound(
            replace(self.row, ended_ns=moment), tool, parts, registry, moment
        )
        body = {
            "outcome": "success",
            "inverse": logged(self.row.inverse),
            "key": self.row.key,
        }
        yield from self._write("outcome", body)
        entry = UndoEntry(self.row.id, tool.name, self.row.description)
        yield from self.turn.record(entry)

    def _ended(self, outcome: Outcome) -> Procedure[Outcome]:
        """Write down an outcome that did nothing."""
        moment = yield from now()
        content = json_values.content_text(outcome, self.secrets)
        self.row = replace(
            self.row, ended_ns=moment, outcome=outcome.kind.value, content=content
        )
        yield from self._write(
            "outcome", {"outcome": outcome.kind.value, "content": content}
        )
        if outcome.kind is not OutcomeKind.CONFLICT:
            return outcome
        contexts = self.turn.setting.contexts
        # A conflict proves that the cached summaries are out of date.
        contexts.invalidate()
        return replace(outcome, state=(yield from contexts.section()))

    def _write(self, kind: str, body: JsonObject, *more: SagaRow) -> Procedure[None]:
        self.row = self.turn.as_ended(self.row)
        self.turn.calls[self.row.id] = self.row
        moment = yield from now()
        yield Save((self.row, self.turn.note(kind, body, moment, self.row.id), *more))
