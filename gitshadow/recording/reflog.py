"""What Git's own log of HEAD says of how it moved, entry by entry; git-reflog(1).

How far it was read is remembered as a *mark*: where an entry ends in the file, and which entry that
was. So a move is seen even where HEAD is back where it was. Nothing is ever written there.
Invariant: where the log does not lead from one end to the other, nothing is claimed.
"""

import os
from collections.abc import Sequence
from hashlib import blake2b
from itertools import pairwise
from typing import NamedTuple

from gitshadow.errors import is_shortage
from gitshadow.model import Oid

_TAIL_BYTES = 1 << 16
# Git writes such entries in pairs, by way of no commit at all (refs/files-backend.c).
_RENAMED = "Branch: renamed "


class ReflogEntry(NamedTuple):
    """Hold one entry: the commits before and after it (None: unborn), and Git's words for it.

    `at_s` is when Git wrote it, in whole seconds; `mark` how far the log is read with it.
    """

    old: Oid | None
    new: Oid | None
    words: str
    at_s: int
    mark: str


def size_of(git_dir: str) -> int:
    """Return the size of the log, 0 where there is none."""
    try:
        return os.stat(_path(git_dir)).st_size
    except OSError:  # logging may be off: core.logAllRefUpdates
        return 0


def mark_at(git_dir: str, head: Oid | None) -> str:
    """Return the mark of the newest entry; empty where that is no entry to this commit.

    Git writes the entry of a move before it moves HEAD (refs/files-backend.c).
    """
    found = _entries(_read(_path(git_dir), -_TAIL_BYTES))
    return found[-1].mark if found and found[-1].new == head else ""


def read_to(mark: str) -> int:
    """Return the size that the log had when a mark was made."""
    return int(mark.partition(":")[0]) if mark else 0


def entries_since(
    git_dir: str, mark: str, known: Oid | None, head: Oid | None
) -> list[ReflogEntry] | None:
    """Return the entries that led HEAD from one commit to another, oldest first.

    Args:
        git_dir: The Git directory of the worktree.
        mark: How far the log was read; empty where that is not known.
        known: Where HEAD was then.
        head: Where it is.

    Returns:
        None where the log does not say how (it is off, or it was expired).
    """
    path = _path(git_dir)
    found: list[ReflogEntry] | None = None
    if mark:
        begin = min(read_to(mark), size_of(git_dir)) - _TAIL_BYTES
        found = _after_mark(_read(path, max(0, begin)), mark)
    if found is None:
        found = _since_commit(_entries(_read(path, -_TAIL_BYTES)), known)
    found = [one for one in found if not one.words.startswith(_RENAMED)]
    return _between(found, known, head)


def _path(git_dir: str) -> str:
    return os.path.join(git_dir, "logs", "HEAD")


def _read(path: str, begin: int) -> tuple[int, bytes]:
    """Read whole lines from an offset on (negative: from the end); return where they begin."""
    try:
        with open(path, "rb") as handle:
            size = handle.seek(0, os.SEEK_END)
            start = handle.seek(max(0, size + begin if begin < 0 else begin))
            data = handle.read()
    except OSError as error:  # logging may be off: core.logAllRefUpdates
        if is_shortage(error):
            raise
        return 0, b""
    if start:
        cut = data.find(b"\n") + 1
        start, data = start + cut, data[cut:]
    return start, data[: data.rfind(b"\n") + 1]


def _entries(chunk: tuple[int, bytes]) -> list[ReflogEntry]:
    at, data = chunk
    found: list[ReflogEntry] = []
    for line in data.split(b"\n")[:-1]:
        at += len(line) + 1
        entry = _entry(line, at)
        if entry is not None:
            found.append(entry)
    return found


def _entry(line: bytes, end: int) -> ReflogEntry | None:
    """Parse `<old> <new> <name> <<email>> <seconds> <zone>`, a tab and Git's words."""
    head, _, words = line.partition(b"\t")
    oids, when = head.split(b" ", 2), head.split(b" ")[-2:]
    if len(oids) != 3 or not when[0].isdigit():
        return None
    mark = f"{end}:{blake2b(line, digest_size=8).hexdigest()}"
    said = words.decode("utf-8", "replace")
    return ReflogEntry(_oid(oids[0]), _oid(oids[1]), said, int(when[0]), mark)


def _oid(digits: bytes) -> Oid | None:
    return Oid(digits.decode("ascii", "replace")) if digits.strip(b"0") else None


def _after_mark(chunk: tuple[int, bytes], mark: str) -> list[ReflogEntry] | None:
    """Return the entries after a mark, None where the log is another one by now.

    `git gc` removes old entries, so that the marked one ends elsewhere (git-reflog(1), expire).
    """
    found = _entries(chunk)
    digest = mark.partition(":")[2]
    same = [at for at, one in enumerate(found) if one.mark == mark]
    same = same or [at for at, one in enumerate(found) if one.mark.endswith(digest)]
    return found[same[-1] + 1 :] if same else None


def _since_commit(found: Sequence[ReflogEntry], known: Oid | None) -> list[ReflogEntry]:
    """Return the entries since HEAD last left a commit."""
    for at in range(len(found) - 1, -1, -1):
        if found[at].old == known != found[at].new:
            return list(found[at:])
    return []


def _between(
    found: list[ReflogEntry], known: Oid | None, head: Oid | None
) -> list[ReflogEntry] | None:
    """Return the entries from one commit to another; HEAD may be a moment behind its log."""
    starts = [at for at, one in enumerate(found) if one.old == known]
    ends = [at for at, one in enumerate(found) if one.new == head]
    if starts and ends and starts[0] <= ends[-1]:
        led = found[starts[0] : ends[-1] + 1]
        joined = all(one.new == two.old for one, two in pairwise(led))
        return led if joined else None
    return [] if known == head else None
