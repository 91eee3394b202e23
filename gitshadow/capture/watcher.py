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
# inotify reports what this kernel does. On these file systems others may write, too: another
# machine, the host of this one, a program behind FUSE.
_SHARED = frozenset(
    {
        *(b"nfs", b"nfs4", b"cifs", b"smb3", b"smbfs", b"ncpfs", b"afs", b"coda"),
        *(b"ceph", b"lustre", b"gfs2", b"ocfs2", b"gpfs", b"beegfs", b"orangefs"),
        *(b"9p", b"virtiofs", b"vboxsf", b"prl_fs", b"vmhgfs", b"fuse"),
    }
)


class Walks:
    """When to walk because watches are missing; walks take at most a tenth of the time.

    `reason` is what cannot be watched, and the remedy; None where all is.
    """

    def __init__(self, root: str | bytes) -> None:
        kind = shared_file_system(root)
        self._lasting = (
            f"others may write to this file system ({kind}) without a report to this"
            " machine: all files are scanned instead"
            if kind is not None
            else None
        )
        self.reason = self._lasting
        self._next = 0.0
        self._asked: float | None = None

    def watched(self) -> None:
        """Note that all is watched that can be."""
        self.reason = self._lasting

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


def shared_file_system(
    root: str | bytes, mounted: str = "/proc/self/mountinfo"
) -> str | None:
    """Return the kind of a file system that others write to as well; None: it is ours alone."""
    try:
        device = os.stat(root).st_dev
        with open(mounted, "rb") as mounts:
            kind = _kind_of(mounts.read(), device)
    except OSError:
        return None
    is_shared = kind in _SHARED or kind.startswith(b"fuse.")
    return kind.decode("ascii", "replace") if is_shared else None


def _kind_of(mounts: bytes, device: int) -> bytes:
    """Return the kind of a mounted file system by its device number, b"" if it is not there."""
    wanted = b"%d:%d" % (os.major(device), os.minor(device))
    for line in mounts.splitlines():
        # A number of optional fields comes before the dash, proc(5).
        fields, _, rest = line.partition(b" - ")
        if fields.split(b" ", 3)[2] == wanted:
            return rest.split(b" ", 1)[0]
    return b""


def directory_inode(path: str | bytes) -> int | None:
    """Return the inode of what can be watched: inotify needs to read, and would follow a link."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    if not stat.S_ISDIR(found.st_mode) or not os.access(path, os.R_OK | os.X_OK):
        return None
    return found.st_ino
