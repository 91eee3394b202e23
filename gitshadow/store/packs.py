"""The packs of ours among a repository's packs, and the packer that makes and merges them.

What our refs reach beyond HEAD goes from loose objects into packs, in batches. What is written at
once is a pack from the start, if it is much; the packer merges these too. A pack is ours while
a `.keep` file with our mark is next to it, so Git's own repack does not touch it. Only one packer
works in a repository at a time; it holds no other lock, so nobody waits for it.
Only loose copies of packed objects are removed, and packs of ours whose every object was just found
in the index of another pack of ours that is whole: the user's commits may be in our packs alone.
"""

import os
import re
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from gitshadow.errors import StoreError
from gitshadow.model import Oid
from gitshadow.store.git import Git, StoppedError
from gitshadow.store.layout import Layout
from gitshadow.store.lock import WriterLock
from gitshadow.store.object_format import OID_PATTERN, format_of
from gitshadow.store.objects import INDEX_MAGIC, NewPack, despite_prune
from gitshadow.store.paths import c_quoted
from gitshadow.store.safe_files import make_dir, replacing
from gitshadow.store.shared_modes import BY_UMASK, SharedModes

# The content of a .keep is free: Git looks only whether the file exists (git-index-pack(1)). With a
# mark, a user's own .keep is never taken for ours.
KEEP_MARK = b"agent-undo\n"
_PREFIX = "pack-"
_NAME = re.compile(_PREFIX + OID_PATTERN)
_HEADER, _FANOUT = 8, 1024
# The index comes last: Git finds a pack by its index, so it never sees half a pack.
_BEFORE_INDEX = (".pack", ".rev")
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_MULTI = ("multi-pack-index", "multi-pack-index.d")
SAMPLE = "17"
"""The one directory of loose objects that Git looks at to estimate how many there are."""


class Pack(NamedTuple):
    """One pack: its name without suffix, the number of its objects, its bytes with the index."""

    name: str
    objects: int
    size_bytes: int


