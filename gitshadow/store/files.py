"""Files of the working tree: the only code that opens, reads or changes them.

No link is followed in any component of a path, so nothing outside the worktree is ever read or
written, even if somebody replaces a directory by a link in between. openat(2), O_NOFOLLOW.
"""

import errno
import os
import stat as st
import time
from builtins import list as _list
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple

from gitshadow.errors import raise_shortage
from gitshadow.model import LINK_MODE, TREE_MODE, RepoPath, StatKey
from gitshadow.platform import current
from gitshadow.platform.stamps import racy_ns
from gitshadow.store import sqlite_files
from gitshadow.store.directories import ABSENT, DIR_FLAGS, Directories
from gitshadow.store.object_format import ObjectFormat
from gitshadow.store.paths import UnsafePathError, check_path
from gitshadow.store.spelling import Spelling

TEMP_PREFIX = b".agent-undo-tmp-"
_READ_TRIES = 5
# O_NONBLOCK, because opening a FIFO would wait for its writer; O_NOCTTY, because a terminal device
# in the tree must not become ours (open(2)).
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


class Look(NamedTuple):
    """The result of an lstat: mode as in `FileVersion` for files and links, else raw.

    `directory_mode` are the permission bits of a directory, 0 for all else. `links` is how many
    names a file has, in the worktree or elsewhere.
    """

    mode: int
    stat: StatKey
    directory_mode: int = 0
    links: int = 1

    @property
    def is_file(self) -> bool:
        """Whether it is a regular file."""
        return st.S_ISREG(self.mode)

    @property
    def is_link(self) -> bool:
        """Whether it is a symbolic link."""
        return self.mode == LINK_MODE

    @property
    def is_dir(self) -> bool:
        """Whether it is a directory."""
        return self.mode == TREE_MODE

    def is_same_content(self, then: StatKey) -> bool:
        """Return whether a file was not written since it looked so, as far as its stat shows."""
        now = self.stat
        same = (now.size, now.mtime_ns, now.inode) == (
            then.size,
            then.mtime_ns,
            then.inode,
        )
        return self.is_file and same


class Reading(NamedTuple):
    """A file's bytes (a link's target), and the mode and stat with which they were read.

    `links` is how many names it has, in the worktree or elsewhere.
    """

    data: bytes
    mode: int
    stat: StatKey
    racy: bool
    links: int = 1


def look_of(stat: os.stat_result) -> Look:
    """Return an lstat result as a `Look`."""
    kind = st.S_IFMT(stat.st_mode)
    mode = stat.st_mode
    if kind == st.S_IFREG:
        mode = 0o100000 | (stat.st_mode & 0o7777)
    elif kind == st.S_IFLNK:
        mode = LINK_MODE
    elif kind == st.S_IFDIR:
        return Look(TREE_MODE, _key(stat), stat.st_mode & 0o7777)
    return Look(mode, _key(stat), links=stat.st_nlink)


def _key(stat: os.stat_result) -> StatKey:
    return StatKey(stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino)


