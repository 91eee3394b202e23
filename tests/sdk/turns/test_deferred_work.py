"""What has not run does not count as done: generators, coroutines, and what returns them."""

import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial, wraps

import pytest

from gitshadow.errors import UsageError
from gitshadow.sdk.testing import MemoryStore
from gitshadow.sdk.turns.async_session import AsyncAgentUndo
from gitshadow.sdk.turns.policy import Policy
from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.session import AgentUndo, Turn
from gitshadow.sdk.turns.values import Inverse, Retry
from tests.sdk.turns.front import FREE, Front, Session
from tests.sdk.turns.world import World


def lazy() -> object:
    """Return what has not run."""
    return (one for one in "ab")


async def alazy() -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize("returned", [lazy, alazy])
async def test_a_tool_that_returns_a_generator_fails(
    front: Front, returned: Callable[[], object]
) -> None:
    """It is no success, and nobody knows what it did before that."""
    front.tools.add("toy.rows", lambda: returned())
    session = front.session()
    with pytest.raises(TypeError, match="generator, which has not run yet"):
        await session.called("toy.rows")
    assert [call.outcome for call in session.au.calls("t-1")] == ["raised"]


@pytest.mark.parametrize(
    "option", ["capture", "fingerprint", "probe", "verify", "inverse"]
)
async def test_what_an_option_returns_has_to_have_run(
    front: Front, option: str
) -> None:
    options: dict[str, object] = {
        "reversibility": "reversible",
        "inverse": lambda a, c, r: Inverse.tool("toy.put"),
    }
    front.tools.handler("toy.put", idempotent=True)(lambda: None)
    front.tools.add("toy.do", lambda: None, **{**options, option: lambda *a: lazy()})  # type: ignore[arg-type]
    session = front.session()
    async with session.turn() as turn:
        outcome = await turn.call("toy.do")
    if option == "capture":
        assert "generator, which has not run yet" in outcome.text
    elif option == "probe":
        assert outcome.ok
    else:
        (item,) = (await session.undo("t-1")).items
        assert item.state == "not_reversed"


async def test_a_handler_that_returns_a_generator_has_not_run(front: Front) -> None:
    front.tools.handler("toy.put", idempotent=True)(lambda: lazy())
    front.tools.add(
        "toy.do",
        lambda: None,
        reversibility="reversible",
        inverse=lambda a, c, r: Inverse.tool("toy.put"),
        retry=Retry(attempts=1),
    )
    session = await front.after("toy.do")
    (item,) = (await session.undo("t-1")).items
    assert (item.state, item.reason) == ("not_reversed", "failed")
    assert "generator, which has not run yet" in (item.error or "")


async def test_a_guard_that_returns_a_generator_ends_the_turn(
    front: Front, world: World
) -> None:
    guards = (lambda proposal: lazy(),)
    session = front.session(policy=Policy(guards=guards))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="generator, which has not run yet"):
        await session.called("draft.create", title="a")
    assert world.calls == []


async def waits(*args: object) -> str:
    return "done"


def generates(*args: object) -> Iterator[int]:
    yield 1


async def agenerates(*args: object) -> AsyncIterator[int]:
    yield 1


class Waits:
    """Something that is called and awaited."""

    async def __call__(self) -> None: ...


def passed_on(function: Callable[..., object]) -> Callable[..., object]:
    """Return a decorated function."""

    @wraps(function)
    def run(*args: object) -> object:
        return function(*args)

    return run


def run_now(function: Callable[..., object]) -> Callable[..., object]:
    """Return a plain function that runs a coroutine function to its end."""

    @wraps(function)
    def run(*args: object) -> object:
        made = function(*args)
        assert inspect.iscoroutine(made)
        with pytest.raises(StopIteration) as end:
            made.send(None)
        return end.value.value

    return run


def quick() -> AgentUndo:
    """Return a session in memory."""
    return AgentUndo.with_store(
        MemoryStore(), session="s", tools=ToolRegistry(), policy=FREE
    )


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (waits, "a coroutine function"),
        (partial(waits, 1), "a coroutine function"),
        (Waits(), "a coroutine function"),
        (generates, "a generator function"),
        (partial(generates), "a generator function"),
        (passed_on(generates), "a generator function"),
        (agenerates, "an async generator function"),
    ],
)
def test_a_function_that_runs_later_is_no_turn(
    function: Callable[..., object], said: str
) -> None:
    """Its turn would commit empty, and its body would run outside of it."""
    with quick() as au:
        with pytest.raises(UsageError, match=f"it is {said}"):
            au.undoable(function)
        assert au.turns() == []


def test_a_decorator_that_runs_the_coroutine_is_a_turn() -> None:
    with quick() as au:
        assert au.undoable(run_now(waits))() == "done"
        assert au.turns()[0].status == "committed"


def returned_by(function: Callable[[], object]) -> Callable[[], object]:
    """Return a plain function that passes on what another one returns."""
    return lambda: function()


@pytest.mark.parametrize("returned", [lazy, waits, alazy])
def test_a_turn_whose_function_has_not_run_is_rolled_back(
    returned: Callable[[], object],
) -> None:
    with quick() as au:
        with pytest.raises(UsageError, match="which has not run"):
            au.run_turn("go", lambda turn: returned())
        with pytest.raises(UsageError, match="which has not run"):
            au.undoable(returned_by(returned))()
        assert [turn.status for turn in au.turns()] == ["rolled_back"] * 2


async def test_the_async_front_refuses_generators_alone() -> None:
    au = AsyncAgentUndo.with_store(
        MemoryStore(), session="s", tools=ToolRegistry(), policy=FREE
    )
    async with au:
        for function in (generates, agenerates):
            with pytest.raises(UsageError, match="generator function"):
                au.undoable(function)  # type: ignore[arg-type]
        assert await au.undoable(waits)() == "done"


def test_the_turn_of_a_session_is_still_given_to_its_function() -> None:
    def work(turn: Turn) -> str:
        return turn.id

    with quick() as au:
        assert Session(au).au is au
        assert au.run_turn("go", work) == "t-1"


def with_async_inverse(tools: ToolRegistry) -> ToolRegistry:
    async def build(arguments: object, captured: object, result: object) -> Inverse:
        return Inverse.tool("toy.put")

    tools.handler("toy.put", idempotent=True)(lambda: None)
    tools.add("toy.do", lambda: None, reversibility="reversible", inverse=build)  # type: ignore[arg-type]
    return tools


def test_the_sync_front_refuses_a_tool_whose_inverse_has_to_be_awaited() -> None:
    """Otherwise its call would run, and nothing could undo it."""
    said = "cannot use toy.do in AgentUndo: its inverse is a coroutine function"
    with pytest.raises(UsageError, match=said) as error:
        AgentUndo.with_store(
            MemoryStore(), session="s", tools=with_async_inverse(ToolRegistry())
        )
    assert error.value.hint == "use AsyncAgentUndo"


def test_a_turn_refuses_a_tool_that_was_declared_after_the_session_was_opened() -> None:
    with quick() as au:
        with_async_inverse(au.runtime.setting.registry)
        with pytest.raises(UsageError, match="its inverse is a coroutine function"):
            au.turn("go")
        assert au.turns() == []


async def test_the_async_front_awaits_an_inverse() -> None:
    tools = with_async_inverse(ToolRegistry())
    async with AsyncAgentUndo.with_store(
        MemoryStore(), session="s", tools=tools, policy=FREE
    ) as au:
        async with au.turn("go") as turn:
            await turn.call("toy.do")
        assert (await au.undo("t-1")).status == "reversed"
