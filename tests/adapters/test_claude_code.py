"""Claude Code's payloads, read from the fixtures and from broken variants of them."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitshadow.adapters import registry
from gitshadow.adapters.base import BadPayload, FileEdit, HookEvent, HookPhase, Parsed
from gitshadow.model import ToolClass

FIXTURES = Path(__file__).parents[1] / "fixtures" / "hook_payloads"
SESSION = "0b8c7d1e-5f2a-4e0b-9d3c-6a7b8c9d0e1f"
PROMPT = "550e8400-e29b-41d4-a716-446655440000"

EVENTS = {
    "SessionStart": HookPhase.SESSION_START,
    "UserPromptSubmit": HookPhase.PROMPT,
    "PreToolUse": HookPhase.BEFORE,
    "PostToolUse": HookPhase.AFTER,
    "PostToolUseFailure": HookPhase.FAILED,
    "PermissionDenied": HookPhase.DENIED,
    "Stop": HookPhase.TURN_END,
    "StopFailure": HookPhase.TURN_END,
    "SubagentStart": HookPhase.SUBAGENT_START,
    "SubagentStop": HookPhase.SUBAGENT_END,
    "SessionEnd": HookPhase.SESSION_END,
}
IGNORED = (
    "ConfigChange",
    "CwdChanged",
    "InstructionsLoaded",
    "MessageDisplay",
    "Notification",
    "PermissionRequest",
    "PostCompact",
    "PostToolBatch",
    "PreCompact",
    "TaskCompleted",
    "TaskCreated",
    "TeammateIdle",
    "UserPromptExpansion",
    "WorktreeCreate",
    "WorktreeRemove",
)
PAYLOADS = sorted(FIXTURES.glob("claude_code__*.json"))


def load(name: str) -> dict[str, object]:
    value = json.loads((FIXTURES / f"claude_code__{name}.json").read_bytes())
    assert isinstance(value, dict)
    return value


def parse(payload: Mapping[str, object]) -> Parsed:
    return registry.parse("claude-code", json.dumps(payload).encode(), {})


def event(payload: Mapping[str, object]) -> HookEvent:
    parsed = parse(payload)
    assert isinstance(parsed, HookEvent)
    return parsed


@pytest.mark.parametrize("path", PAYLOADS, ids=lambda path: path.stem)
def test_payload_is_read_or_ignored_when_it_is_a_fixture(path: Path) -> None:
    parsed = registry.parse("claude-code", path.read_bytes(), {})
    name = path.stem.split("__")[1]
    if name in EVENTS:
        assert isinstance(parsed, HookEvent)
        assert (parsed.phase, parsed.agent) == (EVENTS[name], "claude-code")
        assert parsed.native_session.startswith(SESSION)
        assert parsed.cwd == b"/home/dev/app"
    else:
        assert name in IGNORED
        assert parsed is None


def test_pre_tool_use_names_path_and_ids_when_tool_edits() -> None:
    found = event(load("PreToolUse__Edit"))
    assert (found.tool, found.tool_class) == ("Edit", ToolClass.WRITE)
    assert found.paths == (b"/home/dev/app/src/cart.py",)
    assert (found.turn_id, found.call_id) == (PROMPT, "toolu_01EditCart0000000000001")
    assert found.call_derived is False


def test_notebook_edit_names_its_notebook() -> None:
    assert event(load("PreToolUse__NotebookEdit")).paths == (
        b"/home/dev/app/nb/report.ipynb",
    )


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("PreToolUse__Bash", ToolClass.SHELL),
        ("PreToolUse__Agent", ToolClass.AGENT),
        ("PreToolUse__mcp", ToolClass.OTHER),
    ],
)
def test_tool_names_no_path_when_it_is_no_file_tool(name: str, kind: ToolClass) -> None:
    found = event(load(name))
    assert (found.tool_class, found.paths) == (kind, ())


@pytest.mark.parametrize(
    "tool", ["Read", "Grep", "Glob", "LS", "WebFetch", "TodoWrite"]
)
def test_tool_reads_when_it_cannot_write(tool: str) -> None:
    payload = {**load("PreToolUse__Edit"), "tool_name": tool}
    found = event(payload)
    assert (found.tool_class, found.paths) == (ToolClass.READ, ())


def test_subagent_is_a_child_session_when_payload_has_an_agent_id() -> None:
    """ATT-15: the child's session is named below its parent's."""
    found = event(load("PreToolUse__subagent_Edit"))
    assert found.native_session == f"{SESSION}/agent-a1b2c3d4e5f6"
    assert found.parent_session == SESSION
    assert (found.subagent_id, found.subagent_type) == (
        "agent-a1b2c3d4e5f6",
        "general-purpose",
    )


def test_prompt_is_kept_when_a_turn_begins() -> None:
    found = event(load("UserPromptSubmit"))
    assert found.prompt is not None
    assert found.prompt.startswith("Multiply each line")


def test_background_tasks_are_counted_when_a_turn_ends() -> None:
    assert event(load("Stop")).background_tasks == 1


def test_an_edit_says_what_it_found_and_left() -> None:
    found = event(load("PostToolUse__Edit"))
    payload = load("PostToolUse__Edit")
    given, response = payload["tool_input"], payload["tool_response"]
    assert isinstance(given, dict)
    assert isinstance(response, dict)
    before = response["originalFile"]
    after = before.replace(given["old_string"], given["new_string"], 1)
    assert found.edit == FileEdit(before.encode(), after.encode())
    assert after != before


@pytest.mark.parametrize("original", [None, 7, "with\r\nother line ends", "\ud800"])
def test_an_edit_says_nothing_when_its_text_may_be_another(original: object) -> None:
    payload = load("PostToolUse__Edit")
    payload["tool_response"] = {"originalFile": original}
    assert event(payload).edit is None


def test_duration_is_in_nanoseconds() -> None:
    assert event(load("PostToolUse__Bash")).duration_ns == 941_000_000


def test_call_id_is_the_same_before_and_after_when_the_agent_sends_none() -> None:
    before, after = load("PreToolUse__Edit"), load("PostToolUse__Edit")
    for payload in (before, after):
        del payload["tool_use_id"]
    first, second = event(before), event(after)
    assert first.call_derived is True
    assert first.call_id == second.call_id
    other = {**before, "tool_input": {"file_path": "/x", "content": "y"}}
    assert event(other).call_id != first.call_id


def test_call_id_is_printable_when_it_held_a_newline() -> None:
    payload = {**load("PreToolUse__Edit"), "tool_use_id": "call_x\nctc_y"}
    assert event(payload).call_id == "call_x_ctc_y"


def test_ids_are_bounded_when_they_are_absurdly_long() -> None:
    """GIT-17: a native id of any length is a key."""
    payload = {
        **load("PreToolUse__Edit"),
        "session_id": "s" * 100_000,
        "tool_use_id": "c" * 100_000,
    }
    found = event(payload)
    assert len(found.native_session) == 1_000
    assert found.call_id is not None
    assert len(found.call_id) == 200


def test_path_keeps_its_bytes_when_it_is_not_utf8() -> None:
    """FID-05: a byte that is not UTF-8 comes as a surrogate escape, or raw."""
    payload = {**load("PreToolUse__Edit"), "tool_input": {"file_path": "/r/\udcff"}}
    assert event(payload).paths == (b"/r/\xff",)
    raw = json.dumps(load("PreToolUse__Edit")).encode().replace(b"cart.py", b"\xff")
    parsed = registry.parse("claude-code", raw, {})
    assert isinstance(parsed, HookEvent)
    assert parsed.paths == (b"/home/dev/app/src/\xff",)


@pytest.mark.parametrize("path", ["\0", "", 7, None, "\ud800", ["/a"]])
def test_path_is_dropped_when_it_can_be_none(path: object) -> None:
    payload = {**load("PreToolUse__Edit"), "tool_input": {"file_path": path}}
    assert event(payload).paths == ()


@pytest.mark.parametrize(
    ("missing", "reason"),
    [
        ("hook_event_name", "the payload has no hook event"),
        ("session_id", "the PreToolUse payload has no session"),
        ("tool_name", "the PreToolUse payload has no tool"),
    ],
)
def test_payload_is_bad_when_a_field_is_missing(missing: str, reason: str) -> None:
    """ATT-10: no `tool_name`, and its like."""
    payload = load("PreToolUse__Edit")
    del payload[missing]
    assert parse(payload) == BadPayload(reason)


def test_event_is_ignored_when_it_is_unknown() -> None:
    """ATT-10: an unknown event."""
    assert parse({**load("PreToolUse__Edit"), "hook_event_name": "Moonrise"}) is None


def test_extra_fields_change_nothing() -> None:
    """ATT-10: extra fields."""
    payload = load("PreToolUse__Edit")
    assert event({**payload, "new": {"a": [1, None]}, "x": 1e999}) == event(payload)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "the payload is empty"),
        (b" \n", "the payload is empty"),
        (b'{"session_id": "x", "hook_ev', "the payload is not JSON"),
        (b"[1]", "the payload is not a JSON object"),
        (b"[" * 200_000, "the payload is nested too deeply"),
        (b'{"a": ' + b"9" * 10_000 + b"}", "the payload is not JSON"),
    ],
    ids=["empty", "blank", "half", "list", "deep", "digits"],
)
def test_payload_is_bad_when_it_is_no_json(raw: bytes, reason: str) -> None:
    """ATT-10: half a JSON, empty standard input."""
    assert registry.parse("claude-code", raw, {}) == BadPayload(reason)


def test_payload_is_read_when_it_has_raw_control_characters() -> None:
    raw = json.dumps(load("UserPromptSubmit")).replace("Multiply", "Mul\ttiply\x01")
    parsed = registry.parse("claude-code", raw.encode(), {})
    assert isinstance(parsed, HookEvent)
    assert parsed.prompt is not None
    assert parsed.prompt.startswith("Mul\ttiply\x01")


def test_payload_is_read_when_it_begins_with_a_byte_order_mark() -> None:
    raw = b"\xef\xbb\xbf" + json.dumps(load("SessionStart")).encode()
    assert isinstance(registry.parse("claude-code", raw, {}), HookEvent)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)
FIELDS = sorted(
    {key for path in PAYLOADS for key in json.loads(path.read_bytes())}
    | {"sessionId", "hookEventName", "event", "timestamp", "conversationId"}
)


@given(
    base=st.sampled_from([path.stem.split("__", 1)[1] for path in PAYLOADS]),
    changes=st.dictionaries(st.sampled_from(FIELDS), JSON),
)
def test_parse_never_raises_when_fields_have_any_value(
    base: str, changes: dict[str, object]
) -> None:
    """ATT-10: a bad payload is a value, never an exception."""
    parsed = parse({**load(base), **changes})
    assert parsed is None or isinstance(parsed, HookEvent | BadPayload)


@given(st.binary())
def test_parse_never_raises_when_bytes_are_anything(raw: bytes) -> None:
    assert not isinstance(registry.parse("claude-code", raw, {}), HookEvent)
