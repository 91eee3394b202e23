"""What Git's index knows of files: their blobs, and the stat with which Git last saw them.

Git itself reads the index, so any kind of it can be read: split, sparse, of any version. What it
prints for half a million entries is read in parts. It also says what it ignores, gitignore(5).
"""

import re
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from gitshadow.errors import StoreError
from gitshadow.model import Oid, RepoPath, StatKey
from gitshadow.store.git import Git
from gitshadow.store.object_format import OID_PATTERN

_IGNORED = ("check-ignore", "--no-index", "--stdin", "-z", "-v")
# It takes a `:` at the beginning for pathspec magic, and no option turns that off for it.
_HERE = b"./"
_BEYOND_LINK = "beyond a symbolic link"
_WORD = 0xFFFF_FFFF
_SECOND_NS = 1_000_000_000
_MOST_NAMED = 100
_CONVERTING = frozenset({b"filter", b"ident", b"working-tree-encoding"})
_STAT = (
    rb" *ctime: (\d+):(\d+)\n *mtime: (\d+):(\d+)\n *dev: \d+\tino: (\d+)\n"
    rb" *uid: \d+\tgid: \d+\n *size: (\d+)\tflags: [0-9a-f]+\n"
)
_END_OF_ENTRY = re.compile(_STAT)
# What is no entry matches byte by byte, with no group, and is never skipped in silence.
_ENTRY = re.compile(
    rb"(\d{6}) (%b) (\d)\t([^\0]+)\0%b|." % (OID_PATTERN.encode(), _STAT), re.DOTALL
)

_COMPARED = re.compile(rb"H 1(?:00|20)")


def staged(git: Git) -> bytes:
    """Return the index's entries, conflicted ones once per stage, for `parse_staged`."""
    return git.run("ls-files", "-z", "--stage", "--full-name", ":/")


def parse_staged(listing: bytes) -> list[tuple[int, RepoPath]]:
    """Return mode and path of every index entry that `staged` listed."""
    rows = (row.partition(b"\t") for row in listing.split(b"\0") if row)
    return [(int(head[:6], 8), RepoPath(path)) for head, _, path in rows]


def staged_as(git: Git, blobs: Collection[Oid]) -> list[RepoPath]:
    """Return the paths of the index that hold one of some contents, sorted."""
    rows = (row.partition(b"\t") for row in staged(git).split(b"\0") if row)
    found = ((head.split()[1].decode("ascii"), path) for head, _, path in rows)
    return sorted({RepoPath(path) for oid, path in found if oid in blobs})


class Staged(NamedTuple):
    """An index entry: what is staged, and the stat that the file had then.

    `racy` means that the file may have changed since without another stat (racy-git.txt).
    """

    mode: int
    oid: Oid
    stat: StatKey
    racy: bool

    def is_of(self, stat: StatKey) -> bool:
        """Return whether a file still has this stat."""
        return self.stat == cut(stat)


def cut(stat: StatKey) -> StatKey:
    """Return a stat as the index stores it: size and inode in 32 bits (gitformat-index(5))."""
    return stat._replace(size=stat.size & _WORD, inode=stat.inode & _WORD)


IndexRow = tuple[bytes, bytes, RepoPath, bytes, int, int, int]
"""An entry without a conflict: mode, oid, path, size, mtime, ctime and inode.

Mode, oid and size are digits, as Git printed them; size and inode are cut to 32 bits.
"""


def entries(git: Git, paths: Collection[RepoPath] | None) -> Iterator[list[IndexRow]]:
    """Yield the index's entries, those of some paths or more, in parts; None: all.

    Raises:
        StoreError: Git could not read the index, or printed something else.
    """
    asked = [b":/"]
    if paths is not None and len(paths) <= _MOST_NAMED:
        asked = [b":(top,literal)" + path for path in sorted(paths)]
    how = ("ls-files", "-z", "--stage", "--debug", "--full-name", "--")
    rest = b""
    for part in git.lines(*how, *asked):
        rest += part
        end = _end_of_last(rest)
        yield _parse(rest[:end])
        rest = rest[end:]
    yield _parse(rest)


def _end_of_last(listing: bytes) -> int:
    """Return where the last whole entry ends."""
    nul = len(listing)
    # After the last NUL there is the stat of an entry, whole or not, and the beginning of the next.
    for _ in range(2):
        nul = listing.rfind(b"\0", 0, nul)
        found = _END_OF_ENTRY.match(listing, nul + 1) if nul >= 0 else None
        if found is not None:
            return found.end()
    return 0


