"""Answer about one worktree for a program that stays: the terminal UI, the language server."""

import shlex
import threading
from collections.abc import Callable, Sequence

from gitshadow.commands.client import raise_if_error, recovered_notes, spelled
from gitshadow.commands.undo_flow import HandOverError, check_whole, of_here
from gitshadow.commands.user_hooks import told
from gitshadow.errors import RefusedError, UsageError
from gitshadow.messages.codec import A, Q, Verb, decode, encode
from gitshadow.messages.undo import UNDO, FileUndoAnswer, FileUndoRequest, HandOver
from gitshadow.service.client import answer
from gitshadow.store.layout import Layout, journal_stamp, recorded


class HereEngine:
    """Answer about one worktree; paths are relative to its top, not to the current directory.

    Nothing is printed, because a screen or a protocol is on the streams; notes that come with an
    answer are passed to a callback.
    """

    def __init__(self, layout: Layout, told: Callable[[str], None]) -> None:
        self._layout, self._told = layout, told
        self._top = spelled(layout.root)
        # In this process each question opens the worktree under its lock: one after the other.
        self._one_at_a_time = threading.Lock()
        self._others: dict[str, HereEngine] = {}

    def send(self, verb: Verb[Q, A], request: Q, /) -> A:
        """Return a verb's answer; notes about interrupted undos go to the callback.

        Raises:
            ShadowError: what the verb raised.
        """
        params = {**encode(request), "cwd": self._top}
        with self._one_at_a_time:
            document = answer(self._layout, verb.name, params)
        raise_if_error(document)
        for note in recovered_notes(document):
            self._told(note)
        return decode(verb.answer, document)

    def plan(self, request: FileUndoRequest, /) -> FileUndoAnswer:
        """Return the plan of an undo.

        Raises:
            ShadowError: it cannot be planned.
        """
        return self._undo(request)

    def apply(self, request: FileUndoRequest, token: str, /) -> FileUndoAnswer:
        """Apply exactly the plan with a token, or nothing.

        Raises:
            ShadowError: files changed since, or another process is running.
        """
        return self._undo(request._replace(yes=True, token=token))

    def mark(self) -> object:
        """Return when the journal's files last changed, and how large they are."""
        return journal_stamp(self._layout)

    def worktrees(self) -> Sequence[str]:
        """Return the names of the recorded worktrees, this one first."""
        names = {one.worktree for one in recorded(self._layout)}
        here = self._layout.worktree
        return (here, *sorted(names - {here}))

    def there(self, worktree: str, /) -> "HereEngine":
        """Return the engine of another worktree.

        Raises:
            UsageError: it is gone.
        """
        if worktree == self._layout.worktree:
            return self
        if worktree not in self._others:
            found = [one for one in recorded(self._layout) if one.worktree == worktree]
            if not found:
                raise UsageError(
                    f"worktree {worktree} was removed",
                    hint="to list what is recorded: git agent-undo sessions",
                )
            self._others[worktree] = HereEngine(found[0], self._told)
        return self._others[worktree]

    def _undo(self, request: FileUndoRequest) -> FileUndoAnswer:
        whole = of_here(request)._replace(hand_over=True)
        answer = told(lambda one: self.send(UNDO, one), whole, self._layout)
        try:
            return check_whole(answer)
        except HandOverError as found:
            raise _refused(found.whose) from None


def _refused(found: HandOver) -> RefusedError:
    """Return the error that the files are only a part of this undo, with the command for all."""
    named = found.turn or found.op or f"session {found.session}"
    at = f"--session {shlex.quote(found.session)}"
    if found.op:
        command = f"redo {found.op}"
    elif found.before:
        command = f"rewind --before {found.before} --effects {at}"
    else:
        command = f"undo {found.turn} {at}"
    return RefusedError(
        f"cannot undo {named} here: it did more than change files",
        hint=f"in a shell: git agent-undo {command}",
    )
