"""Telling the user's own hook commands of undos that concern files alone.

They run here, in the process of whoever asked, never in a daemon; undos of agent programs' turns
call their hooks themselves (`sdk.turns.notifications`). Invariant: a hook changes neither the undo
nor its exit code; a hook that fails is reported in a note.
"""

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from gitshadow.errors import ShadowError
from gitshadow.render.document import Document, flag, rows, text, texts
from gitshadow.store.layout import Layout

if TYPE_CHECKING:
    from gitshadow.sdk.turns.user_hooks import HookName

_TIMEOUT_S = 10.0
_SETTING = {"pre_undo": "agent-undo.preUndo", "post_undo": "agent-undo.postUndo"}
_VARIABLES = (
    "GITSHADOW_PRE_UNDO",
    "GITSHADOW_PREUNDO",
    "GITSHADOW_POST_UNDO",
    "GITSHADOW_POSTUNDO",
)


def told(
    ask: Callable[[Document], Document], params: Document, layout: Layout
) -> Document:
    """Have an undo planned or carried out, and tell of one that is carried out.

    Args:
        ask: Asks the engine; called once more where a hook is to see the plan first.
        params: What the engine's `undo` takes.
        layout: The worktree, found before: what is taken back may be the current directory.

    Returns:
        The engine's document, with what went wrong with the hooks among its notes.

    Raises:
        ShadowError: what the engine raised; never for a hook.
    """
    if not flag(params, "yes"):
        return ask(params)
    given = {name: os.environ[name] for name in _VARIABLES if name in os.environ}
    params = {**params, "hook_settings": given}
    notes: list[str] = []
    document = ask({**params, "announce": True})
    if flag(document, "announced"):
        notes += _tell("pre_undo", document, layout)
        document = ask(params)
    hooks = texts(document, "hooks")
    document = _plain(document)
    if "post_undo" in hooks and text(document, "op_id"):
        notes += _tell("post_undo", document, layout)
    return document | {"notes": [*texts(document, "notes"), *notes]}


def _tell(name: "HookName", report: Document, layout: Layout) -> Iterator[str]:
    """Run a hook command to its end; yield in words what went wrong."""
    from gitshadow.sdk.turns.errors import ToolFailure
    from gitshadow.sdk.turns.run_command import CommandError
    from gitshadow.sdk.turns.user_hooks import UserHooks

    hooks = UserHooks(layout, _session(report), os.environ, _TIMEOUT_S)
    try:
        argv = hooks.commands()[name]
        if argv:
            hooks.run(name, argv, _plain(report))
    except (ShadowError, ToolFailure, CommandError, OSError) as error:
        yield f"{_SETTING[name]}: {str(error).rstrip(': ')}"
    except KeyboardInterrupt:  # the undo itself was done, or is still to be
        yield f"{_SETTING[name]}: interrupted"


def _plain(document: Document) -> Document:
    """Return a document as `--json` prints it, without what is between the engine and us."""
    between = ("announced", "hooks")
    return {name: value for name, value in document.items() if name not in between}


def _session(report: Document) -> str:
    """Return whose work a report is about, nothing where it is that of several."""
    found = {text(item, "session") for item in rows(report, "items")}
    return found.pop() if len(found) == 1 else ""
