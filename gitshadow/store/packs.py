"""The packs of ours among a repository's packs: which they are, how they come and go.

A pack is ours while a `.keep` with our mark stands beside it, so Git's own repack leaves it alone.
What is packed is written in a directory of ours, as Git's quarantine of a push, and moved over
whole, its index last: what a crash leaves lies there, and Git never sees half a pack.
Invariant: no pack is removed but one of ours whose every object was just found in the index of
another that is ours and whole. The user's commits may live in our packs alone.
"""

import os
import re
import shutil
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

from gitshadow.errors import StoreError
from gitshadow.model import Oid

KEEP_MARK = b"agent-undo\n"
_NAME = re.compile(r"pack-[0-9a-f]{40}")
_INDEX_MAGIC = b"\xfftOc\x00\x00\x00\x02"
_HEADER, _FANOUT, _OID, _TRAILER = 8, 1024, 20, 40
_BEFORE_INDEX = (".pack", ".rev")
_MULTI = ("multi-pack-index", "multi-pack-index.d")
SAMPLE = "17"
"""The one directory of loose objects that Git looks at to estimate how many there are."""


class Pack(NamedTuple):
    """Hold one pack: its name without suffix, how many objects, how many bytes with its index."""

    name: str
    objects: int
    size_bytes: int


