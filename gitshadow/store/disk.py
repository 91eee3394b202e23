"""What a repository and our own files take on disk, and which objects each of our refs keeps.

`disk` and `own_bytes` do not start Git. `Weights` reads by children of Git only, so any thread may
use it.
"""

import os
import time
from array import array
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import NamedTuple

from gitshadow.messages.storage import DiskFigures
from gitshadow.model import Oid
from gitshadow.store.git import Git
from gitshadow.store.object_format import format_of

_SETTLED_NS = 2_000_000_000
_RESERVE_BYTES, _RESERVE_PART = 500 * 1024 * 1024, 50
_Brought = dict[Oid, "array[int]"]


class LooseObjects:
    """Count the loose objects of a repository; what did not change is not listed again."""

    def __init__(self, objects_dir: str) -> None:
        self._objects = objects_dir
        self._known: dict[str, tuple[tuple[int, int], int]] = {}

    def count(self) -> int:
        """Return how many there are now; Git's own gc may remove any of them at any time."""
        fans = [name for name in _names(self._objects) if len(name) == 2]
        return sum(map(self._count, fans))

    def _count(self, fan: str) -> int:
        directory = os.path.join(self._objects, fan)
        began_ns = time.time_ns()
        try:
            found = os.stat(directory)
        except FileNotFoundError:
            return 0
        # An added or removed entry sets the ctime, and unlike the mtime nobody can set it back.
        key = found.st_ctime_ns, found.st_ino
        known = self._known.get(fan)
        if known is not None and known[0] == key:
            return known[1]
        number = len(_names(directory))
        # Within a tick of the file system's clock a change after the listing has the same ctime.
        if key[0] < began_ns - _SETTLED_NS:
            self._known[fan] = key, number
        return number


def spare_bytes(directory: str) -> int:
    """Return how many bytes may be written before the disk counts as almost full.

    That is with less than 500 MiB free or, on a small disk, 2 %.

    Raises:
        OSError: the file system does not say.
    """
    found = os.statvfs(directory)
    reserve = min(_RESERVE_BYTES, found.f_blocks * found.f_frsize // _RESERVE_PART)
    return found.f_bavail * found.f_frsize - reserve


def disk(state_dir: str, common_dir: str, loose: LooseObjects) -> DiskFigures:
    """Return the loose objects and packs of the repository, and the bytes of our own files.

    Git's own gc may remove any of them at any time.
    """
    packs = os.path.join(common_dir, "objects", "pack")
    packed = sum(name.endswith(".pack") for name in _names(packs))
    return DiskFigures(loose.count(), packed, own_bytes(state_dir))


def own_bytes(state_dir: str) -> int:
    """Return the bytes of our own files; any of them may disappear at any time."""
    # Git's gc or a command of ours may remove any of them while they are counted, so a missing file
    # counts as empty.
    return sum(
        _size(os.path.join(top, name))
        for top, _, names in os.walk(state_dir)
        for name in names
    )


def _names(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except FileNotFoundError:
        return []


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except FileNotFoundError:
        return 0


class _Commit(NamedTuple):
    """A commit of the walk; of the user's commits only the tree is used."""

    tree: Oid
    parents: tuple[Oid, ...]
    of_user: bool


# One walk for all refs: Git lists and sizes the objects once, and then lists for every commit what
# its tree has that its parent's has not. A ref keeps what its commits brought. One `git rev-list
# --objects` per session would mark the whole tree below each of a thousand sessions.
class Weights:
    """Sizes of what refs keep; objects are numbered, and listed at the first question.

    Raises:
        StoreError: the objects could not be read; any method may.
    """

    def __init__(self, git: Git, tips: Mapping[str, Oid], users: Iterable[Oid]) -> None:
        """Use refs of ours, and commits that reach all of the user's."""
        self._git = git
        self._tips = tips
        self._users = sorted(users)

    @cached_property
    def sizes(self) -> "array[int]":
        """Return the bytes on disk of everything that any of the refs keeps."""
        sizes = self._git.disk_sizes(list(self._numbers))
        return array("Q", (sizes.get(oid, 0) for oid in self._numbers))

    def kept_by(self, refs: Iterable[str]) -> set[int]:
        """Return the numbers of the objects that some refs keep."""
        found: set[int] = set()
        seen: set[Oid] = set()
        stack = [self._tips[ref] for ref in refs if ref in self._tips]
        while stack:
            oid = stack.pop()
            if oid in seen or oid not in self._brought:
                continue
            seen.add(oid)
            found.update(self._brought[oid])
            stack += self._commits[oid].parents
        return found

    @cached_property
    def _numbers(self) -> dict[Oid, int]:
        listed = self._git.reachable([*self._tips.values()], self._users)
        return {oid: number for number, oid in enumerate(dict.fromkeys(listed))}

    @cached_property
    def _commits(self) -> dict[Oid, _Commit]:
        """Return the commits that the refs reach and the user does not, and those below them."""
        asked = [*self._tips.values(), *(f"^{oid}" for oid in self._users)]
        how = ("rev-list", "--boundary", "--format=%m %H %T %P", "--stdin")
        listed = "".join(f"{one}\n" for one in asked).encode("ascii")
        rows = self._git.run(*how, stdin=listed).decode("ascii").splitlines()
        return dict(_parsed(row) for row in rows if not row.startswith("commit "))

    @cached_property
    def _brought(self) -> _Brought:
        """Return the objects that came with each commit that the user does not keep."""
        found: _Brought = {}
        new = self._differences()
        for oid, commit in self._commits.items():
            # The user's commits are only the other side of a difference: what they keep is not ours
            # to count.
            if not commit.of_user:
                objects = (oid, commit.tree, *new.get(self._step(commit), ()))
                numbers = (self._numbers.get(one) for one in objects)
                found[oid] = array("I", (one for one in numbers if one is not None))
        return found

    def _step(self, commit: _Commit) -> tuple[Oid, Oid]:
        """Return the trees before and after a commit."""
        first = self._commits.get(commit.parents[0]) if commit.parents else None
        before = format_of(commit.tree).empty_tree if first is None else first.tree
        return before, commit.tree

    def _differences(self) -> dict[tuple[Oid, Oid], list[Oid]]:
        """Return the objects that each step brings, trees among them."""
        own = (one for one in self._commits.values() if not one.of_user)
        steps = {self._step(one) for one in own}
        asked = "".join(f"{a} {b}\n" for a, b in sorted(steps) if a != b)
        how = ("diff-tree", "--stdin", "-r", "-t", "--raw", "--no-renames")
        out = self._git.run(*how, "--no-abbrev", stdin=asked.encode("ascii"))
        return _by_step(out.splitlines())


def _parsed(row: str) -> tuple[Oid, _Commit]:
    mark, oid, tree, *parents = row.split()
    above = tuple(Oid(one) for one in parents)
    return Oid(oid), _Commit(Oid(tree), above, mark == "-")


def _by_step(rows: Iterable[bytes]) -> dict[tuple[Oid, Oid], list[Oid]]:
    """Read what git-diff-tree(1) prints: two trees, then a line for each entry that differs."""
    found: dict[tuple[Oid, Oid], list[Oid]] = {}
    current: list[Oid] = []
    for row in rows:
        if row.startswith(b":"):
            current.append(Oid(row.split(b" ", 4)[3].decode("ascii")))
        else:
            before, after = row.decode("ascii").split()
            current = found.setdefault((Oid(before), Oid(after)), [])
    return found
