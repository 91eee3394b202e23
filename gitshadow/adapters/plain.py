"""Agents that a `Shape` describes almost completely, each with a few lines for its quirks.

Invariant: only the fields named here are read.
"""

from collections.abc import Mapping
from dataclasses import replace

from gitshadow.adapters.base import HookEvent, HookPhase, Parsed, Parser
from gitshadow.adapters.payload import Payload, prompt_of, shortened_id
from gitshadow.adapters.shape import (
    CLAUDE_SETTINGS_PHASES,
    SNAKE_CASE_PHASES,
    Shape,
    by_file,
    tool_classes,
    unless_viewing,
)

# `docs/hooks/README.md` and `internal/hooks` of charmbracelet/crush, 2026-08-21. There is one
# event, before a tool of the top-level agent; a window ends with the next event of its session.
CRUSH = Shape(
    agent="crush",
    event=("event",),
    phases={"PreToolUse": HookPhase.BEFORE},
    session=("session_id",),
    path_keys=("file_path",),
    tools=tool_classes(
        write="edit write multiedit download",
        shell="bash",
        agent="agent agentic_fetch",
        read="crush_info crush_logs diagnostics fetch glob grep job_output ls"
        " lsp_diagnostics lsp_references references sourcegraph todos view"
        " web_fetch web_search",
    ),
)
# `docs/hooks` and `packages/core/src/hooks` of google-gemini/gemini-cli, 2026-08-21. Its payloads
# have no ids of turns and calls: a prompt begins a turn, a call is named after its session, tool
# and input. A subagent is one tool, whose window is open for any path.
GEMINI = Shape(
    agent="gemini",
    event=("hook_event_name",),
    phases={
        "SessionStart": HookPhase.SESSION_START,
        "BeforeAgent": HookPhase.PROMPT,
        "BeforeTool": HookPhase.BEFORE,
        "AfterTool": HookPhase.AFTER,
        "AfterAgent": HookPhase.TURN_END,
        "SessionEnd": HookPhase.SESSION_END,
    },
    session=("session_id",),
    backgrounded=("tool_input.is_background",),
    edit_texts=(
        "tool_response.returnDisplay.originalContent",
        "tool_response.returnDisplay.newContent",
    ),
    path_keys=("file_path", "path", "absolute_path"),
    tools=tool_classes(
        write="edit replace write_file",
        shell="run_shell_command",
        read="ask_user enter_plan_mode get_internal_docs glob google_web_search"
        " grep_search list_directory read_file read_many_files search_file_content"
        " web_fetch write_todos",
    ),
)
# Notes of another recorder on its hooks, 2026-09; the vendor documents no payload. Event names
# were seen in PascalCase, the settings file has them in snake_case. No call id is sent, and the
# end repeats only a part of the input, so a call that writes one file is named after it. What a
# subagent does is not reported (1.16), so the tools that start one are open for any path.
OPENHANDS = Shape(
    agent="openhands",
    event=("event_type",),
    phases={**CLAUDE_SETTINGS_PHASES, **SNAKE_CASE_PHASES},
    session=("session_id",),
    call=("tool_call_id",),
    cwd=("working_dir",),
    prompt=("message",),
    edit_texts=("tool_response.old_content", "tool_response.new_content"),
    path_keys=("path", "file_path"),
    patch_keys=("patch",),
    tools=tool_classes(
        write="apply_patch file_editor planning_file_editor str_replace_editor",
        shell="bash execute_bash terminal",
        read="finish glob grep think",
    ),
)
# "Hooks" of Kimi Code's documentation and its 2.1.0, 2026-11. What a subagent does is reported in
# its parent's session without a mark, its stop too.
KIMI = Shape(
    agent="kimi",
    event=("hook_event_name",),
    phases={
        **CLAUDE_SETTINGS_PHASES,
        "StopFailure": HookPhase.TURN_END,
        "Interrupt": HookPhase.TURN_END,
    },
    session=("session_id",),
    call=("tool_call_id",),
    content=("content",),
    replaced=("old_string", "new_string"),
    backgrounded=("tool_input.run_in_background",),
    path_keys=("path", "file_path"),
    tools=tool_classes(
        write="Edit Write",
        shell="Bash",
        agent="Agent AgentSwarm",
        read="AskUserQuestion CreateGoal CronCreate CronDelete CronList EnterPlanMode"
        " ExitPlanMode FetchURL GetGoal Glob Grep Read ReadMediaFile SetGoalBudget"
        " TaskList TaskOutput TaskStop TodoList UpdateGoal WaitFor WebSearch",
    ),
)
# "Hooks" in the README of Mistral Vibe 3.0.2, 2026-11. No event comes for a prompt, so calls have
# no turn.
VIBE = Shape(
    agent="vibe",
    event=("hook_event_name",),
    phases={
        "pre_tool": HookPhase.BEFORE,
        "post_tool": HookPhase.AFTER,
        "post_agent": HookPhase.TURN_END,
    },
    session=("session_id",),
    call=("tool_call_id",),
    content=("content",),
    replaced=("old_string", "new_string"),
    duration_ms=("duration_ms",),
    path_keys=("file_path", "path"),
    tools=tool_classes(
        write="edit search_replace write_file",
        shell="bash process.start",
        read="ask_user_question exit_plan_mode grep read_file skill todo web_fetch"
        " web_search",
    ),
    tool_name=lambda name: name.removeprefix("file_system."),
)
# The hooks pages of microsoft/vscode-docs, 2026-08. Field names are mixed: `sessionId` and
# `hookEventName`, but `tool_name` and `tool_use_id`. The tool that starts a subagent is open for
# any path, because the pages do not say that the subagent's own tools send events.
VSCODE_COPILOT = Shape(
    agent="vscode-copilot",
    event=("hookEventName", "hook_event_name"),
    phases=CLAUDE_SETTINGS_PHASES,
    session=("sessionId", "session_id"),
    call=("tool_use_id",),
    subagent=("agent_id",),
    subagent_type=("agent_type",),
    path_keys=("filePath", "files[]", "replacements[].filePath", "path", "file_path"),
    patch_keys=("input", "patch"),
    tools=tool_classes(
        write="apply_patch createFile create_file editFiles edit_notebook_file"
        " insert_edit_into_file multi_replace_string_in_file"
        " replace_string_in_file",
        shell="create_and_run_task runInTerminal runTests run_in_terminal run_task"
        " send_to_terminal",
        read="codebase fetch_webpage file_search get_changed_files get_errors"
        " get_terminal_output github_repo grep_search list_code_usages list_dir"
        " manage_todo_list readFile read_file semantic_search"
        " terminal_last_command terminal_selection test_search",
    ),
)


