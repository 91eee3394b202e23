"""AN-40: LangGraph's `invoke` and `stream` leave what a script in this process leaves."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gitshadow.errors import UsageError
from gitshadow.sdk.integrations.runs import SyncRuns
from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.session import AgentUndo
from tests.sdk.integrations.frameworks import need
from tests.sdk.integrations.toy import Step
from tests.sdk.turns.front import FREE
from tests.sdk.turns.world import BoomError, World

need("langgraph")

from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.pregel import Pregel
from langgraph.types import Command, interrupt

from gitshadow.sdk.integrations.langgraph import undo_node
from tests.sdk.integrations.through_langgraph import model
from tests.sdk.integrations.through_langgraph_sync import graph_of, run

CREATE = Step("c1", "draft.create", {"title": "A"})
CHARGE = Step("c2", "card.charge", {"amount": 5})
BOOM = Step("c3", "toy.boom", {})
THREAD = RunnableConfig(configurable={"thread_id": "1"})


@pytest.fixture
def au(place: Path, tools: ToolRegistry) -> Iterator[AgentUndo]:
    opened = AgentUndo.open(str(place), session="s", tools=tools, policy=FREE)
    with closing(opened):
        yield opened


def test_a_stream_is_a_turn_too(au: AgentUndo, world: World) -> None:
    """AN-40: `stream` gives its parts while the turn is at work."""
    runs = SyncRuns(au)
    graph = graph_of(undo_node(runs), model(((CREATE,),)), {}).compile()
    with runs.turn("go"):
        parts = list(graph.stream(MessagesState(messages=[HumanMessage("go")])))
    assert [list(part) for part in parts] == [["model"], ["tools"], ["model"]]
    assert au.undo("t-1").status == "reversed"
    assert world.state["drafts"] == {}


def test_a_tool_that_raises_rolls_the_run_back(au: AgentUndo, world: World) -> None:
    """TX-07, TX-10, OUT-06: the tool's own error comes out, with the report."""
    runs = SyncRuns(au)
    with pytest.raises(BoomError) as caught, runs.turn("go"):
        run(runs, ((CREATE, CHARGE, BOOM, Step("c4", "draft.create", {})),))
    assert world.inverses == ["undo:card", "undo:draft"]
    report = caught.value.undo_report  # type: ignore[attr-defined]
    assert report.counts["reversed"] == report.counts["compensated"] == 1
    assert [call.id for call in au.calls("t-1")] == ["c1", "c2", "c3"]


def test_an_interrupt_is_no_failure(au: AgentUndo) -> None:
    """The graph is resumed in a turn of its own, and the tool runs once."""
    done: list[str] = []

    @tool
    def draft_create(title: str) -> int:
        """Create a draft."""
        if interrupt("may I?") == "yes":
            done.append(title)
        return 1

    runs = SyncRuns(au)
    graph = graph_of(undo_node(runs, [draft_create]), model(((CREATE,),)), {}).compile(
        checkpointer=InMemorySaver()
    )
    with runs.turn("asks"):
        graph.invoke(MessagesState(messages=[HumanMessage("go")]), THREAD)
    assert done == []
    with runs.turn("answers"):
        graph.invoke(Command(resume="yes"), THREAD)
    assert done == ["A"]
    assert [call.outcome for call in au.calls("t-1")] == ["failed"]
    assert [call.outcome for call in au.calls("t-2")] == ["success"]


def test_a_replayed_call_is_not_run_again(au: AgentUndo, world: World) -> None:
    """AN-28: a graph that replays a step in the turn of its first run reads a duplicate."""
    runs = SyncRuns(au)
    with runs.turn("go"):
        run(runs, ((CREATE,),))
        heard = run(runs, ((CREATE,),))
    said = "draft_create was already run in this turn as c1; it was not run again"
    assert (heard, world.names) == ({"c1": said}, ["draft.create"])


