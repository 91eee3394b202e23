"""Directories that look like recorded repositories, without the 50 ms of `init`."""

from contextlib import closing
from pathlib import Path

from gitshadow.store.journal.db import Db
from tests.support.repo import Repo


def recorded(root: Path) -> Path:
    """Make a repository with an empty journal and return its root."""
    repo = Repo.create(root, files=())
    with closing(Db.open(str(repo.state_dir / "journal.db"), create=True)):
        return root
