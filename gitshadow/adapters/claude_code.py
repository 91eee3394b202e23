"""Claude Code: "Hooks reference" of its documentation, snapshot of 2026-08-22 (v2.1.240).

Invariant: only the fields named here are read. All others may change every week.
"""

from collections.abc import Mapping
from dataclasses import replace

from gitshadow.adapters.base import FileEdit, HookEvent, HookPhase, Parsed
from gitshadow.adapters.payload import Payload
from gitshadow.adapters.shape import CLAUDE_SETTINGS_PHASES, Shape, tool_classes

NAME = "claude-code"

SHAPE = Shape(
    agent=NAME,
    event=("hook_event_name",),
    phases={
        **CLAUDE_SETTINGS_PHASES,
        "PermissionDenied": HookPhase.DENIED,
        "StopFailure": HookPhase.TURN_END,
    },
    session=("session_id",),
    turn=("prompt_id",),
    call=("tool_use_id",),
    subagent=("agent_id",),
    subagent_type=("agent_type",),
    duration_ms=("duration_ms",),
    background_tasks=("background_tasks",),
    path_keys=("file_path", "notebook_path", "path", "filePath"),
    tools=tool_classes(
        write="Write Edit MultiEdit NotebookEdit",
        shell="Bash PowerShell Monitor",
        agent="Agent Skill Task Workflow",
        read="AskUserQuestion BashOutput CronCreate CronDelete CronList EnterPlanMode"
        " ExitPlanMode Glob Grep KillBash KillShell LS LSP ListAgents"
        " ListMcpResourcesTool NotebookRead Read ReadMcpResourceTool"
        " ReportFindings ScheduleWakeup SendMessage StructuredOutput TaskCreate"
        " TaskGet TaskList TaskOutput TaskStop TaskUpdate TodoRead TodoWrite"
        " ToolSearch WebFetch WebSearch",
    ),
)
"""What Claude Code sends; `claude_like` replaces what differs in similar hosts."""


def parse(payload: Payload, env: Mapping[str, str]) -> Parsed:
    """Read one payload; a `base.Parser`."""
    # A call that the user cancels has no end, and its turn no stop. But an agent that has waited a
    # minute for a prompt reports it, and then no call is running.
    event, kind = payload.value("hook_event_name"), payload.value("notification_type")
    is_idle = (event, kind) == ("Notification", "idle_prompt")
    found = SHAPE.read(payload, HookPhase.TURN_END if is_idle else None)
    if isinstance(found, HookEvent) and found.phase is HookPhase.AFTER:
        return replace(found, edit=_edit(payload))
    return found


def _edit(payload: Payload) -> FileEdit | None:
    """Return what `Write` or `Edit` found and left, or None if the payload does not have it."""
    given = payload.object("tool_input")
    response = payload.object("tool_response")
    found, left = response.value("originalFile"), given.value("content")
    if not isinstance(found, str):
        return None
    old, new = given.value("old_string"), given.value("new_string")
    if isinstance(old, str) and isinstance(new, str) and old:
        times = -1 if given.value("replace_all") is True else 1
        left = found.replace(old, new, times)
    # Claude Code gives the text with LF line ends and no byte order mark, whatever the file has, so
    # the bytes of a file with others stay unknown.
    if not isinstance(left, str) or "\r" in found + left:
        return None
    try:
        return FileEdit(found.encode(), left.encode())
    except UnicodeEncodeError:
        return None