class WorkFiles:
    """Read and change the files below one worktree root.

    A path that is spelled otherwise on the disk is absent, also where the file system folds names.
    With `composes`, names are shown as Git shows them on macOS (`Spelling`). `format` is that of
    the blobs that Git makes of the files.
    """

    def __init__(
        self, root: str, form: ObjectFormat, *, composes: bool | None = None
    ) -> None:
        self.format: Final = form
        self._root = os.fsencode(root)
        self._spelling = Spelling(composes=composes)
        self._directories = Directories(self._root, self._spelling)
        self._kept: dict[RepoPath, int] = {}
        # The name that every worktree has: this measures its file system.
        with suppress(OSError):
            self.look(RepoPath(b".git"))

    @property
    def folds(self) -> bool:
        """Whether a directory was met in which several spellings lead to one file."""
        return self._spelling.folds

    def spelled(self, path: RepoPath) -> RepoPath:
        """Return a path as the disk spells it, as far as it leads to something."""
        return self._directories.spelled(path)

    @property
    def in_place(self) -> bool:
        """Whether the root's path still leads to the directory that was opened."""
        return self._directories.in_place

    @contextmanager
    def together(self) -> Iterator[None]:
        """Open the directory of neighbouring paths once, for what is done with them in order."""
        # Each path is opened component by component, which is most of the cost of a look. A
        # directory that is replaced within the block is noticed at the next look elsewhere, or
        # after `doubt`: who changes files calls that for each path.
        with self._directories.together():
            yield

    @contextmanager
    def reading_back(self) -> Iterator[None]:
        """Keep files open that are given a mode with which their owner may not read them.

        `read` reads these through what is open, as long as they are at their path.
        """
        try:
            yield
        finally:
            for fd in self._kept.values():
                os.close(fd)
            self._kept.clear()

    def _keep(self, path: RepoPath, fd: int) -> None:
        old = self._kept.pop(path, None)
        if old is not None:
            os.close(old)
        self._kept[path] = fd

    def doubt(self) -> None:
        """Have the next look see whether its path leads to the directories opened before."""
        self._directories.doubt()

    def look(self, path: RepoPath) -> Look | None:
        """Return what is at a path (`b""`: the top), or None if nothing is.

        A path below something that is not a real directory is absent.
        """
        if not path:
            fd = self._directories.open_root()
            try:
                return look_of(os.fstat(fd))
            finally:
                os.close(fd)
        with self._directories.maybe_parent(path) as (parent, name):
            if parent is None:
                return None
            try:
                found = os.stat(name, dir_fd=parent, follow_symlinks=False)
            except OSError as error:
                if error.errno in (*ABSENT, errno.ENAMETOOLONG):
                    return None
                raise
            is_true = self._spelling.is_true(parent, name, found.st_dev)
        return look_of(found) if is_true else None

    def looks(self, *paths: RepoPath) -> list[Look | None]:
        """Return what is at some neighbouring paths, each as `glance` does, in their order."""
        with self.together():
            return [self.glance(path) for path in paths]

    def glance(self, path: RepoPath) -> Look | None:
        """Return what is at a path, None also if it may not be looked at."""
        try:
            return self.look(path)
        except OSError as error:
            # Without a free file descriptor every file would look gone.
            raise_shortage(error)
            return None

    def born_ns(self, path: RepoPath, inode: int) -> int | None:
        """Return when the file with this inode at a path was created.

        None if another file is there by now, or if the file system does not know.
        """
        birth_of = current().file_facts().birth_of
        try:
            with self._directories.maybe_parent(path) as (parent, name):
                found = None if parent is None else birth_of(name, parent)
        except OSError:
            return None
        return found.born_ns if found is not None and found.inode == inode else None

    def read(self, path: RepoPath) -> Reading | None:
        """Return the bytes of a regular file or the target of a link.

        A file that changes while it is read is read again; one that never rests is
        returned as last seen and marked racy.

        Raises:
            OSError: it exists but cannot be read.
        """
        with self._directories.maybe_parent(path) as (parent, name):
            if parent is None:
                return None
            try:
                return _read_at(parent, name, self._spelling)
            except PermissionError:
                fd = self._kept.get(path)
                found = os.stat(name, dir_fd=parent, follow_symlinks=False)
                if fd is None or not os.path.samestat(os.fstat(fd), found):
                    raise
                return _read_open(fd)[0]
            except OSError as error:
                if error.errno in ABSENT:
                    return None
                raise

    def head(self, path: RepoPath) -> bytes | None:
        """Return the first bytes of a regular file, as many as a database's header has.

        None if there is no such file, or it may not be read.
        """
        with suppress(UnsafePathError), self._opened(path) as fd:
            return None if fd is None else os.pread(fd, len(sqlite_files.HEADER), 0)
        return None

    def is_locked(self, path: RepoPath, start: int, length: int) -> bool:
        """Return whether another process is known to have locked some bytes of a file."""
        with suppress(UnsafePathError), self._opened(path) as fd:
            locked = current().file_facts().is_locked
            return fd is not None and locked(fd, start, length)
        return False

    def read_in(
        self, directory: RepoPath, names: Iterable[bytes]
    ) -> Iterator[tuple[bytes, Reading | OSError | None]]:
        """Read entries of one directory like `read`, opening the directory once.

        Yields:
            Each name with what was read, None where nothing to read is there, or the error.
        """
        try:
            fd = self._directories.open_dir(directory)
        except OSError as error:
            yield from ((name, error) for name in names)
            return
        try:
            for name in names:
                try:
                    yield name, _read_at(fd, name, self._spelling)
                except OSError as error:
                    yield name, None if error.errno in ABSENT else error
        finally:
            os.close(fd)

    def list(self, path: RepoPath) -> list[tuple[bytes, Look]]:
        """Return the entries of a directory (`b""` is the top) by name, unsorted.

        Raises:
            OSError: it cannot be listed, is gone, or is not a real directory.
        """
        return [(name, look_of(found)) for name, found in self.scan(path)]

    def scan(self, path: RepoPath) -> _list[tuple[bytes, os.stat_result]]:
        """Return what `list` does, each with the result of its lstat."""
        fd = self._directories.open_dir(path)
        try:
            entries: _list[tuple[bytes, os.stat_result]] = []
            with os.scandir(fd) as scan:
                for entry in scan:
                    try:
                        found = entry.stat(follow_symlinks=False)
                    except OSError:
                        continue
                    entries.append((os.fsencode(entry.name), found))
            return self._shown(fd, entries)
        finally:
            os.close(fd)

    def stage(self, path: RepoPath, data: bytes, mode: int) -> RepoPath:
        """Write a temporary file in the directory of a path, private until it is complete.

        It gets owner, access list and extended attributes of the file at the path. The system
        begins to write it to the disk; `harden` waits for that.

        Returns:
            The temporary's path; `publish` moves it into place.

        Raises:
            UnsafePathError: the path leaves the worktree or meets a link.
            OSError: the system refused (space, permission, no parent).
        """
        temp = TEMP_PREFIX + os.urandom(8).hex().encode()
        system = current().file_facts()
        with self._directories.parent(path) as (parent, name):
            if mode == LINK_MODE:
                os.symlink(data, temp, dir_fd=parent)
                try:
                    _own_like(temp, parent, name)
                except OSError:
                    os.unlink(temp, dir_fd=parent)
                    raise
                return _sibling(path, temp)
            # In the same directory, because rename(2) is atomic only within one file system. The
            # final mode comes last: a secret must not be readable by others while it is being
            # written.
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            fd = os.open(temp, flags, 0o600 & mode, dir_fd=parent)
            try:
                _own_like(temp, parent, name)
                _write_all(fd, data)
                system.put_on(fd, system.attributes_at(parent, name))
                os.fchmod(fd, mode & 0o7777)
                # With an fsync(2) after each file a thousand small ones took 2.9 s on a loaded
                # ext4; begun together and then awaited, 0.4 s. syncfs(2) would wait for the data
                # of everybody else, too.
                if mode & 0o400:
                    system.begin_sync(fd)
                else:
                    # Without a read permission nobody could open it again.
                    system.sync(fd)
                    self._keep(_sibling(path, temp), os.dup(fd))
            except OSError:
                os.close(fd)
                os.unlink(temp, dir_fd=parent)
                raise
            os.close(fd)
            return _sibling(path, temp)

    def harden(self, temp: RepoPath) -> None:
        """Wait until a staged file would outlive a power loss; links need nothing.

        Raises:
            OSError: it could not be written to the disk: no space, or the disk fails.
        """
        with self._directories.parent(temp) as (parent, name):
            mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
            if not st.S_ISREG(mode) or not mode & 0o400:
                return
            fd = os.open(name, _FILE_FLAGS, dir_fd=parent)
            try:
                current().file_facts().sync(fd)
            finally:
                os.close(fd)

    @contextmanager
    def holding(self, path: RepoPath) -> Iterator[Callable[[], bytes | None]]:
        """Keep a regular file open that is about to be replaced or removed.

        Yields:
            A function that returns its bytes as they are then, even if its name leads elsewhere;
            None if there is no such file, or it may not be read.
        """
        # Between the last look at a file and its rename or unlink, somebody may write into it. The
        # open descriptor still reaches that write, so that it can be restored.
        with self._opened(path) as fd:
            yield lambda: None if fd is None else _read_all(fd, os.fstat(fd).st_size)

    @contextmanager
    def _opened(self, path: RepoPath) -> Iterator[int | None]:
        """Open a regular file; None where there is none, or it may not be read."""
        fd: int | None = None
        with suppress(OSError), self._directories.parent(path) as (parent, name):
            fd = os.open(name, _FILE_FLAGS, dir_fd=parent)
        try:
            yield fd if fd is not None and st.S_ISREG(os.fstat(fd).st_mode) else None
        finally:
            if fd is not None:
                sqlite_files.close(fd, path)

    def publish(self, temp: RepoPath, path: RepoPath) -> None:
        """Rename a staged temporary over its target, in one step.

        Raises:
            UnsafePathError: the name leads to a file that is spelled otherwise.
            OSError: the system refused.
        """
        with self._directories.parent(path) as (parent, name):
            if not self._directories.is_free(parent, name):
                raise UnsafePathError(
                    f"cannot use path {path!r}: the file is spelled otherwise on the disk"
                )
            old = temp.rpartition(b"/")[2]
            os.rename(old, name, src_dir_fd=parent, dst_dir_fd=parent)
            if temp in self._kept:
                self._keep(path, self._kept.pop(temp))

    def attributes(self, path: RepoPath) -> dict[str, bytes]:
        """Return the extended attributes that a file in its place would get."""
        with self._directories.maybe_parent(path) as (parent, name):
            system = current().file_facts()
            return {} if parent is None else system.attributes_at(parent, name)

    def permissions(self, path: RepoPath) -> int:
        """Return the permission bits of what is at a path, also of a directory.

        Raises:
            OSError: nothing is there, or it may not be looked at.
        """
        with self._directories.parent(path) as (parent, name):
            found = os.stat(name, dir_fd=parent, follow_symlinks=False)
            return st.S_IMODE(found.st_mode)

    def make_dir(self, path: RepoPath, mode: int) -> None:
        """Create one directory with exactly these permission bits.

        Raises:
            OSError: something is there, or the system refused.
        """
        with self._directories.parent(path) as (parent, name):
            # Private at first: the umask would take bits away that the exact mode needs, and nobody
            # may enter it before it has its owner.
            os.mkdir(name, 0o700, dir_fd=parent)
            _own_like(name, parent, None)
            fd = os.open(name, DIR_FLAGS, dir_fd=parent)
            try:
                os.fchmod(fd, mode & 0o7777)
            finally:
                os.close(fd)

    def make_parents(
        self, path: RepoPath, mode_of: Callable[[RepoPath], int | None] | None = None
    ) -> _list[RepoPath]:
        """Create the missing directories above a path; return them, outermost first.

        Nobody gets more rights in one than `mode_of` gives.
        """
        check_path(path)
        made: list[RepoPath] = []
        parts = path.split(b"/")[:-1]
        fd = self._directories.open_root()
        try:
            for depth, part in enumerate(parts, 1):
                directory = RepoPath(b"/".join(parts[:depth]))
                mode = mode_of(directory) if mode_of is not None else None
                try:
                    # We must be able to create files in it, so the owner's bits come first and
                    # `set_mode` sets the exact ones when all files are there.
                    bits = 0o777 if mode is None else mode & 0o777 | 0o700
                    os.mkdir(part, bits, dir_fd=fd)
                    _own_like(part, fd, None)
                    made.append(directory)
                except FileExistsError:
                    pass
                fd = self._directories.descend(fd, part, path)
        finally:
            os.close(fd)
        return made

    def unlink(self, path: RepoPath) -> None:
        """Remove a file or link.

        Raises:
            OSError: nothing is at exactly this path, or the system refused.
        """
        with self._directories.parent(path) as (parent, name):
            if not self._directories.is_free(parent, name):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            os.unlink(name, dir_fd=parent)

    def chmod(self, path: RepoPath, mode: int) -> None:
        """Set the permission bits of a regular file."""
        with self._directories.parent(path) as (parent, name):
            if not mode & 0o400:
                with suppress(OSError):
                    self._keep(path, os.open(name, _FILE_FLAGS, dir_fd=parent))
            if not current().file_facts().chmod(name, mode & 0o7777, parent):
                raise UnsafePathError(f"could not chmod {path!r}: not a file")

    def set_mode(self, directory: RepoPath, mode: int) -> bool:
        """Set the permission bits of a directory; return whether it has them now.

        Raises:
            OSError: it is gone, or the system refused.
        """
        with self._directories.parent(directory) as (parent, name):
            fd = os.open(name, DIR_FLAGS, dir_fd=parent)
            try:
                if st.S_IMODE(os.fstat(fd).st_mode) != mode:
                    os.fchmod(fd, mode)
                return st.S_IMODE(os.fstat(fd).st_mode) == mode
            finally:
                os.close(fd)

    def rmdir_if_empty(self, path: RepoPath) -> bool:
        """Remove a directory if nothing is in it; return whether it was removed."""
        with self._directories.parent(path) as (parent, name):
            if not self._directories.is_free(parent, name):
                return False
            try:
                os.rmdir(name, dir_fd=parent)
            except OSError:
                return False
            return True

    def free_bytes(self) -> int:
        """Return the space an unprivileged write may take on this file system."""
        info = os.statvfs(self._root)
        return info.f_bavail * info.f_frsize

    def _shown(
        self, fd: int, entries: _list[tuple[bytes, os.stat_result]]
    ) -> _list[tuple[bytes, os.stat_result]]:
        """Return the entries of a directory with their names as they are shown."""
        if not self._spelling.composes:
            return entries
        names = [name for name, _ in entries]
        return [(self._spelling.shown(fd, name, names), one) for name, one in entries]


