"""A desk where there is no journal: the refs alone, folded into a temporary one.

For a clone into which shadow refs were fetched, on a build server above all. Prompts, gaps and what
is open at present are in no ref, so they are not known there.
Invariant: nothing is written below the Git directory.
"""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from gitshadow.engine.desk import Desk, open_desk
from gitshadow.engine.workspace import make_state_dirs
from gitshadow.errors import NotInitialisedError
from gitshadow.store import refs
from gitshadow.store.journal.db import Db
from gitshadow.store.layout import Layout
from gitshadow.store.replay import rebuild
from gitshadow.store.repo import Repo

REFSPEC = "refs/agent-undo/*:refs/agent-undo/*"
_LOCK_S = 5.0


class BorrowedLayout(Layout):
    """Lay out a worktree whose state lies in another directory."""

    __slots__ = ("_state_dir",)

    def __init__(self, layout: Layout, state_dir: str) -> None:
        super().__init__(
            layout.root, layout.git_dir, layout.common_dir, layout.worktree
        )
        self._state_dir = state_dir

    @property
    def state_dir(self) -> str:
        """Return the directory that stands for ours."""
        return self._state_dir


@contextmanager
def desk_from_refs(layout: Layout, environ: Mapping[str, str]) -> Iterator[Desk]:
    """Open a desk on what the refs of a repository tell.

    Raises:
        NotInitialisedError: there is no recorded history in its refs either.
        UnsupportedError: libgit2 cannot read the repository.
    """
    with tempfile.TemporaryDirectory(prefix="gitshadow-") as directory:
        borrowed = BorrowedLayout(layout, directory)
        make_state_dirs(borrowed)
        _fill(borrowed)
        desk = open_desk(borrowed, environ, lock_timeout_s=_LOCK_S)
        try:
            yield desk
        finally:
            desk.close()


def _fill(layout: BorrowedLayout) -> None:
    repo = Repo.open(layout)
    try:
        if not any(refs.is_chain(ref) for ref in repo.refs()):
            raise NotInitialisedError(
                f"could not find a journal or recorded sessions in {layout.root}",
                hint=f"git agent-undo init; on a build server: git fetch origin '{REFSPEC}'",
            )
        db = Db.open(layout.journal, create=True)
        try:
            with db.write():
                rebuild(db, repo)
        finally:
            db.close()
    finally:
        repo.close()
