"""Codex CLI: "Hooks" of its documentation and `codex-rs/hooks`, 0.153 (2026-09).

A patch has no path field: the paths stand in the text. It comes under the name `apply_patch`,
and under that of a shell where the patch is the whole command.
Invariant: only the fields named here are read.
"""

import re
from collections.abc import Mapping
from dataclasses import replace

from gitshadow.adapters import envelope, fields
from gitshadow.adapters.base import ContextChannel, HookEvent, HookPhase, Parsed, Traits
from gitshadow.adapters.shape import Shape
from gitshadow.model import ToolClass

NAME = "codex"

_MULTI_AGENT = re.compile(r"\Amulti_agent_v\d+[^a-z]*(?=[a-z])")
"""The namespace of the tools for subagents, which 0.169 joins to a name without a sign."""

_WALL_TIME = re.compile(r"\AExit code: -?\d+\nWall time: (\d{1,5}(?:\.\d+)?) seconds\n")
_SECOND_NS = 1_000_000_000
_DAY_NS = 86_400 * _SECOND_NS


def _plain(tool: str) -> str:
    return _MULTI_AGENT.sub("", tool)


_SHAPE = Shape(
    agent=NAME,
    event=("hook_event_name", "type"),
    phases={
        "SessionStart": HookPhase.SESSION_START,
        "UserPromptSubmit": HookPhase.PROMPT,
        "PreToolUse": HookPhase.BEFORE,
        "PostToolUse": HookPhase.AFTER,
        "Stop": HookPhase.TURN_END,
        "Interrupt": HookPhase.TURN_END,
        # The older `notify` program, which gets its JSON as an argument.
        "agent-turn-complete": HookPhase.TURN_END,
        "SubagentStart": HookPhase.SUBAGENT_START,
        "SubagentStop": HookPhase.SUBAGENT_END,
        "SessionEnd": HookPhase.SESSION_END,
    },
    session=("session_id", "thread-id"),
    turn=("turn_id", "turn-id"),
    call=("tool_use_id",),
    subagent=("agent_id",),
    subagent_type=("agent_type",),
    path_keys=("file_path", "path"),
    patch_keys=("command", "input", "patch"),
    tool_name=_plain,
    tools={
        ToolClass.WRITE: frozenset({"apply_patch", "Edit", "Write"}),
        ToolClass.SHELL: frozenset(
            {
                "Bash",
                "container.exec",
                "exec_command",
                "local_shell",
                "shell",
                "shell_command",
                "unified_exec",
                "write_stdin",
            }
        ),
        ToolClass.AGENT: frozenset(
            {
                "close_agent",
                "list_agents",
                "resume_agent",
                "send_input",
                "send_message",
                "spawn_agent",
                "wait_agent",
            }
        ),
        ToolClass.READ: frozenset(
            {
                "create_goal",
                "get_goal",
                "list_mcp_resource_templates",
                "list_mcp_resources",
                "read_mcp_resource",
                "request_user_input",
                "update_goal",
                "update_plan",
                "view_image",
                "web_search",
            }
        ),
    },
)


class Codex:
    """Read payloads of Codex CLI.

    `PreToolUse` comes for shells, patches, MCP and other function tools; what is never hooked,
    the hosted web search, writes nothing. Calls run side by side, and the end of a long command
    may come with a later poll.

    `UserPromptSubmit` takes `additionalContext` ("Hooks", its output schema).
    """

    name = NAME
    traits = Traits(
        covers_all_tools=True, waits_unseen=True, context=ContextChannel.JSON
    )

    def parse(self, payload: Mapping[str, object], env: Mapping[str, str]) -> Parsed:
        """Read one payload; see `base.Adapter.parse`."""
        found = _SHAPE.read(payload)
        if isinstance(found, HookEvent) and found.tool == "apply_patch":
            ran_ns = _wall_time(fields.at(payload, "tool_response"))
            return replace(found, duration_ns=ran_ns)
        if isinstance(found, HookEvent) and found.tool_class is ToolClass.SHELL:
            return _patching(found, _SHAPE.input_of(payload).get("command"))
        return found


def ran_ns(record: Mapping[str, object], call_id: str) -> int | None:
    """Return how long a command ran, from a line of the transcript; None for any other line.

    The line is written before the hook runs (0.169).
    """
    item = fields.mapping(record, "payload.item")
    if item.get("id") != call_id or item.get("type") != "CommandExecution":
        return None
    seconds, nanos = fields.at(item, "duration.secs"), fields.at(item, "duration.nanos")
    if not isinstance(seconds, int) or not isinstance(nanos, int):
        return None
    found = seconds * _SECOND_NS + nanos
    return found if 0 <= found <= _DAY_NS else None


def _wall_time(response: object) -> int | None:
    """Return how long a patch took, as Codex heads its answer; to a tenth of a second."""
    said = _WALL_TIME.match(response) if isinstance(response, str) else None
    return None if said is None else int((float(said[1]) + 0.1) * _SECOND_NS)


def _patching(found: HookEvent, command: object) -> HookEvent:
    """Make a shell's call that is nothing but a patch a writing one; a script stays a shell's."""
    if isinstance(command, list) and command[:1] == ["apply_patch"]:
        command = command[-1]
    paths = envelope.patched_paths(command) if envelope.is_patch(command) else ()
    if not paths:
        return found
    return replace(found, tool_class=ToolClass.WRITE, paths=paths)
