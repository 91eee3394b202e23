"""The frameworks through which one script runs, each with a scripted model in its own module."""

import importlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from gitshadow.sdk.integrations.runs import Runs, SyncRuns
from gitshadow.sdk.turns.async_session import AsyncAgentUndo, AsyncTurn
from gitshadow.sdk.turns.policy import Policy
from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.report import UndoReport
from gitshadow.sdk.turns.session import AgentUndo, Turn
from tests.sdk.integrations.toy import SCRIPT, Step
from tests.sdk.turns.front import FREE, settled
from tests.support.tools import REQUIRED

Batches: TypeAlias = Sequence[Sequence[Step]]
"""What a model asks for, message by message; after the last it says that it is done."""

Heard: TypeAlias = dict[str, str]
"""What the model read of each call, by the call's id."""

Through: TypeAlias = Callable[[Runs, Batches], Awaitable[Heard]]
"""Run an agent to its end."""

MODULES = {
    "claude_agent_sdk": "claude_agent_sdk",
    "pydantic_ai": "pydantic_ai",
    "openai_agents": "agents",
    "langgraph": "langgraph",
}
"""What each framework is imported as; the extra of gitshadow has its name, with dashes."""

SYNC = "langgraph_sync"
"""LangGraph in a graph that nobody awaits."""

ONE_BY_ONE: Batches = tuple((step,) for step in SCRIPT)
TOGETHER: Batches = (SCRIPT[:3], SCRIPT[3:])


def need(framework: str) -> None:
    """Skip the test or its module, or fail, where a framework is not installed."""
    try:
        importlib.import_module(MODULES[framework])
    except ImportError:
        extra = framework.replace("_", "-")
        reason = f"{extra} is not installed (pip install 'gitshadow[{extra}]')"
        if REQUIRED:
            pytest.fail(f"{reason}, and GITSHADOW_TEST_TOOLS=required")
        pytest.skip(reason, allow_module_level=True)


def through(framework: str) -> Through:
    """Return how a script runs through a framework; skip, or fail, where it is not installed."""
    need("langgraph" if framework == SYNC else framework)
    found = importlib.import_module(f"tests.sdk.integrations.through_{framework}")
    run: Through = found.run
    return run


class Program:
    """An agent program of a framework; what it gives is awaited, with `SYNC` as well."""

    def __init__(
        self, name: str, place: Path, tools: ToolRegistry, policy: Policy = FREE
    ) -> None:
        self.is_sync = name == SYNC
        kind = AgentUndo if self.is_sync else AsyncAgentUndo
        self._run: Callable[..., Any] = through(name)
        self.au: AgentUndo | AsyncAgentUndo = kind.open(
            str(place), session="s", tools=tools, policy=policy
        )
        self.runs = (
            SyncRuns(self.au) if isinstance(self.au, AgentUndo) else Runs(self.au)
        )

    @asynccontextmanager
    async def turn(self, label: str = "go") -> AsyncIterator[Turn | AsyncTurn]:
        if isinstance(self.runs, SyncRuns):
            with self.runs.turn(label) as turn:
                yield turn
        else:
            async with self.runs.turn(label) as later:
                yield later

    async def run(self, batches: Batches) -> Heard:
        """Run an agent to its end and return what the model read of each call."""
        return await settled(self._run(self.runs, batches))

    async def run_turn(self, batches: Batches) -> Heard:
        """Run an agent in a turn of its own."""
        async with self.turn():
            return await self.run(batches)

    async def undo(self, turn: str) -> UndoReport:
        return await settled(self.au.undo(turn))
