"""Claude Code: "Hooks reference" of its documentation, snapshot of 2026-08-22 (v2.1.240).

Invariant: only the fields named here are read. All others may change every week.
"""

from collections.abc import Mapping
from dataclasses import replace

from gitshadow.adapters.base import FileEdit, HookEvent, HookPhase, Parsed
from gitshadow.adapters.payload import Payload
from gitshadow.adapters.shape import (
    CLAUDE_SETTINGS_PHASES,
    Shape,
    file_edit,
    tool_classes,
)

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
    # A command that takes long is moved to the background without being asked for.
    backgrounded=("tool_response.backgroundTaskId", "tool_input.run_in_background"),
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
        return replace(found, edit=_edit(payload), changed=_changed(payload))
    return found


def _changed(payload: Payload) -> tuple[bytes, ...]:
    """Return all files that differ from before a shell command, empty if some may be missing.

    Claude Code compares two snapshots of the repository (2.1.330). It shows five files, and lists
    at most 200 paths. A list that it could not complete is marked or shorter than the count.
    """
    diff = payload.object("tool_response.bashEditDiff")
    shown, more, listed = map(diff.value, ("files", "moreFiles", "changedFiles"))
    if diff.value("unavailable") or diff.value("skipped") or not isinstance(more, int):
        return ()
    if not isinstance(shown, list) or not isinstance(listed, list):
        return ()
    paths = diff.paths("changedFiles[]")
    is_whole = len(paths) == len(listed) == len(shown) + more
    return paths if is_whole else ()


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
    return file_edit(found, left)