class Packs:
    """The packs of one object store; to change them, the caller holds the packing lock."""

    def __init__(
        self, objects_dir: str, quarantine: str, modes: SharedModes = BY_UMASK
    ) -> None:
        """Use a directory of objects, and one on the same file system in which packs are made.

        The packs that `add` writes get permissions that may be those of many users.
        """
        self._modes = modes
        self.objects_dir = objects_dir
        self.quarantine = quarantine
        self._dir = os.path.join(objects_dir, "pack")

    def ours(self) -> list[Pack]:
        """Return our packs that Git can read, smallest first."""
        found = (self._pack(name) for name in self._kept())
        return sorted((p for p in found if p is not None), key=lambda p: p[1:] + p[:1])

    def sampled(self) -> int:
        """Return how many loose objects are in the directory by which Git estimates them."""
        return len(_names(os.path.join(self.objects_dir, SAMPLE)))

    def holds_any(self, pack: Pack, oids: Iterable[str]) -> bool:
        """Return whether a pack has one of some objects."""
        wanted = {bytes.fromhex(oid) for oid in oids}
        return not wanted.isdisjoint(self._objects(pack.name))

    def objects(self, pack: Pack) -> list[Oid]:
        """Return what a pack holds, sorted."""
        return [Oid(oid.hex()) for oid in self._objects(pack.name)]

    def indexed_by_git(self) -> frozenset[str]:
        """Return the packs that a multi-pack index names."""
        # Git finds their objects through that index, so they must stay until the user writes a new
        # one. The names are searched as text, which works for any version of the format.
        found: set[str] = set()
        single, chain = (os.path.join(self._dir, name) for name in _MULTI)
        for path in (single, *(os.path.join(chain, name) for name in _names(chain))):
            with suppress(OSError), open(path, "rb") as handle:
                found.update(re.findall(_NAME.pattern, handle.read().decode("latin-1")))
        return frozenset(found)

    def clear(self) -> None:
        """Remove what is left where packs are made."""
        shutil.rmtree(self.quarantine, ignore_errors=True)

    def sweep(self) -> list[str]:
        """Remove what a crash left; return the packs of ours that have no index."""
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
        """Move a finished pack to Git's packs.

        Raises:
            StoreError: it could not be moved; Git sees none of it then.
        """
        name = _PREFIX + digits
        made = os.path.join(self.quarantine, "pack", name)
        try:
            os.makedirs(self._dir, exist_ok=True)
            if not self._has(name, ".idx"):
                # Before the pack: a repack of the user's at this moment must not take its objects
                # over.
                self._keep(name)
                for suffix in _BEFORE_INDEX:
                    with suppress(FileNotFoundError):
                        os.rename(made + suffix, self._path(name, suffix))
                os.rename(made + ".idx", self._path(name, ".idx"))
            # The loose copies go next. After a power cut the pack must still be there.
            _sync_directory(self._dir)
        except OSError as error:
            raise _error("keep a pack", error) from error
        found = self._pack(name)
        if found is None:
            raise StoreError(f"cannot find pack {name} where it was put")
        return found

    def add(self, new: NewPack) -> None:
        """Add a pack of new objects; needs no packing lock.

        Raises:
            OSError: it could not be written; Git sees none of it then.
        """
        name = _PREFIX + new.digits
        if self._has(name, ".idx"):
            return
        os.makedirs(self._dir, exist_ok=True)
        # In the order of `adopt`. A packer whose `sweep` comes in between removes the .keep, and
        # then the pack is Git's, or it makes the same index.
        self._keep(name)
        for suffix, data in ((".pack", new.pack_data), (".idx", new.index_data)):
            despite_prune(partial(self._place, name, suffix, data))

    def _place(self, name: str, suffix: str, data: bytes) -> None:
        """Put a file among Git's packs, which is on the disk before it has its name."""
        # `git prune` removes files of such names that a crash left.
        part = os.path.join(self._dir, f"tmp_pack_{os.urandom(8).hex()}")
        try:
            with open(os.open(part, _CREATE, 0o444), "wb") as out:
                out.write(data)
                out.flush()
                os.fsync(out.fileno())
            self._modes.adjust(part)
            os.rename(part, self._path(name, suffix))
        except OSError:
            with suppress(OSError):
                os.unlink(part)
            raise

    def replace(self, old: Sequence[Pack], new: Pack) -> int:
        """Remove packs of ours whose objects are all in another one; return how many.

        Raises:
            StoreError: the new pack is not whole.
        """
        self._check(new)
        # Read from the index on the disk, not from what was to be packed: the user's commits may
        # have objects in our packs alone.
        there = frozenset(self._objects(new.name))
        staying = self.indexed_by_git() | {new.name}
        gone = 0
        for pack in old:
            removable = pack.name not in staying and self._is_kept(pack.name)
            if removable and there.issuperset(self._objects(pack.name)):
                # The index first, so that Git does not look for a pack that is gone; the .keep
                # last, so that a crash leaves a pack that `sweep` still finds.
                for suffix in (".idx", ".rev", ".bitmap", ".pack", ".keep"):
                    _unlink(self._path(pack.name, suffix))
                gone += 1
        return gone

    def remove_loose(self, pack: Pack) -> None:
        """Remove the loose copies of a pack's objects; their directories stay.

        Raises:
            StoreError: the pack is not whole, or a file cannot be removed.
        """
        # `git prune-packed` removes the directories, too. The next objects then need new ones,
        # which take longer to make than the objects where many files were removed recently.
        self._check(pack)
        for oid in self.objects(pack):
            _unlink(os.path.join(self.objects_dir, oid[:2], oid[2:]))

    def release(self, pack: Pack) -> None:
        """Release a pack to Git's own repack, which keeps what is reachable."""
        _unlink(self._path(pack.name, ".keep"))

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
        if self._is_kept(name):
            return
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        with open(os.open(self._path(name, ".keep"), flags, 0o444), "wb") as out:
            out.write(KEEP_MARK)

    def _pack(self, name: str) -> Pack | None:
        try:
            size = os.stat(self._path(name, ".pack")).st_size
            with open(self._path(name, ".idx"), "rb") as handle:
                head = handle.read(_HEADER + _FANOUT)
            size += os.stat(self._path(name, ".idx")).st_size
        except OSError:
            return None
        if not head.startswith(INDEX_MAGIC) or len(head) < _HEADER + _FANOUT:
            return None
        return Pack(name, int.from_bytes(head[-4:], "big"), size)

    def _objects(self, name: str) -> list[bytes]:
        """Return the oids that a pack's index lists (gitformat-pack, version 2)."""
        size = _hash_bytes(name)
        try:
            with open(self._path(name, ".idx"), "rb") as handle:
                head = handle.read(_HEADER + _FANOUT)
                count = int.from_bytes(head[-4:], "big")
                data = handle.read(count * size)
        except OSError as error:
            raise _error(f"read the index of {name}", error) from error
        if not head.startswith(INDEX_MAGIC) or len(data) != count * size:
            raise StoreError(f"could not read the index of {name}: it is damaged")
        return [data[at : at + size] for at in range(0, len(data), size)]

    def _check(self, pack: Pack) -> None:
        """Raise StoreError if a pack is not the one that its index was made for."""
        # The index ends with the checksum of its pack and then its own, the pack with its own
        # (gitformat-pack(5)), so this costs two reads of one hash.
        size = _hash_bytes(pack.name)
        try:
            with open(self._path(pack.name, ".pack"), "rb") as handle:
                handle.seek(-size, os.SEEK_END)
                packed = handle.read(size)
            with open(self._path(pack.name, ".idx"), "rb") as handle:
                handle.seek(-2 * size, os.SEEK_END)
                indexed = handle.read(size)
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