def _sibling(path: RepoPath, name: bytes) -> RepoPath:
    head, slash, _ = path.rpartition(b"/")
    return RepoPath(head + slash + name)


def _read_at(parent: int, name: bytes, spelling: Spelling) -> Reading | None:
    """Read an entry of an open directory; None if it cannot be read or is spelled otherwise."""
    reading: Reading | None = None
    for _ in range(_READ_TRIES):
        began_ns = time.time_ns()
        stat = os.stat(name, dir_fd=parent, follow_symlinks=False)
        if not spelling.is_true(parent, name, stat.st_dev):
            return None
        if st.S_ISLNK(stat.st_mode):
            target, key = os.readlink(name, dir_fd=parent), _key(stat)
            return Reading(target, LINK_MODE, key, is_racy(key, began_ns))
        if not st.S_ISREG(stat.st_mode):
            return None
        fd, reading = sqlite_files.kept(stat), None
        if fd is None:
            fd = os.open(name, _FILE_FLAGS, dir_fd=parent)
        try:
            if not st.S_ISREG(os.fstat(fd).st_mode):
                return None
            reading, settled = _read_open(fd, began_ns)
        finally:
            sqlite_files.close(fd, name, reading and reading.data)
        if settled:
            break
    return reading


def _read_open(fd: int, began_ns: int | None = None) -> tuple[Reading, bool]:
    """Read an open regular file from its start; return also whether nobody changed it."""
    began_ns = time.time_ns() if began_ns is None else began_ns
    before = os.fstat(fd)
    data = _read_all(fd, before.st_size)
    after = os.fstat(fd)
    settled = _key(before) == _key(after) and len(data) == after.st_size
    mode = 0o100000 | (after.st_mode & 0o7777)
    racy = is_racy(_key(after), began_ns) or not settled
    return Reading(data, mode, _key(after), racy, after.st_nlink), settled


