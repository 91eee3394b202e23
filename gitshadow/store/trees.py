"""Trees as raw bytes: splice, build, compare. Pure over a port that reads and writes objects.

A written tree is sorted, has no duplicate name and no empty subtree.
"""

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from gitshadow.model import TREE_MODE, Oid, RepoPath
from gitshadow.store.object_format import ObjectFormat

Entry = tuple[int, Oid]
"""A Git mode and an oid."""

Ends = tuple[Entry | None, Entry | None]
"""What two trees hold at one path."""

_CACHED_ENTRIES = 400_000


class Objects(Protocol):
    """A store of raw tree objects."""

    def read_tree(self, oid: Oid) -> bytes:
        """Return a tree's raw bytes; raise StoreError if it is missing."""
        ...

    def write_tree(self, data: bytes) -> Oid:
        """Store a tree; return its oid."""
        ...


class TreeChange(NamedTuple):
    """One path that differs between two trees, with Git modes."""

    path: RepoPath
    old: Entry | None
    new: Entry | None


class _ElsewhereError(Exception):
    """A tree holds something else where two others differ."""


# Entries stay raw bytes, and a splice replaces some of them: twice as fast as pygit2's TreeBuilder
# in a directory of 5,000 entries, and the only way to write a name that is not UTF-8, which pygit2
# takes as str.
@dataclass(slots=True)
class _Directory:
    """One tree: sort keys and raw entries, in step."""

    # Git orders entries by name, a tree's with `/` appended (`base_name_compare` in its tree.c), so
    # a file `a.b` is before a directory `a`, and a name has two possible keys.

    keys: list[bytes]
    rows: list[bytes]

    def get(self, name: bytes) -> Entry | None:
        for key in (name, name + b"/"):
            at = bisect_left(self.keys, key)
            if at < len(self.keys) and self.keys[at] == key:
                return _entry(self.rows[at], len(name))
        return None

    def set(self, name: bytes, entry: Entry | None) -> None:
        for key in (name, name + b"/"):
            at = bisect_left(self.keys, key)
            if at < len(self.keys) and self.keys[at] == key:
                del self.keys[at], self.rows[at]
        if entry is None:
            return
        key = name + b"/" if entry[0] == TREE_MODE else name
        at = bisect_left(self.keys, key)
        self.keys.insert(at, key)
        self.rows.insert(at, b"%o %b\0%b" % (entry[0], name, bytes.fromhex(entry[1])))

    def copy(self) -> "_Directory":
        return _Directory(self.keys.copy(), self.rows.copy())

    def items(self) -> Iterator[tuple[bytes, Entry]]:
        for key, row in zip(self.keys, self.rows, strict=True):
            space = row.index(b" ")
            mode = int(row[:space], 8)
            name = key[:-1] if mode == TREE_MODE else key
            yield name, (mode, Oid(row[space + len(name) + 2 :].hex()))


def _entry(row: bytes, name_bytes: int) -> Entry:
    """Read mode and oid; the oid is what is behind the NUL byte after the name."""
    space = row.index(b" ")
    return int(row[:space], 8), Oid(row[space + name_bytes + 2 :].hex())


def _parse(data: bytes, oid_bytes: int) -> _Directory:
    directory = _Directory([], [])
    at, end, behind = 0, len(data), oid_bytes + 1
    while at < end:
        nul = data.index(b"\0", at)
        row = data[at : nul + behind]
        mode, _, name = data[at:nul].partition(b" ")
        # Old tools wrote `040000`, which `git fsck` reports as zeroPaddedFilemode and Git reads.
        is_tree = mode in (b"40000", b"040000")
        directory.keys.append(name + b"/" if is_tree else name)
        directory.rows.append(row)
        at = nul + behind
    return directory


@dataclass(slots=True)
class _Node:
    """The changes at and below one name; `entry` counts only if `set` is true."""

    set: bool
    entry: Entry | None
    inner: "dict[bytes, _Node]"


