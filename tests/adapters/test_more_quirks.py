"""What each agent does differently, beyond what its sample payloads show."""

import json

import pytest

from gitshadow.adapters import registry
from gitshadow.adapters.amp import path_of_uri
from gitshadow.adapters.base import BadPayload, HookEvent, HookPhase
from gitshadow.model import ToolClass
from tests.adapters.test_more_agents import event, load, parse


def read(agent: str, /, **payload: object) -> HookEvent:
    found = parse(agent, payload)
    assert isinstance(found, HookEvent)
    return found


# goose


@pytest.mark.parametrize("decision", ["denied", "deny", "block", "Blocked"])
def test_goose_call_is_denied_when_its_result_says_so(decision: str) -> None:
    found = event("goose__PreToolUseResult", decision=decision)
    assert (found.phase, found.call_id) == (HookPhase.DENIED, "call_g1")


def test_goose_edit_ends_the_call_of_its_file_when_no_build_sends_ids() -> None:
    before = load("goose__PreToolUse__edit_namespaced")
    del before["tool_call_id"]
    bare = {"event": "AfterFileEdit", "session_id": before["session_id"]}
    after = read("goose", **bare, matcher_context="/home/dev/app/src/cart.py")
    assert after.call_id == read("goose", **before).call_id
    assert (after.phase, after.paths) == (
        HookPhase.AFTER,
        (b"/home/dev/app/src/cart.py",),
    )


def test_goose_text_editor_reads_when_it_only_views() -> None:
    found = event(
        "goose__PreToolUse__write_bare",
        tool_name="developer__text_editor",
        tool_input={"command": "view", "path": "a"},
    )
    assert (found.tool, found.tool_class, found.paths) == (
        "text_editor",
        ToolClass.READ,
        (),
    )


# Tools that name nothing


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("crush__PreToolUse", {"tool_input": {}}),
        ("goose__PreToolUse__write_bare", {"tool_input": None}),
        ("grok__post_tool_use", {"toolInput": "cut o"}),
        ("kiro_v1__PreToolUse", {"tool_input": {"path": 7}}),
        ("openhands__PreToolUse", {"tool_input": [1]}),
    ],
)
def test_write_opens_a_window_for_any_path_when_it_names_none(
    name: str, changes: dict[str, object]
) -> None:
    found = event(name, **changes)
    assert (found.tool_class, found.paths) == (ToolClass.OTHER, ())


# Kiro


@pytest.mark.parametrize(
    "trigger", ["PostFileSave", "PostFileCreate", "PostFileDelete"]
)
def test_kiro_file_report_ends_the_call_that_writes_it(trigger: str) -> None:
    path = "/home/dev/app/src/money.py"
    saved = event("kiro_v1__PostFileSave", hook_event_name=trigger, file_path=path)
    assert saved.call_id == event("kiro_v1__PreToolUse").call_id
    assert saved.duration_ns == 2_000_000_000


def test_kiro_file_report_is_ignored_when_it_names_no_file() -> None:
    payload = load("kiro_v1__PostFileSave")
    del payload["file_path"]
    assert parse("kiro", payload) is None


def test_kiro_path_is_one_call_however_it_is_spelled() -> None:
    one = event("kiro_v1__PreToolUse", tool_input={"path": "src/../src/money.py"})
    assert one.call_id == event("kiro_v1__PreToolUse").call_id


# Cline


def test_cline_subagent_is_a_child_session() -> None:
    below = {"agent_id": "agent-2", "parent_agent_id": "agent-main"}
    call = event("cline_sdk__tool_call", **below)
    assert (call.native_session, call.parent_session, call.subagent_id) == (
        "conv-123/agent-2",
        "conv-123",
        "agent-2",
    )
    assert event("cline_sdk__prompt_submit", **below).phase is HookPhase.SUBAGENT_START
    assert event("cline_sdk__agent_end", **below).phase is HookPhase.SUBAGENT_END


