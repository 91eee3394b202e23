"""What sets the agents with settings files apart from each other."""

import json
from collections.abc import Mapping

import pytest

from gitshadow.adapters import registry
from gitshadow.adapters.base import HookEvent, HookPhase, Parsed
from gitshadow.model import ToolClass
from tests.adapters.test_agents import event, load, parse

PATCH = "*** Begin Patch\n*** Update File: a.py\n*** Move to: b.py\n@@\n*** End Patch"


def read(
    agent: str, payload: Mapping[str, object], env: Mapping[str, str] | None = None
) -> Parsed:
    return registry.parse(agent, json.dumps(payload).encode(), env or {})


# Codex


@pytest.mark.parametrize("command", [PATCH, ["apply_patch", PATCH]])
def test_codex_shell_writes_what_a_patch_names_when_it_is_the_command(
    command: object,
) -> None:
    found = event("codex__PreToolUse__Bash", tool_input={"command": command})
    assert (found.tool_class, found.paths) == (ToolClass.WRITE, (b"a.py", b"b.py"))


def test_codex_shell_stays_one_when_a_script_holds_a_patch() -> None:
    command = f"apply_patch <<'EOF'\n{PATCH}\nEOF\nrm c"
    found = event("codex__PreToolUse__Bash", tool_input={"command": command})
    assert (found.tool_class, found.paths) == (ToolClass.SHELL, ())


def test_codex_patch_may_write_anything_when_it_cannot_be_read() -> None:
    found = event("codex__PreToolUse__apply_patch", tool_input={"command": "?"})
    assert (found.tool_class, found.paths) == (ToolClass.OTHER, ())


def test_codex_child_is_told_apart_when_its_calls_name_it() -> None:
    found = event("codex__PreToolUse__Bash", agent_id="kid")
    assert found.native_session == "019efea2-b46a-7cbc-be01-4c13460f5019/kid"


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("multi_agent_v1wait_agent", "wait_agent"),
        ("multi_agent_v12.send_input", "send_input"),
        ("multi_agent_v2__close_agent", "close_agent"),
        ("wait_agent", "wait_agent"),
    ],
)
def test_codex_tool_for_agents_is_known_when_its_namespace_is_joined_to_it(
    name: str, plain: str
) -> None:
    found = event("codex__PreToolUse__Bash", tool_name=name)
    assert (found.tool, found.tool_class) == (plain, ToolClass.AGENT)


def test_codex_tool_of_a_server_may_write_when_its_name_ends_like_one_for_agents() -> (
    None
):
    found = event("codex__PreToolUse__Bash", tool_name="mcp__multi_agent_v1wait_agent")
    assert found.tool_class is ToolClass.OTHER


def test_codex_prompt_of_a_child_begins_no_turn() -> None:
    found = event("codex__UserPromptSubmit", agent_id="kid")
    assert (found.phase, found.prompt) == (HookPhase.SUBAGENT_START, None)


# Cursor


def edited(name: str, **fields: object) -> dict[str, object]:
    return {
        **load("cursor__stop"),
        "hook_event_name": name,
        "file_path": "/home/dev/app/src/cart.py",
        "edits": [{"old_string": "a", "new_string": "b"}],
        **fields,
    }


def test_cursor_edit_is_the_end_of_a_moment_of_writing() -> None:
    found = read("cursor", edited("afterFileEdit"))
    assert isinstance(found, HookEvent)
    assert (found.phase, found.tool) == (HookPhase.AFTER, "afterFileEdit")
    assert found.paths == (b"/home/dev/app/src/cart.py",)
    assert (found.call_derived, found.duration_ns) == (True, 2_000_000_000)


def test_cursor_edit_is_ignored_when_it_names_no_file() -> None:
    assert read("cursor", edited("afterFileEdit", file_path=None)) is None


def test_cursor_tab_completion_is_nobodys_turn() -> None:
    found = read("cursor", edited("afterTabFileEdit"))
    assert isinstance(found, HookEvent)
    assert (found.phase, found.reason) == (HookPhase.NOTICE, "editor completion")
    assert found.paths == (b"/home/dev/app/src/cart.py",)
    assert (found.turn_id, found.tool, found.call_id) == (None, None, None)


def test_cursor_directory_is_the_first_root_when_an_event_has_none() -> None:
    payload = load("cursor__preToolUse__Write")
    del payload["cwd"]
    found = parse("cursor__preToolUse__Write", payload)
    assert isinstance(found, HookEvent)
    assert found.cwd == b"/home/dev/app"


