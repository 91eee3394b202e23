"""Pi: the extensions of two other recorders, 2026-09, through gitshadow's extension.

The extension sends `{hook, event, ctx}`; `ctx` has the directory and the session, either its id
or its file, whose name contains the id.
Invariant: a payload without any session belongs to the one session of its directory.
"""

import posixpath
from collections.abc import Mapping
from dataclasses import replace

from gitshadow.adapters.base import HookEvent, HookPhase, Parsed
from gitshadow.adapters.payload import Payload
from gitshadow.adapters.shape import Shape, tool_classes

NAME = "pi"

_SHAPE = Shape(
    agent=NAME,
    event=("hook",),
    phases={
        "session_start": HookPhase.SESSION_START,
        "before_agent_start": HookPhase.PROMPT,
        "tool_call": HookPhase.BEFORE,
        "tool_result": HookPhase.AFTER,
        "agent_end": HookPhase.TURN_END,
        "session_shutdown": HookPhase.SESSION_END,
    },
    session=("session",),
    call=("event.toolCallId",),
    tool=("event.toolName",),
    tool_input=("event.input",),
    cwd=("ctx.cwd",),
    prompt=("event.prompt",),
    model=("ctx.model",),
    path_keys=("path", "file_path"),
    tools=tool_classes(
        write="edit write",
        shell="bash",
        agent="subagent",
        read="find grep ls read",
    ),
)


def parse(payload: Payload, env: Mapping[str, str]) -> Parsed:
    """Read one payload; a `base.Parser`."""
    session = _session(payload.object("ctx"), env)
    found = _SHAPE.read(payload.changed(session=session))
    if not isinstance(found, HookEvent):
        return found
    failed = payload.object("event").value("isError") is True
    if failed and found.phase is HookPhase.AFTER:
        return replace(found, phase=HookPhase.FAILED)
    return found


def _session(ctx: Payload, env: Mapping[str, str]) -> str | None:
    named = ctx.native_id("session_id") or env.get("PI_SESSION_ID")
    if named:
        return named
    file = ctx.text("session_file")
    if file is not None:
        return posixpath.basename(file.replace("\\", "/")).removesuffix(".jsonl")
    # A payload without any session belongs to the one session of its directory.
    directory = ctx.text("cwd")
    return None if directory is None else f"in {directory}"
