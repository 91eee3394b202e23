"""goose: its hooks guide and `crates/goose/src/hooks/mod.rs`, 2026-09 (1.46).

It follows the Open Plugins hook specification. Tools are named `developer__edit` or, in newer
builds, `edit`: what stands after `__` counts.
Invariant: `AfterFileEdit` and `AfterShellExecution` are the end of the call whose id they
repeat; where builds send none, of the one that writes the same file or has the same input.
"""

from collections.abc import Mapping
from dataclasses import replace

from gitshadow.adapters import fields
from gitshadow.adapters.base import HookEvent, HookPhase, Parsed, Traits
from gitshadow.adapters.filetools import by_file, unless_viewing
from gitshadow.adapters.shape import Shape
from gitshadow.model import ToolClass

NAME = "goose"


def _bare(tool: str) -> str:
    return tool.rpartition("__")[2] or tool


_SHAPE = Shape(
    agent=NAME,
    event=("event",),
    phases={
        "SessionStart": HookPhase.SESSION_START,
        "UserPromptSubmit": HookPhase.PROMPT,
        "PreToolUse": HookPhase.BEFORE,
        "PreToolUseResult": HookPhase.DENIED,
        "PostToolUse": HookPhase.AFTER,
        "PostToolUseFailure": HookPhase.FAILED,
        "AfterFileEdit": HookPhase.AFTER,
        "AfterShellExecution": HookPhase.AFTER,
        "Stop": HookPhase.TURN_END,
        "SessionEnd": HookPhase.SESSION_END,
    },
    session=("session_id",),
    call=("tool_call_id",),
    cwd=("working_dir",),
    prompt=("message",),
    path_keys=("path", "file_path"),
    tool_name=_bare,
    tools={
        ToolClass.WRITE: frozenset({"write", "edit", "text_editor"}),
        ToolClass.SHELL: frozenset({"shell"}),
        ToolClass.AGENT: frozenset({"delegate"}),
        ToolClass.READ: frozenset(
            {"analyze", "list_windows", "load", "read", "screen_capture", "tree"}
        ),
    },
)
_REFUSED = frozenset({"block", "blocked", "denied", "deny", "reject", "rejected"})
_EDITED, _RAN = "AfterFileEdit", "AfterShellExecution"


class Goose:
    """Read payloads of goose.

    `PreToolUse` comes for every tool, extensions' too; several tools may run at once.
    """

    name = NAME
    traits = Traits(covers_all_tools=True, sequential=False)

    def parse(self, payload: Mapping[str, object], env: Mapping[str, str]) -> Parsed:
        """Read one payload; see `base.Adapter.parse`."""
        event = fields.text(payload, "event")
        if event == "PreToolUseResult" and not _refused(payload):
            return None
        if event in (_EDITED, _RAN) and fields.text(payload, "tool_name") is None:
            payload = {**payload, **_tool_of(event, payload)}
        found = _SHAPE.read(payload)
        if isinstance(found, HookEvent) and event == _EDITED:
            path = fields.raw_path(payload.get("matcher_context"))
            if path is not None:
                found = replace(found, tool_class=ToolClass.WRITE, paths=(path,))
        found = unless_viewing(found, fields.mapping(payload, "tool_input"))
        return by_file(found)


def _refused(payload: Mapping[str, object]) -> bool:
    return (fields.text(payload, "decision") or "").lower() in _REFUSED


def _tool_of(event: str, payload: Mapping[str, object]) -> dict[str, object]:
    """Return the tool that an event is about where its payload does not name it."""
    what = payload.get("matcher_context")
    if event == _EDITED:
        return {"tool_name": "edit", "tool_input": {"path": what}}
    return {"tool_name": "shell", "tool_input": {"command": what}}
