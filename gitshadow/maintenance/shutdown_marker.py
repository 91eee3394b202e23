"""The shutdown marker: a daemon that was killed leaves its marker, which becomes a gap.

Invariant: asked under the writer lock, so a mark that is found belongs to nobody who lives.
"""

import contextlib

from gitshadow.errors import ShadowError
from gitshadow.recording.context import Desk
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


def begin(desk: Desk) -> None:
    """Note that this process watches from now on."""
    _mark(desk, _ON)


def end(desk: Desk) -> None:
    """Note that this process stops of its own accord; a lost worktree is no error."""
    with contextlib.suppress(ShadowError):
        _mark(desk, _OFF)


def note_move(desk: Desk) -> None:
    """Note that this process stops because its worktree is elsewhere, or no more.

    The journal is written through open files, which follow it to its new place.
    """
    with contextlib.suppress(ShadowError):
        _mark(desk, _MOVED)


def note_death(desk: Desk) -> None:
    """Journal a gap where a daemon ended without a word, or lost its worktree."""
    note = {_ON: _NOTE, _MOVED: _MOVED_NOTE}.get(
        meta.get(desk.workspace.db, _key(desk)) or ""
    )
    if note is not None:
        desk.pipeline.gap(note)
        _mark(desk, _OFF)


def _mark(desk: Desk, value: str) -> None:
    with desk.workspace.db.write():
        meta.put(desk.workspace.db, _key(desk), value)


def _key(desk: Desk) -> str:
    return _KEY + desk.workspace.layout.worktree
