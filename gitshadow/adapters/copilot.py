"""Copilot CLI and cloud agent: `hooks-reference.md` of github/docs, 2026-08 (CLI of 2026-08-03).

One product, two forms: registered under camelCase names it sends camelCase fields, times in
milliseconds and no event name; under PascalCase names it sends Claude Code's.
Invariant: the same call has the same id in both forms, so that two registrations are one call.
"""

from collections.abc import Mapping
from dataclasses import replace

from gitshadow.adapters import fields
from gitshadow.adapters.base import TOOL_PHASES, HookEvent, HookPhase, Parsed, Traits
from gitshadow.adapters.shape import Shape
from gitshadow.model import ToolClass

NAME = "copilot"

_SHAPE = Shape(
    agent=NAME,
    event=("hook_event_name",),
    phases={
        "sessionStart": HookPhase.SESSION_START,
        "SessionStart": HookPhase.SESSION_START,
        "userPromptSubmitted": HookPhase.PROMPT,
        "UserPromptSubmit": HookPhase.PROMPT,
        "UserPromptSubmitted": HookPhase.PROMPT,
        "preToolUse": HookPhase.BEFORE,
        "PreToolUse": HookPhase.BEFORE,
        "postToolUse": HookPhase.AFTER,
        "PostToolUse": HookPhase.AFTER,
        "postToolUseFailure": HookPhase.FAILED,
        "PostToolUseFailure": HookPhase.FAILED,
        "agentStop": HookPhase.TURN_END,
        "AgentStop": HookPhase.TURN_END,
        "Stop": HookPhase.TURN_END,
        "subagentStart": HookPhase.SUBAGENT_START,
        "SubagentStart": HookPhase.SUBAGENT_START,
        "subagentStop": HookPhase.SUBAGENT_END,
        "SubagentStop": HookPhase.SUBAGENT_END,
        "sessionEnd": HookPhase.SESSION_END,
        "SessionEnd": HookPhase.SESSION_END,
    },
    session=("sessionId", "session_id"),
    call=("toolCallId", "tool_call_id", "tool_use_id"),
    tool=("toolName", "tool_name"),
    tool_input=("toolArgs", "tool_input"),
    transcript=("transcriptPath", "transcript_path"),
    # Before 1.0.102 the start names the agent alone, the end also an id: they meet by the name.
    subagent=("agentName", "agent_name", "agentId", "agent_id"),
    subagent_type=("agentType", "agent_type", "agentName", "agent_name"),
    path_keys=("path", "file_path", "filePath", "notebook_path"),
    patch_keys=("patch", "input", "command"),
    tools={
        ToolClass.WRITE: frozenset(
            {
                *("apply_patch", "create", "edit", "str_replace", "str_replace_editor"),
                *("Edit", "MultiEdit", "NotebookEdit", "Write"),
            }
        ),
        ToolClass.SHELL: frozenset(
            {
                *("bash", "powershell", "write_bash", "write_powershell"),
                *("Bash", "PowerShell"),
            }
        ),
        # `task` is none of them: the subagents of older builds send nothing.
        ToolClass.AGENT: frozenset({"read_agent", "write_agent"}),
        ToolClass.READ: frozenset(
            {
                *("ask_user", "fetch_copilot_cli_documentation", "glob", "grep"),
                *("list_agents", "list_bash", "read_bash", "report_intent", "rg"),
                *("session_store_sql", "sql", "stop_bash", "update_todo", "view"),
                *("web_fetch", "web_search"),
                *("Glob", "Grep", "Read", "TodoWrite", "WebFetch", "WebSearch"),
            }
        ),
    },
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


class Copilot:
    """Read payloads of Copilot CLI and of the cloud agent.

    `preToolUse` comes for every tool. Its built-in agent runs without subagent events, so the
    tool that starts one, `task`, is open for any path.
    """

    name = NAME
    traits = Traits(covers_all_tools=True, waits_unseen=True)

    def parse(self, payload: Mapping[str, object], env: Mapping[str, str]) -> Parsed:
        """Read one payload; see `base.Adapter.parse`."""
        if "hook_event_name" not in payload and "sessionId" in payload:
            event = _event_of(payload)
            if event is None:
                return None
            payload = {**payload, "hook_event_name": event}
        found = _SHAPE.read(payload)
        if not isinstance(found, HookEvent):
            return found
        found = _below(found, payload)
        if found.phase is HookPhase.SESSION_START:
            return replace(found, prompt=fields.prompt_text(payload, "initialPrompt"))
        if found.phase in TOOL_PHASES:
            return _call(found, payload)
        return found


def _event_of(payload: Mapping[str, object]) -> str | None:
    """Name the event of a camelCase payload, which only its fields tell."""
    keys = payload.keys()
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


def _below(found: HookEvent, payload: Mapping[str, object]) -> HookEvent:
    """Put a subagent that names its parent below it, whichever of them the session id names.

    Each of its events has its id and its parent's (1.0.102), so two of one kind are two.
    """
    child = _either(payload, "agentId", "agent_id")
    parent = _either(payload, "parentAgentId", "parent_agent_id")
    if child is None or parent is None or child == parent:
        return found
    return replace(
        found,
        native_session=child,
        parent_session=parent,
        subagent_id=fields.shortened_id(child),
    )


def _either(payload: Mapping[str, object], *keys: str) -> str | None:
    named = (fields.native_id(payload, key) for key in keys)
    return next((value for value in named if value is not None), None)


def _tool_event(payload: Mapping[str, object]) -> str | None:
    if any(key in payload for key in _ASKING):
        return None
    if "toolResult" in payload:
        return "postToolUse"
    return "postToolUseFailure" if "error" in payload else "preToolUse"


def _call(found: HookEvent, payload: Mapping[str, object]) -> HookEvent:
    result = next(
        (
            kind
            for key in ("toolResult", "tool_result")
            if (kind := fields.text(payload, f"{key}.resultType"))
        ),
        None,
    )
    if found.phase is HookPhase.AFTER and result in ("failure", "denied"):
        phase = HookPhase.DENIED if result == "denied" else HookPhase.FAILED
        found = replace(found, phase=phase)
    if not found.call_derived or found.tool is None:
        return found
    own = _OWN_NAMES.get(found.tool, found.tool)
    given = _SHAPE.input_of(payload)
    call_id = fields.derived_call_id(found.native_session, own, given)
    return replace(found, call_id=call_id)
