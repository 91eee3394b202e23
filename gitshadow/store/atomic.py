"""Files that are replaced as a whole: nobody reads half of one, and a crash leaves the old one.

Invariant: the new file has a name of its own until it is complete, so no link is followed and no
other file is overwritten.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


@contextmanager
def replacing(path: str, mode: int = 0o600) -> Iterator[BinaryIO]:
    """Open a new file, and rename it to `path` when the block ends without an error.

    Args:
        path: The file to create or replace; a link is replaced, not followed.
        mode: The permissions of the new file, less the umask.

    Raises:
        OSError: the file could not be written; what was at `path` is unchanged.
    """
    # In a worktree the recorder takes files of such names for unfinished saves.
    part = f"{path}.tmp.{os.urandom(4).hex()}"
    fd = os.open(part, _NEW, mode)
    try:
        with open(fd, "wb") as out:
            yield out
        os.replace(part, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(part)
        raise
