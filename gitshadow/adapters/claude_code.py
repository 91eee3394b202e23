"""Claude Code: "Hooks reference" of its documentation, snapshot of 2026-08-22 (v2.1.240).

Invariant: only the fields named here are read. Everything else may change weekly.
"""

from collections.abc import Mapping

from gitshadow.adapters import fields
from gitshadow.adapters.base import BadPayload, HookEvent, Parsed, Phase, Traits
from gitshadow.model import ToolClass

NAME = "claude-code"

_PHASES: Mapping[str, Phase] = {
    "SessionStart": Phase.SESSION_START,
    "UserPromptSubmit": Phase.PROMPT,
    "PreToolUse": Phase.BEFORE,
    "PostToolUse": Phase.AFTER,
    "PostToolUseFailure": Phase.FAILED,
    "PermissionDenied": Phase.DENIED,
    "Stop": Phase.TURN_END,
    "StopFailure": Phase.TURN_END,
    "SubagentStart": Phase.SUBAGENT_START,
    "SubagentStop": Phase.SUBAGENT_END,
    "SessionEnd": Phase.SESSION_END,
}
_TOOL_PHASES = (Phase.BEFORE, Phase.AFTER, Phase.FAILED, Phase.DENIED)

_CLASSES: Mapping[ToolClass, frozenset[str]] = {
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
_PATH_KEYS = ("file_path", "notebook_path", "path", "filePath")


def tool_class(tool: str) -> ToolClass:
    """Return what a Claude Code tool can do to files; a tool we do not know may do anything."""
    for kind, names in _CLASSES.items():
        if tool in names:
            return kind
    return ToolClass.OTHER


class ClaudeCode:
    """Read payloads of Claude Code, and of hosts that send the same shape."""

    name = NAME
    traits = Traits(covers_all_tools=True, sequential=False)

    def parse(self, payload: Mapping[str, object], env: Mapping[str, str]) -> Parsed:
        """Read one payload; see `base.Adapter.parse`."""
        raw_event = fields.text(payload, "hook_event_name")
        if raw_event is None:
            return BadPayload("the payload names no hook event")
        phase = _PHASES.get(raw_event)
        if phase is None:
            return None
        session = fields.native_id(payload, "session_id")
        if session is None:
            return BadPayload(f"the {raw_event} payload names no session")
        subagent = fields.identifier(payload, "agent_id")
        if subagent is None and phase in (Phase.SUBAGENT_START, Phase.SUBAGENT_END):
            return BadPayload(f"the {raw_event} payload names no subagent")
        tool = fields.text(payload, "tool_name")
        if tool is None and phase in _TOOL_PHASES:
            return BadPayload(f"the {raw_event} payload names no tool")
        return _event(payload, phase, raw_event, session, subagent)


def _event(
    payload: Mapping[str, object],
    phase: Phase,
    raw_event: str,
    session: str,
    subagent: str | None,
) -> HookEvent:
    tool = fields.identifier(payload, "tool_name") if phase in _TOOL_PHASES else None
    kind = ToolClass.OTHER if tool is None else tool_class(tool)
    tool_input = fields.mapping(payload, "tool_input")
    native = session if subagent is None else f"{session}/{subagent}"
    call_id = fields.identifier(payload, "tool_use_id") if tool else None
    derived = tool is not None and call_id is None
    if tool is not None and call_id is None:
        call_id = fields.derived_call_id(native, tool, tool_input)
    names_paths = kind is ToolClass.WRITE
    return HookEvent(
        agent=NAME,
        host=NAME,
        native_session=native,
        parent_session=None if subagent is None else session,
        subagent_id=subagent,
        subagent_type=fields.text(payload, "agent_type"),
        turn_id=fields.identifier(payload, "prompt_id"),
        call_id=call_id,
        call_derived=derived,
        tool=tool,
        tool_class=kind,
        phase=phase,
        paths=fields.paths_at(tool_input, _PATH_KEYS) if names_paths else (),
        cwd=fields.raw_path(payload.get("cwd")),
        prompt=fields.prompt_text(payload, "prompt") if phase is Phase.PROMPT else None,
        model=fields.text(payload, "model"),
        transcript_path=fields.text(payload, "transcript_path"),
        raw_event=raw_event,
        reason=fields.text(payload, "reason") or fields.text(payload, "error"),
        duration_ns=fields.milliseconds(payload, "duration_ms"),
        background_tasks=fields.count(payload, "background_tasks"),
    )