def _parse(listing: bytes) -> list[IndexRow]:
    try:
        return [
            (
                mode,
                oid,
                RepoPath(path),
                size,
                int(m_s) * _SECOND_NS + int(m_ns),
                int(c_s) * _SECOND_NS + int(c_ns),
                int(inode),
            )
            for mode, oid, stage, path, c_s, c_ns, m_s, m_ns, inode, size in (
                _ENTRY.findall(listing)
            )
            if stage in (b"0", b"")
        ]
    except ValueError as error:
        raise StoreError("cannot read what git printed of its index") from error


def staged_stats(
    git: Git, paths: Collection[RepoPath], index_ns: int
) -> dict[RepoPath, Staged]:
    """Return the index entries of some paths with their stat.

    Args:
        git: Git.
        paths: The paths.
        index_ns: The mtime of the index, from before this.
    """
    wanted = frozenset(paths)
    return {
        row[2]: _staged(*row, index_ns=index_ns)
        for part in entries(git, wanted)
        for row in part
        if row[2] in wanted
    }


def _staged(
    mode: bytes,
    oid: bytes,
    _: RepoPath,
    size: bytes,
    *times: int,
    index_ns: int,
) -> Staged:
    stat = StatKey(int(size), *times)
    return Staged(int(mode, 8), Oid(oid.decode()), stat, stat.mtime_ns >= index_ns)


ATTRIBUTES = ("check-attr", "-z", "--stdin", "--all")
"""The command that prints the attributes of paths, for `converted_by`."""


def converted(git: Git, paths: Collection[RepoPath]) -> set[RepoPath]:
    """Return which of some paths Git converts by more than line ends; gitattributes(5)."""
    listed = b"".join(path + b"\0" for path in sorted(paths))
    return converted_by(git.run(*ATTRIBUTES, stdin=listed))


def converted_by(listing: bytes) -> set[RepoPath]:
    """Return what `converted` does, from what `ATTRIBUTES` printed."""
    cells = listing.split(b"\0")
    return {
        RepoPath(path)
        for path, name, value in zip(*[iter(cells)] * 3, strict=False)
        if name in _CONVERTING and value not in (b"unspecified", b"unset")
    }


def unlike(git: Git, tree: Oid) -> set[RepoPath]:
    """Return the paths at which the index has something else than a tree, or a conflict."""
    how = ("diff-index", "--cached", "--name-only", "-z", "--no-renames", tree)
    return {RepoPath(path) for path in git.run(*how).split(b"\0") if path}


LISTED = ("ls-files", "-z", "-v", "--stage", "--full-name", ":/")
"""The command that prints all entries with their tags, for `compared`."""
# Whatever is configured, every field of a stat counts, and every change of one is reported. The
# index may have been written under other settings: then a clean file is reported, too.
CHANGED = (
    *("-c", "core.trustctime=true"),
    *("-c", "core.checkStat=default"),
    *("diff-files", "-z", "--name-only", "--no-renames", "--ignore-submodules=all"),
)
"""The command that prints the paths whose files do not have the stat in the index."""


def compared(listing: bytes) -> set[RepoPath] | None:
    """Return the paths that `LISTED` printed; None where `CHANGED` does not look at each file.

    That is so for submodules, and where a bit in the index says so: assume-unchanged,
    skip-worktree. A path with a conflict has no one entry.
    """
    rows = listing.split(b"\0")[:-1]
    if not all(map(_COMPARED.match, rows)):
        return None
    return {RepoPath(row[row.index(b"\t") + 1 :]) for row in rows}


def skip_worktree(git: Git) -> set[RepoPath]:
    """Return the paths that a sparse checkout leaves out of the working tree."""
    out = git.run("ls-files", "-z", "-t", "--full-name", ":/")
    rows = (row for row in out.split(b"\0") if row)
    return {RepoPath(row[2:]) for row in rows if row[:1] in (b"S", b"s")}


def rules_of(git: Git, paths: Sequence[RepoPath]) -> dict[RepoPath, str]:
    """Return for each ignored path the rule that ignores it, as `file:line:pattern`.

    Raises:
        StoreError: git gives no answer, as for several paths of which one is beyond a link.
    """
    if not paths:
        return {}
    asked = b"".join(_HERE + path + b"\0" for path in paths)
    try:
        out = git.run(*_IGNORED, stdin=asked, ok=(0, 1))
    except StoreError as error:
        if len(paths) == 1 and _BEYOND_LINK in error.message:
            return {}
        raise
    cells = iter(out.split(b"\0"))
    return {
        RepoPath(path.removeprefix(_HERE)): b":".join((source, line, pattern)).decode(
            "utf-8", "backslashreplace"
        )
        for source, line, pattern, path in zip(*[cells] * 4, strict=False)
        # The pattern that decides is empty if there is none.
        if pattern and not pattern.startswith(b"!")
    }