@pytest.mark.parametrize("key", ["file_path", "path", "filePath"])
def test_cursor_path_is_found_whatever_its_key(key: str) -> None:
    found = event("cursor__preToolUse__Write", tool_input={key: "src/a.py"})
    assert found.paths == (b"src/a.py",)


def test_cursor_patch_names_its_files() -> None:
    found = event(
        "cursor__preToolUse__Write", tool_name="ApplyPatch", tool_input={"patch": PATCH}
    )
    assert (found.tool_class, found.paths) == (ToolClass.WRITE, (b"a.py", b"b.py"))


def test_cursor_mcp_tool_may_do_anything() -> None:
    found = event("cursor__preToolUse__Write", tool_name="MCP:write_file")
    assert (found.tool_class, found.paths) == (ToolClass.OTHER, ())


def test_cursor_subagent_is_its_own_conversation_when_it_has_one() -> None:
    found = event("cursor__subagentStart", conversation_id="kid")
    assert (found.native_session, found.parent_session) == (
        "kid",
        "668320d2-2fd8-4888-b33c-2a466fec86e7",
    )


def test_cursor_subagent_end_names_what_changed() -> None:
    found = event("cursor__subagentStop")
    assert found.paths == (b"/home/dev/app/src/money.py",)


def test_cursor_subagent_end_is_ignored_when_it_names_nobody() -> None:
    payload = {**load("cursor__subagentStop"), "agent_transcript_path": None}
    assert parse("cursor__subagentStop", payload) is None


def test_cursor_event_is_read_when_it_is_spelled_as_claude_code_does() -> None:
    """ATT-13: the hook stands in Claude Code's settings, which Cursor runs too."""
    payload = load("cursor__preToolUse__Write")
    there = {**payload, "hook_event_name": "PreToolUse"}
    found, usual = read("claude-code", there), read("cursor", payload)
    assert isinstance(found, HookEvent)
    assert isinstance(usual, HookEvent)
    assert (found.agent, found.phase) == ("cursor", HookPhase.BEFORE)
    assert found.call_id == usual.call_id


# Gemini


def test_call_is_bad_when_its_input_is_too_deep_to_be_hashed() -> None:
    """ATT-10: what can just be read may be too deep to be written again."""
    found = set()
    for depth in range(900, 1_000):
        deep = b'{"a":' * depth + b"1" + b"}" * depth
        head = b'{"hook_event_name": "BeforeTool", "session_id": "s", "tool_name": "x"'
        parsed = registry.parse("gemini", head + b', "tool_input": ' + deep + b"}", {})
        found.add(type(parsed).__name__)
    assert found == {"BadPayload", "HookEvent"}


def test_gemini_call_has_another_id_when_its_input_differs() -> None:
    first = event("gemini_cli__BeforeTool__replace")
    assert first.call_id != event("gemini_cli__BeforeTool__write_file").call_id
    other = event("gemini_cli__BeforeTool__replace", session_id="another")
    assert first.call_id != other.call_id


# Copilot


def test_copilot_arguments_are_the_same_as_text_and_as_object() -> None:
    whole = event("copilot_cli__preToolUse__create")
    given = load("copilot_cli__preToolUse__create")["toolArgs"]
    text = event("copilot_cli__preToolUse__create", toolArgs=json.dumps(given))
    assert (whole.call_id, whole.paths) == (text.call_id, text.paths)


@pytest.mark.parametrize(
    ("kind", "phase"), [("failure", HookPhase.FAILED), ("denied", HookPhase.DENIED)]
)
def test_copilot_result_says_how_a_call_ended(kind: str, phase: HookPhase) -> None:
    name = "copilot_cli__postToolUse__create"
    assert event(name, toolResult={"resultType": kind}).phase is phase


CHILD = {"sessionId": "kid", "agentId": "kid", "parentAgentId": "top"}


@pytest.mark.parametrize(
    ("name", "phase"),
    [
        ("userPromptSubmitted", HookPhase.SUBAGENT_START),
        ("preToolUse__create", HookPhase.BEFORE),
        ("agentStop", HookPhase.TURN_END),
    ],
)
def test_copilot_child_is_below_the_parent_that_it_names(
    name: str, phase: HookPhase
) -> None:
    found = event(f"copilot_cli__{name}", **CHILD)
    assert (found.phase, found.native_session) == (phase, "kid")
    assert (found.parent_session, found.subagent_id) == ("top", "kid")


