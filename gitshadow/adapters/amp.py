"""Amp: a digest of its plugin manual and published plugins, 2026-09, through a plugin of ours.

The plugin sends `{hook, event, files, cwd}`; `files` is what Amp's own helper says that a tool
call changes, as `file:` URIs.
Invariant: a shell keeps its window for everything, whatever files the helper guesses for it.
"""

from collections.abc import Mapping
from dataclasses import replace

from gitshadow.adapters import fields
from gitshadow.adapters.base import HookEvent, HookPhase, Parsed, Traits
from gitshadow.adapters.filetools import path_of_uri
from gitshadow.adapters.shape import Shape
from gitshadow.model import ToolClass

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
    tools={
        ToolClass.WRITE: frozenset(
            {
                "Edit",
                "Write",
                "apply_patch",
                "create_file",
                "edit_file",
                "format_file",
                "undo_edit",
            }
        ),
        ToolClass.SHELL: frozenset({"Bash", "shell_command"}),
        ToolClass.AGENT: frozenset({"Task", "oracle"}),
        ToolClass.READ: frozenset(
            {
                "Grep",
                "Read",
                "finder",
                "find_thread",
                "get_diagnostics",
                "glob",
                "librarian",
                "list_directory",
                "look_at",
                "mermaid",
                "read_file",
                "read_thread",
                "read_web_page",
                "todo_read",
                "todo_write",
                "web_search",
            }
        ),
    },
)


class Amp:
    """Read what our plugin sends.

    `tool.call` comes for every tool; subagents run in threads of their own, several at once.
    """

    name = NAME
    traits = Traits(covers_all_tools=True, sequential=False)

    def parse(self, payload: Mapping[str, object], env: Mapping[str, str]) -> Parsed:
        """Read one payload; see `base.Adapter.parse`."""
        found = _SHAPE.read(payload)
        if not isinstance(found, HookEvent):
            return found
        found = replace(found, cwd=path_of_uri(payload.get("cwd")))
        if found.tool is None:
            return found
        found = _with_files(found, payload.get("files"))
        status = fields.text(payload, "event.status")
        if found.phase is HookPhase.AFTER and status in ("error", "cancelled"):
            return replace(found, phase=_ended(found, status))
        return found


def _with_files(found: HookEvent, files: object) -> HookEvent:
    """Name the files that Amp's helper knows of a call; a shell may write any other too."""
    named = _paths(files)
    if not named or found.tool_class not in (ToolClass.WRITE, ToolClass.OTHER):
        return found
    return replace(found, tool_class=ToolClass.WRITE, paths=named)


def _paths(value: object) -> tuple[bytes, ...]:
    items = value[: fields.MAX_PATHS] if isinstance(value, list) else []
    found = (path_of_uri(item) for item in items)
    return tuple(dict.fromkeys(path for path in found if path is not None))


def _ended(found: HookEvent, status: str) -> HookPhase:
    """Tell how a call ended that did not succeed.

    A call that the user rejects is `cancelled` too. An edit is over in an instant, so a cancelled
    one never ran; a command may have been stopped half way.
    """
    never = status == "cancelled" and found.tool_class is ToolClass.WRITE
    return HookPhase.DENIED if never else HookPhase.FAILED
