"""ACP, the Agent Client Protocol: `docs/protocol/v1` of 2026-08, as an editor or proxy sees it.

There are no hooks: whoever stands between editor and agent forwards the JSON-RPC messages. A
response counts where it is forwarded together with the `method` and `params` of its request,
because alone it has no session. `fs/write_text_file` is carried out by the editor: process
evidence would call such a write a person's.
Invariant: a message that tells nothing of a session's turns and writes is ignored, never bad.
"""

from collections.abc import Mapping
from dataclasses import replace

from gitshadow.adapters import fields
from gitshadow.adapters.base import HookEvent, HookPhase, Parsed, Traits
from gitshadow.model import ToolClass

NAME = "acp"

_WRITE_FILE = "fs/write_text_file"
_REQUESTS: Mapping[str, HookPhase] = {
    "session/load": HookPhase.SESSION_START,
    "session/resume": HookPhase.SESSION_START,
    "session/prompt": HookPhase.PROMPT,
    "session/cancel": HookPhase.TURN_END,
    "session/close": HookPhase.SESSION_END,
}
_RESPONSES: Mapping[str, HookPhase] = {
    "session/new": HookPhase.SESSION_START,
    "session/prompt": HookPhase.TURN_END,
}
_KINDS: Mapping[str, ToolClass] = {
    "edit": ToolClass.WRITE,
    "delete": ToolClass.WRITE,
    "move": ToolClass.WRITE,
    "execute": ToolClass.SHELL,
    "read": ToolClass.READ,
    "search": ToolClass.READ,
    "think": ToolClass.READ,
    "fetch": ToolClass.READ,
    "switch_mode": ToolClass.READ,
}
_STATES: Mapping[str, HookPhase] = {
    "pending": HookPhase.BEFORE,
    "in_progress": HookPhase.BEFORE,
    "completed": HookPhase.AFTER,
    "failed": HookPhase.FAILED,
}
_INPUT_KEYS = ("file_path", "path", "filePath", "abs_path", "notebook_path")


class Acp:
    """Read forwarded messages.

    Agents report the tools they choose to, so a turn may write outside any window; several may
    run at once.
    """

    name = NAME
    traits = Traits(covers_all_tools=False, sequential=False)

    def parse(self, payload: Mapping[str, object], env: Mapping[str, str]) -> Parsed:
        """Read one message; see `base.Adapter.parse`."""
        answered = "result" in payload or "error" in payload
        session = _session(payload)
        method = fields.text(payload, "method")
        if method is None and fields.text(payload, "result.sessionId") is not None:
            method = "session/new"  # the only answer that names a session
        if method is None or session is None:
            return None
        if method == "session/update":
            return _update(payload, session)
        if method == _WRITE_FILE:
            return _write_file(payload, session, answered=answered)
        phase = (_RESPONSES if answered else _REQUESTS).get(method)
        if phase is None:
            return None
        found = _event(payload, session, method, phase)
        if phase is not HookPhase.PROMPT:
            return found
        return replace(found, prompt=_prompt(payload))


def _session(payload: Mapping[str, object]) -> str | None:
    asked = fields.native_id(payload, "params.sessionId")
    return asked or fields.native_id(payload, "result.sessionId")


def _event(
    payload: Mapping[str, object], session: str, raw_event: str, phase: HookPhase
) -> HookEvent:
    return HookEvent(
        agent=NAME,
        host=NAME,
        native_session=session,
        phase=phase,
        raw_event=raw_event,
        cwd=fields.first_path(payload, "params.cwd"),
        reason=fields.text(payload, "result.stopReason"),
    )


def _write_file(
    payload: Mapping[str, object], session: str, *, answered: bool
) -> Parsed:
    """Read a file that the editor writes for the agent: a call named after request and path.

    Where no answer is forwarded, the next one of these ends its window, or the turn's end.
    """
    paths = fields.paths_at(payload, ("params.path",))
    if not paths:
        return None
    phase = HookPhase.BEFORE
    if answered:
        phase = HookPhase.FAILED if "error" in payload else HookPhase.AFTER
    which = {"id": payload.get("id"), "path": paths[0].hex()}
    return replace(
        _event(payload, session, _WRITE_FILE, phase),
        tool=_WRITE_FILE,
        tool_class=ToolClass.WRITE,
        call_id=fields.derived_call_id(session, _WRITE_FILE, which),
        call_derived=True,
        paths=paths,
    )


def _update(payload: Mapping[str, object], session: str) -> Parsed:
    """Read the report of a tool call; later reports hold only what has changed."""
    update = fields.mapping(payload, "params.update")
    name = fields.text(update, "sessionUpdate")
    call = fields.identifier(update, "toolCallId")
    if name not in ("tool_call", "tool_call_update") or call is None:
        return None
    kind = fields.identifier(update, "kind")
    if kind is None and name == "tool_call":
        kind = "other"
    phase = _STATES.get(fields.text(update, "status") or "pending")
    if phase is None or (phase is HookPhase.BEFORE and kind is None):
        return None
    tool_class, paths = _reach(update, kind)
    return replace(
        _event(payload, session, name, phase),
        tool=kind,
        tool_class=tool_class,
        call_id=call,
        paths=paths,
    )


def _reach(
    update: Mapping[str, object], kind: str | None
) -> tuple[ToolClass, tuple[bytes, ...]]:
    """Return what a call can do to files and which it names."""
    found = _KINDS.get(kind or "", ToolClass.OTHER)
    if kind is not None and found is not ToolClass.WRITE:
        return found, ()
    named = fields.paths_at(update, ("locations[].path", "content[].path"))
    given = fields.paths_at(fields.mapping(update, "rawInput"), _INPUT_KEYS)
    paths = tuple(dict.fromkeys((*named, *given)))
    return (ToolClass.WRITE if paths else ToolClass.OTHER), paths


def _prompt(payload: Mapping[str, object]) -> str | None:
    blocks = fields.at(payload, "params.prompt")
    if not isinstance(blocks, list):
        return None
    return fields.prompt_of(one for one in blocks if isinstance(one, dict))
