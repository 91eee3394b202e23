"""opencode: `packages/plugin/src/index.ts`, 2026-09 (1.18), through a plugin file of ours.

The plugin runs inside opencode and sends `{hook, input, output, directory}`: the two arguments
of the plugin function, and for bus events `input.event`. A subagent is a child session; the
plugin adds its `parentID`, which only `session.created` and the result of `task` tell.
Invariant: what a child is asked and does belongs to its parent's turn.
"""

from collections.abc import Mapping
from dataclasses import replace

from gitshadow.adapters import fields
from gitshadow.adapters.base import IN_SUBAGENT, HookEvent, HookPhase, Parsed, Traits
from gitshadow.adapters.shape import Shape
from gitshadow.model import ToolClass

NAME = "opencode"

_IDLE = "session.idle"
_BUS = ("session.created", _IDLE, "session.deleted")
_SHAPE = Shape(
    agent=NAME,
    event=("hook",),
    phases={
        "chat.message": HookPhase.PROMPT,
        "tool.execute.before": HookPhase.BEFORE,
        "tool.execute.after": HookPhase.AFTER,
        "session.created": HookPhase.SESSION_START,
        _IDLE: HookPhase.TURN_END,
        "session.deleted": HookPhase.SESSION_END,
    },
    session=("input.sessionID", "input.info.id"),
    turn=("input.messageID", "output.message.id"),
    call=("input.callID",),
    tool=("input.tool",),
    tool_input=("output.args", "input.args"),
    cwd=("directory", "input.info.directory", "worktree"),
    model=("input.model.modelID",),
    path_keys=("filePath", "file_path", "path"),
    patch_keys=("patchText", "patch"),
    tools={
        ToolClass.WRITE: frozenset(
            {"apply_patch", "edit", "multiedit", "patch", "write"}
        ),
        ToolClass.SHELL: frozenset({"bash", "shell"}),
        ToolClass.AGENT: frozenset({"task"}),
        ToolClass.READ: frozenset(
            {
                "codesearch",
                "glob",
                "grep",
                "list",
                "lsp",
                "plan_enter",
                "plan_exit",
                "question",
                "read",
                "skill",
                "todoread",
                "todowrite",
                "webfetch",
                "websearch",
            }
        ),
    },
)


class OpenCode:
    """Read what our plugin sends.

    The plugin's functions are called around every tool, MCP's too; several tools may run at once.
    """

    name = NAME
    traits = Traits(covers_all_tools=True, sequential=False)

    def parse(self, payload: Mapping[str, object], env: Mapping[str, str]) -> Parsed:
        """Read one payload; see `base.Adapter.parse`."""
        if fields.text(payload, "hook") == "event":
            return self._bus_event(payload)
        found = _SHAPE.read(payload)
        if not isinstance(found, HookEvent):
            return found
        if found.phase is HookPhase.PROMPT:
            found = replace(found, prompt=_prompt(fields.mapping(payload, "output")))
        else:
            found = replace(found, child_session=_child(found, payload))
        return _below(found, fields.native_id(payload, "parentID"))

    def _bus_event(self, payload: Mapping[str, object]) -> Parsed:
        """Read an event of opencode's bus; `session.status` with the type `idle` ends a turn."""
        event = fields.mapping(payload, "input.event")
        about = fields.mapping(event, "properties")
        name = fields.text(event, "type")
        if name == "session.status":
            if fields.text(about, "status.type") != "idle":
                return None
            name = _IDLE
        if name not in _BUS:
            return None
        found = _SHAPE.read({**payload, "hook": name, "input": about, "output": {}})
        if not isinstance(found, HookEvent):
            return found
        parent = fields.native_id(about, "info.parentID")
        return _below(found, parent or fields.native_id(payload, "parentID"))


def _below(found: HookEvent, parent: str | None) -> HookEvent:
    """Put what a child session does below its parent's."""
    if parent is None or parent == found.native_session:
        return found
    return replace(
        found,
        parent_session=parent,
        subagent_id=found.native_session,
        # The message that starts a child is none of the user's: no turn of its own.
        turn_id=None,
        prompt=None,
        phase=IN_SUBAGENT.get(found.phase, found.phase),
    )


def _child(found: HookEvent, payload: Mapping[str, object]) -> str | None:
    """Return the session that a `task` call has started, as its result names it."""
    if found.phase is not HookPhase.AFTER or found.tool_class is not ToolClass.AGENT:
        return None
    about = fields.mapping(payload, "output.metadata")
    child = fields.native_id(about, "sessionId")
    parent = fields.native_id(about, "parentSessionId")
    if child == found.native_session or parent not in (None, found.native_session):
        return None
    return child


def _prompt(output: Mapping[str, object]) -> str | None:
    """Return the text parts of a message."""
    parts = output.get("parts")
    if not isinstance(parts, list):
        return None
    whole = (one for one in parts if isinstance(one, dict) and not one.get("synthetic"))
    return fields.prompt_of(whole)
