"""The frameworks through which one script runs, each with a scripted model in its own module."""

import importlib
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

import pytest

from gitshadow.sdk.integrations.runs import Runs
from tests.sdk.integrations.toy import SCRIPT, Step
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
    need(framework)
    found = importlib.import_module(f"tests.sdk.integrations.through_{framework}")
    run: Through = found.run
    return run
