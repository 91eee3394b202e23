"""Cline: `apps/vscode/proto/cline/hooks.proto` and `sdk/packages/core/src/hooks`, 2026-08-22.

The extension's payloads have `preToolUse{toolName, parameters}` and no call id, those of the SDK
runtime (the command line too, 3.0.65) `tool_call{id, name, input}`, and often both.
Invariant: the SDK's fields come first; a task is a session.
"""

from collections.abc import Mapping
from dataclasses import replace

from gitshadow.adapters.base import IN_SUBAGENT, HookEvent, HookPhase, Parsed
from gitshadow.adapters.payload import Payload
from gitshadow.adapters.shape import Shape, by_file, tool_classes

NAME = "cline"

_SHAPE = Shape(
    agent=NAME,
    event=("hookName",),
    phases={
        "TaskStart": HookPhase.SESSION_START,
        "TaskResume": HookPhase.SESSION_START,
        "UserPromptSubmit": HookPhase.PROMPT,
        "PreToolUse": HookPhase.BEFORE,
        "PostToolUse": HookPhase.AFTER,
        # A task that was completed or cancelled goes on with the user's next message.
        "TaskComplete": HookPhase.TURN_END,
        "TaskCancel": HookPhase.TURN_END,
        "TaskError": HookPhase.TURN_END,
        "SessionShutdown": HookPhase.SESSION_END,
        # The command line sends no prompt_submit: only its start reports a message.
        "agent_start": HookPhase.PROMPT,
        "agent_resume": HookPhase.PROMPT,
        "prompt_submit": HookPhase.PROMPT,
        "tool_call": HookPhase.BEFORE,
        "tool_result": HookPhase.AFTER,
        "agent_end": HookPhase.TURN_END,
        "agent_error": HookPhase.TURN_END,
        "agent_abort": HookPhase.TURN_END,
        "session_shutdown": HookPhase.SESSION_END,
    },
    session=("sessionContext.rootSessionId", "taskId"),
    call=("tool_call.id", "tool_result.id"),
    tool=(
        "tool_call.name",
        "tool_result.name",
        "preToolUse.toolName",
        "postToolUse.toolName",
    ),
    tool_input=(
        "tool_call.input",
        "tool_result.input",
        "preToolUse.parameters",
        "postToolUse.parameters",
    ),
    cwd=("workspaceRoots", "workspaceInfo.rootPath"),
    prompt=("userPromptSubmit.prompt",),
    model=("model.slug",),
    duration_ms=("tool_result.durationMs", "postToolUse.executionTimeMs"),
    path_keys=("path", "absolutePath", "file_path"),
    patch_keys=("input", "patch"),
    tools=tool_classes(
        write="apply_patch edit editor replace_in_file write_to_file",
        shell="bash execute_command run_commands",
        agent="new_task spawn_agent use_subagents",
        read="access_mcp_resource act_mode_respond ask_followup_question ask_question"
        " attempt_completion condense fetch_web_content focus_chain"
        " list_code_definition_names list_files load_mcp_documentation"
        " plan_mode_respond read_file read_files search_codebase search_files"
        " summarize_task web_fetch web_search",
    ),
)
# What the events of a subagent are in its parent's session: it runs only one task.
_BELOW = {**IN_SUBAGENT, HookPhase.TURN_END: HookPhase.SUBAGENT_END}


@_SHAPE.adjusted
def parse(found: HookEvent, payload: Payload, env: Mapping[str, str]) -> Parsed:
    """Read one payload; a `base.Parser`."""
    if found.phase is HookPhase.PROMPT and "agent_id" in payload:
        # Both events of one message have its id, so they begin one turn.
        found = replace(found, turn_id=payload.identifier("taskId"))
    if found.phase is HookPhase.AFTER and _failed(payload):
        found = replace(found, phase=HookPhase.FAILED)
    # The extension sends no call ids.
    return by_file(_below(found, payload))


def _failed(payload: Payload) -> bool:
    if payload.object("tool_result").value("error"):
        return True
    return payload.object("postToolUse").value("success") is False


def _below(found: HookEvent, payload: Payload) -> HookEvent:
    """Move the event of an agent with a parent into a session below the task's."""
    subagent = payload.identifier("agent_id")
    if subagent is None or payload.identifier("parent_agent_id") is None:
        return found
    session = found.native_session
    return replace(
        found,
        native_session=f"{session}/{subagent}",
        parent_session=session,
        subagent_id=subagent,
        phase=_BELOW.get(found.phase, found.phase),
    )
