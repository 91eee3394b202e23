"""The shutdown marker: a daemon that was killed leaves its marker, which becomes a gap.

Invariant: asked under the writer lock, so a mark that is found belongs to nobody who lives.
"""

import contextlib

from gitshadow.errors import ShadowError
from gitshadow.recording.context import RecorderContext
from gitshadow.store.journal import meta

_KEY = "watched:"
_ON, _OFF, _MOVED = "yes", "no", "moved"
_NOTE = (
    "the daemon was killed: since the previous row, only the last state of each file"
    " was recorded"
)
_MOVED_NOTE = (
    "the worktree was moved or replaced while the daemon ran: since the previous row,"
    " only the last state of each file was recorded"
)


def begin(context: RecorderContext) -> None:
    """Note that this process watches from now on."""
    _mark(context, _ON)


def end(context: RecorderContext) -> None:
    """Note that this process stops of its own accord; a lost worktree is no error."""
    with contextlib.suppress(ShadowError):
        _mark(context, _OFF)


def note_move(context: RecorderContext) -> None:
    """Note that this process stops because its worktree is elsewhere, or no more.

    The journal is written through open files, which follow it to its new place.
    """
    with contextlib.suppress(ShadowError):
        _mark(context, _MOVED)


def note_death(context: RecorderContext) -> None:
    """Journal a gap where a daemon ended without a word, or lost its worktree."""
    note = {_ON: _NOTE, _MOVED: _MOVED_NOTE}.get(
        meta.get(context.workspace.db, _key(context)) or ""
    )
    if note is not None:
        context.pipeline.gap(note)
        _mark(context, _OFF)


def _mark(context: RecorderContext, value: str) -> None:
    with context.workspace.db.write():
        meta.put(context.workspace.db, _key(context), value)


def _key(context: RecorderContext) -> str:
    return _KEY + context.workspace.layout.worktree
