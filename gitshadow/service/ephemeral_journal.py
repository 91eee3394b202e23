"""A worktree without a journal: its refs are replayed into a temporary one.

For a clone into which shadow refs were fetched, on a build server above all. Prompts, gaps and what
is open at present are in no ref, so they are not known there.
Invariant: nothing is written below the Git directory.
"""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from gitshadow.errors import NotInitialisedError
from gitshadow.recording import ingest
from gitshadow.recording.context import RecorderContext, open_context
from gitshadow.recording.workspace import make_state_dirs
from gitshadow.store import machine, refs
from gitshadow.store.journal.db import Db
from gitshadow.store.layout import BorrowedLayout, Layout
from gitshadow.store.replay import rebuild
from gitshadow.store.repo import Repo

REFSPEC = "refs/agent-undo/*:refs/agent-undo/*"
_LOCK_S = 5.0


@contextmanager
def context_from_refs(
    layout: Layout, environ: Mapping[str, str]
) -> Iterator[RecorderContext]:
    """Open a context on what the refs of a repository tell.

    Raises:
        NotInitialisedError: there is no recorded history in its refs either.
        UnsupportedError: libgit2 cannot read the repository.
    """
    with tempfile.TemporaryDirectory(prefix="gitshadow-") as directory:
        borrowed = BorrowedLayout(layout, directory)
        make_state_dirs(borrowed)
        _fill(borrowed)
        context = open_context(borrowed, environ, lock_timeout_s=_LOCK_S)
        try:
            yield context
        finally:
            context.close()


def _fill(layout: BorrowedLayout) -> None:
    repo = Repo.open(layout)
    try:
        if not any(refs.is_chain(ref) for ref in repo.refs()):
            raise NotInitialisedError(
                f"nothing is recorded or fetched in {layout.root}",
                hint=f"git agent-undo init; on a build server: git fetch origin '{REFSPEC}'",
            )
        db = Db.open(layout.journal, create=True)
        try:
            with db.write():
                foreign = rebuild(db, repo, machine.ours(layout)).foreign
        finally:
            db.close()
        ingest.fold(layout, repo, {ref: repo.refs()[ref] for ref in foreign})
    finally:
        repo.close()
