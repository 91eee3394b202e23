"""Kiro: its documentation, "Agent Hooks" of 2026-09-02 (v1) and "Hooks" of CLI 2.x.

CLI 2.x names events in camelCase, v1 (IDE 1.0, CLI 3.0) in PascalCase. The fields of v1 are not
published, so those of CLI 2.x are read.
Invariant: neither sends a call id. A call that writes one file is named after it, because v1
also reports each file that the agent, not the user, has saved, created or deleted: that report
ends the call that announced the file, or is a call of its own if none did.
"""

from collections.abc import Mapping

from gitshadow.adapters.base import (
    SAVED_WITHIN_NS,
    BadPayload,
    HookEvent,
    HookPhase,
    Parsed,
)
from gitshadow.adapters.payload import Payload, raw_path
from gitshadow.adapters.shape import Shape, by_file, tool_classes, unless_viewing
from gitshadow.model import ToolClass

NAME = "kiro"

_FILE_EVENTS = ("PostFileCreate", "PostFileSave", "PostFileDelete")
_FILE_KEYS = ("file_path", "path", "filePath", "file")
_SHAPE = Shape(
    agent=NAME,
    event=("hook_event_name",),
    phases={
        "agentSpawn": HookPhase.SESSION_START,
        "userPromptSubmit": HookPhase.PROMPT,
        "preToolUse": HookPhase.BEFORE,
        "postToolUse": HookPhase.AFTER,
        "stop": HookPhase.TURN_END,
        "SessionStart": HookPhase.SESSION_START,
        "UserPromptSubmit": HookPhase.PROMPT,
        "PreToolUse": HookPhase.BEFORE,
        "PostToolUse": HookPhase.AFTER,
        # One table of the vendor has it as the end of the session; the end of a turn is safer.
        "Stop": HookPhase.TURN_END,
    },
    session=("session_id",),
    path_keys=("path", "file_path", "filePath", "targetFile"),
    tools=tool_classes(
        write="deleteFile fsAppend fsWrite fs_write strReplace str_replace write",
        shell="executeBash executePwsh execute_bash execute_cmd shell",
        agent="delegate subagent use_subagent",
        read="fileSearch fs_read glob grep grepSearch introspect listDirectory read"
        " readFile readMultipleFiles thinking web_fetch web_search",
    ),
)


def parse(payload: Payload, env: Mapping[str, str]) -> Parsed:
    """Read one payload; a `base.Parser`."""
    event = payload.text("hook_event_name")
    if event in _FILE_EVENTS:
        return _saved(payload, event)
    found = _SHAPE.read(payload)
    return by_file(unless_viewing(found, payload.object("tool_input")))


def _saved(payload: Payload, event: str) -> Parsed:
    """Read the report that the agent wrote a file: the end of a call that wrote it just now."""
    session = payload.native_id("session_id")
    if session is None:
        return BadPayload(f"the {event} payload has no session")
    paths = payload.paths(*_FILE_KEYS)[:1]
    if not paths:
        return None
    return by_file(
        HookEvent(
            agent=NAME,
            host=NAME,
            native_session=session,
            phase=HookPhase.AFTER,
            raw_event=event,
            call_derived=True,
            tool=event,
            tool_class=ToolClass.WRITE,
            paths=paths,
            cwd=raw_path(payload.value("cwd")),
            duration_ns=SAVED_WITHIN_NS,
        )
    )
