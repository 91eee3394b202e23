"""Directories that look like recorded repositories, without the 50 ms of `init`."""

from contextlib import closing
from pathlib import Path

import pygit2

from gitshadow.store.journal.db import Db


def recorded(root: Path) -> Path:
    """Make a repository with an empty journal and return its root."""
    pygit2.init_repository(root)
    journal = root / ".git" / "agent-undo" / "journal.db"
    with closing(Db.open(str(journal), create=True)):
        return root
