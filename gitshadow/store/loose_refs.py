"""Loose refs of ours: the files that hold one object id each (gitrepository-layout(5)).

libgit2 neither reads nor overwrites the file of a ref that holds something else.
Invariant: no ref with an object id is changed here: libgit2 moves it, under the ref's lock.
"""

import os
import re
from contextlib import suppress

REF_PREFIX = "refs/agent-undo/"
_REF_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")
_REF_FILE = re.compile(rb"(ref: .*|[0-9a-f]{40})\s*", re.DOTALL)
_MAX_BYTES = 10_000


class LooseRefs:
    """The files of our refs in one repository."""

    def __init__(self, common_dir: str) -> None:
        self._common_dir = common_dir

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


def _is_ours(name: str) -> bool:
    parts = name.removeprefix(REF_PREFIX).split("/")
    return name.startswith(REF_PREFIX) and all(map(_REF_NAME.fullmatch, parts))


def _unlink(path: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)