@pytest.mark.parametrize("name", ["agent_start", "agent_resume"])
def test_cline_turn_is_one_when_its_start_and_its_prompt_are_reported(
    name: str,
) -> None:
    """The command line sends the first alone."""
    started = event("cline_sdk__prompt_submit", hookName=name, userPromptSubmit=None)
    asked = event("cline_sdk__prompt_submit")
    assert {started.phase, asked.phase} == {HookPhase.PROMPT}
    assert started.prompt is None
    assert started.turn_id == asked.turn_id == "conv-123"


def test_cline_call_has_failed_when_its_result_says_so() -> None:
    legacy = load("cline__PreToolUse")
    legacy["hookName"] = "PostToolUse"
    legacy["postToolUse"] = {**_dict(legacy.pop("preToolUse")), "success": False}
    after = read("cline", **legacy)
    assert after.phase is HookPhase.FAILED
    assert after.call_id == event("cline__PreToolUse").call_id
    result = {**_dict(load("cline_sdk__tool_result")["tool_result"]), "error": "no"}
    assert event("cline_sdk__tool_result", tool_result=result).phase is HookPhase.FAILED


def _dict(value: object) -> dict[str, object]:
    assert isinstance(value, dict)
    return value


# opencode


def bus(kind: str, **about: object) -> dict[str, object]:
    event = {"type": kind, "properties": about}
    return {"hook": "event", "input": {"event": event}, "directory": "/repo"}


def test_opencode_child_session_stands_below_its_parent() -> None:
    found = read(
        "opencode", **bus("session.created", info={"id": "c", "parentID": "p"})
    )
    assert (found.phase, found.native_session, found.parent_session) == (
        HookPhase.SUBAGENT_START,
        "c",
        "p",
    )
    assert (found.subagent_id, found.cwd) == ("c", b"/repo")
    top = read("opencode", **bus("session.created", info={"id": "p"}))
    assert (top.phase, top.parent_session) == (HookPhase.SESSION_START, None)


def test_opencode_prompt_is_the_users_unless_a_child_gets_it() -> None:
    payload: dict[str, object] = {
        "hook": "chat.message",
        "input": {"sessionID": "s", "messageID": "m", "model": {"modelID": "big"}},
        "output": {
            "parts": [
                {"type": "text", "text": "Do it"},
                {"type": "text", "text": "a file", "synthetic": True},
                {"type": "file", "url": "x"},
            ]
        },
    }
    found = read("opencode", **payload)
    assert (found.phase, found.turn_id, found.prompt, found.model) == (
        HookPhase.PROMPT,
        "m",
        "Do it",
        "big",
    )
    below = read("opencode", **payload, parentID="p")
    assert (below.phase, below.turn_id) == (HookPhase.SUBAGENT_START, None)


def test_opencode_task_names_the_session_that_it_started() -> None:
    found = event("opencode__tool_execute_after__task_subagent")
    assert found.child_session == "ses_3f1c0d9e8child"
    assert event("opencode__tool_execute_after__edit").child_session is None


@pytest.mark.parametrize(
    "kind", ["busy", "retry", None], ids=["busy", "retry", "nothing"]
)
def test_opencode_turn_goes_on_until_the_session_is_idle(kind: str | None) -> None:
    status = {"type": kind} if kind else None
    assert (
        parse("opencode", bus("session.status", sessionID="s", status=status)) is None
    )


def test_opencode_patch_names_its_paths() -> None:
    patch = "*** Begin Patch\n*** Add File: n\n+x\n*** Delete File: b\n*** End Patch\n"
    found = read(
        "opencode",
        hook="tool.execute.before",
        input={"tool": "apply_patch", "sessionID": "s", "callID": "c"},
        output={"args": {"patchText": patch}},
    )
    assert found.paths == (b"n", b"b")


# Amp


def amp(hook: str, tool: str, **more: object) -> HookEvent:
    about = {"thread": {"id": "T-1"}, "toolUseID": "c", "tool": tool, **more}
    uris = ["file:///repo/a%20b.py", "https://x/y", "file:///repo/%FF"]
    return read("amp", hook=hook, event=about, files=uris, cwd="file:///repo")