class Packs:
    """Look at and change the packs of one object store; who changes holds the packing lock."""

    def __init__(self, objects_dir: str, quarantine: str) -> None:
        """Say where the objects are, and where packs are made; both on one file system."""
        self.objects_dir = objects_dir
        self.quarantine = quarantine
        self._dir = os.path.join(objects_dir, "pack")

    # -- looking -----------------------------------------------------------------------------

    def ours(self) -> list[Pack]:
        """Return our packs that Git can read, smallest first."""
        found = (self._pack(name) for name in self._kept())
        return sorted((p for p in found if p is not None), key=lambda p: p[1:] + p[:1])

    def sampled(self) -> int:
        """Return how many loose objects lie in the directory by which Git estimates them."""
        return len(_names(os.path.join(self.objects_dir, SAMPLE)))

    def holds_any(self, pack: Pack, oids: Iterable[str]) -> bool:
        """Tell whether a pack has one of some objects."""
        wanted = {bytes.fromhex(oid) for oid in oids}
        return not wanted.isdisjoint(self._objects(pack.name))

    def objects(self, pack: Pack) -> list[Oid]:
        """Return what a pack holds, sorted."""
        return [Oid(oid.hex()) for oid in self._objects(pack.name)]

    def indexed_by_git(self) -> frozenset[str]:
        """Return the packs that a multi-pack index of the user's names: they must stay."""
        found: set[str] = set()
        single, chain = (os.path.join(self._dir, name) for name in _MULTI)
        for path in (single, *(os.path.join(chain, name) for name in _names(chain))):
            with suppress(OSError), open(path, "rb") as handle:
                found.update(re.findall(_NAME.pattern, handle.read().decode("latin-1")))
        return frozenset(found)

    # -- changing ----------------------------------------------------------------------------

    def clear(self) -> None:
        """Remove what lies where packs are made."""
        shutil.rmtree(self.quarantine, ignore_errors=True)

    def sweep(self) -> list[str]:
        """Clear what a crash left; return the packs of ours that have no index."""
        self.clear()
        lost = []
        for name in self._kept():
            if self._has(name, ".idx"):
                continue
            if self._has(name, ".pack"):
                lost.append(self._path(name, ".pack"))
            else:
                _unlink(self._path(name, ".keep"))
        return lost

    def adopt(self, digits: str) -> Pack:
        """Move a finished pack over from where it was made, ours from its first moment.

        Raises:
            StoreError: it could not be moved; Git sees none of it then.
        """
        name = f"pack-{digits}"
        made = os.path.join(self.quarantine, "pack", name)
        try:
            os.makedirs(self._dir, exist_ok=True)
            if not self._has(name, ".idx"):
                self._keep(name)
                for suffix in _BEFORE_INDEX:
                    with suppress(FileNotFoundError):
                        os.rename(made + suffix, self._path(name, suffix))
                os.rename(made + ".idx", self._path(name, ".idx"))
            _sync_directory(self._dir)
        except OSError as error:
            raise _error("keep a pack", error) from error
        found = self._pack(name)
        if found is None:
            raise StoreError(f"cannot find pack {name} where it was put")
        return found

    def replace(self, old: Sequence[Pack], new: Pack) -> int:
        """Remove packs of ours all of whose objects another has; return how many went.

        Raises:
            StoreError: the new pack is not whole.
        """
        self._check(new)
        there = frozenset(self._objects(new.name))
        staying = self.indexed_by_git() | {new.name}
        gone = 0
        for pack in old:
            removable = pack.name not in staying and self._is_kept(pack.name)
            if removable and there.issuperset(self._objects(pack.name)):
                for suffix in (".idx", ".rev", ".bitmap", ".pack", ".keep"):
                    _unlink(self._path(pack.name, suffix))
                gone += 1
        return gone

    def release(self, pack: Pack) -> None:
        """Let Git's own repack have a pack: it keeps what is reachable and drops the rest."""
        _unlink(self._path(pack.name, ".keep"))

    # -- inside ------------------------------------------------------------------------------

    def _kept(self) -> list[str]:
        stems = (name.removesuffix(".keep") for name in _names(self._dir))
        return [s for s in sorted(stems) if _NAME.fullmatch(s) and self._is_kept(s)]

    def _is_kept(self, name: str) -> bool:
        try:
            with open(self._path(name, ".keep"), "rb") as handle:
                return handle.read(len(KEEP_MARK)) == KEEP_MARK
        except OSError:
            return False

    def _keep(self, name: str) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(self._path(name, ".keep"), flags, 0o444)
        try:
            os.write(fd, KEEP_MARK)
        finally:
            os.close(fd)

    def _pack(self, name: str) -> Pack | None:
        try:
            size = os.stat(self._path(name, ".pack")).st_size
            with open(self._path(name, ".idx"), "rb") as handle:
                head = handle.read(_HEADER + _FANOUT)
            size += os.stat(self._path(name, ".idx")).st_size
        except OSError:
            return None
        if not head.startswith(_INDEX_MAGIC) or len(head) < _HEADER + _FANOUT:
            return None
        return Pack(name, int.from_bytes(head[-4:], "big"), size)

    def _objects(self, name: str) -> list[bytes]:
        """Return the oids that a pack's index lists (gitformat-pack, version 2)."""
        try:
            with open(self._path(name, ".idx"), "rb") as handle:
                head = handle.read(_HEADER + _FANOUT)
                count = int.from_bytes(head[-4:], "big")
                data = handle.read(count * _OID)
        except OSError as error:
            raise _error(f"read the index of {name}", error) from error
        if not head.startswith(_INDEX_MAGIC) or len(data) != count * _OID:
            raise StoreError(f"could not read the index of {name}: it is damaged")
        return [data[at : at + _OID] for at in range(0, len(data), _OID)]

    def _check(self, pack: Pack) -> None:
        """Make sure that a pack is the one that its index was made for."""
        try:
            with open(self._path(pack.name, ".pack"), "rb") as handle:
                handle.seek(-_OID, os.SEEK_END)
                packed = handle.read(_OID)
            with open(self._path(pack.name, ".idx"), "rb") as handle:
                handle.seek(-_TRAILER, os.SEEK_END)
                indexed = handle.read(_OID)
        except OSError as error:
            raise _error(f"read pack {pack.name}", error) from error
        if packed != indexed:
            raise StoreError(
                f"cannot use pack {pack.name}: its index belongs to another pack"
            )

    def _has(self, name: str, suffix: str) -> bool:
        return os.path.exists(self._path(name, suffix))

    def _path(self, name: str, suffix: str) -> str:
        return os.path.join(self._dir, name + suffix)


def _names(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []


def _unlink(path: str) -> None:
    with suppress(FileNotFoundError):
        try:
            os.unlink(path)
        except PermissionError as error:
            raise _error(f"remove {os.path.basename(path)}", error) from error


def _sync_directory(path: str) -> None:
    """Have renames on the disk before loose copies go."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _error(what: str, error: OSError) -> StoreError:
    return StoreError(
        f"could not {what}: {error.strerror or error}",
        hint="check free space and permissions of the git directory",
    )
