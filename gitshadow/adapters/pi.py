"""Pi: the extensions of two other recorders, 2026-09, through an extension of ours.

The extension sends `{hook, event, ctx}`; `ctx` has the directory and the session, either its id
or its file, whose name holds the id.
Invariant: a payload without any session belongs to the one session of its directory.
"""

import posixpath
from collections.abc import Mapping
from dataclasses import replace

from gitshadow.adapters import fields
from gitshadow.adapters.base import HookEvent, HookPhase, Parsed, Traits
from gitshadow.adapters.shape import Shape
from gitshadow.model import ToolClass

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
    tools={
        ToolClass.WRITE: frozenset({"edit", "write"}),
        ToolClass.SHELL: frozenset({"bash"}),
        ToolClass.AGENT: frozenset({"subagent"}),
        ToolClass.READ: frozenset({"find", "grep", "ls", "read"}),
    },
)


class Pi:
    """Read what our extension sends; `tool_call` comes for every tool, several may run at once."""

    name = NAME
    traits = Traits(covers_all_tools=True, sequential=False)

    def parse(self, payload: Mapping[str, object], env: Mapping[str, str]) -> Parsed:
        """Read one payload; see `base.Adapter.parse`."""
        session = _session(fields.mapping(payload, "ctx"), env)
        found = _SHAPE.read({**payload, "session": session})
        if not isinstance(found, HookEvent):
            return found
        failed = fields.mapping(payload, "event").get("isError") is True
        if failed and found.phase is HookPhase.AFTER:
            return replace(found, phase=HookPhase.FAILED)
        return found


def _session(ctx: Mapping[str, object], env: Mapping[str, str]) -> str | None:
    named = fields.native_id(ctx, "session_id") or env.get("PI_SESSION_ID")
    if named:
        return named
    file = fields.text(ctx, "session_file")
    if file is not None:
        return posixpath.basename(file.replace("\\", "/")).removesuffix(".jsonl")
    directory = fields.text(ctx, "cwd")
    return None if directory is None else f"in {directory}"