def test_copilot_children_of_one_kind_are_two_when_they_name_their_parent() -> None:
    start = {"sessionId": "top", "agentName": "general-purpose", "parentAgentId": "top"}
    found = [
        event("copilot_cli__subagentStart", **start, agentId=name)
        for name in ("kid", "kid2")
    ]
    assert [one.native_session for one in found] == ["kid", "kid2"]
    assert {one.phase for one in found} == {HookPhase.SUBAGENT_START}


def test_copilot_request_for_permission_is_no_call() -> None:
    payload = load("copilot_cli__preToolUse__create")
    asking = {**payload, "permissionSuggestions": []}
    assert parse("copilot_cli__preToolUse__create", asking) is None


def test_copilot_event_is_ignored_when_nothing_tells_what_it_is() -> None:
    payload = {"timestamp": 1758363330123, "cwd": "/home/dev/app", "sessionId": "s"}
    assert read("copilot", payload) is None


# VS Code


@pytest.mark.parametrize(
    ("tool", "given", "paths"),
    [
        ("create_file", {"filePath": "/a.py", "content": "x"}, (b"/a.py",)),
        ("editFiles", {"files": ["a.py", "b.py"]}, (b"a.py", b"b.py")),
        ("apply_patch", {"input": PATCH}, (b"a.py", b"b.py")),
        (
            "multi_replace_string_in_file",
            {"replacements": [{"filePath": "/a.py"}, {"filePath": "/b.py"}]},
            (b"/a.py", b"/b.py"),
        ),
    ],
)
def test_vscode_tool_names_its_files(
    tool: str, given: object, paths: tuple[bytes, ...]
) -> None:
    found = event("vscode_copilot__PreToolUse", tool_name=tool, tool_input=given)
    assert (found.tool_class, found.paths) == (ToolClass.WRITE, paths)


# Windsurf


def test_windsurf_payload_is_read_when_it_has_raw_control_characters() -> None:
    raw = json.dumps(load("windsurf__pre_write_code")).replace(
        "total +=", "total\t\x01"
    )
    found = registry.parse("windsurf", raw.encode(), {})
    assert isinstance(found, HookEvent)
    assert found.paths == (b"/home/dev/app/src/cart.py",)


def test_windsurf_write_has_one_id_when_its_end_tells_other_edits() -> None:
    after = {
        **load("windsurf__pre_write_code"),
        "agent_action_name": "post_write_code",
        "tool_info": {"file_path": "/home/dev/app/src/cart.py"},
    }
    found = read("windsurf", after)
    assert isinstance(found, HookEvent)
    assert found.phase is HookPhase.AFTER
    assert found.call_id == event("windsurf__pre_write_code").call_id


def test_windsurf_call_has_another_id_in_another_turn() -> None:
    name = "windsurf__pre_run_command"
    assert event(name).call_id != event(name, execution_id="exec-2").call_id


# Devin


def test_devin_directory_comes_from_the_environment() -> None:
    payload = load("devin_cli__PreToolUse")
    found = read("devin", payload, {"DEVIN_PROJECT_DIR": "/elsewhere"})
    assert isinstance(found, HookEvent)
    assert found.cwd == b"/elsewhere"
    without = read("devin", payload)
    assert isinstance(without, HookEvent)
    assert without.cwd is None


def test_devin_call_fails_when_its_response_says_so() -> None:
    found = event("devin_cli__PostToolUse", tool_response={"success": False})
    assert found.phase is HookPhase.FAILED


# Droid


@pytest.mark.parametrize("key", ["tool_use_id", "toolUseId"])
def test_droid_call_id_is_taken_when_a_build_sends_one(key: str) -> None:
    found = event("factory_droid__PreToolUse__Create", **{key: "call_1"})
    assert (found.call_id, found.call_derived) == ("call_1", False)


# Qwen


def test_qwen_turn_comes_from_the_environment() -> None:
    env = {"QWEN_CODE_PROMPT_ID": "p########3"}
    for name in ("PreToolUse__write_file", "UserPromptSubmit", "Stop"):
        found = read("qwen", load(f"qwen_code__{name}"), env)
        assert isinstance(found, HookEvent)
        assert found.turn_id == "p########3"


def test_qwen_message_is_no_prompt_when_nobody_submitted_it() -> None:
    payload = load("qwen_code__UserPromptSubmit__continuation")
    assert read("qwen", payload, {"QWEN_CODE_PROMPT_ID": "p"}) is None


def test_qwen_call_id_is_the_providers_when_there_is_no_other() -> None:
    payload = load("qwen_code__PreToolUse__write_file")
    del payload["tool_use_id"]
    found = read("qwen", payload)
    assert isinstance(found, HookEvent)
    assert found.call_id == "call_abc123"
