"""The modes of directories: Git's trees do not hold them, so one that is restored needs them here.

Only modes that differ from the usual one of the worktree are kept, also of directories that are
gone: an undo may bring these back.
Invariant: losing them costs modes of directories, nothing else.
"""

import json
import os
from collections import Counter
from collections.abc import Mapping

from gitshadow.model import RepoPath
from gitshadow.store.journal import meta
from gitshadow.store.journal.db import Db


class DirectoryModes:
    """Remember the permission bits of the directories of one worktree."""

    def __init__(self, db: Db, worktree: str) -> None:
        self._db = db
        self._key = f"directory_modes:{worktree}"
        self._usual: int | None = None
        self._odd: dict[RepoPath, int] | None = None

    def of(self, directory: RepoPath) -> int | None:
        """Return the permission bits that a directory had when last seen, None: not known."""
        return self._load().get(directory, self._usual)

    def note(self, seen: Mapping[RepoPath, int], *, whole: bool) -> None:
        """Remember the modes of directories that are there.

        Args:
            seen: Permission bits by path.
            whole: Whether these are all directories of the worktree.
        """
        odd, usual = self._load(), self._usual
        if whole and seen:
            self._usual = Counter(seen.values()).most_common(1)[0][0]
        if self._usual is None:
            return
        now = {path: mode for path, mode in odd.items() if path not in seen}
        now |= {path: mode for path, mode in seen.items() if mode != self._usual}
        if (now, self._usual) != (odd, usual):
            self._odd = now
            self._store()

    def _load(self) -> dict[RepoPath, int]:
        if self._odd is None:
            text = meta.get(self._db, self._key)
            try:
                kept = json.loads(text or "{}")
                odd = kept.get("odd", {}).items()
                self._odd = {
                    RepoPath(os.fsencode(path)): int(mode) for path, mode in odd
                }
                self._usual = kept.get("usual")
            except (ValueError, TypeError, AttributeError):
                self._odd = {}  # the next walk fills it again
        return self._odd

    def _store(self) -> None:
        odd = {os.fsdecode(path): mode for path, mode in self._load().items()}
        text = json.dumps({"usual": self._usual, "odd": odd}, sort_keys=True)
        with self._db.write():
            meta.put(self._db, self._key, text)
