"""The states and looks of many files in memory, a few bytes for each.

As objects a state takes 540 bytes, and there is one for every file of the repository; packed it
takes 130. What a walk asks for comes first in it, so that most of a walk unpacks nothing.
Invariant: what goes in comes out equal.
"""

import gc
import struct
from collections.abc import (
    Collection,
    Iterable,
    Iterator,
    KeysView,
    Mapping,
    MutableMapping,
)
from contextlib import contextmanager
from typing import NamedTuple, Self, TypeVar

from gitshadow.model import Digest, FileState, FileVersion, Oid, RepoPath, StatKey
from gitshadow.store.files import Look

Held = TypeVar("Held")
_LOOK = struct.Struct("<I4q?")
"""Mode, size, mtime, ctime, inode; whether it is racy."""
_REST = struct.Struct("<20s32sq")
"""Oid, digest, when it was seen."""
_MODE, _INODE = struct.Struct("<I"), struct.Struct("<q")
_INODE_AT = 28
_OID_CHARS, _DIGEST_BYTES = 40, 32
_MOST_STALE = 1000


@contextmanager
def uncollected() -> Iterator[None]:
    """Keep the collector of cycles still while many values are made: it would find nothing."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


class Flat(NamedTuple):
    """Hold a state field by field, as the journal has it."""

    oid: str
    mode: int
    digest: bytes
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    seen_ns: int
    racy: int

    def state(self) -> FileState:
        """Return it as a value."""
        stat = StatKey(self.size, self.mtime_ns, self.ctime_ns, self.inode)
        version = FileVersion(Oid(self.oid), self.mode)
        return FileState(
            version, Digest(self.digest), stat, self.seen_ns, self.racy != 0
        )


class _Rows(MutableMapping[RepoPath, Held]):
    """Hold values by path as bytes; one that does not fit into the form stays an object."""

    def __init__(self) -> None:
        self._rows: dict[RepoPath, bytes | Held] = {}

    def __delitem__(self, path: RepoPath) -> None:
        del self._rows[path]

    def __contains__(self, path: object) -> bool:
        return path in self._rows

    def __iter__(self) -> Iterator[RepoPath]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def keys(self) -> KeysView[RepoPath]:
        """Return the paths, as a view of the dictionary below: the quick one."""
        return self._rows.keys()


class Looks(_Rows[Look]):
    """Hold what lstat said of many files, in the form in which states begin."""

    def packed(self) -> Iterable[tuple[RepoPath, bytes | Look]]:
        """Return paths and looks, as `States.stands` takes them."""
        return self._rows.items()

    def __getitem__(self, path: RepoPath) -> Look:
        return _looked(self._rows[path])

    def __setitem__(self, path: RepoPath, look: Look) -> None:
        try:
            self._rows[path] = _LOOK.pack(look.mode, *look.stat, False)
        except struct.error:  # no journal holds such a stat
            self._rows[path] = look


class States(_Rows[FileState]):
    """Hold states by path.

    `_named` leads from inodes to paths once somebody asked by inode. What is replaced or taken
    out stays in it until there is too much of that: an answer is compared with the rows.
    """

    def __init__(self) -> None:
        super().__init__()
        self._named: dict[int, RepoPath | tuple[RepoPath, ...]] | None = None
        self._stale = 0

    @classmethod
    def of(cls, states: Mapping[RepoPath, FileState]) -> Self:
        """Return these states, packed."""
        made = cls()
        made.update(states)
        return made

    def put(self, path: RepoPath, flat: Flat) -> None:
        """Take over a row of the journal; quicker than by way of a value."""
        self._rows[path] = _packed(flat) or flat.state()
        self._name(flat.inode, path)

    def stands(self, path: RepoPath, look: Look | bytes) -> bool:
        """Tell whether a path is known, was read safely and looks the same still."""
        row = self._rows.get(path)
        if isinstance(row, bytes):
            return isinstance(look, bytes) and row.startswith(look)
        if row is None or row.racy:
            return False
        seen = _looked(look)
        return (row.version.mode, row.stat) == (seen.mode, seen.stat)

    def modes(self) -> Iterator[tuple[RepoPath, int]]:
        """Yield every path with its exact mode."""
        for path, row in self._rows.items():
            if isinstance(row, bytes):
                yield path, _MODE.unpack_from(row)[0]
            else:
                yield path, row.version.mode

    def named(self, inodes: Collection[int]) -> set[RepoPath]:
        """Return the paths whose file had one of some inodes."""
        if self._named is None or self._stale > len(self._rows) + _MOST_STALE:
            self._named = {}
            for path, row in self._rows.items():
                self._name(_inode(row), path)
            self._stale = 0
        named = [(one, path) for one in inodes for path in _paths(self._named.get(one))]
        rows = self._rows
        return {
            path for one, path in named if path in rows and _inode(rows[path]) == one
        }

    def _name(self, inode: int, path: RepoPath) -> None:
        if self._named is None:
            return
        self._stale += 1
        paths = _paths(self._named.get(inode))
        if not paths:
            self._named[inode] = path
        elif path not in paths:
            self._named[inode] = (*paths, path)

    def __getitem__(self, path: RepoPath) -> FileState:
        row = self._rows[path]
        return _unpacked(row) if isinstance(row, bytes) else row

    def __setitem__(self, path: RepoPath, state: FileState) -> None:
        version = state.version
        fields = (*state.stat, state.seen_ns, state.racy)
        flat = Flat(version.oid, version.mode, state.digest, *fields)
        self._rows[path] = _packed(flat) or state
        self._name(flat.inode, path)


def _paths(held: RepoPath | tuple[RepoPath, ...] | None) -> tuple[RepoPath, ...]:
    if held is None:
        return ()
    return held if isinstance(held, tuple) else (held,)


def _packed(flat: Flat) -> bytes | None:
    """Return a state as bytes, None for one that does not fit."""
    if len(flat.oid) != _OID_CHARS or len(flat.digest) != _DIGEST_BYTES:
        return None
    stat = (flat.size, flat.mtime_ns, flat.ctime_ns, flat.inode)
    try:
        look = _LOOK.pack(flat.mode, *stat, flat.racy != 0)
        return look + _REST.pack(bytes.fromhex(flat.oid), flat.digest, flat.seen_ns)
    except (struct.error, ValueError):
        return None


def _looked(row: bytes | Look) -> Look:
    if not isinstance(row, bytes):
        return row
    mode, size, mtime_ns, ctime_ns, inode, _ = _LOOK.unpack(row)
    return Look(mode, StatKey(size, mtime_ns, ctime_ns, inode))


def _inode(row: bytes | FileState) -> int:
    if isinstance(row, bytes):
        found: int = _INODE.unpack_from(row, _INODE_AT)[0]
        return found
    return row.stat.inode


def _unpacked(row: bytes) -> FileState:
    mode, size, mtime_ns, ctime_ns, inode, racy = _LOOK.unpack_from(row)
    oid, digest, seen_ns = _REST.unpack_from(row, _LOOK.size)
    stat = StatKey(size, mtime_ns, ctime_ns, inode)
    version = FileVersion(Oid(oid.hex()), mode)
    return FileState(version, Digest(digest), stat, seen_ns, racy)
