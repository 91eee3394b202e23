"""A small loop of requests and tool calls, for programs that use no framework."""

from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import replace
from typing import Any, Generic, TypeVar

from gitshadow.sdk.turns import calls, json_values
from gitshadow.sdk.turns.base_session import SessionFront
from gitshadow.sdk.turns.call_records import CallRequest
from gitshadow.sdk.turns.commands import (
    Invoke,
    Procedure,
    Save,
    demand,
    now,
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
from gitshadow.sdk.turns.redaction import Secrets
from gitshadow.sdk.turns.turn import TurnCore
from gitshadow.sdk.turns.values import JsonObject, Outcome

_END = object()


_A = TypeVar("_A", bound=SessionFront[Any, Any])
LABEL_CHARS = 60
"""How much of a prompt is the label of its turn."""


class ChatLoop(Generic[_A]):
    """The loop of one turn after the other, and its state; both fronts inherit from it.

    Attributes:
        is_running: Whether a turn is running.
        current_text: The model's text in this turn so far; kept until the next one starts.
        last_usage_report: The provider's latest usage report in this turn, or None.
        last_schema_warnings: The problems in schemas of tools; they never end a turn.
    """

    def __init__(
        self,
        au: _A,
        provider: ModelProvider,
        *,
        persona: str = "",
        directives: tuple[str, ...] = (),
    ) -> None:
        self.is_running = False
        self.current_text = ""
        self.last_usage_report: JsonObject | None = None
        self.last_schema_warnings: tuple[str, ...] = ()
        self._au = au
        self._provider = provider
        self._persona = persona
        self._directives = directives
        self._turn: TurnCore | None = None
        self._history: list[Message] = []
        self._said = ""

    @property
    def active_tool_calls(self) -> list[str]:
        """Return the ids of the running calls."""
        return self._turn.active if self._turn is not None else []

    @property
    def pending_confirmation(self) -> Proposal | None:
        """Return the call that waits for an answer, or None."""
        questions = self._turn.questions if self._turn is not None else []
        return questions[0].proposal if questions else None

    @property
    def last_context_diagnostics(self) -> tuple[str, ...]:
        """Return the errors of context sources in this turn."""
        turn = self._turn
        return tuple(turn.setting.contexts.diagnostics) if turn is not None else ()

    def messages(self) -> list[Message]:
        """Return the conversation as messages to a model."""
        return self._au.messages()

    def cancel(self) -> None:
        """End the turn at the next event, request or call; a turn that has ended is not changed."""
        if self._turn is not None:
            self._turn.cancel()

    def answer(self, yes: bool) -> None:
        """Answer the pending confirmation, if there is one."""
        questions = self._turn.questions if self._turn is not None else []
        for question in questions[:1]:
            question.answer(yes)

    def _run(
        self, turn: TurnCore, history: list[Message], prompt: str
    ) -> Procedure[str]:
        """Run requests and calls until the model answers a prompt.

        Raises:
            TurnCancelled, LimitExceeded: between two events, requests or calls.
            Exception: the exception of the provider or a tool.
        """
        self._turn, self._history = turn, history
        self.current_text, self._said, self.last_usage_report = "", "", None
        turn.setting.contexts.diagnostics.clear()
        self.last_schema_warnings = tuple(
            warning
            for tool in turn.setting.registry
            for warning in schema_warnings(tool)
        )
        # Saved before the first request, so that a failed turn still shows what was asked.
        yield from turn.say("user", prompt, "user", {})
        self._history.append(Message("user", prompt))
        while True:
            turn.check((yield from now()))
            turn.count_round_trip()
            wanted = yield from self._round(turn)
            if not wanted:
                break
            for call in wanted:
                yield from self._exchange(turn, call)
        # The transaction that commits the turn adds the answer, so a failed turn has none.
        turn.conclude("assistant", self._said)
        return self._said

    def _round(self, turn: TurnCore) -> Procedure[list[ToolCall]]:
        """Make one request and read its answer; return the calls that the model wants."""
        request = yield from self._request(turn)
        self._said = ""
        begin = Invoke(self._provider.stream, (request,), streams=True)
        stream = yield from demand(begin)
        if not isinstance(stream, Iterator | AsyncIterator):
            raise TypeError("the provider's stream is not an iterator")
        wanted: list[ToolCall] = []
        while True:
            item = yield from demand(Invoke(_next, (stream,)))
            if item is _END:
                break
            self._take(item, wanted)
            # A long answer can be cancelled between two of its pieces.
            turn.check_cancelled()
        turn.check((yield from now()))
        return wanted

    def _take(self, item: object, wanted: list[ToolCall]) -> None:
        if isinstance(item, TextDelta):
            self.current_text += item.text
            self._said += item.text
        elif isinstance(item, ToolCall):
            given: object = item.arguments or {}
            # A list or a text that a model wrote instead does not fit, which the model then reads.
            fit = given if isinstance(given, Mapping) else {"input": given}
            wanted.append(replace(item, arguments=fit))
        elif isinstance(item, Usage):
            self.last_usage_report = item.report
        else:
            raise TypeError(f"the provider gave a {type(item).__name__}")

    def _request(self, turn: TurnCore) -> Procedure[ModelRequest]:
        setting = turn.setting
        context = yield from setting.contexts.summaries()
        return ModelRequest(
            persona=self._persona,
            directives=self._directives,
            context=context,
            messages=tuple(self._history),
            tools=tuple(definition(tool) for tool in setting.registry),
        )

    def _exchange(self, turn: TurnCore, call: ToolCall) -> Procedure[None]:
        """Run a call and add it to the history together with its result."""
        request = CallRequest(call.name, call.arguments, call.id)
        outcome = yield from calls.run(turn, request)
        if self._said:
            yield from turn.say("assistant", self._said, "assistant", {})
            self._history.append(Message("assistant", self._said))
            self._said = ""
        moment = yield from now()
        pair = _pair(turn, call, outcome)
        self._history += pair
        yield Save(
            tuple(
                turn.event(
                    "assistant" if one.role == "call" else call.name,
                    one.role,
                    one.text,
                    moment,
                    json_values.canonical({"call_id": call.id, "tool": call.name}),
                )
                for one in pair
            )
        )


def _next(stream: Iterator[object] | AsyncIterator[object]) -> object:
    """Return the next item of a stream, `_END` after the last; of an async one an awaitable."""
    return next(stream, _END) if isinstance(stream, Iterator) else anext(stream, _END)


# What the error calls it if the sync front is given an async stream.
_next.__qualname__ = "the stream"


def _pair(turn: TurnCore, call: ToolCall, outcome: Outcome) -> list[Message]:
    tool = turn.setting.registry.find(call.name)
    names = tool.options.get("secrets", ()) if tool is not None else ()
    secrets = Secrets.of(call.arguments, names)
    shown = json_values.shown_arguments(call.arguments, secrets)
    asked = Message("call", json_values.lenient(shown), call.id, call.name)
    result = replace(asked, role="result", text=secrets.hide_text(outcome.text))
    return [asked, result]