@pytest.mark.parametrize(
    ("tool", "kind", "paths"),
    [
        ("edit_file", ToolClass.WRITE, (b"/repo/a b.py", b"/repo/\xff")),
        ("mcp_thing", ToolClass.WRITE, (b"/repo/a b.py", b"/repo/\xff")),
        ("Bash", ToolClass.SHELL, ()),
        ("Read", ToolClass.READ, ()),
    ],
)
def test_amp_files_are_named_but_for_a_shell(
    tool: str, kind: ToolClass, paths: tuple[bytes, ...]
) -> None:
    found = amp("tool.call", tool)
    assert (found.tool_class, found.paths, found.cwd) == (kind, paths, b"/repo")


@pytest.mark.parametrize(
    ("tool", "status", "phase"),
    [
        ("edit_file", "done", HookPhase.AFTER),
        ("edit_file", "error", HookPhase.FAILED),
        ("edit_file", "cancelled", HookPhase.DENIED),
        ("Bash", "cancelled", HookPhase.FAILED),
    ],
)
def test_amp_status_says_how_a_call_ended(
    tool: str, status: str, phase: HookPhase
) -> None:
    assert amp("tool.result", tool, status=status).phase is phase


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ("file:///a%2Fb", b"/a/b"),
        ("file://localhost/a", b"/a"),
        ("file://elsewhere/a", None),
        ("file://[bad/a", None),
        ("file:///a%00b", None),
        ("/plain", b"/plain"),
        ("", None),
        (7, None),
    ],
)
def test_path_of_uri_is_bytes_or_none(value: object, path: bytes | None) -> None:
    assert path_of_uri(value) == path


# Pi


def test_pi_session_is_named_by_id_variable_or_file() -> None:
    payload = load("pi__tool_call")
    ctx = {"cwd": "/r", "session_file": "/x/2026_ab.jsonl"}

    def session(env: dict[str, str], **more: object) -> str:
        raw = json.dumps({**payload, "ctx": {**ctx, **more}}).encode()
        found = registry.parse("pi", raw, env)
        assert isinstance(found, HookEvent)
        return found.native_session

    assert session({"PI_SESSION_ID": "env"}, session_id="id") == "id"
    assert session({"PI_SESSION_ID": "env"}) == "env"
    assert session({}) == "2026_ab"
    assert isinstance(parse("pi", {**payload, "ctx": {}}), BadPayload)


def test_pi_call_has_failed_when_its_result_is_an_error() -> None:
    result = _dict(load("pi__tool_result")["event"])
    found = event("pi__tool_result", event={**result, "isError": True})
    assert found.phase is HookPhase.FAILED


# Antigravity


def test_antigravity_end_has_the_id_of_its_step() -> None:
    before = event("antigravity__PreToolUse__write_to_file")
    after = event("antigravity__PostToolUse", stepIdx=19, error="")
    assert (after.call_id, after.tool) == (before.call_id, None)
    assert after.phase is HookPhase.AFTER


@pytest.mark.parametrize("number", [1, 7, False, "0", None])
def test_antigravity_turn_begins_with_the_first_invocation_only(number: object) -> None:
    payload = {**load("antigravity__PreInvocation"), "invocationNum": number}
    assert parse("antigravity", payload) is None


def test_antigravity_background_work_goes_on_when_not_fully_idle() -> None:
    assert event("antigravity__Stop", fullyIdle=False).background_tasks == 1
    assert event("antigravity__Stop").background_tasks == 0


# What agents declare to their model, November 2026


