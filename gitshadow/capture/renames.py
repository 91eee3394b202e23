"""Which deletion and which creation of one batch are the two ends of a rename.

Invariant: only equal bytes are paired (digest and size), each end at most once; a guess between
several equal candidates is made only where inode or name decides. Empty files are all alike, and
an inode is soon used again: they are paired only where the file is proven to be the old one.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from gitshadow.model import Digest, RepoPath


class End(NamedTuple):
    """Hold one end of a possible rename: what vanished, or what appeared.

    `there_ns` is when the file that vanished was seen, and when the one that appeared was created;
    None where nobody knows.
    """

    path: RepoPath
    digest: Digest
    inode: int
    size: int
    there_ns: int | None = None


def pair_renames(
    gone: Sequence[End], came: Sequence[End]
) -> list[tuple[RepoPath, RepoPath]]:
    """Return (old path, new path) of each rename, in order of the new path.

    Same bytes and same inode is a rename (rename(2) keeps the inode), for an empty file only where
    it was created before the old one was last seen. Same bytes alone is one when the file is not
    empty and the choice is single, or the base name decides.
    """
    pairs: list[tuple[RepoPath, RepoPath]] = []
    left_gone: dict[Digest, list[End]] = defaultdict(list)
    for end in gone:
        left_gone[end.digest].append(end)
    rest: list[End] = []
    for end in came:
        match = [old for old in left_gone[end.digest] if _is_same(old, end)]
        if match:
            left_gone[end.digest].remove(match[0])
            pairs.append((match[0].path, end.path))
        elif end.size:
            rest.append(end)
    rivals: dict[Digest, int] = defaultdict(int)
    for end in rest:
        rivals[end.digest] += 1
    for end in rest:
        old_end = _single(left_gone[end.digest], end, rivals[end.digest])
        if old_end is not None:
            left_gone[end.digest].remove(old_end)
            pairs.append((old_end.path, end.path))
    return sorted(pairs, key=lambda pair: pair[1])


def _is_same(old: End, new: End) -> bool:
    """Tell whether both ends are one file, by its inode."""
    if old.inode != new.inode or new.size:
        return old.inode == new.inode
    if old.there_ns is None or new.there_ns is None:
        return False
    return new.there_ns < old.there_ns


def _single(candidates: list[End], end: End, rivals: int) -> End | None:
    named = [old for old in candidates if _base(old.path) == _base(end.path)]
    if len(named) == 1:
        return named[0]
    return candidates[0] if len(candidates) == 1 and rivals == 1 else None


def _base(path: RepoPath) -> bytes:
    return path.rpartition(b"/")[2]
