"""What the two watchers share: names that matter, and walks where watches are missing."""

import os
import stat
import time

GIT_NAMES = frozenset(
    {"HEAD", "HEAD.lock", "ORIG_HEAD", "index", "index.lock", "COMMIT_EDITMSG"}
)
"""The files of Git's directory whose change is a sign of a Git command."""

LIMIT_HINT = (
    "inotify has no watches left: sudo sysctl fs.inotify.max_user_watches=1048576"
    " fs.inotify.max_user_instances=1024"
)
_WALK_S = 2.0
_SHARE = 10


class Walks:
    """When to walk because watches are missing; walks take at most a tenth of the time.

    `reason` is what cannot be watched, and the remedy; None where all is.
    """

    def __init__(self) -> None:
        self.reason: str | None = None
        self._next = 0.0
        self._asked: float | None = None

    def is_due(self) -> bool:
        """Return whether to walk now; then the next walk is due after a pause."""
        now = time.monotonic()
        if self.reason is None or now < self._next:
            return False
        self._asked, self._next = now, now + _WALK_S
        return True

    def pace(self) -> None:
        """Note that a walk has ended: the next one comes the later the longer it took."""
        if self._asked is not None:
            now = time.monotonic()
            self._next = now + max(_WALK_S, _SHARE * (now - self._asked))
            self._asked = None


def directory_inode(path: str | bytes) -> int | None:
    """Return the inode of what can be watched: inotify needs to read, and would follow a link."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    if not stat.S_ISDIR(found.st_mode) or not os.access(path, os.R_OK | os.X_OK):
        return None
    return found.st_ino