@pytest.mark.parametrize(
    ("agent", "tool", "kind"),
    [
        ("claude-code", "ListAgents", ToolClass.READ),
        ("claude-code", "Workflow", ToolClass.AGENT),
        ("codex", "update_goal", ToolClass.READ),
        ("copilot", "read_agent", ToolClass.AGENT),
        ("copilot", "sql", ToolClass.READ),
        ("copilot", "task", ToolClass.OTHER),
        ("droid", "ToolSearch", ToolClass.READ),
        ("grok", "ask_user_question", ToolClass.READ),
        ("grok", "use_tool", ToolClass.OTHER),
    ],
)
def test_tool_claims_nothing_when_it_only_asks_or_waits(
    agent: str, tool: str, kind: ToolClass
) -> None:
    """A person may write while a question is open."""
    if agent == "grok":
        about = {"hookEventName": "pre_tool_use", "sessionId": "s", "toolName": tool}
        found = read(agent, **about, workspaceRoot="/")
    else:
        about = {"hook_event_name": "PreToolUse", "session_id": "s", "tool_name": tool}
        found = read(agent, **about)
    assert found.tool_class is kind


@pytest.mark.parametrize(
    "tool", ["get_command_or_subagent_output", "wait_commands_or_subagents"]
)
def test_grok_wait_names_what_it_waits_for(tool: str) -> None:
    given = {"toolName": tool, "toolInput": {"task_ids": ["a", "b"]}}
    assert event("grok__post_tool_use", **given).awaited == ("a", "b")


# Grok


def test_grok_says_how_long_a_tool_ran() -> None:
    payload = {
        "hookEventName": "post_tool_use",
        "sessionId": "s",
        "toolUseId": "c",
        "toolName": "run_terminal_command",
        "toolInput": {"command": "ls"},
        "durationMs": 351,
        "cwd": "/home/dev/project",
    }
    found = parse("grok", payload)
    assert isinstance(found, HookEvent)
    assert found.duration_ns == 351_000_000


def test_grok_subagent_event_is_no_gap_when_its_fields_are_other() -> None:
    payload = {**load("grok__session_start"), "hookEventName": "subagent_start"}
    assert parse("grok", payload) is None
    named = event("grok__session_start", hookEventName="subagent_start", subagentId="x")
    assert (named.phase, named.subagent_id) == (HookPhase.SUBAGENT_START, "x")


def test_grok_child_has_a_session_of_its_own_when_its_start_names_it() -> None:
    start = event("grok__session_start", hookEventName="subagent_start", subagentId="x")
    parent = start.parent_session
    assert (start.native_session, start.phase) == ("x", HookPhase.SUBAGENT_START)
    assert parent == event("grok__session_start").native_session
    own = {"sessionId": "x", "subagentType": "general-purpose"}
    for name, phase in (
        ("user_prompt_submit", HookPhase.SUBAGENT_START),
        ("post_tool_use", HookPhase.AFTER),
        ("session_end", HookPhase.SUBAGENT_END),
    ):
        found = event(f"grok__{name}", **own)
        assert (found.native_session, found.phase) == ("x", phase)
        assert (found.turn_id, found.prompt, found.subagent_id) == (None, None, "x")


def test_grok_prompt_that_a_subagents_end_wrote_continues_the_turn() -> None:
    done = {"promptId": "subagent-completed-x"}
    found = event("grok__user_prompt_submit", **done)
    assert (found.phase, found.prompt) == (HookPhase.CONTINUATION, None)
    assert event("grok__stop__turn", **done).turn_id is None


# ACP


def acp(method: str, params: object, **more: object) -> HookEvent:
    return read("acp", jsonrpc="2.0", id=9, method=method, params=params, **more)


def update(**fields: object) -> dict[str, object]:
    return {"sessionId": "s", "update": {"toolCallId": "c", **fields}}


@pytest.mark.parametrize(
    ("name", "status", "phase"),
    [
        ("tool_call", None, HookPhase.BEFORE),
        ("tool_call", "in_progress", HookPhase.BEFORE),
        ("tool_call_update", "completed", HookPhase.AFTER),
        ("tool_call_update", "failed", HookPhase.FAILED),
    ],
)
def test_acp_status_says_the_phase(
    name: str, status: str | None, phase: HookPhase
) -> None:
    found = acp("session/update", update(sessionUpdate=name, status=status))
    assert (found.phase, found.call_id) == (phase, "c")


