"""Turn observed changes into drafts, with kind and time, before anybody asks who wrote them.

A deletion and a creation in one batch can be the two ends of a rename. Only equal bytes are
paired, each end at most once; between several equal candidates, inode or name must decide. Empty
files are all equal and inodes are soon reused, so empty files are paired only if the new file
provably is the old one.
Invariant: pure except for the stat of a parent directory. Each change becomes at most one draft,
and the two ends of a rename become one.
"""

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from gitshadow.model import EventKind, FileState, FileVersion, Oid, RepoPath
from gitshadow.store.journal.switches import kind_of
from gitshadow.store.object_format import is_empty_blob
from gitshadow.store.paths import parents
from gitshadow.store.spelling import fold_key


class End(NamedTuple):
    """Store one end of a possible rename: what vanished, or what appeared.

    `there_ns` is when the file that vanished was seen, and when the one that appeared was created;
    None where nobody knows.
    """

    path: RepoPath
    oid: Oid
    inode: int
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
    left_gone: dict[Oid, list[End]] = defaultdict(list)
    for end in gone:
        left_gone[end.oid].append(end)
    rest: list[End] = []
    for end in came:
        match = [old for old in left_gone[end.oid] if _is_same(old, end)]
        if match:
            left_gone[end.oid].remove(match[0])
            pairs.append((match[0].path, end.path))
        # Empty files are all equal: without the same inode, nothing shows which one moved.
        elif not is_empty_blob(end.oid):
            rest.append(end)
    # A copy is not a rename: if two new files have the bytes, neither is the moved one.
    rivals: dict[Oid, int] = defaultdict(int)
    for end in rest:
        rivals[end.oid] += 1
    for end in rest:
        old_end = _single(left_gone[end.oid], end, rivals[end.oid])
        if old_end is not None:
            left_gone[end.oid].remove(old_end)
            pairs.append((old_end.path, end.path))
    return sorted(pairs, key=lambda pair: pair[1])


def _is_same(old: End, new: End) -> bool:
    """Return whether both ends are one file, by its inode."""
    # Inodes are reused at once by some file systems, so for an empty file its time of birth has to
    # agree.
    if old.inode != new.inode or not is_empty_blob(new.oid):
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


# A named tuple: a checkout of many files makes one for each, and this takes a third of the time of
# a frozen dataclass.
class Draft(NamedTuple):
    """Store one change to record.

    `begin_ns` is the last moment at which the path was known to hold its old state, `end_ns` the
    time of the write by the file system's clock: together the interval of the evidence. Where it
    is not `exact`, the write was some time in the interval. `born_ns` is when the file of a new
    path was created, None where nobody knows. `twins` are other names of the same file, by which
    it may have been written.
    """

    kind: EventKind
    path: RepoPath
    before: FileState | None
    after: FileState | None
    begin_ns: int
    end_ns: int
    old_path: RepoPath | None = None
    born_ns: int | None = None
    twins: tuple[RepoPath, ...] = ()
    exact: bool = True

    @property
    def versions(self) -> tuple[FileVersion | None, FileVersion | None]:
        """Return what stood before and after."""
        before = self.before.version if self.before else None
        return before, self.after.version if self.after else None


class Seen(NamedTuple):
    """Store one path whose state differs from the recorded one; blobs are stored already.

    `born_ns` and `twins` are those of `Draft`.
    """

    path: RepoPath
    before: FileState | None
    after: FileState | None
    born_ns: int | None = None
    twins: tuple[RepoPath, ...] = ()


class BatchTime(NamedTuple):
    """Store when a batch was looked at.

    `settled_ns`: everything written before it had been recorded when the batch began.
    `ctime_of` gives the ctime of a directory (`b""`: the top), None where it is gone. `folds`: the
    file system has one file for several spellings of a name.
    """

    settled_ns: int
    noticed_ns: int
    ctime_of: Callable[[RepoPath], int | None]
    folds: bool = False


