"""The small loop: a prompt, requests, tool calls, an answer; optional, and no framework.

Invariant: the prompt is in the history before the first request; the answer is added by the
transaction that commits the turn, so a failed turn has none.
"""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field, replace

from gitshadow.sdk.turns import calls, json_values
from gitshadow.sdk.turns.call_records import CallRequest
from gitshadow.sdk.turns.commands import (
    Invoke,
    Procedure,
    Pull,
    Save,
    StreamEnded,
    demand,
    now,
    pulled,
)
from gitshadow.sdk.turns.events import Message
from gitshadow.sdk.turns.model_io import (
    ModelProvider,
    ModelRequest,
    TextDelta,
    ToolCall,
    Usage,
    definition,
    schema_warnings,
)
from gitshadow.sdk.turns.policy import Proposal
from gitshadow.sdk.turns.turn import TurnCore
from gitshadow.sdk.turns.values import JsonObject, Outcome


@dataclass(slots=True)
class LoopCore:
    """The state of a loop, to read while it runs and after."""

    provider: ModelProvider
    persona: str
    directives: tuple[str, ...]
    turn: TurnCore | None = None
    running: bool = False
    text: str = ""
    usage: JsonObject | None = None
    warnings: tuple[str, ...] = ()
    history: list[Message] = field(default_factory=list)
    _said: str = ""

    def start(self, turn: TurnCore, history: list[Message]) -> None:
        """Begin a turn: clear the state of the previous one."""
        self.turn, self.history = turn, history
        self.text, self._said, self.usage = "", "", None
        turn.setting.contexts.diagnostics.clear()
        self.warnings = tuple(
            warning
            for tool in turn.setting.registry
            for warning in schema_warnings(tool)
        )

    def run(self, prompt: str) -> Procedure[str]:
        """Run requests and calls until the model answers a prompt.

        Raises:
            TurnCancelled, LimitExceeded: between two events, requests or calls.
            Exception: the exception of the provider or a tool.
        """
        turn = self._turn
        yield from turn.say("user", prompt, "user", {})
        self.history.append(Message("user", prompt))
        while True:
            turn.check((yield from now()))
            turn.count_round_trip()
            wanted = yield from self._round()
            if not wanted:
                break
            for call in wanted:
                yield from self._exchange(call)
        turn.conclude("assistant", self._said)
        return self._said

    @property
    def _turn(self) -> TurnCore:
        assert self.turn is not None, "started before"
        return self.turn

    def _round(self) -> Procedure[list[ToolCall]]:
        """Make one request and read its answer; return the calls that the model wants."""
        request = yield from self._request()
        self._said = ""
        stream = yield from demand(Invoke(self.provider.stream, (request,)))
        if not isinstance(stream, Iterator | AsyncIterator):
            raise TypeError("the provider's stream is not an iterator")
        wanted: list[ToolCall] = []
        while True:
            item = yield from pulled(Pull(stream))
            if isinstance(item, StreamEnded):
                break
            self._take(item, wanted)
            self._turn.check_cancelled()
        self._turn.check((yield from now()))
        return wanted

    def _take(self, item: object, wanted: list[ToolCall]) -> None:
        if isinstance(item, TextDelta):
            self.text += item.text
            self._said += item.text
        elif isinstance(item, ToolCall):
            wanted.append(item)
        elif isinstance(item, Usage):
            self.usage = item.report
        else:
            raise TypeError(f"the provider gave a {type(item).__name__}")

    def _request(self) -> Procedure[ModelRequest]:
        setting = self._turn.setting
        context = yield from setting.contexts.summaries()
        return ModelRequest(
            persona=self.persona,
            directives=self.directives,
            context=context,
            messages=tuple(self.history),
            tools=tuple(definition(tool) for tool in setting.registry),
        )

    def _exchange(self, call: ToolCall) -> Procedure[None]:
        """Run a call and add it to the history together with its result."""
        request = CallRequest(call.name, call.arguments, call.id)
        outcome = yield from calls.run(self._turn, request)
        if self._said:
            yield from self._turn.say("assistant", self._said, "assistant", {})
            self.history.append(Message("assistant", self._said))
            self._said = ""
        moment = yield from now()
        pair = self._pair(call, outcome)
        self.history += pair
        yield Save(
            tuple(
                self._turn.event(
                    "assistant" if one.role == "call" else call.name,
                    one.role,
                    one.text,
                    moment,
                    json_values.canonical({"call_id": call.id, "tool": call.name}),
                )
                for one in pair
            )
        )

    def _pair(self, call: ToolCall, outcome: Outcome) -> list[Message]:
        tool = self._turn.setting.registry.find(call.name)
        names = tool.options.get("secrets", ()) if tool is not None else ()
        secrets = json_values.secret_values(call.arguments, names)
        shown = json_values.redact_arguments(call.arguments, names)
        asked = Message("call", json_values.lenient(shown), call.id, call.name)
        result = replace(
            asked, role="result", text=json_values.redact(outcome.text, secrets)
        )
        return [asked, result]


class LoopFront:
    """Read a loop, cancel it, answer its questions."""

    def __init__(self, core: LoopCore) -> None:
        self._core = core

    @property
    def is_running(self) -> bool:
        """Whether a turn is running."""
        return self._core.running

    @property
    def current_text(self) -> str:
        """Return the model's text in this turn so far; kept until the next one starts."""
        return self._core.text

    @property
    def active_tool_calls(self) -> list[str]:
        """Return the ids of the running calls."""
        turn = self._core.turn
        return list(turn.active) if turn is not None else []

    @property
    def pending_confirmation(self) -> Proposal | None:
        """Return the call that waits for an answer, or None."""
        questions = self._core.turn.questions if self._core.turn is not None else []
        return questions[0].proposal if questions else None

    @property
    def last_usage_report(self) -> JsonObject | None:
        """Return the provider's latest usage report in this turn, or None."""
        return self._core.usage

    @property
    def last_schema_warnings(self) -> tuple[str, ...]:
        """Return the problems in schemas of tools; they never end a turn."""
        return self._core.warnings

    @property
    def last_context_diagnostics(self) -> tuple[str, ...]:
        """Return the errors of context sources in this turn."""
        turn = self._core.turn
        return tuple(turn.setting.contexts.diagnostics) if turn is not None else ()

    def cancel(self) -> None:
        """End the turn at the next event, request or call; a turn that has ended is not changed."""
        if self._core.turn is not None:
            self._core.turn.cancel()

    def answer(self, yes: bool) -> None:
        """Answer the pending confirmation, if there is one."""
        questions = self._core.turn.questions if self._core.turn is not None else []
        for question in questions[:1]:
            question.answer(yes)
