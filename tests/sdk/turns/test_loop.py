"""LOOP rows, and what of TX, OUT, CAN, EVT and UC needs a model: a scripted one stands in."""

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field

import pytest

from gitshadow.sdk.turns.async_chat import AsyncAgentSession
from gitshadow.sdk.turns.async_session import AsyncAgentUndo
from gitshadow.sdk.turns.chat import AgentSession
from gitshadow.sdk.turns.errors import (
    LimitExceeded,
    RoundTripLimitExceeded,
    SessionBusy,
    TimeLimitExceeded,
    ToolCallLimitExceeded,
    TurnCancelled,
)
from gitshadow.sdk.turns.events import Message
from gitshadow.sdk.turns.host import Context, Host
from gitshadow.sdk.turns.model_io import (
    ModelEvent,
    ModelProvider,
    ModelRequest,
    TextDelta,
    ToolCall,
    Usage,
)
from gitshadow.sdk.turns.policy import Limits, Policy, Proposal, Verdict
from gitshadow.sdk.turns.report import UndoReport
from gitshadow.sdk.turns.values import Json
from tests.sdk.turns.front import FREE, Front
from tests.sdk.turns.test_transaction import FullDisk, Spy
from tests.sdk.turns.world import BoomError, World

Step = ModelEvent | Exception | Callable[[], None]
DONE: list[Step] = [TextDelta("done")]


@dataclass(slots=True)
class Script:
    """A model that follows a script: one list of steps per request; the last one repeats."""

    rounds: list[list[Step]]
    requests: list[ModelRequest] = field(default_factory=list)

    def stream(self, request: ModelRequest) -> Iterator[ModelEvent]:
        at = min(len(self.requests), len(self.rounds) - 1)
        self.requests.append(request)
        return self._played(self.rounds[at])

    def _played(self, steps: list[Step]) -> Iterator[ModelEvent]:
        for step in steps:
            if isinstance(step, Exception):
                raise step
            if callable(step):
                step()
            else:
                yield step


@dataclass(slots=True)
class AsyncScript(Script):
    """The same as an async iterator."""

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:  # type: ignore[override]
        found = Script.stream(self, request)

        async def played() -> AsyncIterator[ModelEvent]:
            for one in found:
                await asyncio.sleep(0)
                yield one

        return played()


class Chat:
    """A loop of either front."""

    def __init__(
        self,
        front: Front,
        *rounds: list[Step],
        policy: Policy = FREE,
        host: Host | None = None,
    ) -> None:
        au = front.session(policy=policy, host=host).au
        kind = AsyncScript if isinstance(au, AsyncAgentUndo) else Script
        self.script = kind(list(rounds))
        provider: ModelProvider = self.script
        more = {"persona": "clerk", "directives": ("be brief",)}
        self.inner: AgentSession | AsyncAgentSession = (
            AsyncAgentSession(au, provider, **more)  # type: ignore[arg-type]
            if isinstance(au, AsyncAgentUndo)
            else AgentSession(au, provider, **more)  # type: ignore[arg-type]
        )
        self.au = au

    async def send(self, text: str = "hello", **more: str) -> str:
        if isinstance(self.inner, AgentSession):
            return self.inner.send(text, **more)  # type: ignore[arg-type]
        return await self.inner.send(text, **more)  # type: ignore[arg-type]

    async def undo_last(self) -> None:
        found = self.inner.undo_last()
        if not isinstance(found, UndoReport):
            await found

    @property
    def shown(self) -> list[tuple[str, str]]:
        """Return role and text of each message."""
        return [(one.role, one.text) for one in self.inner.messages()]


def draft(call_id: str = "c1", title: str = "x") -> ToolCall:
    return ToolCall(call_id, "draft.create", {"title": title})


BROKEN: dict[str, Json] = {"type": "array", "required": ["x"]}


async def test_schema_warnings_never_abort(front: Front) -> None:
    """LOOP-01: and they are kept until the next turn starts."""
    front.tools.tool("bad.tool", schema=BROKEN)(lambda: None)
    chat = Chat(front, DONE)
    assert await chat.send() == "done"
    warnings = chat.inner.last_schema_warnings
    assert warnings == (
        "bad.tool: the schema's type is not object",
        "bad.tool: required but not described: x",
    )
    front.tools.remove("bad.tool")
    assert chat.inner.last_schema_warnings == warnings
    await chat.send()
    assert len(chat.inner.last_schema_warnings) == 0


