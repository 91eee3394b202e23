"""Loose refs of ours: the files that hold one object id each (gitrepository-layout(5)).

libgit2 neither reads nor overwrites the file of a ref that holds something else, and moves a ref in
twenty system calls, some of which read the commit again that was just written.
Invariant: a ref is moved as Git moves it: its lock file is created, the old value compared under
the lock, and the lock file renamed over the ref.
"""

import os
import re
from contextlib import suppress

from gitshadow.model import Oid

REF_PREFIX = "refs/agent-undo/"
_REF_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")
_REF_FILE = re.compile(rb"(ref: .*|[0-9a-f]{40})\s*", re.DOTALL)
_MAX_BYTES = 10_000
_LOCK = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class LooseRefs:
    """The files of our refs in one repository."""

    def __init__(self, common_dir: str) -> None:
        self._common_dir = common_dir

    def move(self, name: str, old: Oid, new: Oid) -> bool:
        """Move a ref of ours from one commit to another, if its file holds the first.

        Returns:
            False where nothing was done: another process has its lock, it has another value or no
            file of its own, or the system refused.
        """
        if not _is_ours(name):
            return False
        path = os.path.join(self._common_dir, name)
        lock = path + ".lock"
        try:
            file = os.open(lock, _LOCK, 0o666)
        except OSError:
            return False
        try:
            try:
                line = new.encode("ascii") + b"\n"
                is_moving = self._read(path) == old and os.write(file, line) == 41
            finally:
                os.close(file)
            if is_moving:
                os.rename(lock, path)
                return True
        except OSError:
            is_moving = False
        except BaseException:
            _unlink(lock)
            raise
        _unlink(lock)
        return False

    def broken(self) -> list[str]:
        """Return our refs whose files cannot be read, sorted."""
        # libgit2 leaves them out of its list (`refdb_fs_backend__iterator_next`, 1.9), or lists
        # what `packed-refs` has for them, and fails on each of them later.
        found: list[str] = []
        for directory, _, names in os.walk(os.path.join(self._common_dir, REF_PREFIX)):
            below = os.path.relpath(directory, self._common_dir)
            found += [f"{below}/{name}" for name in names if _REF_NAME.fullmatch(name)]
        return [ref for ref in sorted(found) if self._is_broken(ref)]

    def discard_unreadable(self, name: str) -> None:
        """Remove the file of a ref of ours that libgit2 neither reads nor overwrites."""
        if _is_ours(name) and self._is_broken(name):
            _unlink(os.path.join(self._common_dir, name))

    def _is_broken(self, name: str) -> bool:
        """Return whether the file of a ref has no object id; one that is absent is not broken."""
        try:
            with open(os.path.join(self._common_dir, name), "rb") as file:
                return _REF_FILE.fullmatch(file.read(_MAX_BYTES)) is None
        except FileNotFoundError:
            return False
        except OSError:
            return True

    def _read(self, path: str) -> str:
        file = os.open(path, _READ)
        try:
            return os.read(file, _MAX_BYTES).decode("latin-1").rstrip()
        finally:
            os.close(file)


def _is_ours(name: str) -> bool:
    parts = name.removeprefix(REF_PREFIX).split("/")
    return name.startswith(REF_PREFIX) and all(map(_REF_NAME.fullmatch, parts))


def _unlink(path: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)
