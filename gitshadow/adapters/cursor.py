"""Cursor, its CLI and background agents: "Hooks" of its documentation, 2026-08.

A call is reported two or three times: `preToolUse` and `postToolUse` come for all tools, and also
`before`/`afterShellExecution`, `before`/`afterMCPExecution`, `beforeReadFile` and `afterFileEdit`,
which have no call id. The first two open and close windows; of the others only `afterFileEdit`
counts: it reports the write of a known call, or, from builds that send no `preToolUse`, a call of
its own.
Invariant: a Tab completion is a person's own work: it opens no turn and no window, has no tool, and
has the reason `editor completion`. The content of the file is recorded at that moment, without an
author.
"""

import posixpath
from collections.abc import Mapping
from dataclasses import replace

from gitshadow.adapters.base import SAVED_WITHIN_NS, HookEvent, HookPhase, Parsed
from gitshadow.adapters.payload import Payload
from gitshadow.adapters.shape import (
    CLAUDE_SETTINGS_PHASES,
    SUBAGENT_PHASES,
    Shape,
    tool_classes,
)

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
        # Cursor uses these names if it runs the hooks of Claude Code's settings.
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
    tools=tool_classes(
        write="ApplyPatch Delete Edit EditNotebook MultiEdit NotebookEdit StrReplace"
        f" Write {_EDITED}",
        shell="Bash Shell",
        agent="Task",
        read="AskQuestion FetchMcpResource Glob Grep LS ListMcpResources Read ReadLints"
        " SemanticSearch TodoWrite WebFetch WebSearch",
    ),
)


def parse(payload: Payload, env: Mapping[str, str]) -> Parsed:
    """Read one payload; a `base.Parser`."""
    event = payload.text("hook_event_name")
    if event == _TAB:
        return _completion(_SHAPE.read(payload), payload)
    if event == _EDITED:
        return _edit(payload)
    if _SHAPE.phases.get(event or "") in SUBAGENT_PHASES:
        return _subagent(payload)
    return _SHAPE.read(payload)


def _edit(payload: Payload) -> Parsed:
    named = {key: payload.value(key) for key in ("file_path", "edits")}
    found = _SHAPE.read(payload.changed(tool_name=_EDITED, tool_input=named))
    if not isinstance(found, HookEvent) or not found.paths:
        return None if isinstance(found, HookEvent) else found
    return replace(found, duration_ns=SAVED_WITHIN_NS)


def _completion(found: Parsed, payload: Payload) -> Parsed:
    if not isinstance(found, HookEvent):
        return found
    return replace(
        found,
        turn_id=None,
        paths=payload.paths("file_path"),
        reason=COMPLETION,
    )


def _subagent(payload: Payload) -> Parsed:
    """Read an event about a subagent, which may have a conversation of its own."""
    parent = payload.native_id("parent_conversation_id")
    own = payload.native_id("conversation_id")
    # The end has no id but the one in the name of its transcript. Without a transcript it could be
    # the end of any subagent.
    if payload.identifier("subagent_id") is None:
        transcript = payload.text("agent_transcript_path") or ""
        stem = posixpath.splitext(posixpath.basename(transcript))[0]
        if not stem:
            return None
        payload = payload.changed(subagent_id=stem)
    found = _SHAPE.read(payload)
    if not isinstance(found, HookEvent):
        return found
    if found.phase is HookPhase.SUBAGENT_END:
        found = replace(found, paths=payload.paths("modified_files[]"))
    if parent is None or own is None or parent == own:
        return found
    return replace(found, native_session=own, parent_session=parent)
