"""Every sample payload of the agents that have shapes of their own, against literal values."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitshadow.adapters import registry
from gitshadow.adapters.base import BadPayload, HookEvent, HookPhase, Parsed
from gitshadow.adapters.payload import Payload
from gitshadow.model import ToolClass

FIXTURES = Path(__file__).parents[1] / "fixtures" / "hook_payloads"
AGENTS = {
    "acp": "acp",
    "amp": "amp",
    "antigravity": "antigravity",
    "cline": "cline",
    "cline_sdk": "cline",
    "crush": "crush",
    "entire_protocol": "generic",
    "gitai_agent_v1": "generic",
    "goose": "goose",
    "grok": "grok",
    "kiro_cli2": "kiro",
    "kiro_v1": "kiro",
    "opencode": "opencode",
    "openhands": "openhands",
    "pi": "pi",
}
NAMES = [
    path.stem
    for path in sorted(FIXTURES.glob("*__*.json"))
    if path.stem.split("__")[0] in AGENTS
]

APP, CART, MONEY = (
    b"/home/dev/app",
    b"/home/dev/app/src/cart.py",
    b"/home/dev/app/src/money.py",
)
ASKED = "Multiply each line by its quantity in cart.py and add a to_cents helper"
ACP, AMP = "sess_abc123def456", "T-019ca1ce-3ae2-7686-a41e-ccc078837f8a"
AGY, CLINE = "ec33ebf9-0cba-4100-8142-c61503f6c587", "1758363300000"
GROK, GROK_TURN = (
    "01a03a9f-0f3b-78d2-bad3-cf2ad4e0ff2e",
    "556780c0-0459-4d6b-98e2-2a13a718524b",
)
HANDS, KIRO = "04e2eedbe2d64736a1a4436334d9e1e6", "abc123-def456-789"
CODE = "ses_3f1c0d9e8b7a"
DERIVED = "h-"


class Tool(NamedTuple):
    """Say what a tool event is; a call of `h-` stands for any derived id."""

    name: str | None
    kind: ToolClass
    call: str
    paths: tuple[bytes, ...] = ()


class Want(NamedTuple):
    """Say what a payload is read as."""

    phase: HookPhase
    session: str
    cwd: bytes | None
    tool: Tool | None = None
    turn: str | None = None
    prompt: str | None = None


def write(name: str, call: str, path: bytes) -> Tool:
    return Tool(name, ToolClass.WRITE, call, (path,))


def shell(name: str, call: str) -> Tool:
    return Tool(name, ToolClass.SHELL, call)


P = HookPhase
EXPECTED: Mapping[str, Want | None] = {
    "acp__fs_write_text_file": Want(
        P.BEFORE, ACP, None, write("fs/write_text_file", DERIVED, MONEY)
    ),
    "acp__session_cancel": None,
    "acp__session_new__request": None,
    "acp__session_new__response": Want(P.SESSION_START, ACP, None),
    "acp__session_prompt__request": Want(P.PROMPT, ACP, None, prompt=ASKED),
    "acp__session_prompt__response": None,
    "acp__session_request_permission": None,
    "acp__session_update_tool_call": Want(
        P.BEFORE, ACP, None, write("edit", "call_001", CART)
    ),
    "amp__agent_end": Want(P.TURN_END, AMP, None, turn="M-0199"),
    "amp__agent_start": Want(P.PROMPT, AMP, None, turn="M-0199", prompt=ASKED),
    "amp__session_start": Want(P.SESSION_START, AMP, None),
    "amp__tool_call": Want(
        P.BEFORE, AMP, None, write("edit_file", "toolu_01amp", CART)
    ),
    "antigravity__PostToolUse": Want(
        P.FAILED, AGY, APP, Tool(None, ToolClass.OTHER, "step-5")
    ),
    "antigravity__PreInvocation": Want(P.PROMPT, AGY, APP),
    "antigravity__PreToolUse__run_command": Want(
        P.BEFORE, AGY, APP, shell("run_command", "step-20")
    ),
    "antigravity__PreToolUse__write_to_file": Want(
        P.BEFORE, AGY, APP, write("write_to_file", "step-19", MONEY)
    ),
    "antigravity__Stop": Want(P.TURN_END, AGY, APP),
    "cline__PreToolUse": Want(
        P.BEFORE, CLINE, APP, write("write_to_file", DERIVED, b"src/money.py")
    ),
    "cline__TaskCancel": Want(P.TURN_END, CLINE, APP),
    "cline__TaskComplete": Want(P.TURN_END, CLINE, APP),
    "cline__TaskResume": Want(P.SESSION_START, CLINE, APP),
    "cline__TaskStart": Want(P.SESSION_START, CLINE, APP),
    "cline__UserPromptSubmit": Want(P.PROMPT, CLINE, APP, prompt=ASKED),
    "cline_sdk__agent_abort": Want(P.TURN_END, "conv-123", APP),
    "cline_sdk__agent_end": Want(P.TURN_END, "conv-123", APP),
    "cline_sdk__agent_error": Want(P.TURN_END, "conv-123", APP),
    "cline_sdk__prompt_submit": Want(
        P.PROMPT, "conv-123", APP, turn="conv-123", prompt=ASKED
    ),
    "cline_sdk__session_shutdown": Want(P.SESSION_END, "conv-123", APP),
    "cline_sdk__tool_call": Want(
        P.BEFORE, "conv-123", APP, write("editor", "call-456", b"src/cart.py")
    ),
    "cline_sdk__tool_result": Want(
        P.AFTER, "conv-123", APP, write("editor", "call-456", b"src/cart.py")
    ),
    "crush__PreToolUse": Want(P.BEFORE, "5d1e6f3a", APP, write("edit", DERIVED, CART)),
    "entire_protocol__HookInput": Want(
        P.AFTER, "abc123", None, write("Write", "toolu_abc123", b"src/cart.py")
    ),
    "gitai_agent_v1__ai_agent": Want(
        P.AFTER, "c-1", APP, write("ai_agent", DERIVED, b"src/cart.py")
    ),
    "gitai_agent_v1__human": Want(P.NOTICE, "agent-v1", APP),
    "goose__AfterFileEdit": Want(
        P.AFTER, "20260920_3", APP, write("edit", DERIVED, b"src/cart.py")
    ),
    "goose__AfterShellExecution": Want(
        P.AFTER, "20260920_3", APP, shell("shell", DERIVED)
    ),
    "goose__PostToolUseFailure": Want(
        P.FAILED, "20260920_3", APP, shell("shell", "call_g2")
    ),
    "goose__PostToolUse__edit": Want(
        P.AFTER, "20260920_3", APP, write("edit", "call_g1", b"src/cart.py")
    ),
    "goose__PreToolUseResult": None,
    "goose__PreToolUse__edit_namespaced": Want(
        P.BEFORE, "20260920_3", APP, write("edit", "call_g1", b"src/cart.py")
    ),
    "goose__PreToolUse__write_bare": Want(
        P.BEFORE, "20260920_3", APP, write("write", DERIVED, b"src/money.py")
    ),
    "goose__SessionStart": Want(P.SESSION_START, "20260920_3", None),
    "goose__Stop": Want(P.TURN_END, "20260920_3", None),
    "goose__UserPromptSubmit": Want(P.PROMPT, "20260920_3", None, prompt=ASKED),
    "grok__post_tool_use": Want(
        P.AFTER, GROK, APP, write("write", "call-1c3bf464-0", b"src/money.py")
    ),
    "grok__session_end": Want(P.SESSION_END, GROK, APP),
    "grok__session_start": Want(P.SESSION_START, GROK, APP),
    "grok__stop__teardown": Want(P.SESSION_END, GROK, APP),
    "grok__stop__turn": Want(P.TURN_END, GROK, APP, turn=GROK_TURN),
    "grok__user_prompt_submit": Want(P.PROMPT, GROK, APP, turn=GROK_TURN, prompt=ASKED),
    "kiro_cli2__agentSpawn": Want(P.SESSION_START, KIRO, APP),
    "kiro_cli2__postToolUse": Want(
        P.AFTER, KIRO, APP, write("fs_write", DERIVED, MONEY)
    ),
    "kiro_cli2__stop": Want(P.TURN_END, KIRO, APP),
    "kiro_cli2__userPromptSubmit": Want(P.PROMPT, KIRO, APP, prompt=ASKED),
    "kiro_v1__PostFileSave": Want(
        P.AFTER, KIRO, APP, write("PostFileSave", DERIVED, CART)
    ),
    "kiro_v1__PostToolUse": Want(P.AFTER, KIRO, APP, write("fs_write", DERIVED, MONEY)),
    "kiro_v1__PreToolUse": Want(P.BEFORE, KIRO, APP, write("fs_write", DERIVED, MONEY)),
    "kiro_v1__SessionStart": Want(P.SESSION_START, KIRO, APP),
    "kiro_v1__UserPromptSubmit": Want(P.PROMPT, KIRO, APP, prompt=ASKED),
    "opencode__event_file_edited": None,
    "opencode__event_message_updated": None,
    "opencode__event_session_status": Want(P.TURN_END, CODE, None),
    "opencode__shell_env": None,
    "opencode__tool_execute_after__edit": Want(
        P.AFTER, CODE, None, write("edit", "toolu_01abc", CART)
    ),
    "opencode__tool_execute_after__task_subagent": Want(
        P.AFTER, CODE, None, Tool("task", ToolClass.AGENT, "toolu_01task")
    ),
    "opencode__tool_execute_before__bash": Want(
        P.BEFORE, CODE, None, shell("bash", "toolu_01sh")
    ),
    "opencode__tool_execute_before__edit": Want(
        P.BEFORE, CODE, None, write("edit", "toolu_01abc", CART)
    ),
    "openhands__PostToolUse": Want(
        P.AFTER, HANDS, APP, write("file_editor", DERIVED, MONEY)
    ),
    "openhands__PreToolUse": Want(
        P.BEFORE, HANDS, APP, write("file_editor", DERIVED, MONEY)
    ),
    "openhands__Stop": Want(P.TURN_END, HANDS, APP),
    "openhands__UserPromptSubmit": Want(P.PROMPT, HANDS, APP, prompt=ASKED),
    "pi__agent_end": Want(P.TURN_END, "in /home/dev/app", APP),
    "pi__before_agent_start": Want(P.PROMPT, "s1", APP, prompt=ASKED),
    "pi__tool_call": Want(
        P.BEFORE, "in /home/dev/app", APP, write("edit", "call_pi1", b"src/cart.py")
    ),
    "pi__tool_result": Want(
        P.AFTER, "in /home/dev/app", APP, write("edit", "call_pi1", b"src/cart.py")
    ),
}


def load(name: str) -> dict[str, object]:
    value = json.loads((FIXTURES / f"{name}.json").read_bytes())
    assert isinstance(value, dict)
    return value


def agent_of(name: str) -> str:
    return AGENTS[name.split("__")[0]]


def parse(agent: str, payload: Mapping[str, object]) -> Parsed:
    return registry.parse(agent, json.dumps(payload).encode(), {})


def event(name: str, **changes: object) -> HookEvent:
    found = parse(agent_of(name), {**load(name), **changes})
    assert isinstance(found, HookEvent)
    return found


def seen(found: HookEvent) -> Want:
    tool = None
    if found.call_id is not None:
        call = DERIVED if found.call_derived else found.call_id
        tool = Tool(found.tool, found.tool_class, call, found.paths)
    return Want(
        found.phase, found.native_session, found.cwd, tool, found.turn_id, found.prompt
    )


def test_table_has_every_sample() -> None:
    assert sorted(EXPECTED) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_sample_is_read_as_the_table_says(name: str) -> None:
    found = parse(agent_of(name), load(name))
    assert not isinstance(found, BadPayload)
    assert (seen(found) if found is not None else None) == EXPECTED[name]
    if found is not None:
        named = load(name).get("agent_name", agent_of(name))
        assert (found.agent, found.host) == (named, agent_of(name))


@pytest.mark.parametrize(
    ("agent", "covers", "sequential"),
    [
        ("acp", False, False),
        ("aider", False, False),
        ("crush", False, True),
        ("goose", True, False),
        ("kiro", True, False),
        ("opencode", True, False),
    ],
)
def test_traits_say_what_hooks_promise(
    agent: str, covers: bool, sequential: bool
) -> None:
    traits = registry.traits(agent)
    assert (traits.covers_all_tools, traits.sequential) == (covers, sequential)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("cline_sdk__tool_call", "cline_sdk__tool_result"),
        ("goose__PreToolUse__edit_namespaced", "goose__PostToolUse__edit"),
        ("kiro_v1__PreToolUse", "kiro_v1__PostToolUse"),
        ("kiro_v1__PreToolUse", "kiro_cli2__postToolUse"),
        ("opencode__tool_execute_before__edit", "opencode__tool_execute_after__edit"),
        ("openhands__PreToolUse", "openhands__PostToolUse"),
        ("pi__tool_call", "pi__tool_result"),
    ],
)
def test_call_has_one_id_before_and_after(before: str, after: str) -> None:
    assert event(before).call_id == event(after).call_id


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


def keys_of(value: object) -> set[str]:
    """Return every key of a document, at any depth."""
    if isinstance(value, list):
        return {key for item in value for key in keys_of(item)}
    if not isinstance(value, dict):
        return set()
    return set(value) | {key for item in value.values() for key in keys_of(item)}


KEYS = sorted({key for name in NAMES for key in keys_of(load(name))})


def changed(value: object, changes: Mapping[str, object]) -> object:
    """Return a document in which some keys have other values, at any depth."""
    if isinstance(value, list):
        return [changed(item, changes) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: changes[key] if key in changes else changed(item, changes)
        for key, item in value.items()
    }


@given(
    name=st.sampled_from(NAMES), changes=st.dictionaries(st.sampled_from(KEYS), JSON)
)
def test_parse_never_raises_when_fields_have_any_value(
    name: str, changes: dict[str, object]
) -> None:
    """ATT-10: a bad payload is a value, never an exception."""
    payload = changed(load(name), changes)
    raw = json.dumps(payload).encode()
    found = registry.parse(agent_of(name), raw, {})
    assert found is None or isinstance(found, HookEvent | BadPayload)


@given(
    agent=st.sampled_from(sorted(set(AGENTS.values()) | {"aider"})),
    payload=st.dictionaries(st.sampled_from(KEYS) | st.text(), JSON),
)
def test_parse_never_raises_when_the_object_is_any(
    agent: str, payload: dict[str, object]
) -> None:
    """ATT-10: any JSON object."""
    found = registry.parse(agent, json.dumps(payload).encode(), {})
    assert found is None or isinstance(found, HookEvent | BadPayload)


@pytest.mark.parametrize("agent", sorted(set(AGENTS.values()) - {"acp"}))
def test_unknown_event_is_ignored(agent: str) -> None:
    """ATT-10: an unknown event."""
    names = ("event", "event_type", "hook", "hookEventName", "hookName")
    payload = {
        **dict.fromkeys((*names, "hook_event_name", "hook_type"), "moonrise"),
        "clineVersion": "1",
        "cwd": "/x",
        "session_id": "s",
        "workspaceRoot": "/x",
    }
    assert registry.parser(agent)(Payload(payload), {}) is None
