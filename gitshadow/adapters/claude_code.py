"""Claude Code: "Hooks reference" of its documentation, snapshot of 2026-08-22 (v2.1.240).

Invariant: only the fields named here are read. Everything else may change weekly.
"""

from collections.abc import Mapping
from dataclasses import replace

from gitshadow.adapters import fields
from gitshadow.adapters.base import (
    ContextChannel,
    FileEdit,
    HookEvent,
    HookPhase,
    Parsed,
    Traits,
)
from gitshadow.adapters.shape import CLAUDE_SETTINGS_PHASES, Shape, Tools
from gitshadow.model import ToolClass

NAME = "claude-code"

_PHASES: Mapping[str, HookPhase] = {
    **CLAUDE_SETTINGS_PHASES,
    "PermissionDenied": HookPhase.DENIED,
    "StopFailure": HookPhase.TURN_END,
}

_TOOLS: Tools = {
    ToolClass.WRITE: frozenset({"Write", "Edit", "MultiEdit", "NotebookEdit"}),
    ToolClass.SHELL: frozenset({"Bash", "PowerShell", "Monitor"}),
    ToolClass.AGENT: frozenset({"Agent", "Skill", "Task", "Workflow"}),
    ToolClass.READ: frozenset(
        {
            "AskUserQuestion",
            "BashOutput",
            "CronCreate",
            "CronDelete",
            "CronList",
            "EnterPlanMode",
            "ExitPlanMode",
            "Glob",
            "Grep",
            "KillBash",
            "KillShell",
            "LS",
            "LSP",
            "ListAgents",
            "ListMcpResourcesTool",
            "NotebookRead",
            "Read",
            "ReadMcpResourceTool",
            "ReportFindings",
            "ScheduleWakeup",
            "SendMessage",
            "StructuredOutput",
            "TaskCreate",
            "TaskGet",
            "TaskList",
            "TaskOutput",
            "TaskStop",
            "TaskUpdate",
            "TodoRead",
            "TodoWrite",
            "ToolSearch",
            "WebFetch",
            "WebSearch",
        }
    ),
}
SHAPE = Shape(
    agent=NAME,
    event=("hook_event_name",),
    phases=_PHASES,
    session=("session_id",),
    turn=("prompt_id",),
    call=("tool_use_id",),
    subagent=("agent_id",),
    subagent_type=("agent_type",),
    duration_ms=("duration_ms",),
    background_tasks=("background_tasks",),
    path_keys=("file_path", "notebook_path", "path", "filePath"),
    tools=_TOOLS,
)
"""What Claude Code sends; hosts that imitate it `dataclasses.replace` what differs."""


def tool_class(tool: str) -> ToolClass:
    """Return what a Claude Code tool can do to files; a tool we do not know may do anything."""
    return SHAPE.tool_class(tool)


class ClaudeCode:
    """Read payloads of Claude Code.

    `PreToolUse` and `PostToolUse` come for every tool, MCP servers' and subagents' included, and
    several tools may run at once.

    `UserPromptSubmit` takes `additionalContext` ("Hooks reference", "UserPromptSubmit decision
    control").
    """

    name = NAME
    traits = Traits(covers_all_tools=True, context=ContextChannel.JSON)

    def parse(self, payload: Mapping[str, object], env: Mapping[str, str]) -> Parsed:
        """Read one payload; see `base.Adapter.parse`.

        A call that the user cancels has no end and its turn no stop, but an agent that has
        waited a minute for a prompt says so, and runs no call then.
        """
        event, kind = payload.get("hook_event_name"), payload.get("notification_type")
        is_idle = (event, kind) == ("Notification", "idle_prompt")
        found = SHAPE.read(payload, HookPhase.TURN_END if is_idle else None)
        if isinstance(found, HookEvent) and found.phase is HookPhase.AFTER:
            return replace(found, edit=_edit(payload))
        return found


def _edit(payload: Mapping[str, object]) -> FileEdit | None:
    """Return what `Write` or `FileEdit` found and left; None where the payload does not say it.

    Claude Code reads with LF alone and without a byte order mark, so other bytes stay unknown.
    """
    given = fields.mapping(payload, "tool_input")
    response = fields.mapping(payload, "tool_response")
    found, left = response.get("originalFile"), given.get("content")
    if not isinstance(found, str):
        return None
    old, new = given.get("old_string"), given.get("new_string")
    if isinstance(old, str) and isinstance(new, str) and old:
        times = -1 if given.get("replace_all") is True else 1
        left = found.replace(old, new, times)
    if not isinstance(left, str) or "\r" in found + left:
        return None
    try:
        return FileEdit(found.encode(), left.encode())
    except UnicodeEncodeError:
        return None