def _hash_bytes(name: str) -> int:
    """Return how long the hashes in a pack of this name and in its index are."""
    # It is named by a hash of the repository's own format (git-pack-objects(1)).
    return format_of(Oid(name.removeprefix(_PREFIX))).size


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


MOST_PACKS = 11
# A first run over years of history goes on from the last batch if it is stopped; each batch is a
# whole pack.
BATCH = 2_000
_FACTOR = 2
# `git pack-objects --stdin-packs` came with git 2.32, geometric maintenance by default with 2.54.
_STDIN_PACKS = (2, 32)
_INDEX = "--index-version=2"
# The user's pack.packSizeLimit could split a pack, and pack.windowMemory could allow any amount of
# memory; pack.indexVersion could ask for an index that is not read here. Threads would each need a
# window of their own. git pack-objects needed less processor time than libgit2's packbuilder, made
# smaller packs, and takes over deltas when packs are merged.
_HOW = (
    "-c",
    "pack.packSizeLimit=0",
    "-c",
    "pack.windowMemory=100m",
    "pack-objects",
    "--quiet",
    "--threads=1",
    _INDEX,
    "--delta-base-offset",
    "--non-empty",
)


class PackingWork(NamedTuple):
    """What is to be packed: objects that our tips reach and the commits of the user do not.

    In `precious` repositories no object is deleted, not even a copy (`extensions.preciousObjects`).
    """

    tips: Mapping[str, Oid]
    users: frozenset[Oid]
    precious: bool


class Packed(NamedTuple):
    """How many objects were packed, and how many packs were merged into one."""

    objects: int = 0
    merged: int = 0


