"""What became of undos that a crash interrupted, kept until a person is told.

Invariant: nobody is told twice; whoever takes the notes shows them.
"""

import json
from collections.abc import Sequence

from gitshadow.store.journal import meta
from gitshadow.store.journal.db import Db

_NOTED = "recovered:"


def note(db: Db, worktree: str, sentences: Sequence[str]) -> None:
    """Keep what became of interrupted ops until somebody is told."""
    if sentences:
        said = [*_noted(db, worktree), *sentences]
        with db.write():
            meta.put(db, _NOTED + worktree, json.dumps(said))


def take_notes(db: Db, worktree: str) -> list[str]:
    """Return what became of ops that a crash interrupted; nobody is told twice."""
    said = _noted(db, worktree)
    if said:
        with db.write():
            meta.put(db, _NOTED + worktree, "[]")
    return said


def _noted(db: Db, worktree: str) -> list[str]:
    said: list[str] = json.loads(meta.get(db, _NOTED + worktree) or "[]")
    return said
