"""Directories of the working tree, opened component by component.

No link is followed, so nothing outside the worktree is ever reached, even if somebody replaces a
directory by a link in between; and no component is entered by another spelling than its own.
openat(2), O_NOFOLLOW.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from gitshadow.errors import MovedError, raise_shortage
from gitshadow.model import RepoPath
from gitshadow.store.paths import UnsafePathError, check_path
from gitshadow.store.spelling import Spelling

# Below so many directories, those above one are not kept open: a process has 256 files at least.
_MOST_ABOVE = 40
DIR_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# ENOTDIR and ELOOP: the path leads through a file or a link, so Git has no such path.
ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


class _Kept:
    """The directory that was opened last, with those above and below it that were before.

    `proven` are those to which their paths led since the last doubt.
    """

    def __init__(self) -> None:
        self.fds: dict[bytes, int] = {}
        self.proven: set[bytes] = set()

    def hold(self, directory: bytes, fd: int) -> None:
        # Above and below it nothing else is looked at: what was moved away is noticed.
        for other in list(self.fds):
            if not _is_in(other, directory) and not _is_in(directory, other):
                self._close(other)
        self.fds[directory] = fd

    def drop(self, directory: bytes) -> None:
        for other in [one for one in self.fds if _is_in(one, directory)]:
            self._close(other)

    def _close(self, directory: bytes) -> None:
        self.proven.discard(directory)
        os.close(self.fds.pop(directory))


def _is_in(path: bytes, directory: bytes) -> bool:
    return not directory or path == directory or path.startswith(directory + b"/")


class Directories:
    """Open the directories below one worktree root."""

    def __init__(self, root: bytes, spelling: Spelling) -> None:
        self._root = root
        self._spelling = spelling
        self._inode = _inode(root)
        self._kept: _Kept | None = None

    @property
    def in_place(self) -> bool:
        """Whether the root's path still leads to the directory that was opened."""
        return _inode(self._root) == self._inode

    @contextmanager
    def together(self) -> Iterator[None]:
        """Keep directories open within the block, until one is opened that is not near them."""
        if self._kept is not None:
            yield
            return
        self._kept = kept = _Kept()
        try:
            yield
        finally:
            self._kept = None
            kept.drop(b"")

    def doubt(self) -> None:
        """Have the next opening see whether its path leads to the directories opened before."""
        if self._kept is not None:
            self._kept.proven.clear()

    def open_root(self) -> int:
        """Open the root.

        What is absent in another directory says nothing about this worktree.

        Raises:
            MovedError: another directory is there by now, or none.
        """
        try:
            fd = os.open(self._root, DIR_FLAGS)
        except OSError as error:
            if error.errno not in ABSENT or self._inode is None:
                raise
            raise self._moved() from error
        found = os.fstat(fd)
        if self._inode is not None and (found.st_dev, found.st_ino) != self._inode:
            os.close(fd)
            raise self._moved()
        return fd

    def spelled(self, path: RepoPath) -> RepoPath:
        """Return a path as the disk spells it, or would show it, where it leads to nothing."""
        parts, known = path.split(b"/"), 0
        fd = self.open_root()
        try:
            for part in list(parts):
                found = os.stat(part, dir_fd=fd, follow_symlinks=False)
                parts[known] = self._spelling.true_name(fd, part, found)
                known += 1
                if known < len(parts):
                    inner = os.open(part, DIR_FLAGS, dir_fd=fd)
                    os.close(fd)
                    fd = inner
        except OSError as error:
            raise_shortage(error)
            device = os.fstat(fd).st_dev
            parts[known:] = (self._spelling.new(one, device) for one in parts[known:])
        finally:
            os.close(fd)
        return RepoPath(b"/".join(parts))

    def _moved(self) -> MovedError:
        return MovedError(
            f"the worktree is no longer at {os.fsdecode(self._root)}",
            hint="run the command again where it is now",
        )

    def is_free(self, parent: int, name: bytes) -> bool:
        """Return whether a change at a name reaches nothing that is spelled otherwise."""
        try:
            found = os.stat(name, dir_fd=parent, follow_symlinks=False)
        except OSError:
            return True
        return self._spelling.is_true(parent, name, found.st_dev)

    def _enter(
        self, fd: int, part: bytes, wanted: RepoPath | None, *, proves: bool
    ) -> int:
        """Open a component below `fd`; a path for a change must not lead through anything else.

        Where it `proves` nothing, the spelling of an ASCII name is taken on trust.
        """
        inner = _enter(fd, part, wanted)
        if not proves and part.isascii():
            return inner
        is_true = False
        try:
            is_true = self._spelling.is_true(fd, part, os.fstat(inner).st_dev)
        finally:
            if not is_true:
                os.close(inner)
        if is_true:
            return inner
        if wanted is not None:
            raise UnsafePathError(
                f"cannot use path {wanted!r}: {part!r} is spelled otherwise on the disk"
            )
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))

    def descend(self, fd: int, part: bytes, path: RepoPath) -> int:
        """Open a component below `fd` and close that; if it is none, raise and leave `fd` open."""
        inner = self._enter(fd, part, path, proves=True)
        os.close(fd)
        return inner

    def _is_still(self, part: bytes, above: int, fd: int) -> bool:
        """Return whether a name in a directory leads to the one that was opened by it."""
        # An inode that is open is not given to another directory.
        try:
            found = os.stat(part, dir_fd=above, follow_symlinks=False)
        except OSError:
            return False
        is_same = os.path.samestat(found, os.fstat(fd))
        return is_same and self._spelling.is_true(above, part, found.st_dev)

    def open_dir(self, path: bytes, wanted: RepoPath | None = None) -> int:
        """Open a directory; `wanted` is as for `_enter`."""
        trusts = self._spelling.is_plain
        fd = self._open(path, wanted, proves=not trusts)
        if not trusts or self._is_plain(fd):
            return fd
        os.close(fd)
        return self._open(path, wanted, proves=True)

    def _open(self, path: bytes, wanted: RepoPath | None, *, proves: bool) -> int:
        fd = self.open_root()
        for part in path.split(b"/") if path else ():
            try:
                inner = self._enter(fd, part, wanted, proves=proves)
            finally:
                os.close(fd)
            fd = inner
        return fd

    def _is_plain(self, fd: int) -> bool:
        """Return whether an open directory, and all that was met so far, keeps names apart."""
        # Once for each path: asked for each component of it, this would take a call more for each.
        plain = self._spelling.is_plain
        return plain and self._spelling.is_measured(os.fstat(fd).st_dev)

    @contextmanager
    def maybe_parent(self, path: RepoPath) -> Iterator[tuple[int | None, bytes]]:
        """Open the directory that holds a path; None where there is no such directory."""
        head, _, name = path.rpartition(b"/")
        kept = self._kept
        try:
            fd = self._open_kept(kept, head) if kept else self.open_dir(head)
        except OSError as error:
            if error.errno not in (*ABSENT, errno.ENAMETOOLONG):
                raise
            yield None, name
            return
        try:
            yield fd, name
        finally:
            if kept is None:
                os.close(fd)

    def _open_kept(
        self, kept: _Kept, directory: bytes, wanted: RepoPath | None = None
    ) -> int:
        """Open a directory and keep it open, with those above it.

        Raises:
            UnsafePathError: a component is none, and a change at the path `wanted` needs it.
        """
        if directory in kept.proven:
            return kept.fds[directory]
        trusts = self._spelling.is_plain
        fd = self._keep(kept, directory, wanted, proves=not trusts)
        if not trusts or self._is_plain(fd):
            return fd
        kept.drop(b"")
        return self._keep(kept, directory, wanted, proves=True)

    def _keep(
        self, kept: _Kept, directory: bytes, wanted: RepoPath | None, *, proves: bool
    ) -> int:
        parts = directory.split(b"/") if directory else []
        if len(parts) > _MOST_ABOVE:
            kept.drop(directory)
            fd = self.open_dir(directory, wanted)
            kept.hold(directory, fd)
            kept.proven.add(directory)
            return fd
        fd = kept.fds.get(b"", -1)
        if b"" not in kept.proven and (fd < 0 or not self.in_place):
            kept.drop(b"")
            fd = self.open_root()
            kept.hold(b"", fd)
        kept.proven.add(b"")
        for depth, part in enumerate(parts, 1):
            path = b"/".join(parts[:depth])
            inner = kept.fds.get(path, -1)
            if path not in kept.proven and (
                inner < 0 or not self._is_still(part, fd, inner)
            ):
                kept.drop(path)
                inner = self._enter(fd, part, wanted, proves=proves)
                kept.hold(path, inner)
            kept.proven.add(path)
            fd = inner
        return fd

    @contextmanager
    def parent(self, path: RepoPath) -> Iterator[tuple[int, bytes]]:
        """Open the directory that holds a path for a change."""
        check_path(path)
        head, _, name = path.rpartition(b"/")
        if self._kept is not None:
            yield self._open_kept(self._kept, head, path), name
            return
        fd = self.open_dir(head, path)
        try:
            yield fd, name
        finally:
            os.close(fd)


def _enter(fd: int, part: bytes, wanted: RepoPath | None) -> int:
    """Open a component below `fd`; a path for a change must not lead through anything else."""
    try:
        return os.open(part, DIR_FLAGS, dir_fd=fd)
    except OSError as error:
        if wanted is not None and error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise UnsafePathError(
                f"cannot use path {wanted!r}: {part!r} is not a directory"
            ) from error
        raise


def _inode(directory: bytes) -> tuple[int, int] | None:
    """Return device and inode of a directory, None where there is none."""
    try:
        found = os.lstat(directory)
    except OSError:
        return None
    return found.st_dev, found.st_ino