@pytest.mark.parametrize(
    "error", [ConnectionError("network"), ValueError("bad config"), BoomError("x")]
)
async def test_what_a_provider_raises_ends_the_turn(
    front: Front, world: World, error: Exception
) -> None:
    """LOOP-02, OUT-07: typed, rolled back, the user's words kept, nothing after."""
    chat = Chat(front, [draft()], [TextDelta("par"), error])
    with pytest.raises(type(error)):
        await chat.send("please")
    assert [role for role, _ in chat.shown] == ["user", "call", "result"]
    assert chat.shown[0] == ("user", "please")
    assert world.state["drafts"] == {}
    assert chat.au.turns()[0].status == "rolled_back"


class Weather:
    """A context source."""

    def summary(self) -> str:
        return "rain"


class Broken:
    """A context source that fails."""

    def summary(self) -> str:
        raise OSError("no line")


async def test_a_request_carries_everything(front: Front) -> None:
    """LOOP-03."""
    host = Host(contexts=(Context("weather", Weather()),))
    chat = Chat(front, DONE, host=host)
    await chat.send("one")
    await chat.send("two")
    request = chat.script.requests[1]
    assert request.persona == "clerk"
    assert request.directives == ("be brief",)
    assert request.context == {"weather": "rain"}
    assert request.messages == (
        Message("user", "one"),
        Message("assistant", "done"),
        Message("user", "two"),
    )
    assert "draft.create" in [tool.name for tool in request.tools]


async def test_text_accumulates(front: Front) -> None:
    """LOOP-04, LOOP-09: kept after the end, reset by the next turn."""
    seen: list[str] = []
    chat: Chat

    def look() -> None:
        seen.append(chat.inner.current_text)

    steps: list[Step] = [
        *(look, TextDelta("a"), look, TextDelta("b"), look, TextDelta("c"), look)
    ]
    chat = Chat(front, steps)
    assert await chat.send() == "abc"
    assert seen == ["", "a", "ab", "abc"]
    assert chat.inner.current_text == "abc"
    await chat.send()
    assert seen[4] == ""


async def test_outcomes_go_back_to_the_model(front: Front) -> None:
    """LOOP-05, LOOP-06, OUT-01: as many requests as batches and one more."""
    chat = Chat(
        front,
        [draft("c1")],
        [ToolCall("c2", "toy.soft_fail"), ToolCall("c3", "no.such")],
        DONE,
    )
    await chat.send()
    assert len(chat.script.requests) == 3
    results = [
        (one.call_id, one.text)
        for one in chat.script.requests[2].messages
        if one.role == "result"
    ]
    assert results == [
        ("c1", '{"id": 9}'),
        ("c2", "no such customer"),
        ("c3", "Unknown tool: no.such"),
    ]


@pytest.mark.parametrize("arguments", [["a"], "a", 1])
async def test_arguments_that_are_no_object_are_for_the_model(
    front: Front, arguments: Json
) -> None:
    """They end the call and not the turn."""
    wrong = ToolCall("c1", "draft.create", arguments)  # type: ignore[arg-type]
    chat = Chat(front, [wrong], DONE)
    assert await chat.send() == "done"
    asked, result = chat.shown[1:3]
    assert asked == ("call", json.dumps({"input": arguments}, separators=(",", ":")))
    assert result[1].startswith("cannot call draft.create: ")


async def test_several_batches_are_one_turn(front: Front) -> None:
    """TX-14."""
    spy = Spy()
    rounds: list[list[Step]] = [[draft(f"c{number}")] for number in range(3)]
    chat = Chat(front, *rounds, DONE, host=Host(undo=spy))
    await chat.send()
    assert (spy.log[0][:5], spy.log[1:]) == ("begin", ["add", "add", "add", "commit"])


@pytest.mark.parametrize(
    ("limits", "error"),
    [
        (Limits(tool_calls=3), ToolCallLimitExceeded),
        (Limits(round_trips=3), RoundTripLimitExceeded),
        (Limits(seconds=5), TimeLimitExceeded),
    ],
    ids=["calls", "round trips", "seconds"],
)
async def test_limits_bound_the_whole_turn(
    front: Front, world: World, limits: Limits, error: type[Exception]
) -> None:
    """LOOP-07, AN-16: and the next turn begins with fresh counters."""
    time_ns, number = [0], [0]

    def tick(name: str) -> None:
        time_ns[0] += 1_000_000_000

    class Endless:
        def stream(self, request: ModelRequest) -> Iterator[ModelEvent]:
            number[0] += 1
            asked = request.messages[-1].text == "endless" or number[0] > 1
            return iter([draft(f"c{number[0]}")] if asked else [TextDelta("ok")])

    world.before_call = tick
    host = Host(clock=lambda: time_ns[0])
    chat = Chat(front, DONE, policy=Policy(limits=limits), host=host)
    chat.inner._provider = Endless()
    with pytest.raises(error) as found:
        await chat.send("endless")
    assert isinstance(found.value, LimitExceeded)
    assert getattr(limits, found.value.limit) in (3, 5)
    assert UndoReport.of(found.value) is found.value.undo_report is not None
    assert world.state["drafts"] == {}
    assert world.names.count("draft.create") <= 6
    number[0] = 0
    assert await chat.send("short") == "ok"