def draft_changes(seen: Sequence[Seen], moment: BatchTime) -> list[Draft]:
    """Turn what was seen into drafts, in an order in which each can be a commit of its own.

    What makes room for another path comes first: a tree cannot hold a file and, below its name,
    another one. Otherwise the order is that of time and path.

    Args:
        seen: What differs, each path once.
        moment: When it was looked at.
    """
    by_path = {one.path: one for one in seen}
    pairs = _renames(by_path, folds=moment.folds)
    while True:
        drafts = _drafts(by_path, pairs, moment)
        ordered = _ordered(drafts)
        if len(ordered) == len(drafts):
            return ordered
        # Files and directories changed places: no rename can be the first, so one is none.
        # Only a rename leaves one path and fills another, so a circle always contains one.
        placed = {one.path for one in ordered}
        stuck = next(new for _, new in pairs if new not in placed)
        pairs = [pair for pair in pairs if pair[1] != stuck]


def draft_of(one: Seen, moment: BatchTime) -> Draft | None:
    """Return the draft of one path alone, None where nothing changed."""
    kind = _kind(one.before, one.after)
    return None if kind is None else _draft(kind, one, moment)


def making_room(drafts: Sequence[Draft]) -> set[RepoPath]:
    """Return the paths that must be gone before another one of these can be there."""
    return {path for path, _ in _needs(drafts)}


def leaves(draft: Draft) -> list[RepoPath]:
    """Return the path at which a draft leaves nothing, if there is one."""
    if draft.after is None:
        return [draft.path]
    return [draft.old_path] if draft.old_path is not None else []


def _drafts(
    by_path: Mapping[RepoPath, Seen],
    pairs: Sequence[tuple[RepoPath, RepoPath]],
    moment: BatchTime,
) -> list[Draft]:
    """Return a draft for each pair and for each path that is in none."""
    drafts = [
        _draft(EventKind.RENAME, by_path[new], moment, by_path[old])
        for old, new in pairs
    ]
    ends = {end for pair in pairs for end in pair}
    for path, one in by_path.items():
        kind = _kind(one.before, one.after)
        if kind is not None and path not in ends:
            drafts.append(_draft(kind, one, moment))
    return drafts


def _ordered(drafts: Sequence[Draft]) -> list[Draft]:
    """Order drafts by time and path, but each right after what makes room for it.

    The latest goes last, then what it waited for and what is latest of the rest. Drafts that wait
    for each other are left out, with all that they wait for.
    """
    # The path breaks ties, so that equal histories give equal commits.
    by_time = sorted(drafts, key=lambda draft: (draft.end_ns, draft.path))
    leaving = {path: at for at, one in enumerate(by_time) for path in leaves(one)}
    coming = {one.path: at for at, one in enumerate(by_time)}
    makers: dict[int, set[int]] = defaultdict(set)
    needed: dict[int, set[int]] = defaultdict(set)
    for gone, came in _needs(by_time):
        first, then = leaving[gone], coming[came]
        if first != then:
            makers[then].add(first)
            needed[first].add(then)
    ready = [-at for at in range(len(by_time)) if at not in needed]
    heapq.heapify(ready)
    backwards: list[Draft] = []
    while ready:
        at = -heapq.heappop(ready)
        backwards.append(by_time[at])
        for first in makers[at]:
            needed[first].discard(at)
            if not needed[first]:
                heapq.heappush(ready, -first)
    return backwards[::-1]


def _needs(drafts: Sequence[Draft]) -> Iterator[tuple[RepoPath, RepoPath]]:
    """Yield each path that must be gone before another one can be there, with that one."""
    gone = {path for draft in drafts for path in leaves(draft)}
    came = {draft.path for draft in drafts if draft.after is not None}
    for path in gone:
        yield from ((path, above) for above in parents(path) if above in came)
    for path in came:
        yield from ((above, path) for above in parents(path) if above in gone)


