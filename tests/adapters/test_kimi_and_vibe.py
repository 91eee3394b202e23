"""Kimi Code and Mistral Vibe: what differs from the shape that both share with others."""

import json

import pytest

from gitshadow.adapters import registry
from gitshadow.adapters.base import HookEvent, HookPhase
from gitshadow.model import ToolClass

KIMI = {"session_id": "session_0f3c", "cwd": "/home/dev/app"}
VIBE = {"session_id": "29447cd3", "cwd": "/home/dev/app", "parent_session_id": None}


def read(agent: str, fields: dict[str, object]) -> HookEvent:
    found = registry.parse(agent, json.dumps(fields).encode(), {})
    assert isinstance(found, HookEvent), found
    return found


@pytest.mark.parametrize("agent", ["kimi", "claude-code", "codex"])
@pytest.mark.parametrize("prompt", ["Add it", [{"type": "text", "text": "Add it"}]])
def test_kimis_prompt_is_a_text_or_a_list_of_parts(agent: str, prompt: object) -> None:
    found = read(
        agent, {**KIMI, "hook_event_name": "UserPromptSubmit", "prompt": prompt}
    )
    assert (found.agent, found.phase) == ("kimi", HookPhase.PROMPT)
    assert found.prompt == "Add it"


def test_kimis_call_has_its_id_and_path() -> None:
    found = read(
        "kimi",
        {
            **KIMI,
            "hook_event_name": "PostToolUseFailure",
            "tool_name": "Write",
            "tool_call_id": "c1",
            "tool_input": {"path": "/home/dev/app/a.py", "content": ""},
        },
    )
    assert (found.phase, found.call_id, found.call_derived) == (
        HookPhase.FAILED,
        "c1",
        False,
    )
    assert (found.tool_class, found.paths) == (
        ToolClass.WRITE,
        (b"/home/dev/app/a.py",),
    )


@pytest.mark.parametrize("agent", ["vibe", "claude-code", "kiro"])
@pytest.mark.parametrize(
    ("event", "more", "phase"),
    [
        ("pre_tool", {}, HookPhase.BEFORE),
        ("post_tool", {"tool_status": "success"}, HookPhase.AFTER),
        ("post_tool", {"tool_status": "failure"}, HookPhase.FAILED),
    ],
)
def test_vibes_tools_have_no_namespace(
    agent: str, event: str, more: dict[str, object], phase: HookPhase
) -> None:
    call = {
        "hook_event_name": event,
        "tool_name": "file_system.write_file",
        "tool_call_id": "c1",
        "tool_input": {"file_path": "/home/dev/app/a.py"},
    }
    found = read(agent, {**VIBE, **call, **more})
    assert (found.agent, found.phase, found.tool) == ("vibe", phase, "write_file")
    assert (found.tool_class, found.call_id) == (ToolClass.WRITE, "c1")


def test_a_session_that_vibe_starts_is_below_its_parent() -> None:
    found = read(
        "vibe",
        {**VIBE, "hook_event_name": "post_agent", "parent_session_id": "11aa22bb"},
    )
    assert (found.native_session, found.parent_session) == ("29447cd3", "11aa22bb")
    assert found.subagent_id == "29447cd3"
    # It goes on when its parent sends it another message.
    assert found.phase is HookPhase.TURN_END