class Trees:
    """Splices and comparisons of trees, with the directories in use kept parsed."""

    def __init__(self, objects: Objects, form: ObjectFormat) -> None:
        self._objects = objects
        self._oid_bytes = form.size
        self._cache: OrderedDict[Oid, _Directory] = OrderedDict()
        self._cached = 0

    def forget(self) -> None:
        """Drop all cached trees (after objects were pruned)."""
        self._cache.clear()
        self._cached = 0

    def splice(self, root: Oid | None, changes: Mapping[RepoPath, Entry | None]) -> Oid:
        """Return the tree that differs from `root` in exactly these paths.

        Args:
            root: The tree to start from; None for an empty one.
            changes: What each path holds from now on; None removes the file there, never a
                directory that has taken its place. A path may turn from a file to a directory
                and back in one call.

        Raises:
            StoreError: a tree on the way is missing, or an object could not be written.
        """
        top: dict[bytes, _Node] = {}
        for path, entry in changes.items():
            level = top
            *parents, name = path.split(b"/")
            for part in parents:
                level = level.setdefault(part, _Node(False, None, {})).inner
            node = level.setdefault(name, _Node(False, None, {}))
            node.set, node.entry = True, entry
        oid = self._apply(root, top)
        return oid if oid is not None else self._objects.write_tree(b"")

    def _apply(self, oid: Oid | None, nodes: Mapping[bytes, _Node]) -> Oid | None:
        directory = self._load(oid).copy() if oid is not None else _Directory([], [])
        for name, node in nodes.items():
            directory.set(name, self._entry_for(directory.get(name), node))
        if not directory.rows:
            return None
        written = self._objects.write_tree(b"".join(directory.rows))
        self._remember(written, directory)
        return written

    def carried(self, tree: Oid, old: Oid, new: Oid) -> Oid | None:
        """Return the tree that differs from `tree` as `new` does from `old`.

        Directories that are as in `old` become those of `new` without a look at what is in them.

        Returns:
            None if `tree` holds something else where they differ: only a splice can tell.

        Raises:
            StoreError: a tree on the way is missing, or an object could not be written.
        """
        roots = ((TREE_MODE, one) for one in (tree, old, new))
        try:
            found = self._carry(*roots)
        except _ElsewhereError:
            return None
        return found[1] if found is not None else None

    def _carry(
        self, at: Entry | None, old: Entry | None, new: Entry | None
    ) -> Entry | None:
        if at in (old, new):
            return new
        if None in (at, old, new) or {e[0] for e in (at, old, new) if e} != {TREE_MODE}:
            raise _ElsewhereError
        was, now = (dict(self._load(e[1]).items()) for e in (old, new) if e)
        directory = self._load(at[1]).copy() if at else _Directory([], [])
        for name in was.keys() | now.keys():
            ends = was.get(name), now.get(name)
            if ends[0] != ends[1]:
                directory.set(name, self._carry(directory.get(name), *ends))
        if not directory.rows:
            return None
        written = self._objects.write_tree(b"".join(directory.rows))
        self._remember(written, directory)
        return TREE_MODE, written

    def _entry_for(self, old: Entry | None, node: _Node) -> Entry | None:
        if node.set and node.entry is not None:
            return node.entry
        below = old[1] if old is not None and old[0] == TREE_MODE else None
        if node.set and not node.inner:
            return None if below is None else old
        if below is None and not any(_adds(inner) for inner in node.inner.values()):
            return None if node.set else old
        subtree = self._apply(below, node.inner)
        return None if subtree is None else (TREE_MODE, subtree)

    def entry(self, root: Oid, path: RepoPath) -> Entry | None:
        """Return what a tree holds at a path (a directory too), or None."""
        found: Entry = (TREE_MODE, root)
        for part in path.split(b"/") if path else ():
            if found[0] != TREE_MODE:
                return None
            inner = self._load(found[1]).get(part)
            if inner is None:
                return None
            found = inner
        return found

    def ends(self, old: Oid | None, new: Oid | None, path: RepoPath) -> Ends:
        """Return what two trees hold at a path, directories too; of equal directories nothing."""
        ends = _root(old), _root(new)
        for part in path.split(b"/") if path else ():
            # Most comparisons end at the first directory, whose oids are equal.
            if ends[0] == ends[1]:
                return None, None
            ends = self._below(ends[0], part), self._below(ends[1], part)
        return ends

    def _below(self, entry: Entry | None, name: bytes) -> Entry | None:
        if entry is None or entry[0] != TREE_MODE:
            return None
        return self._load(entry[1]).get(name)

    def listing(self, tree: Oid) -> list[tuple[bytes, Entry]]:
        """Return the names of one tree and what each holds, in tree order."""
        return list(self._load(tree).items())

    def flat(self, root: Oid) -> dict[RepoPath, Entry]:
        """Return every path of a tree that is not a directory, in tree order."""
        found: dict[RepoPath, Entry] = {}
        # Without the cache: a whole tree would push out the directories that the next writes need.
        # By a stack, because a path can be deeper than Python's limit of recursion.
        stack = [(b"", self._read(root).items())]
        while stack:
            prefix, rest = stack[-1]
            for name, entry in rest:
                path = RepoPath(prefix + name)
                if entry[0] == TREE_MODE:
                    stack.append((path + b"/", self._read(entry[1]).items()))
                    break
                found[path] = entry
            else:
                stack.pop()
        return found

    def diff(self, old: Oid | None, new: Oid | None) -> list[TreeChange]:
        """Return the paths that differ, by path bytes; directories are never listed."""
        changes: list[TreeChange] = []
        self._diff(b"", old, new, changes)
        changes.sort(key=lambda change: change.path)
        return changes

    def _diff(
        self, prefix: bytes, old: Oid | None, new: Oid | None, out: list[TreeChange]
    ) -> None:
        # Equal oids mean equal content all the way down, so a diff costs what differs.
        if old == new:
            return
        was = dict(self._load(old).items()) if old is not None else {}
        now = dict(self._load(new).items()) if new is not None else {}
        for name in was.keys() | now.keys():
            before, after = was.get(name), now.get(name)
            if before != after:
                self._diff_entry(prefix + name, before, after, out)

    def _diff_entry(
        self,
        path: bytes,
        before: Entry | None,
        after: Entry | None,
        out: list[TreeChange],
    ) -> None:
        old_tree = before[1] if before is not None and before[0] == TREE_MODE else None
        new_tree = after[1] if after is not None and after[0] == TREE_MODE else None
        if old_tree is not None or new_tree is not None:
            self._diff(path + b"/", old_tree, new_tree, out)
        old_leaf = before if old_tree is None else None
        new_leaf = after if new_tree is None else None
        if old_leaf is not None or new_leaf is not None:
            out.append(TreeChange(RepoPath(path), old_leaf, new_leaf))

    def _load(self, oid: Oid) -> _Directory:
        directory = self._cache.get(oid)
        if directory is None:
            directory = self._read(oid)
            self._remember(oid, directory)
        else:
            self._cache.move_to_end(oid)
        return directory

    def _read(self, oid: Oid) -> _Directory:
        return _parse(self._objects.read_tree(oid), self._oid_bytes)

    def _remember(self, oid: Oid, directory: _Directory) -> None:
        old = self._cache.pop(oid, None)
        self._cached += len(directory.keys) - (len(old.keys) if old else 0)
        self._cache[oid] = directory
        while self._cached > _CACHED_ENTRIES and len(self._cache) > 1:
            _, dropped = self._cache.popitem(last=False)
            self._cached -= len(dropped.keys)


def _root(tree: Oid | None) -> Entry | None:
    return None if tree is None else (TREE_MODE, tree)


def _adds(node: _Node) -> bool:
    return (node.set and node.entry is not None) or any(
        _adds(inner) for inner in node.inner.values()
    )
