"""Untracked data that would not be copied unasked: data sets, downloads, what a build unpacks.

What Git neither tracks nor ignores is recorded up to a limit for all of it. Over it, the topmost
directories or single files that cause it are left out; of these, files below 256 KiB are recorded
as far as the limit goes.
Invariant: pure but for the journal; sizes decide, no content. What is left out stays so until the
settings change or Git tracks or ignores it.
"""

import json
import os
from collections.abc import Collection, Mapping
from typing import NamedTuple

from gitshadow.model import RepoPath
from gitshadow.store.journal import meta
from gitshadow.store.journal.db import Db

SMALL_BYTES = 256 * 1024
_HEADROOM = 20
"""By a twentieth of the limit, small files may exceed it."""
_SHARE = 0.9
"""With a smaller share of the bytes of a directory, a part of it is not what causes them."""


def data_key(worktree: str) -> str:
    """Return where the journal keeps what is left out of a worktree."""
    return f"untracked_data:{worktree}"


class LeftOutBytes(NamedTuple):
    """Store the bytes below a place when it was left out, and from which size on files are."""

    size: int
    from_bytes: int


class UntrackedData:
    """Remember what is left out in one worktree, under one limit."""

    def __init__(self, db: Db, worktree: str, limit: int, text: str | None) -> None:
        """Open what is left out; `text` is what the journal has under `data_key`."""
        self._db = db
        self._key = data_key(worktree)
        self.limit = limit
        self._former: dict[RepoPath, LeftOutBytes] = {}
        self._late: dict[RepoPath, int] = {}
        self.tops: Mapping[RepoPath, LeftOutBytes] = self._read(text)

    def top_of(self, path: RepoPath) -> RepoPath | None:
        """Return what is left out at a path or above it, None for nothing."""
        return _above(path, self.tops) if self.tops else None

    def leaves_out(self, path: RepoPath, size: int) -> RepoPath | None:
        """Return because of what an untracked file is not recorded, None: it is."""
        top = self.top_of(path)
        return top if top is not None and size >= self.tops[top].from_bytes else None

    def held(self, path: RepoPath, size: int) -> bool:
        """Return whether a file is, or was until now, left out: nobody created it now."""
        known = {**self._former, **self.tops}
        top = _above(path, known) if known else None
        return top is not None and size >= known[top].from_bytes

    def is_near(self, directory: RepoPath) -> bool:
        """Return whether files of a directory may be left out."""
        if not self.tops:
            return False
        prefix = directory + b"/" if directory else b""
        return self.top_of(directory) is not None or any(
            top.startswith(prefix) for top in self.tops
        )

    def admit(self, new: Mapping[RepoPath, int], recorded: int) -> list[RepoPath]:
        """Leave out from now on what would exceed the limit; return the places, sorted.

        Args:
            new: The size in bytes of each untracked file that would be recorded now.
            recorded: How many bytes of untracked files are recorded already.
        """
        # With what is left out already, a directory whose files come one by one is found as such.
        held = {top: one.size for top, one in self.tops.items()}
        more = choose(new, max(self.limit - recorded, 0), held)
        # Where the limit is reached, a new source file is recorded all the same.
        small = {top: one.size for top, one in more.items() if one.size < SMALL_BYTES}
        headroom = self.limit // _HEADROOM
        fits = sum(small.values()) + recorded - self.limit <= headroom
        if not fits:
            # Others have grown since they were recorded, as an empty file may that is new.
            small = {
                path: size for path, size in new.items() if path in small and size > 1
            }
            late = {**self._late, **small}
            fits = sum(late.values()) <= headroom
            self._late = late if fits else self._late
        if fits:
            more = {top: one for top, one in more.items() if top not in small}
        more = {
            top: one
            for top, one in more.items()
            if top not in self.tops or one.from_bytes < self.tops[top].from_bytes
        }
        if more:
            rest = (top for top in self.tops if _above(top, more) is None)
            self.tops = {**{top: self.tops[top] for top in rest}, **more}
            self._store()
        return sorted(more)

    def is_now(self, sizes: Mapping[RepoPath, int]) -> None:
        """Note the sizes of recorded files: small ones that came late have a limit."""
        self._late |= {path: sizes[path] for path in self._late.keys() & sizes.keys()}

    def keep(self, tops: Collection[RepoPath]) -> None:
        """Forget what a walk did not find left out any more: it is gone, tracked or opted in."""
        if not self.tops.keys() <= set(tops):
            kept = {top: one for top, one in self.tops.items() if top in tops}
            self._former, self.tops = dict(self.tops), kept
            self._store()

    def use(self, limit: int) -> None:
        """Set the limit; with another one, sizes are added up again."""
        if limit != self.limit:
            self.limit = limit
            self.keep(())

    def _read(self, text: str | None) -> dict[RepoPath, LeftOutBytes]:
        try:
            limit, tops = json.loads(text) if text else (self.limit, {})
            found = {
                RepoPath(os.fsencode(top)): LeftOutBytes(*one)
                for top, one in tops.items()
            }
        # What another version or a damaged journal has in another form is decided again.
        except (ValueError, TypeError, AttributeError):
            return {}
        if limit == self.limit:
            return found
        self._former = found
        return {}

    def _store(self) -> None:
        tops = {os.fsdecode(top): one for top, one in self.tops.items()}
        text = json.dumps([self.limit, tops], sort_keys=True)
        with self._db.write():
            meta.put(self._db, self._key, text)


