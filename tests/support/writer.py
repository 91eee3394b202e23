"""One of several writers: `python -m tests.support.writer WORKTREE NUMBER COUNT`.

It writes as fast as it can: in place, by a temporary file and a rename, at the end of a file, and
into files that all writers share. Every tenth write is of a file that is never written again.
"""

import os
import sys

_FILES = 200
_SHARED = 10


def write(top: str, number: int, count: int) -> None:
    """Make that many writes."""
    for directory in range(20):
        os.makedirs(f"{top}/w{number}/d{directory}", exist_ok=True)
    os.makedirs(f"{top}/shared", exist_ok=True)
    for at in range(count):
        data = b"%d of writer %d\n" % (at, number) * (1 + at % 7)
        path = f"{top}/w{number}/d{at % 20}/f{at % _FILES}"
        kind = at % 10
        if kind == 0:
            _put(f"{path}-{at}", data, os.O_TRUNC)
        elif kind == 1:
            _put(f"{top}/shared/{at % _SHARED}", data, os.O_TRUNC)
        elif kind in (2, 3, 4):
            _put(f"{path}.tmp", data, os.O_TRUNC)
            os.rename(f"{path}.tmp", path)
        elif kind == 5:
            _put(f"{top}/w{number}/log", data, os.O_APPEND)
        else:
            _put(path, data, 0 if kind == 6 else os.O_TRUNC)


def _put(path: str, data: bytes, how: int) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | how, 0o644)
    try:
        os.write(handle, data)
    finally:
        os.close(handle)


if __name__ == "__main__":
    write(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
