"""Directories and files of ours that no planted link can redirect and no crash leaves half done.

A Git directory can come in an archive, with links in it. The target of such a link is not ours:
nothing is written or created there, and its permissions are not changed. openat(2), O_NOFOLLOW.
"""

import errno
import os
from contextlib import contextmanager, suppress

from gitshadow.errors import StoreError
from gitshadow.platform import O_PATH
from gitshadow.store.layout import Layout

TYPE_CHECKING = False
if TYPE_CHECKING:  # hook programs import this module, and `typing` alone takes 5 ms
    from collections.abc import Iterator
    from typing import BinaryIO

_MODE = 0o700
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_NOT_OURS = (errno.ENOTDIR, errno.ELOOP)


def check_dir(layout: Layout, *names: str) -> None:
    """Check that a directory of ours is a real directory.

    Args:
        layout: Whose state directory it is below.
        names: The directories that lead to it; none for the state directory itself.

    Raises:
        StoreError: it, or one above it, is a link or a file.
        OSError: it cannot be opened.
    """
    _walk(layout, names, make=False)


def make_dir(layout: Layout, *names: str) -> None:
    """Create a directory of ours if it is missing, and make it private whatever the umask.

    Raises:
        StoreError: it, or one above it, is a link or a file.
        OSError: it cannot be created.
    """
    _walk(layout, names, make=True)


@contextmanager
def replacing(path: str, mode: int = 0o600) -> "Iterator[BinaryIO]":
    """Open a new file, and rename it to `path` when the block ends without an error.

    Nobody reads half a file, and after a crash the old one is still there.

    Args:
        path: The file to create or replace; a link is replaced, not followed.
        mode: The permissions of the new file, less the umask.

    Raises:
        OSError: the file could not be written; what was at `path` is unchanged.
    """
    # The recorder recognizes names of this form in a worktree as unfinished saves, so the part is
    # not recorded as a file of its own. O_EXCL refuses a link that somebody put there.
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


def _walk(layout: Layout, names: tuple[str, ...], *, make: bool) -> None:
    # O_NOFOLLOW guards only the last component of a path (open(2)), so every directory of ours is
    # opened relative to the one above it. Links above the state directory are the user's own.
    top, first = os.path.split(layout.state_dir)
    path, at = top, os.open(top, O_PATH | os.O_CLOEXEC)
    try:
        for name in (first, *names):
            path = os.path.join(path, name)
            if make:
                with suppress(FileExistsError):
                    os.mkdir(name, _MODE, dir_fd=at)
            below = _opened(name, at, path)
            os.close(at)
            at = below
        if make:
            # mkdir(2) takes the umask's bits away, and an old directory may be too open.
            os.fchmod(at, _MODE)
    finally:
        os.close(at)


def _opened(name: str, above: int, path: str) -> int:
    try:
        return os.open(name, _DIRECTORY, dir_fd=above)
    except OSError as error:
        if error.errno not in _NOT_OURS:
            raise
        import shlex  # a hook that finds all in order does without

        raise StoreError(
            f"cannot use {path}: it is a link or a file, not a directory of gitshadow",
            hint=f"check where it leads, then remove it: rm {shlex.quote(path)}",
        ) from error
