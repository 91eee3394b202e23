"""Every sample payload of the agents with settings files, against literal values."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitshadow.adapters import registry
from gitshadow.adapters.base import (
    TOOL_PHASES,
    BadPayload,
    HookEvent,
    HookPhase,
    Parsed,
)
from gitshadow.model import ToolClass

FIXTURES = Path(__file__).parents[1] / "fixtures" / "hook_payloads"
AGENTS = {
    "codex": "codex",
    "copilot_cli": "copilot",
    "cursor": "cursor",
    "devin_cli": "devin",
    "factory_droid": "droid",
    "gemini_cli": "gemini",
    "qwen_code": "qwen",
    "vscode_copilot": "vscode-copilot",
    "windsurf": "windsurf",
}
PATHS = [
    path
    for path in sorted(FIXTURES.glob("*__*.json"))
    if path.stem.split("__")[0] in AGENTS
]
NAMES = [path.stem for path in PATHS]
ENV = {"DEVIN_PROJECT_DIR": "/home/dev/app"}

APP = b"/home/dev/app"
CART = (b"/home/dev/app/src/cart.py",)
MONEY = (b"/home/dev/app/src/money.py",)
PATCHED = (
    b"src/cart.py",
    b"src/money.py",
    b"src/old_cart.py",
    b"src/util.py",
    b"src/helpers.py",
)
ASKED = "Multiply each line by its quantity in cart.py and add a to_cents helper"
CODEX, CODEX_TURN = (
    "019efea2-b46a-7cbc-be01-4c13460f5019",
    "019efea2-c0de-7a11-9c2d-0f1e2d3c4b5a",
)
CODEX_CHILD = f"{CODEX}/019efea3-1111-7222-8333-444455556666"
CURSOR, CURSOR_TURN = (
    "668320d2-2fd8-4888-b33c-2a466fec86e7",
    "490b90b7-a2ce-4c2c-bb76-cb77b125df2f",
)
COPILOT = "b0ff98c0-8e01-4b73-bf92-9649b139931b"
DEVIN, DEVIN_TURN = "snowy-efraasia", "8c0d1f6e-3f1a-4c1e-9f0e-1d2c3b4a5968"
DROID = "3c6f0d72-6d0f-4a55-a3a7-0c7de5b1ab34"
GEMINI = "f3c2d1b0-7a6e-4f5d-8c9b-1a2b3c4d5e6f"
QWEN = "7d0f6b2e-0c55-4a1b-8e12-5c0c6c7c9f10"
VSCODE = "c7a1b2d3-1111-4222-8333-abcdefabcdef"
SURF, SURF_TURN = "traj-3f0a1c", "exec-91b2"
DERIVED = "h-"


class Tool(NamedTuple):
    """Say what a tool event is; a call of `h-` stands for any derived id."""

    name: str
    kind: ToolClass
    call: str
    paths: tuple[bytes, ...] = ()


class Want(NamedTuple):
    """Say what a payload is read as."""

    phase: HookPhase
    session: str
    turn: str | None = None
    tool: Tool | None = None
    prompt: str | None = None
    cwd: bytes | None = APP


def write(name: str, call: str, paths: tuple[bytes, ...]) -> Tool:
    return Tool(name, ToolClass.WRITE, call, paths)


def shell(name: str, call: str) -> Tool:
    return Tool(name, ToolClass.SHELL, call)


CODEX_PATCH = write("apply_patch", "call_Zk3ApplyPatch01", PATCHED)
CODEX_SHELL = shell("Bash", "call_Zk3Shell01")
CURSOR_WRITE = write("Write", "call_9fWrite01", MONEY)
COPILOT_CREATE = write("create", DERIVED, MONEY)
GEMINI_WRITE = write("write_file", DERIVED, MONEY)
GEMINI_EDIT = write("replace", DERIVED, CART)
QWEN_WRITE = write("write_file", "toolu_1758363330000_1", MONEY)
VSCODE_EDIT = write("editFiles", "tool-123", (b"src/cart.py",))
SURF_MCP = Tool("mcp__fs__write_file", ToolClass.OTHER, DERIVED)
SURF_READ = Tool("read_code", ToolClass.READ, DERIVED)

WANTED: Mapping[str, Want] = {
    "codex__PostToolUse__Bash": Want(HookPhase.AFTER, CODEX, CODEX_TURN, CODEX_SHELL),
    "codex__PostToolUse__apply_patch": Want(
        HookPhase.AFTER, CODEX, CODEX_TURN, CODEX_PATCH
    ),
    "codex__PreToolUse__Bash": Want(HookPhase.BEFORE, CODEX, CODEX_TURN, CODEX_SHELL),
    "codex__PreToolUse__apply_patch": Want(
        HookPhase.BEFORE, CODEX, CODEX_TURN, CODEX_PATCH
    ),
    "codex__SessionEnd": Want(HookPhase.SESSION_END, CODEX),
    "codex__SubagentStart": Want(HookPhase.SUBAGENT_START, CODEX_CHILD, CODEX_TURN),
    "codex__SubagentStop": Want(HookPhase.SUBAGENT_END, CODEX_CHILD, CODEX_TURN),
    "codex__UserPromptSubmit": Want(HookPhase.PROMPT, CODEX, CODEX_TURN, prompt=ASKED),
    "codex__notify_agent_turn_complete": Want(HookPhase.TURN_END, CODEX, CODEX_TURN),
    "copilot_cli__PreToolUse__claude_compat": Want(
        HookPhase.BEFORE, COPILOT, tool=write("Write", DERIVED, MONEY)
    ),
    "copilot_cli__agentStop": Want(HookPhase.TURN_END, COPILOT),
    "copilot_cli__postToolUseFailure": Want(
        HookPhase.FAILED, COPILOT, tool=shell("bash", DERIVED)
    ),
    "copilot_cli__postToolUse__create": Want(
        HookPhase.AFTER, COPILOT, tool=COPILOT_CREATE
    ),
    "copilot_cli__preToolUse__bash_string_args": Want(
        HookPhase.BEFORE, COPILOT, tool=shell("bash", DERIVED)
    ),
    "copilot_cli__preToolUse__create": Want(
        HookPhase.BEFORE, COPILOT, tool=COPILOT_CREATE
    ),
    "copilot_cli__sessionEnd": Want(HookPhase.SESSION_END, COPILOT),
    "copilot_cli__sessionStart": Want(HookPhase.SESSION_START, COPILOT, prompt=ASKED),
    "copilot_cli__subagentStart": Want(
        HookPhase.SUBAGENT_START, f"{COPILOT}/docs-writer"
    ),
    "copilot_cli__subagentStop": Want(HookPhase.SUBAGENT_END, f"{COPILOT}/docs-writer"),
    "copilot_cli__userPromptSubmitted": Want(HookPhase.PROMPT, COPILOT, prompt=ASKED),
    "cursor__beforeSubmitPrompt": Want(
        HookPhase.PROMPT, CURSOR, CURSOR_TURN, prompt=ASKED
    ),
    "cursor__postToolUseFailure": Want(
        HookPhase.FAILED, CURSOR, CURSOR_TURN, shell("Shell", "call_9fShell02")
    ),
    "cursor__postToolUse__Write": Want(
        HookPhase.AFTER, CURSOR, CURSOR_TURN, CURSOR_WRITE
    ),
    "cursor__preToolUse__Shell": Want(
        HookPhase.BEFORE, CURSOR, CURSOR_TURN, shell("Shell", "call_9fShell01")
    ),
    "cursor__preToolUse__Write": Want(
        HookPhase.BEFORE, CURSOR, CURSOR_TURN, CURSOR_WRITE
    ),
    "cursor__preToolUse__cli_newline_id": Want(
        HookPhase.BEFORE,
        CURSOR,
        CURSOR_TURN,
        write("Write", "call_9fWrite01_ctc_77", MONEY),
    ),
    "cursor__sessionEnd": Want(HookPhase.SESSION_END, CURSOR, CURSOR_TURN),
    "cursor__sessionStart": Want(HookPhase.SESSION_START, CURSOR, CURSOR_TURN),
    "cursor__stop": Want(HookPhase.TURN_END, CURSOR, CURSOR_TURN),
    "cursor__subagentStart": Want(
        HookPhase.SUBAGENT_START, f"{CURSOR}/sub-7c1d", CURSOR_TURN
    ),
    "cursor__subagentStop": Want(
        HookPhase.SUBAGENT_END, f"{CURSOR}/sub-7c1d", CURSOR_TURN
    ),
    "devin_cli__PostToolUse": Want(
        HookPhase.AFTER, DEVIN, DEVIN_TURN, write("write", "write_0", MONEY)
    ),
    "devin_cli__PreToolUse": Want(
        HookPhase.BEFORE, DEVIN, DEVIN_TURN, write("write", "write_0", MONEY)
    ),
    "devin_cli__SessionEnd": Want(HookPhase.SESSION_END, DEVIN, DEVIN_TURN),
    "devin_cli__SessionStart": Want(HookPhase.SESSION_START, DEVIN),
    "devin_cli__Stop": Want(HookPhase.TURN_END, DEVIN, DEVIN_TURN),
    "factory_droid__PostToolUse__Create": Want(
        HookPhase.AFTER, DROID, tool=write("Create", DERIVED, MONEY)
    ),
    "factory_droid__PreToolUse__ApplyPatch": Want(
        HookPhase.BEFORE, DROID, tool=write("ApplyPatch", DERIVED, PATCHED)
    ),
    "factory_droid__PreToolUse__Create": Want(
        HookPhase.BEFORE, DROID, tool=write("Create", DERIVED, MONEY)
    ),
    "factory_droid__PreToolUse__Execute": Want(
        HookPhase.BEFORE, DROID, tool=shell("Execute", DERIVED)
    ),
    "factory_droid__SessionStart": Want(HookPhase.SESSION_START, DROID),
    "factory_droid__Stop": Want(HookPhase.TURN_END, DROID),
    "factory_droid__UserPromptSubmit": Want(HookPhase.PROMPT, DROID, prompt=ASKED),
    "gemini_cli__AfterAgent": Want(HookPhase.TURN_END, GEMINI),
    "gemini_cli__AfterTool__replace": Want(HookPhase.AFTER, GEMINI, tool=GEMINI_EDIT),
    "gemini_cli__AfterTool__shell_error": Want(
        HookPhase.FAILED, GEMINI, tool=shell("run_shell_command", DERIVED)
    ),
    "gemini_cli__AfterTool__write_file": Want(
        HookPhase.AFTER, GEMINI, tool=GEMINI_WRITE
    ),
    "gemini_cli__BeforeAgent": Want(HookPhase.PROMPT, GEMINI, prompt=ASKED),
    "gemini_cli__BeforeTool__replace": Want(HookPhase.BEFORE, GEMINI, tool=GEMINI_EDIT),
    "gemini_cli__BeforeTool__run_shell_command": Want(
        HookPhase.BEFORE, GEMINI, tool=shell("run_shell_command", DERIVED)
    ),
    "gemini_cli__BeforeTool__write_file": Want(
        HookPhase.BEFORE, GEMINI, tool=GEMINI_WRITE
    ),
    "gemini_cli__SessionEnd": Want(HookPhase.SESSION_END, GEMINI),
    "qwen_code__PostToolUse__write_file": Want(HookPhase.AFTER, QWEN, tool=QWEN_WRITE),
    "qwen_code__PreToolUse__subagent_edit": Want(
        HookPhase.BEFORE,
        f"{QWEN}/agent-42",
        tool=write("edit", "toolu_1758363330000_2", CART),
    ),
    "qwen_code__PreToolUse__write_file": Want(HookPhase.BEFORE, QWEN, tool=QWEN_WRITE),
    "qwen_code__SessionEnd": Want(HookPhase.SESSION_END, QWEN),
    "qwen_code__Stop": Want(HookPhase.TURN_END, QWEN),
    "qwen_code__StopFailure": Want(HookPhase.TURN_END, QWEN),
    "qwen_code__SubagentStart": Want(HookPhase.SUBAGENT_START, f"{QWEN}/agent-42"),
    "qwen_code__SubagentStop": Want(HookPhase.SUBAGENT_END, f"{QWEN}/agent-42"),
    "qwen_code__UserPromptSubmit": Want(HookPhase.PROMPT, QWEN, prompt=ASKED),
    "vscode_copilot__PostToolUse": Want(HookPhase.AFTER, VSCODE, tool=VSCODE_EDIT),
    "vscode_copilot__PreToolUse": Want(HookPhase.BEFORE, VSCODE, tool=VSCODE_EDIT),
    "vscode_copilot__SessionStart": Want(HookPhase.SESSION_START, VSCODE),
    "vscode_copilot__Stop": Want(HookPhase.TURN_END, VSCODE),
    "vscode_copilot__SubagentStart": Want(
        HookPhase.SUBAGENT_START, f"{VSCODE}/subagent-456"
    ),
    "vscode_copilot__SubagentStop": Want(
        HookPhase.SUBAGENT_END, f"{VSCODE}/subagent-456"
    ),
    "vscode_copilot__UserPromptSubmit": Want(HookPhase.PROMPT, VSCODE, prompt=ASKED),
    "windsurf__post_cascade_response_with_transcript": Want(
        HookPhase.TURN_END, SURF, SURF_TURN, cwd=None
    ),
    "windsurf__post_mcp_tool_use": Want(
        HookPhase.AFTER, SURF, SURF_TURN, SURF_MCP, cwd=None
    ),
    "windsurf__post_read_code": Want(
        HookPhase.AFTER, SURF, SURF_TURN, SURF_READ, cwd=None
    ),
    "windsurf__post_run_command": Want(
        HookPhase.AFTER, SURF, SURF_TURN, shell("run_command", DERIVED)
    ),
    "windsurf__post_setup_worktree": Want(
        HookPhase.SESSION_START,
        SURF,
        SURF_TURN,
        cwd=b"/home/dev/.windsurf/worktrees/app/feature",
    ),
    "windsurf__pre_mcp_tool_use": Want(
        HookPhase.BEFORE, SURF, SURF_TURN, SURF_MCP, cwd=None
    ),
    "windsurf__pre_read_code": Want(
        HookPhase.BEFORE, SURF, SURF_TURN, SURF_READ, cwd=None
    ),
    "windsurf__pre_run_command": Want(
        HookPhase.BEFORE, SURF, SURF_TURN, shell("run_command", DERIVED)
    ),
    "windsurf__pre_user_prompt": Want(
        HookPhase.PROMPT, SURF, SURF_TURN, prompt=ASKED, cwd=None
    ),
    "windsurf__pre_write_code": Want(
        HookPhase.BEFORE, SURF, SURF_TURN, write("write_code", DERIVED, CART), cwd=None
    ),
}
IGNORED = {
    "codex__PermissionRequest",
    "codex__PostCompact",
    "codex__PreCompact",
    "copilot_cli__errorOccurred",
    "cursor__afterAgentResponse",
    "cursor__afterMCPExecution",
    "cursor__afterShellExecution",
    "cursor__beforeMCPExecution",
    "cursor__beforeReadFile",
    "cursor__beforeShellExecution",
    "factory_droid__Notification",
    "factory_droid__SubagentStop",
    "gemini_cli__BeforeModel",
    "gemini_cli__PreCompress",
    "qwen_code__Notification",
    "qwen_code__PermissionRequest",
    "qwen_code__PostCompact",
    "qwen_code__UserPromptSubmit__continuation",
}
PAIRS = [
    ("codex__PreToolUse__apply_patch", "codex__PostToolUse__apply_patch"),
    ("codex__PreToolUse__Bash", "codex__PostToolUse__Bash"),
    ("copilot_cli__preToolUse__create", "copilot_cli__postToolUse__create"),
    ("copilot_cli__PreToolUse__claude_compat", "copilot_cli__postToolUse__create"),
    ("cursor__preToolUse__Write", "cursor__postToolUse__Write"),
    ("devin_cli__PreToolUse", "devin_cli__PostToolUse"),
    ("factory_droid__PreToolUse__Create", "factory_droid__PostToolUse__Create"),
    ("gemini_cli__BeforeTool__replace", "gemini_cli__AfterTool__replace"),
    ("gemini_cli__BeforeTool__write_file", "gemini_cli__AfterTool__write_file"),
    ("qwen_code__PreToolUse__write_file", "qwen_code__PostToolUse__write_file"),
    ("vscode_copilot__PreToolUse", "vscode_copilot__PostToolUse"),
    ("windsurf__pre_run_command", "windsurf__post_run_command"),
    ("windsurf__pre_mcp_tool_use", "windsurf__post_mcp_tool_use"),
    ("windsurf__pre_read_code", "windsurf__post_read_code"),
]


def agent_of(name: str) -> str:
    return AGENTS[name.split("__")[0]]


def load(name: str) -> dict[str, object]:
    value = json.loads((FIXTURES / f"{name}.json").read_bytes(), strict=False)
    assert isinstance(value, dict)
    return value


def parse(name: str, payload: object) -> Parsed:
    return registry.parse(agent_of(name), json.dumps(payload).encode(), ENV)


def event(name: str, **changes: object) -> HookEvent:
    found = parse(name, {**load(name), **changes})
    assert isinstance(found, HookEvent)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_payload_is_read_as_the_table_says(name: str) -> None:
    found = registry.parse(
        agent_of(name), (FIXTURES / f"{name}.json").read_bytes(), ENV
    )
    if name in IGNORED:
        assert found is None
        return
    want = WANTED[name]
    assert isinstance(found, HookEvent)
    assert (found.agent, found.host) == (agent_of(name), agent_of(name))
    assert (found.phase, found.native_session) == (want.phase, want.session)
    assert (found.turn_id, found.cwd) == (want.turn, want.cwd)
    assert found.prompt == want.prompt
    if want.tool is None:
        assert (found.tool, found.call_id) == (None, None)
        return
    call = found.call_id or ""
    derived = want.tool.call == DERIVED
    assert call.startswith(DERIVED) if derived else call == want.tool.call
    assert (found.tool, found.tool_class) == (want.tool.name, want.tool.kind)
    assert found.paths == want.tool.paths


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_call_has_one_id_at_both_ends(before: str, after: str) -> None:
    """ATT-13: derived ids too."""
    assert event(before).call_id == event(after).call_id
    assert event(before).native_session == event(after).native_session


@pytest.mark.parametrize(
    "name", ["codex__SubagentStart", "cursor__subagentStart", "qwen_code__SubagentStop"]
)
def test_subagent_is_a_child_session(name: str) -> None:
    """ATT-15: the child's session is named below its parent's."""
    found = event(name)
    assert found.parent_session == WANTED[name].session.split("/")[0]


@pytest.mark.parametrize("agent", sorted(AGENTS.values()))
def test_traits_promise_full_cover_because_every_tool_has_a_hook(agent: str) -> None:
    traits = registry.traits(agent)
    assert (traits.covers_all_tools, traits.sequential) == (True, False)


EVENT_KEYS = ("hook_event_name", "hookEventName", "agent_action_name")


@pytest.mark.parametrize("name", [name for name in NAMES if name in WANTED])
def test_event_is_ignored_when_its_name_is_unknown(name: str) -> None:
    """ATT-10: an unknown event."""
    payload = load(name)
    keys = [key for key in EVENT_KEYS if key in payload]
    for key in keys:
        payload[key] = "moonrise" if str(payload[key])[0].islower() else "Moonrise"
    found = parse(name, payload)
    assert found is None if keys else isinstance(found, HookEvent)


@pytest.mark.parametrize("name", [name for name in NAMES if name in WANTED])
def test_unknown_fields_change_nothing(name: str) -> None:
    """ATT-10: extra fields."""
    assert event(name, brand_new={"a": [1, None]}, x=1e99) == event(name)


@pytest.mark.parametrize("name", NAMES)
def test_payload_is_bad_when_it_is_cut_or_no_object(name: str) -> None:
    """ATT-10: half a JSON, a list."""
    raw = (FIXTURES / f"{name}.json").read_bytes()
    agent = agent_of(name)
    half = registry.parse(agent, raw[: len(raw) // 2], ENV)
    assert half == BadPayload("the payload is not JSON")
    listed = registry.parse(agent, b"[" + raw + b"]", ENV)
    assert listed == BadPayload("the payload is not a JSON object")


@pytest.mark.parametrize("agent", registry.KNOWN_AGENTS)
def test_payload_that_the_hook_program_did_not_read_is_bad(agent: str) -> None:
    """ROB-15: it leaves a gap, whatever an agent's own form ignores."""
    found = registry.parse(agent, b'{"too_large": true}', ENV)
    assert found == BadPayload("the payload is too large to be read")


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["\ud800", "x" * 5_000, "a\nb", "{}", '{"path": 1}', "*** Add"]),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)
FIELDS = sorted({key for name in NAMES for key in load(name)})
INNER = sorted(
    {
        key
        for name in NAMES
        for whole in ("tool_input", "toolArgs", "tool_info")
        if isinstance(inner := load(name).get(whole), dict)
        for key in inner
    }
    | {"files", "replacements", "patch", "input", "filePath"}
)
INPUTS = st.dictionaries(st.sampled_from(INNER), JSON)