def is_racy(stat: StatKey, began_ns: int) -> bool:
    """Return whether a write after a reading that began then could get the same stamp."""
    return began_ns - stat.ctime_ns < racy_ns(stat.ctime_ns)


def _read_all(fd: int, size: int) -> bytes:
    # One byte more than the size: a read that is not shorter than that shows that the file has
    # grown, and costs no second call in the usual case.
    data = os.pread(fd, size + 1, 0)
    if len(data) == size:
        return data
    parts, at = [data], len(data)
    while data:
        data = os.pread(fd, 1 << 20, at)
        parts.append(data)
        at += len(data)
    return b"".join(parts)


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _own_like(made: bytes, parent: int, name: bytes | None) -> None:
    """As root, set the owner of a new file to that of the old one, or of its directory.

    Raises:
        OSError: it cannot have the owner of the old one, as in a container that does not know it.
    """
    # Only root can give a file away (chown(2)); for others the owner is right already. An undo
    # under sudo must not leave files that their owner cannot change.
    if os.geteuid() != 0:
        return
    model, has_old = os.fstat(parent), False
    if name is not None:
        with suppress(FileNotFoundError):
            model = os.stat(name, dir_fd=parent, follow_symlinks=False)
            has_old = True
    found = os.stat(made, dir_fd=parent, follow_symlinks=False)
    if (found.st_uid, found.st_gid) == (model.st_uid, model.st_gid):
        return
    try:
        os.chown(made, model.st_uid, model.st_gid, dir_fd=parent, follow_symlinks=False)
    except OSError as error:
        if has_old:
            why = "a new file cannot have its owner here"
            raise OSError(error.errno, why) from error
