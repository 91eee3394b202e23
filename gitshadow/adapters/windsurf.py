"""Windsurf, now Devin Desktop: "Cascade Hooks" of its documentation, 2026-08.

What an event is about stands in `tool_info`; there are no call ids, and a directory only with
commands. `post_setup_worktree` tells that the work goes on in another worktree: the session is
seen there, before the first write.
Invariant: both ends of a call give it the same id, whatever else the end tells.
"""

from collections.abc import Mapping
from dataclasses import replace

from gitshadow.adapters import fields
from gitshadow.adapters.base import HookEvent, HookPhase, Parsed, Traits
from gitshadow.adapters.shape import Shape
from gitshadow.model import ToolClass

NAME = "windsurf"


def _without_end(action: str) -> str:
    return action.removeprefix("pre_").removeprefix("post_")


_SHAPE = Shape(
    agent=NAME,
    event=("agent_action_name",),
    phases={
        "pre_user_prompt": HookPhase.PROMPT,
        "pre_read_code": HookPhase.BEFORE,
        "post_read_code": HookPhase.AFTER,
        "pre_write_code": HookPhase.BEFORE,
        "post_write_code": HookPhase.AFTER,
        "pre_run_command": HookPhase.BEFORE,
        "post_run_command": HookPhase.AFTER,
        "pre_mcp_tool_use": HookPhase.BEFORE,
        "post_mcp_tool_use": HookPhase.AFTER,
        "post_cascade_response": HookPhase.TURN_END,
        "post_cascade_response_with_transcript": HookPhase.TURN_END,
        "post_setup_worktree": HookPhase.SESSION_START,
    },
    session=("trajectory_id",),
    turn=("execution_id",),
    tool=("agent_action_name",),
    tool_input=("tool_info",),
    cwd=("tool_info.cwd", "tool_info.worktree_path"),
    prompt=("tool_info.user_prompt",),
    model=("model_name",),
    transcript=("tool_info.transcript_path",),
    path_keys=("file_path",),
    tools={
        ToolClass.WRITE: frozenset({"write_code"}),
        ToolClass.SHELL: frozenset({"run_command"}),
        ToolClass.READ: frozenset({"read_code"}),
    },
    tool_name=_without_end,
)
_SAME_AT_BOTH_ENDS = (
    "file_path",
    "command_line",
    "cwd",
    "mcp_server_name",
    "mcp_tool_name",
    "mcp_tool_arguments",
)


class Windsurf:
    """Read payloads of Cascade: every kind of its actions has a hook before and after it."""

    name = NAME
    traits = Traits(covers_all_tools=True, sequential=False)

    def parse(self, payload: Mapping[str, object], env: Mapping[str, str]) -> Parsed:
        """Read one payload; see `base.Adapter.parse`."""
        found = _SHAPE.read(payload)
        if not isinstance(found, HookEvent) or found.tool is None:
            return found
        info = _SHAPE.input_of(payload)
        given = {key: info[key] for key in _SAME_AT_BOTH_ENDS if key in info}
        where = f"{found.native_session}\0{found.turn_id}"
        call_id = fields.derived_call_id(where, found.tool, given)
        return replace(found, call_id=call_id, tool=_tool(found.tool, info))


def _tool(action: str, info: Mapping[str, object]) -> str:
    """Return the action, of an MCP tool its name as other agents spell it."""
    name = fields.identifier(info, "mcp_tool_name")
    if name is None:
        return action
    server = fields.identifier(info, "mcp_server_name") or ""
    return fields.shortened_id(f"mcp__{server}__{name}")
