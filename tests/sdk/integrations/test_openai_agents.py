"""Function tools that an OpenAI Agents program has already, wrapped (AN-40)."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gitshadow.sdk.integrations.runs import Runs
from gitshadow.sdk.turns.async_session import AsyncAgentUndo
from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.values import Inverse, Json, Reversibility
from tests.sdk.integrations.frameworks import need
from tests.sdk.integrations.toy import Step, saga_rows
from tests.sdk.turns.front import FREE

need("openai_agents")

from agents import Agent, ModelBehaviorError, RunContextWrapper, function_tool

from gitshadow.sdk.integrations.openai_agents import undo_tools, undoable
from tests.sdk.integrations.through_openai_agents import model, run_tools

CREATE = Step("c1", "draft_create", {"title": "A"})


@pytest.fixture
def tools() -> ToolRegistry:
    registry = ToolRegistry()
    registry.add(
        "draft.create",
        lambda title: None,
        reversibility=Reversibility.REVERSIBLE,
        inverse=lambda arguments, captured, result: Inverse.tool(
            "draft.pop", at=result
        ),
    )
    return registry


@pytest.fixture
def au(place: Path, tools: ToolRegistry) -> Iterator[AsyncAgentUndo]:
    opened = AsyncAgentUndo.open(str(place), session="s", tools=tools, policy=FREE)
    with closing(opened):
        yield opened


async def test_a_tool_with_a_context_is_taken_back_by_its_declaration(
    au: AsyncAgentUndo, tools: ToolRegistry
) -> None:
    """TX-05, INV-05: the framework runs it; the inverse is made from its own result."""
    drafts: list[str] = []
    tools.handler("draft.pop", idempotent=True)(lambda at: drafts.pop(at))

    @function_tool
    def draft_create(context: RunContextWrapper[None], title: str) -> int:
        drafts.append(title)
        return len(drafts) - 1

    runs = Runs(au)
    async with runs.turn("go"):
        heard = await run_tools([undoable(draft_create, runs)], ((CREATE,),))
    assert (heard, drafts) == ({"c1": "0"}, ["A"])
    assert saga_rows(au, "t-1")[0].inverse == {"at": 0}
    assert (await au.undo("t-1")).status == "reversed"
    assert drafts == []


async def test_an_error_that_the_tool_tells_the_model_fails_the_call_alone(
    au: AsyncAgentUndo,
) -> None:
    """OUT-01: as `function_tool` has it unless it is told otherwise."""

    @function_tool
    def draft_create(title: str) -> int:
        raise ValueError("no such title")

    runs = Runs(au)
    async with runs.turn("go"):
        heard = await run_tools([undoable(draft_create, runs)], ((CREATE,),))
    assert heard["c1"].startswith("An error occurred")
    assert [call.outcome for call in au.calls("t-1")] == ["failed"]
    assert au.turns()[0].status == "committed"


@pytest.mark.parametrize(
    "error",
    [
        ValueError("no such title"),
        ModelBehaviorError("Invalid JSON input for tool inner: no"),
    ],
)
async def test_an_error_that_ends_the_run_ends_the_turn(
    au: AsyncAgentUndo, error: Exception
) -> None:
    """OUT-06: the framework wraps it; the tool's own error comes out, also a model's inside it."""

    @function_tool(failure_error_function=None)
    def draft_create(title: str) -> int:
        raise error

    runs = Runs(au)
    with pytest.raises(type(error), match=str(error)):
        async with runs.turn("go"):
            await run_tools([undoable(draft_create, runs)], ((CREATE,),))
    assert [call.outcome for call in au.calls("t-1")] == ["raised"]
    assert au.turns()[0].status == "partially_rolled_back"


async def test_arguments_that_the_framework_refuses_are_for_the_model(
    au: AsyncAgentUndo,
) -> None:
    """OUT-01: also where any other error of the tool ends the run."""

    @function_tool(failure_error_function=None)
    def draft_create(title: str) -> int:
        raise AssertionError("it does not run")

    runs = Runs(au)
    wrong = Step("c1", "draft_create", {"title": [1]})
    async with runs.turn("go"):
        heard = await run_tools([undoable(draft_create, runs)], ((wrong,),))
    assert heard["c1"].startswith("Invalid JSON input for tool draft_create")
    assert [call.outcome for call in au.calls("t-1")] == ["failed"]


async def test_a_tool_with_a_schema_of_its_own_shows_that(
    au: AsyncAgentUndo, tools: ToolRegistry
) -> None:
    schema: dict[str, Json] = {
        "type": "object",
        "properties": {"text": {"type": "string"}},
    }
    said: list[object] = []
    tools.add("slack.post", lambda text: said.append(text), schema=schema)
    runs = Runs(au)
    made = {tool.name: tool for tool in undo_tools(runs)}
    assert made["slack_post"].params_json_schema == schema
    async with runs.turn("go"):
        await run_tools([*made.values()], ((Step("c1", "slack_post", {"text": "x"}),),))
    assert said == ["x"]


async def test_calls_of_an_agent_that_is_a_tool_belong_to_the_turn(
    au: AsyncAgentUndo, tools: ToolRegistry
) -> None:
    """AN-30: the outer call is at work until the inner ones have ended."""
    tools.tool("toy.read", reversibility=Reversibility.READ_ONLY)(lambda: "text")
    runs = Runs(au)
    read = Step("c2", "toy.read", {})
    inner = Agent(name="inner", model=model(((read,),)), tools=[*undo_tools(runs)])
    delegate = undoable(inner.as_tool("delegate", "Ask another agent"), runs)
    steps = ((Step("c1", "delegate", {"input": "read"}),),)
    async with runs.turn("go"):
        heard = await run_tools([delegate], steps)
    assert heard == {"c1": "done"}
    assert [(call.id, call.tool) for call in au.calls("t-1")] == [
        ("c1", "tool.delegate"),
        ("c2", "toy.read"),
    ]
