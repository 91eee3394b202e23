"""Tools that a LangGraph program has already, in a node around which the turn stands (AN-40)."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gitshadow.errors import UsageError
from gitshadow.sdk.integrations.runs import Runs
from gitshadow.sdk.turns.async_session import AsyncAgentUndo
from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.values import Inverse, Reversibility
from tests.sdk.integrations.frameworks import need
from tests.sdk.integrations.toy import Step, saga_rows
from tests.sdk.turns.front import FREE

need("langgraph")

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, ToolException, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import ToolNode
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command, interrupt

from gitshadow.sdk.integrations.langgraph import (
    Answer,
    Execute,
    around_calls,
    undo_node,
    undo_tools,
)
from tests.sdk.integrations.through_langgraph import graph_of, model, run_node

CREATE = Step("c1", "draft_create", {"title": "A"})
THREAD = RunnableConfig(configurable={"thread_id": "1"})


@pytest.fixture
def drafts() -> list[str]:
    return []


@pytest.fixture
def au(place: Path, drafts: list[str]) -> Iterator[AsyncAgentUndo]:
    tools = ToolRegistry()
    tools.add(
        "draft.create",
        lambda title: None,
        reversibility=Reversibility.REVERSIBLE,
        inverse=lambda arguments, captured, result: Inverse.tool(
            "draft.remove", title=result
        ),
    )
    tools.handler("draft.remove", idempotent=True)(lambda title: drafts.remove(title))
    opened = AsyncAgentUndo.open(str(place), session="s", tools=tools, policy=FREE)
    with closing(opened):
        yield opened


@pytest.fixture
def draft_create(drafts: list[str]) -> BaseTool:
    @tool
    def draft_create(title: str) -> str:
        """Create a draft."""
        drafts.append(title)
        return title

    return draft_create


def asking(
    runs: Runs, drafts: list[str]
) -> "CompiledStateGraph[MessagesState, None, MessagesState, MessagesState]":
    """Return a graph whose tool asks before it creates a draft."""

    @tool
    def draft_create(title: str) -> str:
        """Create a draft."""
        if interrupt("may I?") == "yes":
            drafts.append(title)
        return title

    graph = graph_of(undo_node(runs, [draft_create]), model(((CREATE,),)), {})
    return graph.compile(checkpointer=InMemorySaver())


async def test_a_tool_is_taken_back_by_its_declaration(
    au: AsyncAgentUndo, drafts: list[str], draft_create: BaseTool
) -> None:
    """TX-05, INV-05."""
    runs = Runs(au)
    async with runs.turn("go"):
        heard = await run_node(undo_node(runs, [draft_create]), ((CREATE,),))
    assert (heard, drafts) == ({"c1": "A"}, ["A"])
    assert saga_rows(au, "t-1")[0].inverse == {"title": "A"}
    assert (await au.undo("t-1")).status == "reversed"
    assert drafts == []


async def test_an_artifact_is_the_result(au: AsyncAgentUndo, drafts: list[str]) -> None:
    """INV-05: what the model reads is not what the inverse is made from."""

    @tool(response_format="content_and_artifact")
    def draft_create(title: str) -> tuple[str, str]:
        """Create a draft."""
        drafts.append(title)
        return "a draft was made", title

    runs = Runs(au)
    async with runs.turn("go"):
        heard = await run_node(undo_node(runs, [draft_create]), ((CREATE,),))
    assert heard == {"c1": "a draft was made"}
    assert saga_rows(au, "t-1")[0].inverse == {"title": "A"}


async def test_an_error_that_the_tool_tells_the_model_fails_the_call_alone(
    au: AsyncAgentUndo,
) -> None:
    """OUT-01."""

    @tool
    def draft_create(title: str) -> str:
        """Create a draft."""
        raise ToolException("no such title")

    draft_create.handle_tool_error = True
    runs = Runs(au)
    async with runs.turn("go"):
        heard = await run_node(undo_node(runs, [draft_create]), ((CREATE,),))
    assert heard == {"c1": "no such title"}
    assert [call.outcome for call in au.calls("t-1")] == ["failed"]


async def test_a_node_that_shows_errors_to_the_model_goes_no_further(
    au: AsyncAgentUndo, drafts: list[str]
) -> None:
    """OUT-06: whatever becomes of the error, no other call starts, and it comes out."""
    tools = au.runtime.setting.registry

    @tools.tool("toy.boom")
    def boom() -> None:
        raise ZeroDivisionError("boom")

    tools.tool("toy.late")(lambda: drafts.append("late"))
    runs = Runs(au)
    node = ToolNode(
        undo_tools(runs), awrap_tool_call=around_calls(runs), handle_tool_errors=True
    )
    steps = (Step("c1", "toy.boom", {}),), (Step("c2", "toy.late", {}),)
    with pytest.raises(ZeroDivisionError):
        async with runs.turn("go"):
            await run_node(node, steps)
    assert [call.outcome for call in au.calls("t-1")] == ["raised"]
    assert drafts == []


async def test_an_interrupt_is_no_failure(
    au: AsyncAgentUndo, drafts: list[str]
) -> None:
    """The graph is resumed in a turn of its own, and the tool runs once."""
    runs = Runs(au)
    graph = asking(runs, drafts)
    async with runs.turn("asks"):
        await graph.ainvoke(MessagesState(messages=[HumanMessage("go")]), THREAD)
    assert drafts == []
    async with runs.turn("answers"):
        await graph.ainvoke(Command(resume="yes"), THREAD)
    assert drafts == ["A"]
    assert [turn.status for turn in au.turns()] == ["committed", "committed"]
    assert [call.outcome for call in au.calls("t-1")] == ["failed"]
    assert [call.outcome for call in au.calls("t-2")] == ["success"]


async def test_a_graph_resumed_in_the_same_turn_tries_again_under_an_id_of_its_own(
    au: AsyncAgentUndo, drafts: list[str]
) -> None:
    runs = Runs(au)
    graph = asking(runs, drafts)
    async with runs.turn("go"):
        await graph.ainvoke(MessagesState(messages=[HumanMessage("go")]), THREAD)
        await graph.ainvoke(Command(resume="yes"), THREAD)
    assert [(call.id, call.outcome) for call in au.calls("t-1")] == [
        ("c1", "failed"),
        ("c1~2", "success"),
    ]


async def test_a_replayed_call_is_not_run_again(
    au: AsyncAgentUndo, drafts: list[str], draft_create: BaseTool
) -> None:
    """AN-28: a graph that replays a step in the turn of its first run reads a duplicate."""
    runs = Runs(au)
    node = undo_node(runs, [draft_create])
    async with runs.turn("go"):
        await run_node(node, ((CREATE,),))
        heard = await run_node(node, ((CREATE,),))
    assert heard == {
        "c1": "draft_create was already run in this turn as c1; it was not run again"
    }
    assert drafts == ["A"]


async def test_a_replayed_call_that_is_held_is_sent_once(au: AsyncAgentUndo) -> None:
    """AN-19: the node says that it is no error, so that no graph tries again."""
    sent: list[str] = []
    au.runtime.setting.registry.tool("mail.later", hold=True)(
        lambda to: sent.append(to)
    )
    runs = Runs(au)
    said: list[str] = []
    around = around_calls(runs)

    async def listening(request: ToolCallRequest, execute: Execute) -> Answer:
        answer = await around(request, execute)
        assert isinstance(answer, ToolMessage)
        said.append(answer.status)
        return answer

    node = ToolNode(undo_tools(runs), awrap_tool_call=listening)
    steps = ((Step("c1", "mail.later", {"to": "bob"}),),)
    async with runs.turn("go"):
        await run_node(node, steps)
        await run_node(node, steps)
    assert said == ["success", "error"]
    assert sent == ["bob"]


def test_a_graph_that_does_not_wait_is_refused(
    au: AsyncAgentUndo, drafts: list[str], draft_create: BaseTool
) -> None:
    call = {"name": "draft_create", "args": {"title": "A"}, "id": "c1"}
    graph = StateGraph(MessagesState)
    graph.add_node("tools", undo_node(Runs(au), [draft_create]))
    graph.add_edge(START, "tools")
    start = MessagesState(messages=[AIMessage("", tool_calls=[call])])
    with pytest.raises(UsageError, match="asynchronous"):
        graph.compile().invoke(start)
    assert drafts == []