def choose(
    new: Mapping[RepoPath, int], room: int, held: Mapping[RepoPath, int] | None = None
) -> dict[RepoPath, LeftOutBytes]:
    """Return what to leave out so that the rest fits.

    Args:
        new: The size in bytes of each untracked file that would be recorded.
        room: How many bytes may be.
        held: What is left out already, with its size: it needs no room.

    Returns:
        By path, directories and single files; none if all fits.
    """
    rest, total = {**(held or {}), **new}, sum(new.values())
    small: dict[RepoPath, int] = {}
    found: dict[RepoPath, LeftOutBytes] = {}
    while total > room:
        top = _heaviest(rest)
        parts = {path: rest.pop(path) for path in list(rest) if _is_in(path, top)}
        sizes = [new[path] for path in parts.keys() & new.keys()]
        total -= sum(sizes)
        small[top] = sum(size for size in sizes if size < SMALL_BYTES)
        found[top] = LeftOutBytes(sum(parts.values()), 0)
    for top in sorted(small, key=lambda top: (small[top], top)):
        if total + small[top] <= room and small[top] < found[top].size:
            total += small[top]
            found[top] = found[top]._replace(from_bytes=SMALL_BYTES)
    return found


def _heaviest(sizes: Mapping[RepoPath, int]) -> RepoPath:
    """Return the topmost place with the most bytes: a directory, or a single file."""
    top = b""
    while True:
        prefix = top + b"/" if top else b""
        parts: dict[bytes, int] = {}
        for path, size in sizes.items():
            if path.startswith(prefix):
                name = path[len(prefix) :].partition(b"/")[0]
                parts[name] = parts.get(name, 0) + size
        name = max(sorted(parts), key=parts.__getitem__)
        # A directory with one heavy part in it is not what causes it: that part is.
        if top and parts[name] < _SHARE * sum(parts.values()):
            return RepoPath(top)
        top = prefix + name
        if top in sizes:
            return RepoPath(top)


def _above(path: RepoPath, tops: Mapping[RepoPath, LeftOutBytes]) -> RepoPath | None:
    while path:
        if path in tops:
            return path
        path = RepoPath(path.rpartition(b"/")[0])
    return None


def _is_in(path: RepoPath, top: RepoPath) -> bool:
    return path == top or path.startswith(top + b"/")