@given(
    name=st.sampled_from(NAMES),
    changes=st.dictionaries(st.sampled_from(FIELDS), JSON),
    tool_input=st.none() | INPUTS,
)
def test_parse_never_raises_whatever_the_fields_hold(
    name: str, changes: dict[str, object], tool_input: dict[str, object] | None
) -> None:
    """ATT-10: a bad payload is a value; ids can be keys, trailers and names (GIT-17)."""
    payload = {**load(name), **changes}
    if tool_input is not None:
        payload |= dict.fromkeys(("tool_input", "toolArgs", "tool_info"), tool_input)
    found = parse(name, payload)
    assert found is None or isinstance(found, HookEvent | BadPayload)
    if not isinstance(found, HookEvent):
        return
    assert len(found.native_session) <= 1_000 + 1 + 200
    for value in (found.turn_id, found.call_id, found.tool, found.subagent_id):
        assert value is None or (value.isprintable() and 0 < len(value) <= 200)
    assert (found.call_id is not None) == (found.phase in TOOL_PHASES)
    assert not (found.tool_class is ToolClass.WRITE and not found.paths)


@given(st.sampled_from(sorted(AGENTS.values())), st.binary() | JSON.map(json.dumps))
def test_parse_never_raises_whatever_the_bytes_are(
    agent: str, raw: bytes | str
) -> None:
    data = raw.encode() if isinstance(raw, str) else raw
    assert not isinstance(registry.parse(agent, data, {}), HookEvent)
