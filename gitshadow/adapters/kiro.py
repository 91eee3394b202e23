"""Kiro: its documentation, "Agent Hooks" of 2026-09-02 (v1) and "Hooks" of CLI 2.x.

CLI 2.x names events in camelCase, v1 (IDE 1.0, CLI 3.0) in PascalCase. The fields of v1 are not
published; those of CLI 2.x are taken for it.
Invariant: neither sends a call id. A call that writes one file is named after it, because v1
also reports each file that the agent, not the user, has saved, created or deleted: that report
ends the call which announced the file, and is a call of its own where none did.
"""

from collections.abc import Mapping

from gitshadow.adapters import fields
from gitshadow.adapters.base import (
    BadPayload,
    ContextChannel,
    HookEvent,
    HookPhase,
    Parsed,
    Traits,
)
from gitshadow.adapters.filetools import SAVED_WITHIN_NS, by_file, unless_viewing
from gitshadow.adapters.shape import Shape
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
        # The end of a response, or, in one table of the vendor's, of the session: the weaker.
        "Stop": HookPhase.TURN_END,
    },
    session=("session_id",),
    path_keys=("path", "file_path", "filePath", "targetFile"),
    tools={
        ToolClass.WRITE: frozenset(
            {
                "deleteFile",
                "fsAppend",
                "fsWrite",
                "fs_write",
                "strReplace",
                "str_replace",
                "write",
            }
        ),
        ToolClass.SHELL: frozenset(
            {"executeBash", "executePwsh", "execute_bash", "execute_cmd", "shell"}
        ),
        ToolClass.AGENT: frozenset({"delegate", "subagent", "use_subagent"}),
        ToolClass.READ: frozenset(
            {
                "fileSearch",
                "fs_read",
                "glob",
                "grep",
                "grepSearch",
                "introspect",
                "listDirectory",
                "read",
                "readFile",
                "readMultipleFiles",
                "thinking",
                "web_fetch",
                "web_search",
            }
        ),
    },
)


class Kiro:
    """Read payloads of both generations of Kiro.

    A hook without a matcher, or with `*`, comes for every tool; whether several tools run at
    once is not documented.

    What a hook of a prompt prints goes into the context ("Hooks", exit code 0).
    """

    name = NAME
    traits = Traits(covers_all_tools=True, context=ContextChannel.TEXT)

    def parse(self, payload: Mapping[str, object], env: Mapping[str, str]) -> Parsed:
        """Read one payload; see `base.Adapter.parse`."""
        event = fields.text(payload, "hook_event_name")
        if event in _FILE_EVENTS:
            return _saved(payload, event)
        found = _SHAPE.read(payload)
        found = unless_viewing(found, fields.mapping(payload, "tool_input"))
        return by_file(found)


def _saved(payload: Mapping[str, object], event: str) -> Parsed:
    """Read the report that the agent wrote a file: the end of a call that wrote it just now."""
    session = fields.native_id(payload, "session_id")
    if session is None:
        return BadPayload(f"the {event} payload has no session")
    paths = fields.paths_at(payload, _FILE_KEYS)[:1]
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
            cwd=fields.raw_path(payload.get("cwd")),
            duration_ns=SAVED_WITHIN_NS,
        )
    )
