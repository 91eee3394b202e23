"""Cursor, its CLI and background agents: "Hooks" of its documentation, 2026-08.

Tools are told twice or three times: `preToolUse` and `postToolUse` come for all of them, beside
`before`/`afterShellExecution`, `before`/`afterMCPExecution`, `beforeReadFile` and
`afterFileEdit`, which carry no call id. The first two open and close windows; of the others only
`afterFileEdit` counts: it reports the write of a call that is known, or, from builds that send no
`preToolUse`, one of its own.
Invariant: a Tab completion is a person's own: it opens no turn and no window, has no tool, and
has the reason `editor completion`. What stands in the file is recorded then, for nobody.
"""

import posixpath
from collections.abc import Mapping
from dataclasses import replace

from gitshadow.adapters import fields
from gitshadow.adapters.base import HookEvent, HookPhase, Parsed, Traits
from gitshadow.adapters.filetools import SAVED_WITHIN_NS
from gitshadow.adapters.shape import CLAUDE_SETTINGS_PHASES, SUBAGENT_PHASES, Shape
from gitshadow.model import ToolClass

NAME = "cursor"
COMPLETION = "editor completion"

_EDITED, _TAB = "afterFileEdit", "afterTabFileEdit"
_SHAPE = Shape(
    agent=NAME,
    event=("hook_event_name",),
    phases={
        "sessionStart": HookPhase.SESSION_START,
        "beforeSubmitPrompt": HookPhase.PROMPT,
        "preToolUse": HookPhase.BEFORE,
        "postToolUse": HookPhase.AFTER,
        "postToolUseFailure": HookPhase.FAILED,
        _EDITED: HookPhase.AFTER,
        _TAB: HookPhase.NOTICE,
        "stop": HookPhase.TURN_END,
        "subagentStart": HookPhase.SUBAGENT_START,
        "subagentStop": HookPhase.SUBAGENT_END,
        "sessionEnd": HookPhase.SESSION_END,
        # Spelled so where Cursor runs the hooks of Claude Code's settings.
        **CLAUDE_SETTINGS_PHASES,
    },
    session=("conversation_id", "session_id"),
    turn=("generation_id",),
    call=("tool_use_id",),
    cwd=("cwd", "workspace_roots"),
    reason=("reason", "error_message", "error"),
    subagent=("subagent_id",),
    subagent_type=("subagent_type",),
    duration_ms=("duration",),
    path_keys=("file_path", "path", "filePath", "target_notebook", "notebook_path"),
    patch_keys=("patch", "input", "patchText", "command"),
    tools={
        ToolClass.WRITE: frozenset(
            {
                *("ApplyPatch", "Delete", "Edit", "EditNotebook", "MultiEdit"),
                *("NotebookEdit", "StrReplace", "Write", _EDITED),
            }
        ),
        ToolClass.SHELL: frozenset({"Bash", "Shell"}),
        ToolClass.AGENT: frozenset({"Task"}),
        ToolClass.READ: frozenset(
            {
                "AskQuestion",
                "FetchMcpResource",
                "Glob",
                "Grep",
                "LS",
                "ListMcpResources",
                "Read",
                "ReadLints",
                "SemanticSearch",
                "TodoWrite",
                "WebFetch",
                "WebSearch",
            }
        ),
    },
)


class Cursor:
    """Read payloads of Cursor.

    `preToolUse` comes for every tool, and several may run at once.
    """

    name = NAME
    traits = Traits(covers_all_tools=True, sequential=False)

    def parse(self, payload: Mapping[str, object], env: Mapping[str, str]) -> Parsed:
        """Read one payload; see `base.Adapter.parse`."""
        event = fields.text(payload, "hook_event_name")
        if event == _TAB:
            return _completion(_SHAPE.read(payload), payload)
        if event == _EDITED:
            return _edit(payload)
        if _SHAPE.phases.get(event or "") in SUBAGENT_PHASES:
            return _subagent(payload)
        return _SHAPE.read(payload)


def _edit(payload: Mapping[str, object]) -> Parsed:
    named = {key: payload.get(key) for key in ("file_path", "edits")}
    found = _SHAPE.read({**payload, "tool_name": _EDITED, "tool_input": named})
    if not isinstance(found, HookEvent) or not found.paths:
        return None if isinstance(found, HookEvent) else found
    return replace(found, duration_ns=SAVED_WITHIN_NS)


def _completion(found: Parsed, payload: Mapping[str, object]) -> Parsed:
    if not isinstance(found, HookEvent):
        return found
    return replace(
        found,
        turn_id=None,
        paths=fields.paths_at(payload, ("file_path",)),
        reason=COMPLETION,
    )


def _subagent(payload: Mapping[str, object]) -> Parsed:
    """Read an event about a subagent, which may have a conversation of its own.

    The end names no id but that in the name of the transcript; without one it does not concern
    us, because there is no telling whose end it is.
    """
    parent = fields.native_id(payload, "parent_conversation_id")
    own = fields.native_id(payload, "conversation_id")
    if fields.identifier(payload, "subagent_id") is None:
        transcript = fields.text(payload, "agent_transcript_path") or ""
        stem = posixpath.splitext(posixpath.basename(transcript))[0]
        if not stem:
            return None
        payload = {**payload, "subagent_id": stem}
    found = _SHAPE.read(payload)
    if not isinstance(found, HookEvent):
        return found
    if found.phase is HookPhase.SUBAGENT_END:
        found = replace(found, paths=fields.paths_at(payload, ("modified_files[]",)))
    if parent is None or own is None or parent == own:
        return found
    return replace(found, native_session=own, parent_session=parent)
