"""Copilot CLI and cloud agent: `hooks-reference.md` of github/docs, 2026-08 (CLI of 2026-08-03).

One product, two forms: registered under camelCase names it sends camelCase fields, times in
milliseconds and no event name; under PascalCase names it sends Claude Code's.
Invariant: the same call has the same id in both forms, so that two registrations are one call.
"""

from collections.abc import Mapping
from dataclasses import replace

from gitshadow.adapters.base import TOOL_PHASES, HookEvent, HookPhase, Parsed
from gitshadow.adapters.payload import Payload, derived_call_id, shortened_id
from gitshadow.adapters.shape import CLAUDE_SETTINGS_PHASES, Shape, tool_classes

NAME = "copilot"

_SHAPE = Shape(
    agent=NAME,
    event=("hook_event_name",),
    phases={
        **CLAUDE_SETTINGS_PHASES,
        "sessionStart": HookPhase.SESSION_START,
        "userPromptSubmitted": HookPhase.PROMPT,
        "UserPromptSubmitted": HookPhase.PROMPT,
        "preToolUse": HookPhase.BEFORE,
        "postToolUse": HookPhase.AFTER,
        "postToolUseFailure": HookPhase.FAILED,
        "agentStop": HookPhase.TURN_END,
        "AgentStop": HookPhase.TURN_END,
        "subagentStart": HookPhase.SUBAGENT_START,
        "subagentStop": HookPhase.SUBAGENT_END,
        "sessionEnd": HookPhase.SESSION_END,
    },
    session=("sessionId", "session_id"),
    call=("toolCallId", "tool_call_id", "tool_use_id"),
    tool=("toolName", "tool_name"),
    tool_input=("toolArgs", "tool_input"),
    transcript=("transcriptPath", "transcript_path"),
    # Before 1.0.102 the start names only the agent, the end also an id: the name is in both.
    subagent=("agentName", "agent_name", "agentId", "agent_id"),
    subagent_type=("agentType", "agent_type", "agentName", "agent_name"),
    content=("file_text",),
    replaced=("old_str", "new_str"),
    path_keys=("path", "file_path", "filePath", "notebook_path"),
    patch_keys=("patch", "input", "command"),
    tools=tool_classes(
        write="apply_patch create edit str_replace str_replace_editor Edit MultiEdit"
        " NotebookEdit Write",
        shell="bash powershell write_bash write_powershell Bash PowerShell",
        # `task` is in no class: the subagents of older builds send nothing.
        agent="read_agent write_agent",
        read="ask_user fetch_copilot_cli_documentation glob grep list_agents list_bash"
        " read_bash report_intent rg session_store_sql sql stop_bash update_todo"
        " view web_fetch web_search Glob Grep Read TodoWrite WebFetch WebSearch",
    ),
)
_OWN_NAMES: Mapping[str, str] = {
    "Bash": "bash",
    "Edit": "edit",
    "MultiEdit": "edit",
    "PowerShell": "powershell",
    "Task": "task",
    "Write": "create",
}
_ASKING = ("permissionSuggestions", "permissionRequest")


def parse(payload: Payload, env: Mapping[str, str]) -> Parsed:
    """Read one payload; a `base.Parser`."""
    if "hook_event_name" not in payload and "sessionId" in payload:
        event = _event_of(payload)
        if event is None:
            return None
        payload = payload.changed(hook_event_name=event)
    found = _SHAPE.read(payload)
    if not isinstance(found, HookEvent):
        return found
    found = _below(found, payload)
    if found.phase is HookPhase.SESSION_START:
        return replace(found, prompt=payload.prompt_text("initialPrompt"))
    if found.phase in TOOL_PHASES:
        return _call(found, payload)
    return found


def _event_of(payload: Payload) -> str | None:
    """Return the event of a camelCase payload, which only its fields show."""
    keys = payload.names
    if "hookEventName" in keys:  # another host's
        return None
    if "toolName" in keys:
        return _tool_event(payload)
    if "agentName" in keys or ("agentId" in keys and "parentAgentId" not in keys):
        ended = "stopReason" in keys or "response" in keys
        return "subagentStop" if ended else "subagentStart"
    if "stopReason" in keys:
        return "agentStop"
    if "prompt" in keys:
        return None if "transformedPrompt" in keys else "userPromptSubmitted"
    if "source" in keys or "initialPrompt" in keys:
        return "sessionStart"
    if "reason" in keys and "error" not in keys:
        return "sessionEnd"
    return None


def _below(found: HookEvent, payload: Payload) -> HookEvent:
    """Move a subagent that names its parent below it, whichever of them the session id names.

    Each of its events has its id and its parent's (1.0.102), so two of one kind are two.
    """
    child = payload.native_id("agentId", "agent_id")
    parent = payload.native_id("parentAgentId", "parent_agent_id")
    if child is None or parent is None or child == parent:
        return found
    return replace(
        found,
        native_session=child,
        parent_session=parent,
        subagent_id=shortened_id(child),
    )


def _tool_event(payload: Payload) -> str | None:
    if any(key in payload for key in _ASKING):
        return None
    if "toolResult" in payload:
        return "postToolUse"
    return "postToolUseFailure" if "error" in payload else "preToolUse"


def _call(found: HookEvent, payload: Payload) -> HookEvent:
    result = payload.text("toolResult.resultType", "tool_result.resultType")
    if found.phase is HookPhase.AFTER and result in ("failure", "denied"):
        phase = HookPhase.DENIED if result == "denied" else HookPhase.FAILED
        found = replace(found, phase=phase)
    if not found.call_derived or found.tool is None:
        return found
    own = _OWN_NAMES.get(found.tool, found.tool)
    given = _SHAPE.input_of(payload).fields
    call_id = derived_call_id(found.native_session, own, given)
    return replace(found, call_id=call_id)