def charging(runs: SyncRuns) -> "Pregel[Any, Any, Any, Any]":
    """Return a graph that charges the card, and keeps checkpoints."""
    scripted = model(((CHARGE,),))
    return graph_of(undo_node(runs), scripted, {}).compile(checkpointer=InMemorySaver())


def before_tools(graph: "Pregel[Any, Any, Any, Any]") -> RunnableConfig:
    """Return the checkpoint at which the model has asked for the charge."""
    return next(
        one.config for one in graph.get_state_history(THREAD) if one.next == ("tools",)
    )


def test_a_call_replayed_from_a_checkpoint_in_another_turn_is_not_run_again(
    au: AgentUndo, world: World
) -> None:
    """AN-28: the charge was not undone, so going back in the graph does not repeat it."""
    runs = SyncRuns(au)
    graph = charging(runs)
    with runs.turn("go"):
        graph.invoke(MessagesState(messages=[HumanMessage("go")]), THREAD)
    with runs.turn("replay"):
        graph.invoke(None, before_tools(graph))
    assert world.state["charges"] == ["ch_1"]
    (call,) = au.calls("t-2")
    assert call.outcome == "duplicate"
    assert "This is a replay of that call" in str(call.content)


def test_a_call_that_was_undone_is_run_by_its_replay(au: AgentUndo) -> None:
    runs = SyncRuns(au)
    graph = charging(runs)
    with runs.turn("go"):
        graph.invoke(MessagesState(messages=[HumanMessage("go")]), THREAD)
    au.undo("t-1")
    with runs.turn("replay"):
        graph.invoke(None, before_tools(graph))
    assert [call.outcome for call in au.calls("t-2")] == ["success"]


def test_a_second_call_of_the_same_id_is_no_replay(au: AgentUndo, world: World) -> None:
    """Ids of a model may repeat; another message is another call."""
    runs = SyncRuns(au)
    saver = InMemorySaver()
    for label in ("one", "two"):
        graph = graph_of(undo_node(runs), model(((CHARGE,),)), {}).compile(
            checkpointer=saver
        )
        with runs.turn(label):
            graph.invoke(MessagesState(messages=[HumanMessage(label)]), THREAD)
    assert [call.outcome for call in au.calls("t-2")] == ["success"]
    assert len(world.names) == 2


def test_a_tool_may_run_another_agent(
    au: AgentUndo, tools: ToolRegistry, world: World
) -> None:
    """AN-30: its calls come while the outer one waits for them."""
    runs = SyncRuns(au)
    tools.tool("sub.agent")(lambda: str(run(runs, ((CREATE,), (CHARGE,)))))
    with runs.turn("go"):
        run(runs, ((Step("c0", "sub.agent", {}),),))
    assert [call.id for call in au.calls("t-1")] == ["c0", "c1", "c2"]
    assert world.names == ["draft.create", "card.charge"]


async def test_a_graph_that_is_awaited_is_refused(au: AgentUndo, world: World) -> None:
    call = {"name": "draft_create", "args": {"title": "A"}, "id": "c1"}
    graph = StateGraph(MessagesState)
    runs = SyncRuns(au)
    graph.add_node("tools", undo_node(runs))
    graph.add_edge(START, "tools")
    start = MessagesState(messages=[AIMessage("", tool_calls=[call])])
    with runs.turn("go"), pytest.raises(UsageError, match="synchronous"):
        await graph.compile().ainvoke(start)
    assert world.calls == []


def test_an_async_tool_is_refused(au: AgentUndo, tools: ToolRegistry) -> None:
    """TX-05: nobody would await it."""

    @tools.tool("lane.wait")
    async def wait() -> None:
        """Wait."""

    runs = SyncRuns(au)
    with (
        pytest.raises(TypeError, match="is async: use AsyncAgentUndo"),
        runs.turn("go"),
    ):
        run(runs, ((Step("c1", "lane.wait", {}),),))
