"""git-ai's notes of ours: written on `refs/notes/ai` on request, and taken back exactly.

Two writers on one notes ref fight, and diverging notes trees cannot always be merged: where git-ai
is, or has been, nothing is written (git-ai issues 95 and 98).
Invariant: the ref is touched only where it is absent or still what we wrote last.
"""

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass

from gitshadow.errors import RefusedError
from gitshadow.model import Oid, RepoPath
from gitshadow.recording.context import RecorderContext
from gitshadow.store.commits import NewCommit
from gitshadow.store.journal import meta

REF = "refs/notes/ai"
_KEY = "notes:git-ai"
_PLAIN = 0o100644
_SUBJECT = b"Notes added by git agent-undo export\n"


@dataclass(frozen=True, slots=True)
class NotesState:
    """Say what is on the ref: our tip (None: nothing of ours), and how many notes."""

    tip: Oid | None
    count: int = 0


def standing(context: RecorderContext) -> NotesState:
    """Return what we have on the ref.

    Raises:
        RefusedError: it is git-ai's, or somebody changed it since.
    """
    ws = context.workspace
    known = json.loads(meta.get(ws.db, _KEY) or "[]")
    tip = ws.repo.ref(REF)
    if tip is not None and tip not in known:
        raise RefusedError(
            f"could not write {REF}: it contains notes of another tool",
            hint="two tools cannot share a notes ref; to list its notes: git notes --ref=ai list",
        )
    if tip is None:
        return NotesState(None)
    return NotesState(tip, len(ws.repo.flat(ws.repo.commit(tip).tree)))


def refuse_beside_git_ai(context: RecorderContext) -> None:
    """Refuse where git-ai itself is at work.

    Raises:
        RefusedError: it is installed, or has its state in this repository.
    """
    ws = context.workspace
    found = shutil.which("git-ai", path=ws.environ.get("PATH", os.defpath))
    state = os.path.join(ws.layout.common_dir, "ai")
    where = found or (state if os.path.isdir(state) else None)
    if where is not None:
        raise RefusedError(
            f"could not write {REF}: git-ai is used here ({where}) and writes it itself",
            hint="to see the notes: --dry-run",
        )


def write(
    context: RecorderContext, notes: Mapping[Oid, bytes], before: NotesState
) -> Oid:
    """Put notes on the ref, in place of ours that stand for the same commits.

    Raises:
        StoreError: the ref moved meanwhile, or an object could not be written.
    """
    ws = context.workspace
    entries = {
        RepoPath(f"{commit[:2]}/{commit[2:]}".encode()): (
            _PLAIN,
            ws.repo.write_blob(data),
        )
        for commit, data in notes.items()
    }
    old = None if before.tip is None else ws.repo.commit(before.tip).tree
    name, email = ws.repo.identity()
    now_s = ws.clock.now_ns() // 1_000_000_000
    new = NewCommit(
        tree=ws.repo.trees.splice(old, entries),
        parents=() if before.tip is None else (before.tip,),
        author_name=name,
        author_email=email,
        author_time=now_s,
        committer_time=now_s,
        message=_SUBJECT,
    )
    tip = ws.repo.write_commit(new)
    # Remembered first: a ref of ours that we forget could never be taken back.
    _remember(context, tip, before.tip)
    ws.git.put_ref(REF, tip, before.tip)
    return tip


def take_back(context: RecorderContext, before: NotesState) -> None:
    """Delete the ref that we made.

    Raises:
        StoreError: it moved meanwhile.
    """
    if before.tip is not None:
        context.workspace.git.drop_ref(REF, before.tip)
        _remember(context)


def _remember(context: RecorderContext, *tips: Oid | None) -> None:
    """Note which tips are ours: of a write that is under way the new one and the old one."""
    db = context.workspace.db
    with db.write():
        meta.put(db, _KEY, json.dumps([tip for tip in tips if tip is not None]))
