"""goose: its hooks guide and `crates/goose/src/hooks/mod.rs`, 2026-09 (1.46).

It follows the Open Plugins hook specification. Tools are named `developer__edit` or, in newer
builds, `edit`: only the part after `__` counts.
Invariant: `AfterFileEdit` and `AfterShellExecution` are the end of the call whose id they
repeat; if a build sends none, of the call with the same file or the same input.
"""

from collections.abc import Mapping
from dataclasses import replace

from gitshadow.adapters.base import HookEvent, HookPhase, Parsed
from gitshadow.adapters.payload import Payload, raw_path
from gitshadow.adapters.shape import (
    CLAUDE_SETTINGS_PHASES,
    Shape,
    by_file,
    tool_classes,
    unless_viewing,
)
from gitshadow.model import ToolClass

NAME = "goose"


def _bare(tool: str) -> str:
    return tool.rpartition("__")[2] or tool


_SHAPE = Shape(
    agent=NAME,
    event=("event",),
    phases={
        **CLAUDE_SETTINGS_PHASES,
        "PreToolUseResult": HookPhase.DENIED,
        "AfterFileEdit": HookPhase.AFTER,
        "AfterShellExecution": HookPhase.AFTER,
    },
    session=("session_id",),
    call=("tool_call_id",),
    cwd=("working_dir",),
    prompt=("message",),
    path_keys=("path", "file_path"),
    tool_name=_bare,
    tools=tool_classes(
        write="write edit text_editor",
        shell="shell",
        agent="delegate",
        read="analyze list_windows load read screen_capture tree",
    ),
)
_REFUSED = frozenset({"block", "blocked", "denied", "deny", "reject", "rejected"})
_EDITED, _RAN = "AfterFileEdit", "AfterShellExecution"


def parse(payload: Payload, env: Mapping[str, str]) -> Parsed:
    """Read one payload; a `base.Parser`."""
    event = payload.text("event")
    decision = (payload.text("decision") or "").lower()
    if event == "PreToolUseResult" and decision not in _REFUSED:
        return None
    if event in (_EDITED, _RAN) and payload.text("tool_name") is None:
        payload = _with_tool(event, payload)
    found = _SHAPE.read(payload)
    if isinstance(found, HookEvent) and event == _EDITED:
        path = raw_path(payload.value("matcher_context"))
        if path is not None:
            found = replace(found, tool_class=ToolClass.WRITE, paths=(path,))
    # `text_editor` shows files, too; its `command` says which it does.
    found = unless_viewing(found, payload.object("tool_input"))
    return by_file(found)


def _with_tool(event: str, payload: Payload) -> Payload:
    """Add the tool that an event is about to a payload that does not name it."""
    what = payload.value("matcher_context")
    if event == _EDITED:
        return payload.changed(tool_name="edit", tool_input={"path": what})
    return payload.changed(tool_name="shell", tool_input={"command": what})
