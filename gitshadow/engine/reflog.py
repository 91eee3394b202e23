"""What Git's own log of HEAD says of a move: whether anything but commits was made.

A commit writes no file of the working tree: what equals it was written before, by whoever wrote
it. Only the newest lines are read, and nothing is ever written there.
Invariant: where the log does not say how HEAD came from one end to the other, nothing is claimed.
"""

import os
import re
from collections.abc import Iterator

from gitshadow.model import Oid

_TAIL_BYTES = 1 << 16
_NONE = b"0" * 40
# `commit (merge)` ends a merge, which has written files.
_COMMIT = re.compile(rb"commit( \((initial|amend)\))?: ")


def only_commits(git_dir: str, old: Oid | None, new: Oid | None) -> bool:
    """Tell whether HEAD came from one commit to another by commits alone; git-reflog(1).

    Moves that change no commit (`checkout -b`) count as nothing.
    """
    goal = old.encode() if old is not None else _NONE
    at = new.encode() if new is not None else _NONE
    for line in _newest_first(os.path.join(git_dir, "logs", "HEAD")):
        before, after, message = _parts(line)
        if after != at:
            return False
        if before != after and not _COMMIT.match(message):
            return False
        if before == goal and before != after:
            return True
        at = before
    return False


def _newest_first(path: str) -> Iterator[bytes]:
    try:
        with open(path, "rb") as handle:
            size = handle.seek(0, os.SEEK_END)
            handle.seek(max(0, size - _TAIL_BYTES))
            lines = handle.read(_TAIL_BYTES).split(b"\n")
    except OSError:  # logging may be off: core.logAllRefUpdates
        return
    whole = lines if size <= _TAIL_BYTES else lines[1:]
    yield from (line for line in reversed(whole) if line)


def _parts(line: bytes) -> tuple[bytes, bytes, bytes]:
    head, _, message = line.partition(b"\t")
    oids = head.split(b" ", 2)
    return (oids[0], oids[1], message) if len(oids) == 3 else (b"", b"", b"")