@pytest.mark.parametrize("end", ["success", "failure", "cancel"])
async def test_a_loop_is_seen_at_work(front: Front, end: str) -> None:
    """LOOP-08, LOOP-10."""
    seen: list[object] = []
    chat: Chat

    def work(how: str) -> None:
        seen.append((chat.inner.is_running, chat.inner.active_tool_calls))
        if how == "failure":
            raise BoomError("x")
        if how == "cancel":
            chat.inner.cancel()

    front.tools.tool("toy.work")(work)
    chat = Chat(front, [ToolCall("c1", "toy.work", {"how": end})], DONE)
    assert not chat.inner.is_running
    if end == "success":
        await chat.send()
    else:
        expected = BoomError if end == "failure" else TurnCancelled
        with pytest.raises(expected):
            await chat.send()
    assert seen == [(True, ["c1"])]
    assert not chat.inner.is_running
    assert chat.inner.active_tool_calls == []
    assert chat.inner.pending_confirmation is None


async def test_a_question_is_seen_while_it_waits(front: Front) -> None:
    """LOOP-11."""
    policy = Policy(
        guards=(lambda p: Verdict.confirm("sure?"),),
        confirm="prompt",
        confirm_timeout_s=None,
    )
    chat = Chat(front, [draft()], DONE, policy=policy)
    seen: list[Proposal] = []

    def reply() -> None:
        while (found := chat.inner.pending_confirmation) is None:
            time.sleep(0.001)
        seen.append(found)
        chat.inner.answer(True)

    thread = threading.Thread(target=reply, daemon=True)
    thread.start()
    await chat.send()
    thread.join(30)
    assert [one.call_id for one in seen] == ["c1"]
    assert chat.inner.pending_confirmation is None


async def test_usage_is_that_of_the_turn(front: Front) -> None:
    """LOOP-12."""
    chat = Chat(
        front,
        [Usage({"tokens": 1}), Usage({"tokens": 2}), TextDelta("a")],
        [TextDelta("b")],
    )
    await chat.send()
    assert chat.inner.last_usage_report == {"tokens": 2}
    await chat.send()
    assert chat.inner.last_usage_report is None


async def test_a_failing_context_is_a_diagnostic(front: Front) -> None:
    """LOOP-13."""
    contexts = (Context("a", Broken()), Context("weather", Weather()))
    chat = Chat(front, DONE, host=Host(contexts=contexts))
    assert await chat.send() == "done"
    assert chat.inner.last_context_diagnostics == ("a: no line",)
    assert chat.script.requests[0].context == {"weather": "rain"}
    await chat.send()
    assert chat.inner.last_context_diagnostics == ("a: no line",)


async def test_cancelling_stops_between_two_events(front: Front) -> None:
    """CAN-01, CAN-07, CAN-08: the partial text stays, no answer joins the history."""
    chat: Chat
    deltas: list[Step] = [TextDelta(str(number)) for number in range(1, 6)]
    steps = [*deltas[:2], lambda: chat.inner.cancel(), *deltas[2:]]
    chat = Chat(front, steps)
    with pytest.raises(TurnCancelled):
        await chat.send("count")
    assert chat.inner.current_text in ("12", "123")
    assert chat.shown == [("user", "count")]


async def test_cancelling_during_the_last_event_leaves_no_answer(front: Front) -> None:
    """CAN-03."""
    chat: Chat
    chat = Chat(front, [TextDelta("all"), lambda: chat.inner.cancel()])
    with pytest.raises(TurnCancelled):
        await chat.send("go")
    assert chat.shown == [("user", "go")]


async def test_a_late_cancel_of_a_loop_does_nothing(front: Front) -> None:
    """CAN-13."""
    chat = Chat(front, DONE)
    await chat.send()
    chat.inner.cancel()
    assert await chat.send() == "done"
    assert [one.status for one in chat.au.turns()] == ["committed"] * 2