class Packer:
    """Pack one repository. `stopping` is asked between steps and while Git works."""

    def __init__(
        self, layout: Layout, git: Git, stopping: Callable[[], bool] = lambda: False
    ) -> None:
        self.packs = Packs(layout.objects_dir, layout.packing_dir)
        self._layout = layout
        self._git = git
        self._stopping = stopping

    def pack(
        self, work: PackingWork, *, wait_s: float = 0.0, afresh: bool = False
    ) -> Packed:
        """Pack what is new, delete loose copies, merge small packs.

        Args:
            work: What there is.
            wait_s: How long to wait for another packer.
            afresh: Look at everything, not only at what is new since the last time.

        Raises:
            LockedError: another process packs here.
            StoppedError: it was stopped; finished steps stay.
            StoreError: it failed; finished steps stay.
        """
        with self.alone(wait_s):
            self._sweep()
            found = self._pack_new(work, {} if afresh else self.known())
            return Packed(found, self._merge())

    def alone(self, wait_s: float) -> WriterLock:
        """Acquire the packing lock and return it, as a context manager.

        Raises:
            LockedError: another process has it.
        """
        lock = WriterLock(self._layout.packing_lock, "packing lock")
        lock.acquire(wait_s)
        return lock

    def known(self) -> dict[str, Oid]:
        """Return up to where each ref was packed."""
        # A file and not rows: the daemons of two worktrees share it, and it may be lost, because
        # what is packed twice only costs time.
        try:
            with open(self._layout.packed, encoding="utf-8") as handle:
                rows = [line.split() for line in handle]
        except (OSError, UnicodeDecodeError):
            return {}
        return {row[1]: Oid(row[0]) for row in rows if len(row) == 2}

    def forget(self) -> None:
        """Forget up to where refs were packed, because refs were reset or packs were released."""
        with suppress(FileNotFoundError):
            os.unlink(self._layout.packed)

    def _sweep(self) -> None:
        """Remove what a crash left, and index a pack again that has no index."""
        for path in self.packs.sweep():
            with suppress(StoreError):
                self._git.labour("index-pack", _INDEX, path, stopping=self._stopping)

    def _pack_new(self, work: PackingWork, known: dict[str, Oid]) -> int:
        # `git rev-list` fails at a commit that is gone, and pruning may have removed it.
        there = self._git.sizes([*known.values(), *work.users])
        known = {r: oid for r, oid in known.items() if r in work.tips and oid in there}
        work = work._replace(users=work.users & there.keys())
        count = 0
        for tips in self._batches(work, known):
            without = work.users.union(known[ref] for ref in tips if ref in known)
            asked = _revisions([*tips.values()], without)
            made = self._packed(asked)
            count += sum(pack.objects for pack in made)
            for pack in () if work.precious else made:
                self.packs.remove_loose(pack)
            # A run that was killed may have left copies of what it packed. What another pack has
            # would be counted again and again.
            if not work.precious and (not made or self.packs.sampled()):
                self._git.labour("prune-packed", "-q", stopping=self._stopping)
            # Only now: after a crash before this line the next run packs again, finds nothing new,
            # and deletes the loose copies.
            known |= tips
            self._remember(known)
        return count

    def _packed(self, asked: bytes) -> list[Pack]:
        how = ("--revs", "--incremental")
        try:
            return self._make(asked, *how)
        except StoreError as error:
            if isinstance(error, StoppedError) or not self._git.is_partial():
                raise
        # In a partial clone something is not here. To leave out all that its remote has takes long,
        # and is needed only where the user's refs do not reach it any more.
        return self._make(asked, *how, "--exclude-promisor-objects")

    def _batches(
        self, work: PackingWork, known: Mapping[str, Oid]
    ) -> Iterator[Mapping[str, Oid]]:
        """Yield the tips to pack next, at most so many commits on; usually all at once."""
        new = {ref: tip for ref, tip in work.tips.items() if known.get(ref) != tip}
        if not new:
            return
        without = work.users.union(known.values())
        if len(self._line([*new.values()], without, BATCH + 1)) <= BATCH:
            yield new
            return
        for ref, tip in new.items():
            line = self._line([tip], without)[::-1]
            for at in range(BATCH - 1, len(line) - 1, BATCH):
                yield {ref: line[at]}
            yield {ref: tip}

    def _line(
        self, tips: Sequence[Oid], without: Collection[Oid], most: int | None = None
    ) -> list[Oid]:
        """Return the commits that lead to some and not to others, newest first."""
        limit = () if most is None else (f"--max-count={most}",)
        how = ("rev-list", "--first-parent", "--topo-order", *limit, "--stdin")
        out = self._git.labour(
            *how, stdin=_revisions(tips, without), stopping=self._stopping
        )
        return [Oid(line) for line in out.decode("ascii").split()]

    def _make(self, stdin: bytes, *options: str) -> list[Pack]:
        """Let Git make packs in the quarantine, and adopt them."""
        # As Git's own quarantine of a push (git-receive-pack(1)): what a crash leaves is in a
        # directory of ours, and the repository's objects are read as an alternate.
        try:
            make_dir(self._layout, "packing")
            make_dir(self._layout, "packing", "pack")
        except OSError as error:
            raise _error(f"write {self.packs.quarantine}", error) from error
        base = os.path.join(self.packs.quarantine, "pack", "pack")
        aside = {
            "GIT_OBJECT_DIRECTORY": self.packs.quarantine,
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": c_quoted(
                os.fsencode(self.packs.objects_dir)
            ),
        }
        try:
            out = self._git.labour(
                *(*_HOW, *options, base),
                stdin=stdin,
                stopping=self._stopping,
                environ=aside,
            )
            return [self.packs.adopt(digits) for digits in out.decode("ascii").split()]
        finally:
            self.packs.clear()

    def _merge(self) -> int:
        """Merge small packs of ours into one, so that each has twice as many objects."""
        there = self.packs.indexed_by_git()
        packs = [pack for pack in self.packs.ours() if pack.name not in there]
        old = packs[: to_merge([pack.objects for pack in packs])]
        if not old:
            return 0
        if self._git.version() >= _STDIN_PACKS:
            listed = "".join(f"{pack.name}.pack\n" for pack in old)
            made = self._make(listed.encode("ascii"), "--stdin-packs")
        else:
            oids = sorted(oid for pack in old for oid in self.packs.objects(pack))
            made = self._make("".join(f"{oid}\n" for oid in oids).encode("ascii"))
        return self.packs.replace(old, made[0]) if len(made) == 1 else 0

    def _remember(self, known: Mapping[str, Oid]) -> None:
        path = self._layout.packed
        rows = "".join(f"{oid} {ref}\n" for ref, oid in sorted(known.items()))
        try:
            with replacing(path) as to:
                to.write(rows.encode("utf-8"))
        except OSError as error:
            raise _error(f"write {path}", error) from error


def to_merge(counts: Sequence[int]) -> int:
    """Return how many of the smallest packs are to become one, given counts in rising order.

    As `git repack --geometric=2`: afterwards each has twice as many objects as all smaller ones
    together, and there are never more than `MOST_PACKS`.
    """
    split = len(counts) - 1
    while split > 0 and counts[split] >= _FACTOR * counts[split - 1]:
        split -= 1
    split = split + 1 if split > 0 else 0
    split = max(split, len(counts) - MOST_PACKS + 1 if len(counts) > MOST_PACKS else 0)
    while 0 < split < len(counts) and counts[split] < _FACTOR * sum(counts[:split]):
        split += 1
    return split


def _revisions(tips: Sequence[Oid], without: Collection[Oid]) -> bytes:
    rows = [*(f"{oid}\n" for oid in tips), *(f"^{oid}\n" for oid in sorted(without))]
    return "".join(rows).encode("ascii")
