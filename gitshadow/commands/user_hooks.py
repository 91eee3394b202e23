"""Run the user's hook commands for undos of files.

They run in the process that asked, never in a daemon; undos of agent programs' turns
call their hooks themselves (`sdk.turns.notifications`). Invariant: a hook changes neither the undo
nor its exit code; a hook that fails is reported in a note.
"""

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from gitshadow.errors import ShadowError
from gitshadow.messages.codec import encode
from gitshadow.messages.undo import FileUndoAnswer, FileUndoRequest
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
    ask: Callable[[FileUndoRequest], FileUndoAnswer],
    request: FileUndoRequest,
    layout: Layout,
) -> FileUndoAnswer:
    """Have an undo planned or applied, and run the hook commands of one that is applied.

    Args:
        ask: Asks the verb; called once more if a hook is to see the plan first.
        request: The undo.
        layout: The worktree, found before: the undo may remove the current directory.

    Returns:
        The answer, with what went wrong with the hooks among its notes.

    Raises:
        ShadowError: what the verb raised; never for a hook.
    """
    if not request.yes:
        return ask(request)
    given = {name: os.environ[name] for name in _VARIABLES if name in os.environ}
    request = request._replace(hook_settings=given)
    notes: list[str] = []
    answer = ask(request._replace(announce=True))
    if answer.announced:
        notes += _tell("pre_undo", answer, layout)
        answer = ask(request)
    # Without an op nothing was changed, so there is nothing to report to a hook.
    if "post_undo" in (answer.hooks or ()) and answer.op_id:
        notes += _tell("post_undo", answer, layout)
    return _public(answer)._replace(notes=(*answer.notes, *notes))


def _tell(name: "HookName", report: FileUndoAnswer, layout: Layout) -> Iterator[str]:
    """Run a hook command to its end; yield in words what went wrong."""
    # Imported here, because few users have hook commands and the SDK takes long to import.
    from gitshadow.sdk.turns.errors import ToolFailure
    from gitshadow.sdk.turns.run_command import CommandError
    from gitshadow.sdk.turns.user_hooks import UserHooks

    hooks = UserHooks(layout, _session(report), os.environ, _TIMEOUT_S)
    try:
        argv = hooks.commands()[name]
        if argv:
            hooks.run(name, argv, encode(_public(report)))
    except (ShadowError, ToolFailure, CommandError, OSError) as error:
        yield f"{_SETTING[name]}: {str(error).rstrip(': ')}"
    except KeyboardInterrupt:
        # Only the hook is stopped: the undo was done, or is still to be done.
        yield f"{_SETTING[name]}: interrupted"


def _public(answer: FileUndoAnswer) -> FileUndoAnswer:
    """Return an answer as `--json` prints it, without what only this process needs."""
    return answer._replace(announced=None, hooks=None)


def _session(report: FileUndoAnswer) -> str:
    """Return whose work a report is about, nothing if it is that of several."""
    found = {item.session or "" for item in report.items}
    return found.pop() if len(found) == 1 else ""