async def test_a_cancelled_task_ends_a_stream_that_stalls(async_front: Front) -> None:
    """CAN-04."""
    stalled = asyncio.Event()

    async def never() -> AsyncIterator[ModelEvent]:
        yield TextDelta("a")
        stalled.set()
        await asyncio.Event().wait()

    class Stalling:
        def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
            return never()

    chat = Chat(async_front, DONE)
    chat.inner._provider = Stalling()
    task = asyncio.create_task(chat.send("go"))
    await stalled.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 30)
    assert chat.inner.current_text == "a"
    assert not chat.inner.is_running
    assert chat.shown == [("user", "go")]
    assert chat.au.turns()[0].status == "rolled_back"


@pytest.mark.parametrize("front", ["sync"], indirect=True)
async def test_an_async_stream_needs_the_async_front(front: Front) -> None:
    chat = Chat(front, DONE)
    chat.inner._provider = AsyncScript([DONE])
    with pytest.raises(TypeError, match="the stream is async: use AsyncAgentUndo"):
        await chat.send("go")
    assert chat.au.turns()[0].status == "rolled_back"


async def test_the_conversation_keeps_completed_exchanges(
    front: Front, world: World
) -> None:
    """TX-12: the user's words and the completed exchange, nothing after the failure."""
    chat = Chat(
        front, [TextDelta("well"), draft("c1")], [ToolCall("c2", "toy.boom")], DONE
    )
    with pytest.raises(BoomError):
        await chat.send("go")
    assert [(one.role, one.call_id) for one in chat.inner.messages()] == [
        ("user", None),
        ("assistant", None),
        ("call", "c1"),
        ("result", "c1"),
    ]
    assert world.state["drafts"] == {}


async def test_an_answer_joins_only_what_commits(front: Front) -> None:
    """TX-12: a host that fails to commit leaves the user's words alone."""
    chat = Chat(front, DONE, host=Host(undo=FullDisk()))
    with pytest.raises(OSError, match="disk full"):
        await chat.send("go")
    assert chat.shown == [("user", "go")]


async def test_a_running_loop_takes_no_second_prompt(front: Front) -> None:
    """AN-13: no message, no turn; the first goes on."""
    errors: list[Exception] = []
    chat: Chat

    def again() -> None:
        try:
            asyncio.run(chat.send("second"))
        except SessionBusy as error:
            errors.append(error)

    def work() -> None:
        thread = threading.Thread(target=again)
        thread.start()
        thread.join(30)
        assert chat.inner.is_running

    front.tools.tool("toy.work")(work)
    chat = Chat(front, [ToolCall("c1", "toy.work")], DONE)
    assert await chat.send("first") == "done"
    assert len(errors) == 1
    assert [text for role, text in chat.shown if role == "user"] == ["first"]
    assert len(chat.au.turns()) == 1


async def test_all_events_of_a_rewound_turn_are_out(front: Front) -> None:
    """EVT-06: the next request holds none of them."""
    chat = Chat(front, DONE, [draft("secret", "s")], [TextDelta("said")], DONE)
    await chat.send("one")
    await chat.send("two")
    assert len(chat.inner.messages()) == 6
    await chat.undo_last()
    await chat.send("three")
    assert [one.text for one in chat.script.requests[-1].messages] == [
        *("one", "done", "three")
    ]


async def test_two_variants_get_the_same_context(front: Front) -> None:
    """UC-04: byte for byte, and both runs are in the history."""
    chat = Chat(front, DONE, [TextDelta("A")], [TextDelta("B")])
    await chat.send("set up")
    await chat.send("try")
    await chat.undo_last()
    await chat.send("try")
    first, second = (
        json.dumps(request.to_json(), sort_keys=True).encode()
        for request in chat.script.requests[1:]
    )
    assert first == second
    said = [event.text for event in chat.au.events() if event.kind == "assistant"]
    assert said == ["done", "A", "B"]


async def test_a_failed_turn_can_be_taken_out_of_the_conversation(
    front: Front, world: World
) -> None:
    """UC-03: rewound, and the error raised again."""
    chat = Chat(front, DONE, [draft()], [BoomError("x")], DONE)
    await chat.send("one")
    with pytest.raises(BoomError):
        await chat.send("two", on_error="rewind")
    assert chat.shown == [("user", "one"), ("assistant", "done")]
    assert world.state["drafts"] == {}
    assert "two" in [event.text for event in chat.au.events()]


async def test_secrets_do_not_reach_the_history(front: Front) -> None:
    """AN-15."""
    front.tools.tool("api.get", secrets=("token",))(lambda token: f"sent {token}")
    call = ToolCall("c1", "api.get", {"token": "tok-4711-x"})
    chat = Chat(front, [call], DONE)
    await chat.send()
    assert "tok-4711-x" not in repr(chat.au.events())
    assert "tok-4711-x" not in repr(chat.script.requests)