@GEMINI.adjusted
def _gemini(found: HookEvent, payload: Payload, env: Mapping[str, str]) -> Parsed:
    if found.phase is HookPhase.AFTER and payload.value("tool_response.error"):
        return replace(found, phase=HookPhase.FAILED)
    return found


def _openhands(payload: Payload, env: Mapping[str, str]) -> Parsed:
    found = OPENHANDS.read(payload)
    return by_file(unless_viewing(found, payload.object("tool_input")))


@KIMI.adjusted
def _kimi(found: HookEvent, payload: Payload, env: Mapping[str, str]) -> Parsed:
    if found.phase is HookPhase.PROMPT:
        # A prompt is a list of parts; older ones were a text.
        return replace(
            found, prompt=found.prompt or prompt_of(payload.objects("prompt"))
        )
    return found


@VIBE.adjusted
def _vibe(found: HookEvent, payload: Payload, env: Mapping[str, str]) -> Parsed:
    if found.phase is HookPhase.AFTER and payload.text("tool_status") == "failure":
        found = replace(found, phase=HookPhase.FAILED)
    parent = payload.native_id("parent_session_id")
    if parent is None:
        return found
    return replace(
        found,
        parent_session=parent,
        subagent_id=shortened_id(found.native_session),
    )


PARSERS: Mapping[str, Parser] = {
    "crush": CRUSH.parse,
    "gemini": _gemini,
    "kimi": _kimi,
    "openhands": _openhands,
    "vibe": _vibe,
    "vscode-copilot": VSCODE_COPILOT.parse,
}
