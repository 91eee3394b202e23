"""Claude Code: "Hooks reference" of its documentation, snapshot of 2026-08-22 (v2.1.240).

Invariant: only the fields named here are read. Everything else may change weekly.
"""

from collections.abc import Mapping

from gitshadow.adapters.base import Context, Parsed, Phase, Traits
from gitshadow.adapters.shape import CLAUDE_SETTINGS_PHASES, Shape, Tools
from gitshadow.model import ToolClass

NAME = "claude-code"

_PHASES: Mapping[str, Phase] = {
    **CLAUDE_SETTINGS_PHASES,
    "PermissionDenied": Phase.DENIED,
    "StopFailure": Phase.TURN_END,
}

_TOOLS: Tools = {
    ToolClass.WRITE: frozenset({"Write", "Edit", "MultiEdit", "NotebookEdit"}),
    ToolClass.SHELL: frozenset({"Bash", "PowerShell", "Monitor"}),
    ToolClass.AGENT: frozenset({"Agent", "Task", "Skill"}),
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
            "ListMcpResourcesTool",
            "NotebookRead",
            "Read",
            "ReadMcpResourceTool",
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
    traits = Traits(covers_all_tools=True, context=Context.JSON)

    def parse(self, payload: Mapping[str, object], env: Mapping[str, str]) -> Parsed:
        """Read one payload; see `base.Adapter.parse`.

        A call that the user cancels has no end and its turn no stop, but an agent that has
        waited a minute for a prompt says so, and runs no call then.
        """
        event, kind = payload.get("hook_event_name"), payload.get("notification_type")
        is_idle = (event, kind) == ("Notification", "idle_prompt")
        return SHAPE.read(payload, Phase.TURN_END if is_idle else None)
