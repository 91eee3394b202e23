"""What docs/frameworks.md has to paste works, with a scripted model in the place of a real one."""

import importlib
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from gitshadow.sdk.turns.async_session import AsyncAgentUndo
from tests.sdk.integrations.frameworks import MODULES, Batches, need
from tests.sdk.integrations.toy import Step

PAGE = Path(__file__).parents[3] / "docs" / "frameworks.md"
HEADINGS = {
    "Claude Agent SDK": "claude_agent_sdk",
    "PydanticAI": "pydantic_ai",
    "OpenAI Agents SDK": "openai_agents",
    "LangGraph": "langgraph",
}
CLAUDE = "claude_agent_sdk._internal.transport.subprocess_cli.SubprocessCLITransport"
ORDER: Batches = ((Step("c1", "draft.create", {"title": "Order 7"}),),)


def blocks_below(heading: str) -> list[str]:
    """Return the Python blocks of one section."""
    text = PAGE.read_text(encoding="utf-8")
    section = text.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"^```python\n(.*?)^```", section, re.MULTILINE | re.DOTALL)


def test_every_framework_has_a_section() -> None:
    assert sorted(HEADINGS.values()) == sorted(MODULES)


@pytest.mark.parametrize("heading", HEADINGS)
def test_what_a_section_has_to_paste_works(
    place: Path, monkeypatch: pytest.MonkeyPatch, heading: str
) -> None:
    need(HEADINGS[heading])
    module = importlib.import_module(
        f"tests.sdk.integrations.through_{HEADINGS[heading]}"
    )
    model: Callable[[Batches], object] = module.model
    monkeypatch.chdir(place)
    names: dict[str, object] = {"model": model(ORDER)}
    if heading == "Claude Agent SDK":  # its model is a process
        monkeypatch.setattr(CLAUDE, lambda **options: names["model"])
    blocks = [*blocks_below("Setup for all frameworks"), *blocks_below(heading)]
    assert len(blocks) == (
        3 if heading == "LangGraph" else 2
    )  # one more: without asyncio
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    au = names["au"]
    assert isinstance(au, AsyncAgentUndo)
    au.close()
