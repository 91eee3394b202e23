"""Reading and replacing a settings file: whole or not at all, and never outside of its place.

A cloned repository may ship a link in the place of `.claude`: a project's file is read and
written only if its real path is inside the worktree. A user's own file may be a link into the
directory of their dotfiles: the target is written, and the link stays.
Invariant: after any failure the old file exists with its bytes and its mode.
"""

import errno
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass

from gitshadow.errors import RefusedError, ShadowError
from gitshadow.store.safe_files import replacing

_LARGEST_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Content:
    """A file's bytes and permission bits."""

    data: bytes
    mode: int


def locate(path: str, worktree: str | None) -> str:
    """Return the real path of a file.

    Args:
        path: An absolute path; the file need not exist.
        worktree: The top of the worktree for a project's file, None for a user's.

    Raises:
        RefusedError: a project's file would be outside the worktree, or in its Git
            directory; or the worktree belongs to another user.
    """
    real = os.path.realpath(path)
    if worktree is None:
        return real
    top = os.path.realpath(worktree)
    if os.stat(top).st_uid != os.geteuid():
        raise RefusedError(
            f"cannot change {path}: the worktree belongs to another user"
        )
    inside = real.startswith(top + os.sep) or top == os.sep
    # On a file system that ignores case, `.GIT` is the Git directory too.
    parts = os.path.relpath(real, top).split(os.sep)
    if not inside or any(part.lower() == ".git" for part in parts):
        raise RefusedError(
            f"cannot change {path}: a symbolic link leads to {real}",
            hint="remove the link, or install for yourself: --user",
        )
    return real


def read(path: str) -> Content | None:
    """Read a file; None if there is none.

    Raises:
        ShadowError: it cannot be read, or is no regular file.
    """
    try:
        # Without O_NONBLOCK, a FIFO in the place of the file would block until somebody writes.
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _failure("read", path, error) from error
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode):
        os.close(handle)
        raise ShadowError(f"could not read {path}: it is not a regular file")
    with open(handle, "rb") as stream:
        if status.st_size > _LARGEST_BYTES:
            raise ShadowError(
                f"could not read {path}: it is too large for a settings file"
            )
        try:
            data = stream.read()
        except OSError as error:
            raise _failure("read", path, error) from error
    return Content(data, stat.S_IMODE(status.st_mode))


def write(path: str, data: bytes, mode: int | None) -> list[str]:
    """Replace or create a file; return the directories created for it, outermost first.

    Args:
        path: The real path, from `locate`.
        data: The whole new content.
        mode: Permission bits; None for 0666 without those of the umask.

    Raises:
        ShadowError: it could not be written; the old file is unchanged.
    """
    return _placed(path, lambda: _replace(path, data, mode))


def link(path: str, target: str) -> list[str]:
    """Create a symbolic link; return the directories created for it, outermost first.

    Raises:
        ShadowError: it could not be created.
    """
    return _placed(path, lambda: os.symlink(target, path))


def _placed(path: str, place: Callable[[], None]) -> list[str]:
    """Put something at a path; return the directories created for it."""
    made: list[str] = []
    try:
        for name in missing_from(os.path.dirname(path)):
            os.mkdir(name)
            made.append(name)
        place()
    except OSError as error:
        remove_directories(made)
        raise _failure("write", path, error) from error
    return made


def missing_from(directory: str) -> list[str]:
    """Return a directory and those above it that do not exist, outermost first."""
    missing: list[str] = []
    while not os.path.isdir(directory):
        missing.insert(0, directory)
        directory = os.path.dirname(directory)
    return missing


def _replace(path: str, data: bytes, mode: int | None) -> None:
    old = _status(path)
    # A rename needs no permission on the file itself, so one that its owner made read-only would
    # be replaced all the same.
    if old is not None and not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, "it is read-only")
    with replacing(path, 0o666 if mode is None else 0o600) as stream:
        if mode is not None:
            os.fchmod(stream.fileno(), mode)
        # With sudo, the new file would belong to root, and the user could not change it any more.
        if old is not None and os.geteuid() == 0:
            os.fchown(stream.fileno(), old.st_uid, old.st_gid)
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def _status(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except FileNotFoundError:
        return None


def delete(path: str) -> None:
    """Delete a file.

    Raises:
        ShadowError: it could not be deleted.
    """
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise _failure("delete", path, error) from error


def remove_directories(directories: list[str]) -> list[str]:
    """Remove empty directories, innermost first; return those that are left."""
    left: list[str] = []
    for directory in reversed(directories):
        try:
            os.rmdir(directory)
        except FileNotFoundError:
            continue
        except OSError:
            left.insert(0, directory)
    return left


def _failure(verb: str, path: str, error: OSError) -> ShadowError:
    reason = (error.strerror or str(error)).lower()
    hint = None
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        hint = "is the file, or its directory, managed by another program?"
    return ShadowError(f"could not {verb} {path}: {reason}", hint=hint)
