"""opencode: `packages/plugin/src/index.ts`, 2026-09 (1.18), through gitshadow's plugin.

The plugin runs inside opencode and sends `{hook, input, output, directory}`: the two arguments
of the plugin function, and for bus events `input.event`. A subagent is a child session; the
plugin adds its `parentID`, which only `session.created` and the result of `task` contain.
Invariant: a child's prompts and calls belong to its parent's turn.
"""

from collections.abc import Mapping
from dataclasses import replace

from gitshadow.adapters.base import IN_SUBAGENT, HookEvent, HookPhase, Parsed
from gitshadow.adapters.payload import Payload, prompt_of
from gitshadow.adapters.shape import Shape, tool_classes
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
    tools=tool_classes(
        write="apply_patch edit multiedit patch write",
        shell="bash shell",
        agent="task",
        read="codesearch glob grep list lsp plan_enter plan_exit question read skill"
        " todoread todowrite webfetch websearch",
    ),
)


def parse(payload: Payload, env: Mapping[str, str]) -> Parsed:
    """Read one payload; a `base.Parser`."""
    if payload.text("hook") == "event":
        return _bus_event(payload)
    found = _SHAPE.read(payload)
    if not isinstance(found, HookEvent):
        return found
    if found.phase is HookPhase.PROMPT:
        found = replace(found, prompt=_prompt(payload))
    else:
        found = replace(found, child_session=_child(found, payload))
    return _below(found, payload.native_id("parentID"))


def _bus_event(payload: Payload) -> Parsed:
    """Read an event of opencode's bus; `session.status` with the type `idle` ends a turn."""
    event = payload.object("input.event")
    about = event.object("properties")
    name = event.text("type")
    if name == "session.status":
        if about.text("status.type") != "idle":
            return None
        name = _IDLE
    if name not in _BUS:
        return None
    found = _SHAPE.read(payload.changed(hook=name, input=about.fields, output={}))
    if not isinstance(found, HookEvent):
        return found
    # Of the bus events, only `session.created` names the parent; the plugin adds it to the others.
    parent = about.native_id("info.parentID")
    return _below(found, parent or payload.native_id("parentID"))


def _below(found: HookEvent, parent: str | None) -> HookEvent:
    """Move the event of a child session below its parent's."""
    if parent is None or parent == found.native_session:
        return found
    return replace(
        found,
        parent_session=parent,
        subagent_id=found.native_session,
        # The user did not write the message that starts a child, so it begins no turn.
        turn_id=None,
        prompt=None,
        phase=IN_SUBAGENT.get(found.phase, found.phase),
    )


def _child(found: HookEvent, payload: Payload) -> str | None:
    """Return the session that a `task` call has started, as its result names it."""
    if found.phase is not HookPhase.AFTER or found.tool_class is not ToolClass.AGENT:
        return None
    about = payload.object("output.metadata")
    child = about.native_id("sessionId")
    parent = about.native_id("parentSessionId")
    if child == found.native_session or parent not in (None, found.native_session):
        return None
    return child


def _prompt(payload: Payload) -> str | None:
    """Return the text parts of a message that a person wrote."""
    parts = payload.object("output").objects("parts")
    return prompt_of(part for part in parts if not part.value("synthetic"))
