"""Toolsets that a PydanticAI program has already, wrapped (AN-40)."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gitshadow.sdk.integrations.runs import Runs
from gitshadow.sdk.turns.async_session import AsyncAgentUndo
from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.values import Inverse, Reversibility
from tests.sdk.integrations.frameworks import Heard, need
from tests.sdk.integrations.toy import Step, saga_rows
from tests.sdk.turns.front import FREE

need("pydantic_ai")

from pydantic_ai import (
    Agent,
    ApprovalRequired,
    DeferredToolRequests,
    DeferredToolResults,
    ModelRetry,
    RunContext,
)
from pydantic_ai.toolsets import FunctionToolset

from gitshadow.sdk.integrations.pydantic_ai import UndoToolset, undo_toolset
from tests.sdk.integrations.through_pydantic_ai import model

CREATE = Step("c1", "draft_create", {"title": "A"})
AGAIN = Step("c2", "draft_create", {"title": "B"})


@pytest.fixture
def drafts() -> list[str]:
    return []


@pytest.fixture
def au(place: Path, drafts: list[str]) -> Iterator[AsyncAgentUndo]:
    """Return a session in which `draft.create` is declared, and done by whoever runs it."""
    tools = ToolRegistry()
    tools.add(
        "draft.create",
        lambda title: None,
        reversibility=Reversibility.REVERSIBLE,
        inverse=lambda arguments, captured, result: Inverse.tool(
            "draft.pop", at=result
        ),
    )
    tools.handler("draft.pop", idempotent=True)(lambda at: drafts.pop(at))
    opened = AsyncAgentUndo.open(str(place), session="s", tools=tools, policy=FREE)
    with closing(opened):
        yield opened


async def test_a_tool_with_a_context_is_taken_back_by_its_declaration(
    au: AsyncAgentUndo, drafts: list[str]
) -> None:
    """TX-05, INV-05: its toolset runs it; the inverse is made from its own result."""
    runs, toolset = Runs(au), FunctionToolset[list[str]]()

    @toolset.tool
    def draft_create(ctx: RunContext[list[str]], title: str) -> int:
        ctx.deps.append(title)
        return len(ctx.deps) - 1

    agent = Agent(
        model(((CREATE,),)), deps_type=list, toolsets=[UndoToolset(toolset, runs)]
    )
    async with runs.turn("go"):
        await agent.run("go", deps=drafts)
    assert drafts == ["A"]
    assert saga_rows(au, "t-1")[0].inverse == {"at": 0}
    assert (await au.undo("t-1")).status == "reversed"
    assert drafts == []


async def test_a_tool_that_wants_another_try_has_done_nothing(
    au: AsyncAgentUndo, drafts: list[str]
) -> None:
    """OUT-01: `ModelRetry` goes on to the framework, which counts the tries."""
    heard: Heard = {}
    runs, toolset = Runs(au), FunctionToolset[None]()

    @toolset.tool_plain
    def draft_create(title: str) -> int:
        if title == "A":
            raise ModelRetry("a longer title, please")
        drafts.append(title)
        return len(drafts) - 1

    agent = Agent(
        model(((CREATE,), (AGAIN,)), heard), toolsets=[UndoToolset(toolset, runs)]
    )
    async with runs.turn("go"):
        await agent.run("go")
    assert heard["c1"] == "a longer title, please"
    assert [call.outcome for call in au.calls("t-1")] == ["failed", "success"]
    assert [entry.tool_call_id for entry in au.entries("t-1")] == ["c2"]


async def test_a_registered_tool_may_want_another_try(au: AsyncAgentUndo) -> None:
    tries: list[int] = []

    @au.runtime.setting.registry.tool("toy.again")
    def again() -> str:
        tries.append(1)
        if len(tries) == 1:
            raise ModelRetry("once more, please")
        return "ok"

    heard: Heard = {}
    steps = (Step("c1", "toy.again", {}),), (Step("c2", "toy.again", {}),)
    runs = Runs(au)
    agent = Agent(model(steps, heard), toolsets=[undo_toolset(runs)])
    async with runs.turn("go"):
        await agent.run("go")
    assert heard == {"c1": "once more, please", "c2": "ok"}
    assert au.turns()[0].status == "committed"


async def test_a_tool_that_asks_first_runs_in_the_turn_of_the_answer(
    au: AsyncAgentUndo, drafts: list[str]
) -> None:
    runs, toolset = Runs(au), FunctionToolset[None]()

    @toolset.tool
    def draft_create(ctx: RunContext[None], title: str) -> int:
        if not ctx.tool_call_approved:
            raise ApprovalRequired
        drafts.append(title)
        return len(drafts) - 1

    agent = Agent(
        model(((CREATE,),)),
        toolsets=[UndoToolset(toolset, runs)],
        output_type=[str, DeferredToolRequests],
    )
    async with runs.turn("asks"):
        asked = await agent.run("go")
    assert isinstance(asked.output, DeferredToolRequests)
    async with runs.turn("answers"):
        await agent.run(
            message_history=asked.all_messages(),
            deferred_tool_results=DeferredToolResults(approvals={"c1": True}),
        )
    assert [turn.status for turn in au.turns()] == ["committed", "committed"]
    assert [call.outcome for call in au.calls("t-1")] == ["failed"]
    assert [call.outcome for call in au.calls("t-2")] == ["success"]
    assert drafts == ["A"]


async def test_a_tool_that_is_declared_nowhere_cannot_be_taken_back(
    au: AsyncAgentUndo,
) -> None:
    """CLS-03."""
    runs, toolset = Runs(au), FunctionToolset[None]()

    @toolset.tool_plain
    def post(text: str) -> str:
        return text

    agent = Agent(
        model(((Step("c1", "post", {"text": "x"}),),)),
        toolsets=[UndoToolset(toolset, runs)],
    )
    async with runs.turn("go"):
        await agent.run("go")
    assert [(row.tool, row.klass) for row in saga_rows(au, "t-1")] == [
        ("tool.post", "undeclared")
    ]
    report = await au.undo("t-1")
    assert [item.reason for item in report.items] == ["undeclared"]