@pytest.mark.parametrize(
    ("kind", "tool_class"),
    [
        ("edit", ToolClass.WRITE),
        ("delete", ToolClass.WRITE),
        ("execute", ToolClass.SHELL),
        ("read", ToolClass.READ),
        ("other", ToolClass.OTHER),
        ("brandnew", ToolClass.OTHER),
    ],
)
def test_acp_kind_says_the_class(kind: str, tool_class: ToolClass) -> None:
    fields = {"kind": kind, "locations": [{"path": "/r/a"}]}
    named = {"sessionUpdate": "tool_call", **fields}
    assert acp("session/update", update(**named)).tool_class is tool_class


def test_acp_paths_come_from_locations_diffs_and_input() -> None:
    content = [{"type": "diff", "path": "/r/b"}, {"type": "content", "content": {}}]
    found = acp(
        "session/update",
        update(
            sessionUpdate="tool_call",
            kind="edit",
            locations=[{"path": "/r/a"}, 7],
            content=content,
            rawInput={"file_path": "/r/c"},
        ),
    )
    assert found.paths == (b"/r/a", b"/r/b", b"/r/c")


def test_acp_progress_is_ignored_when_it_tells_nothing_of_the_tool() -> None:
    params = update(sessionUpdate="tool_call_update", status="in_progress")
    assert parse("acp", {"method": "session/update", "params": params}) is None


def test_acp_answer_counts_when_its_request_stands_with_it() -> None:
    ended = acp("session/prompt", {"sessionId": "s"}, result={"stopReason": "end_turn"})
    assert (ended.phase, ended.reason) == (HookPhase.TURN_END, "end_turn")
    new = acp("session/new", {"cwd": "/r"}, result={"sessionId": "s"})
    assert (new.phase, new.cwd) == (HookPhase.SESSION_START, b"/r")
    loaded = acp("session/load", {"sessionId": "s", "cwd": "/r"}, result=None)
    assert loaded.phase is HookPhase.TURN_END


def test_acp_file_write_is_one_call_from_request_to_answer() -> None:
    params = {"sessionId": "s", "path": "/r/a", "content": "x"}
    asked = acp("fs/write_text_file", params)
    done = acp("fs/write_text_file", params, result=None)
    refused = acp("fs/write_text_file", params, error={"code": 1})
    assert asked.call_id == done.call_id == refused.call_id
    phases = (asked.phase, done.phase, refused.phase)
    assert phases == (HookPhase.BEFORE, HookPhase.AFTER, HookPhase.FAILED)


# Aider, and the forms of other recorders


def test_aider_takes_our_own_payload_under_its_name() -> None:
    found = read("aider", event="turn_end", session="s", agent="somebody")
    assert (found.agent, found.host, found.phase) == (
        "aider",
        "aider",
        HookPhase.TURN_END,
    )


def test_ai_agent_payload_is_bad_when_it_names_no_conversation() -> None:
    payload = load("gitai_agent_v1__ai_agent")
    del payload["conversation_id"]
    assert parse("generic", payload) == BadPayload(
        "the ai_agent payload has no session"
    )


def test_human_notice_names_what_will_be_edited() -> None:
    assert event("gitai_agent_v1__human").paths == (b"src/cart.py",)


@pytest.mark.parametrize(
    ("tool", "given", "kind"),
    [
        ("Write", {"path": "a"}, ToolClass.WRITE),
        ("Bash", {"command": "ls"}, ToolClass.SHELL),
        ("view", {"path": "a"}, ToolClass.READ),
        ("frobnicate", {"path": "a"}, ToolClass.WRITE),
        ("frobnicate", {}, ToolClass.OTHER),
    ],
)
def test_entire_tool_is_what_it_is_called_or_names(
    tool: str, given: object, kind: ToolClass
) -> None:
    found = event("entire_protocol__HookInput", tool_name=tool, tool_input=given)
    assert found.tool_class is kind
