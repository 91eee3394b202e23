"""Our directories: for their owner alone, and never a link that somebody has planted.

A Git directory can come in an archive. What a link in it leads to is not ours: nothing there is
written, created or gets other permissions. openat(2), O_NOFOLLOW. Imports little: hooks use it.
"""

import errno
import os
from contextlib import suppress

from gitshadow.errors import StoreError
from gitshadow.store.layout import Layout

_MODE = 0o700
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NOT_OURS = (errno.ENOTDIR, errno.ELOOP)


def check_dir(layout: Layout, *names: str) -> None:
    """Make sure that a directory of ours is one.

    Args:
        layout: Whose state directory it is below.
        names: The directories that lead to it; none for the state directory itself.

    Raises:
        StoreError: it, or one above it, is a link or a file.
        OSError: it cannot be opened.
    """
    _walk(layout, names, make=False)


def make_dir(layout: Layout, *names: str) -> None:
    """Create a directory of ours where it is missing, and make it private whatever the umask.

    Raises:
        StoreError: it, or one above it, is a link or a file.
        OSError: it cannot be created.
    """
    _walk(layout, names, make=True)


def _walk(layout: Layout, names: tuple[str, ...], *, make: bool) -> None:
    top, first = os.path.split(layout.state_dir)
    path, at = top, os.open(top, os.O_PATH | os.O_CLOEXEC)
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
