"""Payloads that any agent or script can send to `hook generic`; see docs/hooks.md.

Two forms of other recorders are read too, since agents may send them already: git-ai's agent-v1
and Entire's protocol. Their payloads do not have the field that names an event in docs/hooks.md.
Invariant: what docs/hooks.md promises stays readable; fields are added, never renamed.
"""

from collections.abc import Mapping
from dataclasses import replace

from gitshadow.adapters.base import (
    SAVED_WITHIN_NS,
    TOOL_PHASES,
    BadPayload,
    HookEvent,
    HookPhase,
    Parsed,
    Parser,
)
from gitshadow.adapters.payload import MAX_PATHS, Payload, derived_call_id, raw_path
from gitshadow.adapters.shape import SNAKE_CASE_PHASES, Shape
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
_ENTIRE = Shape(
    agent=NAME,
    event=("hook_type",),
    phases=SNAKE_CASE_PHASES,
    session=("session_id",),
    call=("tool_use_id",),
    prompt=("user_prompt", "prompt"),
    transcript=("session_ref",),
    tools={},
)
_ENTIRE_PATHS = ("file_path", "notebook_path", "path", "filePath")
_ENTIRE_READERS = frozenset(["glob", "grep", "list", "ls", "read", "read_file", "view"])


def parse(payload: Payload, env: Mapping[str, str]) -> Parsed:
    """Read one payload; a `base.Parser`."""
    if "event" not in payload:
        if "hook_type" in payload:
            return _entire(payload)
        if "repo_working_dir" in payload:
            return _git_ai(payload)
    raw_event = payload.text("event")
    if raw_event is None:
        return BadPayload("the payload has no event")
    phase = _PHASES.get(raw_event)
    if phase is None:
        return None
    session = payload.native_id("session")
    if session is None:
        return BadPayload(f"the {raw_event} payload has no session")
    paths = _paths(payload)
    if paths is None:
        return BadPayload("the field paths is not a list of paths")
    return _event(payload, phase, session, paths)


def _aider(payload: Payload, env: Mapping[str, str]) -> Parsed:
    """Read a payload of docs/hooks.md that a script around Aider sends.

    Aider has no hooks: `aider/args.py`, `repo.py` and `io.py` of 2026-05. Usually it runs in
    `exec --agent aider -- aider …`, a session as long as the command. Its commits are looked at
    in `attribution.commits`.
    """
    found = parse(payload, env)
    if isinstance(found, HookEvent):
        return replace(found, agent="aider", host="aider")
    return found


PARSERS: Mapping[str, Parser] = {NAME: parse, "aider": _aider}


def _event(
    payload: Payload,
    phase: HookPhase,
    session: str,
    paths: tuple[bytes, ...],
) -> HookEvent:
    is_tool = phase in TOOL_PHASES
    tool = (payload.identifier("tool") or "tool") if is_tool else None
    call_id = payload.identifier("call") if is_tool else None
    derived = tool is not None and call_id is None
    if tool is not None and call_id is None:
        call_id = derived_call_id(session, tool, [path.hex() for path in paths])
    return HookEvent(
        agent=payload.identifier("agent") or NAME,
        host=NAME,
        native_session=session,
        parent_session=payload.native_id("parent"),
        turn_id=payload.identifier("turn"),
        call_id=call_id,
        call_derived=derived,
        tool=tool,
        tool_class=_tool_class(payload, paths),
        phase=phase,
        paths=paths if is_tool else (),
        cwd=raw_path(payload.value("cwd")),
        prompt=payload.prompt_text("prompt"),
        model=payload.text("model"),
        raw_event=phase.value,
        duration_ns=payload.duration_ns("duration_ms"),
        reason=payload.text("reason"),
        only_writer=payload.process("pid"),
    )


def _tool_class(payload: Payload, paths: tuple[bytes, ...]) -> ToolClass:
    named = _CLASSES.get(payload.text("class") or "")
    if named is not None:
        return named
    return ToolClass.WRITE if paths else ToolClass.OTHER


def _paths(payload: Payload) -> tuple[bytes, ...] | None:
    value = payload.value("paths")
    if value is None:
        return ()
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list):
        return None
    paths = [raw_path(item) for item in items[:MAX_PATHS]]
    found = tuple(dict.fromkeys(path for path in paths if path is not None))
    return None if None in paths else found


def _git_ai(payload: Payload) -> Parsed:
    """Read a payload of git-ai (2026-08): `human` before an edit, `ai_agent` after it.

    The first one is a notice, so that the present content is not the agent's; it says neither
    who will edit nor when. The second one is the end of a call named after its files.
    """
    kind = payload.text("type")
    if kind == "human":
        return HookEvent(
            agent=NAME,
            host=NAME,
            native_session="agent-v1",
            phase=HookPhase.NOTICE,
            raw_event=kind,
            paths=payload.paths("will_edit_filepaths[]"),
            cwd=payload.path("repo_working_dir"),
        )
    if kind != "ai_agent":
        return None
    session = payload.native_id("conversation_id")
    if session is None:
        return BadPayload("the ai_agent payload has no session")
    paths = payload.paths("edited_filepaths[]")
    return HookEvent(
        agent=payload.identifier("agent_name") or NAME,
        host=NAME,
        native_session=session,
        phase=HookPhase.AFTER,
        raw_event=kind,
        call_id=derived_call_id(session, kind, [path.hex() for path in paths]),
        call_derived=True,
        tool=kind,
        tool_class=ToolClass.WRITE if paths else ToolClass.OTHER,
        paths=paths,
        cwd=payload.path("repo_working_dir"),
        model=payload.text("model"),
        duration_ns=SAVED_WITHIN_NS,
    )


def _entire(payload: Payload) -> Parsed:
    """Read a `HookInput` of Entire (2026-09); tools have mostly the names of Claude Code's."""
    # Imported only here: hooks without a daemon pay for every import.
    from gitshadow.adapters import claude_code

    found = _ENTIRE.read(payload)
    if not isinstance(found, HookEvent) or found.tool is None:
        return found
    kind = claude_code.SHAPE.tool_class(found.tool)
    if kind is ToolClass.OTHER and found.tool.lower() in _ENTIRE_READERS:
        kind = ToolClass.READ
    if kind not in (ToolClass.WRITE, ToolClass.OTHER):
        return replace(found, tool_class=kind)
    paths = payload.object("tool_input").paths(*_ENTIRE_PATHS)
    kind = ToolClass.WRITE if paths else ToolClass.OTHER
    return replace(found, tool_class=kind, paths=paths)
