"""What stored payloads of real agents say about the files and the time of a call."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from gitshadow.adapters import registry
from gitshadow.adapters.base import FileEdit, HookEvent, HookPhase, Replacement
from gitshadow.model import ToolClass

REAL = Path(__file__).parents[1] / "fixtures" / "real_payloads"
_DURATION = re.compile(r"(duration|executionTime)_?ms", re.IGNORECASE)
_RESPONSES = ("tool_response", "toolResult")
TIMED = ("claude-code", "cline", "grok", "qwen", "vibe")


def payloads(agent: str) -> Iterator[Mapping[str, object]]:
    """Yield what the hooks of an agent got, in the turn that every agent can follow."""
    for step in json.loads((REAL / agent / "basic.json").read_text())["steps"]:
        if "payload" in step:
            yield step["payload"]


def parsed(agent: str) -> Iterator[tuple[Mapping[str, object], HookEvent]]:
    for payload in payloads(agent):
        found = registry.parse(agent, json.dumps(payload).encode(), {})
        if isinstance(found, HookEvent):
            yield payload, found


def has_duration(payload: Mapping[str, object]) -> bool:
    """Return whether a payload says how long a call took, not what its tool says of itself."""
    for key, value in payload.items():
        if _DURATION.fullmatch(key) and isinstance(value, int):
            return True
        if isinstance(value, Mapping) and key not in _RESPONSES and has_duration(value):
            return True
    return False


@pytest.mark.parametrize("agent", TIMED)
def test_every_duration_that_a_host_sends_is_read(agent: str) -> None:
    timed = [found for payload, found in parsed(agent) if has_duration(payload)]
    assert timed
    assert all(found.duration_ns is not None for found in timed)


def test_no_other_host_sends_a_duration() -> None:
    others = {path.name for path in REAL.iterdir() if path.is_dir()}
    others.difference_update(TIMED)
    assert others
    assert not any(has_duration(one) for name in others for one in payloads(name))


BACKGROUND = {
    "claude-code": ("tool_input", "run_in_background"),
    "gemini": ("tool_input", "is_background"),
    "grok": ("isBackgrounded",),
    "kimi": ("tool_input", "run_in_background"),
    "qwen": ("tool_input", "is_background"),
}


@pytest.mark.parametrize("agent", BACKGROUND)
def test_a_command_that_goes_on_after_its_end_is_a_task(agent: str) -> None:
    *_, shell = (
        (payload, found)
        for payload, found in parsed(agent)
        if found.tool_class is ToolClass.SHELL and found.phase is HookPhase.AFTER
    )
    payload, found = shell
    assert found.background_tasks == 0
    changed = json.loads(json.dumps(payload))
    *above, name = BACKGROUND[agent]
    within = changed[above[0]] if above else changed
    assert within[name] is False
    within[name] = True
    again = registry.parse(agent, json.dumps(changed).encode(), {})
    assert isinstance(again, HookEvent)
    assert again.background_tasks == 1


@pytest.mark.parametrize("agent", ["claude-code", "gemini", "openhands", "qwen"])
def test_an_edit_has_the_texts_before_and_after_it(agent: str) -> None:
    edits = [found.edit for _, found in parsed(agent) if found.edit is not None]
    assert edits[-2:] == [
        FileEdit(b"one\ntwo\nthree\n", b"one\nTWO\nthree\n"),
        FileEdit(b"def f():\n    return 1\n", b"def f():\n    return 2\n"),
    ]


@pytest.mark.parametrize("agent", ["copilot", "droid", "grok", "kimi", "vibe"])
def test_an_edit_has_the_text_that_its_tool_replaced_or_wrote(agent: str) -> None:
    edits = [found.edit for _, found in parsed(agent) if found.edit is not None]
    assert edits == [
        FileEdit(None, b"one\ntwo\nthree\n"),
        Replacement(b"two", b"TWO"),
        Replacement(b"    return 1", b"    return 2"),
    ]


def test_a_shells_list_has_all_files_that_changed() -> None:
    lists = [found.changed for _, found in parsed("claude-code") if found.changed]
    names = ["deep/er/f.txt", "name1.txt", "name2.txt", "old.txt", "sh.txt"]
    assert lists == [tuple(f"{{repo}}/{name}".encode() for name in names)]
