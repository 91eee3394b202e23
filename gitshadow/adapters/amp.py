"""Amp: a digest of its plugin manual and published plugins, 2026-09, through gitshadow's plugin.

The plugin sends `{hook, event, files, cwd}`; `files` are the files that a tool call changes
according to Amp's own helper, as `file:` URIs.
Invariant: a shell keeps its window for everything, whatever files the helper guesses for it.
"""

from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import unquote_to_bytes, urlsplit

from gitshadow.adapters.base import HookEvent, HookPhase, Parsed
from gitshadow.adapters.payload import MAX_PATHS, Payload, distinct, raw_path
from gitshadow.adapters.shape import Shape, tool_classes
from gitshadow.model import JsonValue, ToolClass

NAME = "amp"

_SHAPE = Shape(
    agent=NAME,
    event=("hook",),
    phases={
        "session.start": HookPhase.SESSION_START,
        "agent.start": HookPhase.PROMPT,
        "tool.call": HookPhase.BEFORE,
        "tool.result": HookPhase.AFTER,
        "agent.end": HookPhase.TURN_END,
    },
    session=("event.thread.id",),
    turn=("event.id",),
    call=("event.toolUseID",),
    tool=("event.tool",),
    tool_input=("event.input",),
    prompt=("event.message",),
    path_keys=("path", "filePath", "file_path", "paths[]"),
    patch_keys=("patch", "patchText", "input"),
    tools=tool_classes(
        write="Edit Write apply_patch create_file edit_file format_file undo_edit",
        shell="Bash shell_command",
        agent="Task oracle",
        read="Grep Read finder find_thread get_diagnostics glob librarian"
        " list_directory look_at mermaid read_file read_thread read_web_page"
        " todo_read todo_write web_search",
    ),
)


@_SHAPE.adjusted
def parse(found: HookEvent, payload: Payload, env: Mapping[str, str]) -> Parsed:
    """Read one payload; a `base.Parser`."""
    found = replace(found, cwd=path_of_uri(payload.value("cwd")))
    if found.tool is None:
        return found
    found = _with_files(found, payload.value("files"))
    status = payload.text("event.status")
    if found.phase is HookPhase.AFTER and status in ("error", "cancelled"):
        return replace(found, phase=_ended(found, status))
    return found


def _with_files(found: HookEvent, files: JsonValue) -> HookEvent:
    """Add the files that Amp's helper names for a call; a shell may write others too."""
    items = files[:MAX_PATHS] if isinstance(files, list) else []
    named = distinct(path_of_uri(item) for item in items)
    if not named or found.tool_class not in (ToolClass.WRITE, ToolClass.OTHER):
        return found
    return replace(found, tool_class=ToolClass.WRITE, paths=named)


def path_of_uri(value: object) -> bytes | None:
    """Return the path of a `file:` URI, or of a plain path; None for anything else."""
    if not isinstance(value, str) or "://" not in value:
        return raw_path(value)
    try:
        parts = urlsplit(value)
    except ValueError:
        return None
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        return None
    path = unquote_to_bytes(parts.path.encode("utf-8", "surrogateescape"))
    return path if path and b"\0" not in path else None


def _ended(found: HookEvent, status: str) -> HookPhase:
    """Return how a call ended that did not succeed."""
    # A call that the user rejects is `cancelled` too. An edit takes no time, so a cancelled one
    # never ran; a command may have been stopped in the middle.
    never = status == "cancelled" and found.tool_class is ToolClass.WRITE
    return HookPhase.DENIED if never else HookPhase.FAILED
