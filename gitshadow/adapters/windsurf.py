"""Windsurf, now Devin Desktop: "Cascade Hooks" of its documentation, 2026-08.

The details of an event are in `tool_info`; there are no call ids, and a directory only with
commands. `post_setup_worktree` reports that the work goes on in another worktree: the session is
known there before the first write.
Invariant: both ends of a call give it the same id, whatever else the end contains.
"""

from collections.abc import Mapping
from dataclasses import replace

from gitshadow.adapters.base import HookEvent, HookPhase, Parsed
from gitshadow.adapters.payload import Payload, derived_call_id, shortened_id
from gitshadow.adapters.shape import Shape, tool_classes

NAME = "windsurf"


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
    tools=tool_classes(
        write="write_code",
        shell="run_command",
        read="read_code",
    ),
    tool_name=lambda action: action.removeprefix("pre_").removeprefix("post_"),
)
_SAME_AT_BOTH_ENDS = (
    "file_path",
    "command_line",
    "cwd",
    "mcp_server_name",
    "mcp_tool_name",
    "mcp_tool_arguments",
)


@_SHAPE.adjusted
def parse(found: HookEvent, payload: Payload, env: Mapping[str, str]) -> Parsed:
    """Read one payload; a `base.Parser`."""
    if found.tool is None:
        return found
    # There are no call ids, and the end of a call contains more than its start: the id is made of
    # what both have.
    info = _SHAPE.input_of(payload)
    given = {key: info.fields[key] for key in _SAME_AT_BOTH_ENDS if key in info}
    where = f"{found.native_session}\0{found.turn_id}"
    call_id = derived_call_id(where, found.tool, given)
    return replace(found, call_id=call_id, tool=_tool(found.tool, info))


def _tool(action: str, info: Payload) -> str:
    """Return the action, or the name of an MCP tool as other agents spell it."""
    name = info.identifier("mcp_tool_name")
    if name is None:
        return action
    server = info.identifier("mcp_server_name") or ""
    return shortened_id(f"mcp__{server}__{name}")
