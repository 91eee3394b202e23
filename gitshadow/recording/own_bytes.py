"""Measure what a recorder writes that runs in the process of a command of `exec`, or below it.

Without a daemon, each of our commands records in its own process. The kernel counts what it and
its git commands write as written by the wrapped command, which would then seem to have written
enough to be the author of a person's save. So each recorder leaves a note of what it wrote, and
whoever judges subtracts it.

Invariant: less may be noted than was written, never more. What cannot be measured is not noted.
"""

import json
import os
import threading
from collections.abc import Collection
from contextlib import suppress
from typing import NamedTuple

from gitshadow.attribution.process import ProcessId, ancestors, is_alive
from gitshadow.platform import current
from gitshadow.platform.port import Counts
from gitshadow.store import safe_files

_NOTHING = Counts()
# By so much, at most, a note gets longer when its own length is added to what was written.
_MORE_DIGITS = 20


class _Moment(NamedTuple):
    """What this process had done: as a whole, and this thread alone.

    `is_single`: there is no other thread, so the rest was done by children that were waited for.
    """

    whole: Counts
    thread: Counts
    is_single: bool


class _Note(NamedTuple):
    """What a recorder wrote: as a whole, and its git commands alone.

    `lineage` are its process, unless that is gone, and those above it, nearest first.
    """

    whole: Counts
    by_git: Counts
    lineage: tuple[ProcessId, ...]


class OwnBytes:
    """What is written by the recorder of one worktree, from now on, and by those before it.

    It is made and used by one thread, which holds the writer lock of the worktree. `begins` says
    that a command begins, so that there are to be notes.
    """

    def __init__(self, path: str) -> None:
        """Begin to measure; `path` is the file with the notes."""
        self._path = path
        self.begins = False
        self._pid = os.getpid()
        self._thread = str(threading.get_native_id())
        self._begin = self._now()
        self._lineage: tuple[ProcessId, ...] | None = None
        self._notes: list[_Note] | None = None

    def below(self, root: ProcessId) -> Counts:
        """Return what recorders wrote that counts as done by a wrapper's children, or below it."""
        if self._lineage is None:
            self._lineage = ancestors(self._pid)
            self._notes = self._read()
        here, total = self._lineage[:1], _NOTHING
        for note in self._notes or ():
            # This process, and what is below it, does not count if it is below the wrapper.
            if root in note.lineage and (
                here == (root,) or set(here).isdisjoint(note.lineage)
            ):
                # What the wrapper's own threads wrote is no child's, and left out by the ledger
                # itself.
                is_own = note.lineage[0] == root
                total = total.plus(note.by_git if is_own else note.whole)
        spent = self._spent() if here == (root,) else None
        return total if spent is None else total.plus(spent.by_git)

    @property
    def is_noted(self) -> bool:
        """Return whether notes are kept: a command begins, or began and may still run."""
        return self.begins or os.path.lexists(self._path)

    def publish(self, wrappers: Collection[ProcessId]) -> None:
        """Leave a note of what was written until now, if this process is below a live wrapper.

        Call it when all else is closed. Without wrappers all notes are deleted. A note that cannot
        be written is missing: then a person's save may look as if the command could have made it.
        """
        if not wrappers:
            with suppress(OSError):
                os.unlink(self._path)
            return
        lineage = ancestors(self._pid)
        while lineage and lineage[-1] not in wrappers:
            lineage = lineage[:-1]
        spent = self._spent() if lineage else None
        if spent is None:
            return
        notes: dict[tuple[ProcessId, ...], _Note] = {}
        for note in (*self._read(), spent._replace(lineage=lineage)):
            note = _of_living(note)
            if set(note.lineage).isdisjoint(wrappers):
                continue
            known = notes.get(note.lineage)
            notes[note.lineage] = note if known is None else _sum(known, note)
        size = len(json.dumps(list(notes.values()))) + _MORE_DIGITS
        own = notes[lineage]
        itself = own.whole._replace(written=own.whole.written + size)
        notes[lineage] = own._replace(whole=itself)
        text = json.dumps(list(notes.values())).ljust(size)
        with suppress(OSError), safe_files.replacing(self._path) as file:
            file.write(text.encode("ascii"))

    def _now(self) -> _Moment | None:
        counters = current().process_facts().counters()
        if counters is None:
            return None
        whole = counters.counts_of(self._pid)
        thread = counters.counts_of_threads(self._pid, (self._thread,))
        is_single = list(counters.threads(self._pid)) == [self._thread]
        counters.keep(())
        return None if whole is None else _Moment(whole, thread, is_single)

    def _spent(self) -> _Note | None:
        """Return what was written since the beginning, None if that is not known."""
        begin, now = self._begin, self._now()
        if begin is None or now is None:
            return None
        thread = now.thread.minus(begin.thread)
        if not (begin.is_single and now.is_single):
            # The other threads, and what they run, may do the agent's work.
            return _Note(thread, _NOTHING, ())
        whole = now.whole.minus(begin.whole)
        return _Note(whole, whole.minus(thread), ())

    def _read(self) -> list[_Note]:
        try:
            with open(self._path, "rb") as file:
                return [_parsed(*row) for row in json.load(file)]
        except (OSError, ValueError, TypeError):
            return []


def _of_living(note: _Note) -> _Note:
    """Return a note without its process if that is gone: its parent has its counts then."""
    process, *above = note.lineage
    if is_alive(process):
        return note
    return _Note(note.whole, note.whole, tuple(above)) if above else note


def _sum(one: _Note, other: _Note) -> _Note:
    return one._replace(
        whole=one.whole.plus(other.whole), by_git=one.by_git.plus(other.by_git)
    )


def _parsed(whole: list[int], by_git: list[int], lineage: list[list[int]]) -> _Note:
    return _Note(
        Counts(*whole), Counts(*by_git), tuple(ProcessId(*one) for one in lineage)
    )
