"""ACP, the Agent Client Protocol: `docs/protocol/v1` of 2026-08, as an editor or proxy sees it.

There are no hooks: a program between editor and agent forwards the JSON-RPC messages. A response
counts if it is forwarded with the `method` and `params` of its request.
Invariant: a message without news of a session's turns and writes is ignored, never bad.
"""

from collections.abc import Mapping
from dataclasses import replace

from gitshadow.adapters.base import HookEvent, HookPhase, Parsed
from gitshadow.adapters.payload import Payload, derived_call_id, prompt_of
from gitshadow.model import ToolClass

NAME = "acp"

_WRITE_FILE = "fs/write_text_file"
_REQUESTS: Mapping[str, HookPhase] = {
    "session/load": HookPhase.SESSION_START,
    "session/resume": HookPhase.SESSION_START,
    "session/prompt": HookPhase.PROMPT,
    "session/close": HookPhase.SESSION_END,
}
# An agent that is asked to cancel may go on until it answers the prompt. Before the answer to
# `session/load` it repeats the calls of earlier turns, which need not have an end.
_RESPONSES: Mapping[str, HookPhase] = {
    "session/new": HookPhase.SESSION_START,
    "session/load": HookPhase.TURN_END,
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


def parse(payload: Payload, env: Mapping[str, str]) -> Parsed:
    """Read one message; a `base.Parser`."""
    answered = "result" in payload or "error" in payload
    session = _session(payload)
    method = payload.text("method")
    if method is None and payload.text("result.sessionId") is not None:
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
    return replace(found, prompt=prompt_of(payload.objects("params.prompt")))


def _session(payload: Payload) -> str | None:
    # A response alone has no session, except that to `session/new`.
    asked = payload.native_id("params.sessionId")
    return asked or payload.native_id("result.sessionId")


def _event(
    payload: Payload, session: str, raw_event: str, phase: HookPhase
) -> HookEvent:
    return HookEvent(
        agent=NAME,
        host=NAME,
        native_session=session,
        phase=phase,
        raw_event=raw_event,
        cwd=payload.path("params.cwd"),
        reason=payload.text("result.stopReason"),
    )


def _write_file(payload: Payload, session: str, *, answered: bool) -> Parsed:
    """Read a file that the editor writes for the agent: a call named after request and path.

    If no answer is forwarded, the next such request or the end of the turn ends its window.
    """
    # The editor itself writes here, so by the evidence of processes it would be a person's write.
    paths = payload.paths("params.path")
    if not paths:
        return None
    phase = HookPhase.BEFORE
    if answered:
        phase = HookPhase.FAILED if "error" in payload else HookPhase.AFTER
    which = {"id": payload.value("id"), "path": paths[0].hex()}
    return replace(
        _event(payload, session, _WRITE_FILE, phase),
        tool=_WRITE_FILE,
        tool_class=ToolClass.WRITE,
        call_id=derived_call_id(session, _WRITE_FILE, which),
        call_derived=True,
        paths=paths,
    )


def _update(payload: Payload, session: str) -> Parsed:
    """Read the report of a tool call; later reports contain only what has changed."""
    update = payload.object("params.update")
    name = update.text("sessionUpdate")
    call = update.identifier("toolCallId")
    if name not in ("tool_call", "tool_call_update") or call is None:
        return None
    kind = update.identifier("kind")
    if kind is None and name == "tool_call":
        kind = "other"
    phase = _STATES.get(update.text("status") or "pending")
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


def _reach(update: Payload, kind: str | None) -> tuple[ToolClass, tuple[bytes, ...]]:
    """Return what a call can do to files, and the files that it names."""
    found = _KINDS.get(kind or "", ToolClass.OTHER)
    if kind is not None and found is not ToolClass.WRITE:
        return found, ()
    named = update.paths("locations[].path", "content[].path")
    given = update.object("rawInput").paths(*_INPUT_KEYS)
    paths = tuple(dict.fromkeys((*named, *given)))
    return (ToolClass.WRITE if paths else ToolClass.OTHER), paths
