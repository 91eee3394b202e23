"""AN-40: LangGraph's `invoke` and `stream` leave what a script in this process leaves."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gitshadow.errors import UsageError
from gitshadow.sdk.integrations.runs import SyncRuns
from gitshadow.sdk.turns.errors import SessionBusy
from gitshadow.sdk.turns.policy import Policy
from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.session import AgentUndo
from tests.sdk.integrations.frameworks import ONE_BY_ONE, TOGETHER, need
from tests.sdk.integrations.test_frameworks import in_process, steps_of
from tests.sdk.integrations.toy import SCRIPT, Step, saga_rows
from tests.sdk.turns.front import FREE
from tests.sdk.turns.world import BoomError, World, registry
from tests.support.places import recorded

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
def world(place: Path) -> World:
    return World.make(place / "world")


@pytest.fixture
def tools(world: World) -> ToolRegistry:
    return registry(world)


@pytest.fixture
def au(place: Path, tools: ToolRegistry) -> Iterator[AgentUndo]:
    opened = AgentUndo.open(str(place), session="s", tools=tools, policy=FREE)
    with closing(opened):
        yield opened


def test_the_log_is_that_of_this_process(au: AgentUndo, tmp_path: Path) -> None:
    """AN-40, EN-01: intents, outcomes, inverses, keys and the framework's own call ids."""
    runs = SyncRuns(au)
    with runs.turn("go"):
        run(runs, ONE_BY_ONE)
    log, rows = in_process(recorded(tmp_path / "elsewhere"), ONE_BY_ONE)
    assert steps_of(au) == log
    assert saga_rows(au, "t-1") == rows


def test_calls_asked_for_together_are_in_order(au: AgentUndo, tmp_path: Path) -> None:
    """AN-08: the node would start a thread for each, in no order."""
    runs = SyncRuns(au)
    with runs.turn("go"):
        run(runs, TOGETHER)
    _, rows = in_process(recorded(tmp_path / "elsewhere"), TOGETHER)
    assert saga_rows(au, "t-1") == rows
    assert [call.id for call in au.calls("t-1")] == [step.call for step in SCRIPT]


def test_a_stream_is_a_turn_too(au: AgentUndo, world: World) -> None:
    """AN-40: `stream` gives its parts while the turn is at work."""
    runs = SyncRuns(au)
    graph = graph_of(undo_node(runs), model(((CREATE,),)), {}).compile()
    with runs.turn("go"):
        parts = list(graph.stream(MessagesState(messages=[HumanMessage("go")])))
    assert [list(part) for part in parts] == [["model"], ["tools"], ["model"]]
    assert au.undo("t-1").status == "reversed"
    assert world.state["drafts"] == {}


def test_a_model_reads_what_did_not_work(au: AgentUndo) -> None:
    """OUT-01, OUT-04: a failure and a conflict are text, and the turn goes on."""
    runs = SyncRuns(au)
    failing = ((Step("c1", "toy.soft_fail", {}),), (Step("c2", "toy.stale", {}),))
    with runs.turn("go"):
        heard = run(runs, failing)
    assert heard == {"c1": "no such customer", "c2": "Conflict: M\nState delta: D"}
    assert au.turns()[0].status == "committed"


@pytest.mark.parametrize("tool", ["toy.checked", "toy.unchecked"])
@pytest.mark.parametrize("arguments", [{}, {"amount": "many", "why": 1}])
def test_arguments_that_do_not_fit_are_for_the_model(
    au: AgentUndo, tools: ToolRegistry, tool: str, arguments: dict[str, object]
) -> None:
    """OUT-01: nothing runs, the model reads why, and the turn goes on."""
    counted: list[int] = []

    def count(amount: int) -> None:
        counted.append(amount)

    tools.add("toy.checked", count)
    # LangChain checks no arguments against a schema that is JSON.
    tools.add("toy.unchecked", count, schema={"type": "object"})
    runs = SyncRuns(au)
    with runs.turn("go"):
        heard = run(runs, ((Step("c1", tool, arguments),),))
    assert "c1" in heard
    assert counted == []
    assert au.turns()[0].status == "committed"


def test_a_denied_call_does_not_run(
    place: Path, tools: ToolRegistry, world: World
) -> None:
    """OUT-02: the model reads why."""
    mail = ((Step("c1", "mail.send", {"to": "bob"}),),)
    policy = Policy(non_reversible="deny")
    opened = AgentUndo.open(str(place), session="s", tools=tools, policy=policy)
    with closing(opened) as au:
        runs = SyncRuns(au)
        with runs.turn("go"):
            heard = run(runs, mail)
    assert heard == {"c1": "mail.send cannot be undone"}
    assert world.calls == []


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


def test_a_call_that_was_undone_is_run_by_its_replay(
    au: AgentUndo, world: World
) -> None:
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


def test_a_second_turn_at_once_is_refused(au: AgentUndo, world: World) -> None:
    """AN-13: the one at work goes on."""
    runs = SyncRuns(au)
    with runs.turn("one"):
        with pytest.raises(SessionBusy), runs.turn("two"):
            raise AssertionError("the block must not run")
        run(runs, ((CREATE,),))
    assert [(turn.label, turn.status) for turn in au.turns()] == [("one", "committed")]


def test_a_run_outside_a_turn_does_nothing(au: AgentUndo, world: World) -> None:
    with pytest.raises(UsageError, match="no turn is running"):
        run(SyncRuns(au), ((CREATE,),))
    assert world.calls == []


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
