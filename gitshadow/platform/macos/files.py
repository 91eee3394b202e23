"""What macOS knows of files: as every POSIX system, but for the way to the disk and paths."""

import fcntl
import os

from gitshadow.platform.portable.files import attributes_at as attributes_at
from gitshadow.platform.portable.files import begin_sync as begin_sync
from gitshadow.platform.portable.files import birth_of as birth_of
from gitshadow.platform.portable.files import chmod as chmod
from gitshadow.platform.portable.files import folds_by_flag as folds_by_flag
from gitshadow.platform.portable.files import is_locked as is_locked
from gitshadow.platform.portable.files import lost as lost
from gitshadow.platform.portable.files import put_on as put_on

# `git init` sets core.precomposeUnicode, which only Git on macOS looks at.
COMPOSES_NAMES = True
# <sys/fcntl.h>, MAXPATHLEN; the standard library has the names on macOS alone.
FULL_SYNC = 51
_GET_PATH, _PATH_BYTES = 50, 1024


def sync(fd: int) -> None:
    """Wait until a file would outlive a power loss."""
    # fsync(2) leaves the file in the drive's own cache; F_FULLFSYNC empties that. Some file
    # systems, as those of other machines, do not have it.
    try:
        fcntl.fcntl(fd, FULL_SYNC)
    except OSError:
        os.fsync(fd)


def reported_path(directory: str) -> str:
    """Return the path of a directory as FSEvents reports what happens below it.

    FSEvents resolves links (`/private/tmp`) and spells each name as it is stored. Where the system
    does not say how, this is the path that was given; F_GETPATH, fcntl(2).
    """
    try:
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            found = fcntl.fcntl(fd, _GET_PATH, bytes(_PATH_BYTES))
        finally:
            os.close(fd)
    except OSError:
        return directory
    return os.fsdecode(found.partition(b"\0")[0])
