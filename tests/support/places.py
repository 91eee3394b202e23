"""Directories that look like recorded repositories, without the 50 ms of `init`."""

import atexit
import shutil
import tempfile
from contextlib import closing
from functools import cache
from pathlib import Path

from gitshadow.store.journal.db import Db
from tests.support.repo import Repo


def recorded(root: Path) -> Path:
    """Make a repository with an empty journal and return its root."""
    shutil.copytree(_state(), Repo.create(root, files=()).state_dir)
    return root


@cache
def _state() -> Path:
    """Return our directory with an empty journal, to copy: its tables take 80 statements."""
    top = Path(tempfile.mkdtemp(prefix="gitshadow-template-"))
    atexit.register(shutil.rmtree, top, ignore_errors=True)
    with closing(Db.open(str(top / "state" / "journal.db"), create=True)):
        return top / "state"
