"""Codex CLI: "Hooks" of its documentation and `codex-rs/hooks`, 0.153 (2026-09).

A patch has no path field: the paths are in the text. Its tool is named `apply_patch`, or is a
shell whose whole command is the patch.
Invariant: only the fields named here are read.
"""

import re
from collections.abc import Mapping
from dataclasses import replace

from gitshadow.adapters.base import HookEvent, HookPhase, Parsed
from gitshadow.adapters.payload import Payload
from gitshadow.adapters.shape import (
    CLAUDE_SETTINGS_PHASES,
    Shape,
    is_patch,
    patched_paths,
    tool_classes,
)
from gitshadow.model import JsonValue, ToolClass

NAME = "codex"

# The namespace of the tools for subagents, which 0.169 joins to a name without a separator.
_MULTI_AGENT = re.compile(r"\Amulti_agent_v\d+[^a-z]*(?=[a-z])")

_WALL_TIME = re.compile(r"\AExit code: -?\d+\nWall time: (\d{1,5}(?:\.\d+)?) seconds\n")
_SECOND_NS = 1_000_000_000


def _plain(tool: str) -> str:
    return _MULTI_AGENT.sub("", tool)


_SHAPE = Shape(
    agent=NAME,
    event=("hook_event_name", "type"),
    phases={
        **CLAUDE_SETTINGS_PHASES,
        "Interrupt": HookPhase.TURN_END,
        # The older `notify` program, which gets its JSON as an argument.
        "agent-turn-complete": HookPhase.TURN_END,
    },
    session=("session_id", "thread-id"),
    turn=("turn_id", "turn-id"),
    call=("tool_use_id",),
    subagent=("agent_id",),
    subagent_type=("agent_type",),
    path_keys=("file_path", "path"),
    patch_keys=("command", "input", "patch"),
    tool_name=_plain,
    tools=tool_classes(
        write="apply_patch Edit Write",
        shell="Bash container.exec exec_command local_shell shell shell_command"
        " unified_exec write_stdin",
        agent="close_agent list_agents resume_agent send_input send_message spawn_agent"
        " wait_agent",
        read="create_goal get_goal list_mcp_resource_templates list_mcp_resources"
        " read_mcp_resource request_user_input update_goal update_plan view_image"
        " web_search",
    ),
)


@_SHAPE.adjusted
def parse(found: HookEvent, payload: Payload, env: Mapping[str, str]) -> Parsed:
    """Read one payload; a `base.Parser`."""
    if found.tool == "apply_patch":
        return replace(found, duration_ns=_wall_time(payload.value("tool_response")))
    if found.tool_class is ToolClass.SHELL:
        return _patching(found, _SHAPE.input_of(payload).value("command"))
    return found


def _wall_time(response: JsonValue) -> int | None:
    """Return how long a patch took, from the head of Codex's answer; to a tenth of a second."""
    said = _WALL_TIME.match(response) if isinstance(response, str) else None
    return None if said is None else int((float(said[1]) + 0.1) * _SECOND_NS)


def _patching(found: HookEvent, command: JsonValue) -> HookEvent:
    """Make a shell's call a writing one if it is only a patch; a script may write anything."""
    if isinstance(command, list) and command[:1] == ["apply_patch"]:
        command = command[-1]
    paths = patched_paths(command) if is_patch(command) else ()
    if not paths:
        return found
    return replace(found, tool_class=ToolClass.WRITE, paths=paths)