def _renames(
    seen: Mapping[RepoPath, Seen], *, folds: bool
) -> list[tuple[RepoPath, RepoPath]]:
    gone = [
        _end(one.path, one.before, one.before.seen_ns)
        for one in seen.values()
        if one.after is None and one.before is not None
    ]
    came = [
        _end(one.path, one.after, one.born_ns)
        for one in seen.values()
        if one.before is None and one.after is not None
    ]
    respelled = _respelled(gone, came) if folds else []
    taken = {path for pair in respelled for path in pair}
    gone = [end for end in gone if end.path not in taken]
    came = [end for end in came if end.path not in taken]
    pairs = pair_renames(gone, came) if gone and came else []
    return sorted([*pairs, *respelled], key=lambda pair: pair[1])


def _respelled(
    gone: Sequence[End], came: Sequence[End]
) -> list[tuple[RepoPath, RepoPath]]:
    """Return the pairs of two spellings of a name: one file, whatever was written into it."""
    by_key = {fold_key(end.path): end.path for end in gone}
    news: dict[bytes, list[RepoPath]] = defaultdict(list)
    for end in came:
        news[fold_key(end.path)].append(end.path)
    return [
        (by_key[key], new[0])
        for key, new in news.items()
        if key in by_key and len(new) == 1
    ]


def _end(path: RepoPath, state: FileState, there_ns: int | None) -> End:
    held = state.version.oid if state.digest is None else Oid(state.digest.hex())
    return End(path, held, state.stat.inode, there_ns)


def _kind(before: FileState | None, after: FileState | None) -> EventKind | None:
    old, new = (None if one is None else one.version for one in (before, after))
    return None if old == new else kind_of(old, new)


def _draft(
    kind: EventKind, one: Seen, moment: BatchTime, old: Seen | None = None
) -> Draft:
    """Return the draft of one path, or with `old` of a rename."""
    before = one.before if old is None else old.before
    begin = max(moment.settled_ns, before.seen_ns if before else 0)
    if one.after is None:
        # The ctime of the nearest living ancestor, or the moment of noticing.
        changed = _ancestor_changed(one.path, begin, moment)
        end = min(changed or moment.noticed_ns, moment.noticed_ns)
    else:
        end = _written_at(one.path, one.after, begin, moment, kind)
    return Draft(
        kind=kind,
        path=one.path,
        old_path=None if old is None else old.path,
        before=before,
        after=one.after,
        begin_ns=begin,
        end_ns=end,
        born_ns=one.born_ns if old is None else None,
        twins=one.twins if old is None else (),
    )


def _written_at(
    path: RepoPath, after: FileState, begin: int, moment: BatchTime, kind: EventKind
) -> int:
    """Return when a file was written.

    Its mtime if that is inside the interval (chmod, chown and link move a ctime without a
    write), else its ctime; for a file that moved with its directory, whose own times are old, the
    ctime of the nearest ancestor that changed.
    """
    ctime, mtime = after.stat.ctime_ns, after.stat.mtime_ns
    # chmod and rename(2) leave the mtime, which is then that of an earlier write.
    wrote = kind not in (EventKind.MODE, EventKind.RENAME)
    if wrote and begin <= mtime <= ctime:
        return mtime
    # A ctime cannot be set by a program, an mtime can: tar and rsync restore old ones.
    if ctime >= begin:
        return min(ctime, max(moment.noticed_ns, begin + 1))
    return _ancestor_changed(path, begin, moment) or moment.noticed_ns


def _ancestor_changed(path: RepoPath, begin: int, moment: BatchTime) -> int | None:
    # The clock of a file system moves in steps of up to 10 ms, so a change right after a look can
    # have the very time of that look.
    directory = path
    while directory:
        directory = RepoPath(directory.rpartition(b"/")[0])
        ctime = moment.ctime_of(directory)
        if ctime is not None and ctime >= begin:
            return ctime
    return None
