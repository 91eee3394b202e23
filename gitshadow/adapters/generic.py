"""The JSON of our own that any agent or script can send to `hook generic`; see docs/hooks.md.

Two forms of other recorders are read beside it (`neutral`).
Invariant: what docs/hooks.md promises stays readable; fields are added, never renamed.
"""

from collections.abc import Mapping

from gitshadow.adapters import fields, neutral
from gitshadow.adapters.base import (
    TOOL_PHASES,
    BadPayload,
    HookEvent,
    HookPhase,
    Parsed,
    Traits,
)
from gitshadow.model import ToolClass

NAME = "generic"

_PHASES: Mapping[str, HookPhase] = {
    phase.value: phase
    for phase in (
        HookPhase.SESSION_START,
        HookPhase.PROMPT,
        HookPhase.BEFORE,
        HookPhase.AFTER,
        HookPhase.FAILED,
        HookPhase.DENIED,
        HookPhase.TURN_END,
        HookPhase.SESSION_END,
    )
}
_CLASSES: Mapping[str, ToolClass] = {kind.value: kind for kind in ToolClass}


class Generic:
    """Read our own documented payload."""

    name = NAME
    traits = Traits()

    def parse(self, payload: Mapping[str, object], env: Mapping[str, str]) -> Parsed:
        """Read one payload; see `base.Adapter.parse`."""
        if neutral.is_neutral(payload):
            return neutral.read(payload)
        raw_event = fields.text(payload, "event")
        if raw_event is None:
            return BadPayload("the payload has no event")
        phase = _PHASES.get(raw_event)
        if phase is None:
            return None
        session = fields.native_id(payload, "session")
        if session is None:
            return BadPayload(f"the {raw_event} payload has no session")
        paths = _paths(payload)
        if paths is None:
            return BadPayload("the field paths is not a list of paths")
        return _event(payload, phase, session, paths)


def _event(
    payload: Mapping[str, object],
    phase: HookPhase,
    session: str,
    paths: tuple[bytes, ...],
) -> HookEvent:
    is_tool = phase in TOOL_PHASES
    tool = (fields.identifier(payload, "tool") or "tool") if is_tool else None
    call_id = fields.identifier(payload, "call") if is_tool else None
    derived = tool is not None and call_id is None
    if tool is not None and call_id is None:
        names = [path.hex() for path in paths]
        call_id = fields.derived_call_id(session, tool, names)
    agent = fields.identifier(payload, "agent") or NAME
    return HookEvent(
        agent=agent,
        host=NAME,
        native_session=session,
        parent_session=fields.native_id(payload, "parent"),
        turn_id=fields.identifier(payload, "turn"),
        call_id=call_id,
        call_derived=derived,
        tool=tool,
        tool_class=_tool_class(payload, paths),
        phase=phase,
        paths=paths if is_tool else (),
        cwd=fields.raw_path(payload.get("cwd")),
        prompt=fields.prompt_text(payload, "prompt"),
        model=fields.text(payload, "model"),
        raw_event=phase.value,
        duration_ns=fields.milliseconds(payload, "duration_ms"),
        reason=fields.text(payload, "reason"),
    )


def _tool_class(payload: Mapping[str, object], paths: tuple[bytes, ...]) -> ToolClass:
    named = _CLASSES.get(fields.text(payload, "class") or "")
    if named is not None:
        return named
    return ToolClass.WRITE if paths else ToolClass.OTHER


def _paths(payload: Mapping[str, object]) -> tuple[bytes, ...] | None:
    value = payload.get("paths")
    if value is None:
        return ()
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list):
        return None
    paths = [fields.raw_path(item) for item in items[: fields.MAX_PATHS]]
    if any(path is None for path in paths):
        return None
    return tuple(dict.fromkeys(path for path in paths if path is not None))
