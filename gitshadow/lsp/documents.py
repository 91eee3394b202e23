"""Open documents: the worktree that each is in, its text beside its file, and its authors.

Lines are counted from 0, and keep their ends. Authors are known of the file alone; a line that the
editor has changed is the person's who types there.
Invariant: an answer is for one version of the text and one state of the journal; nothing is polled.
"""

import os
import stat
import threading
import time
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from gitshadow.errors import ShadowError
from gitshadow.messages.backend import HistoryBackend
from gitshadow.messages.blame import BLAME, BlameRequest, OwnerRow
from gitshadow.messages.codec import UNSET
from gitshadow.messages.rows import EventRow
from gitshadow.messages.states import SHOW, ShowRequest
from gitshadow.model import RepoPath
from gitshadow.render.blame import BlameLine, lines_of
from gitshadow.render.hunks import PatchHunk, read_hunks
from gitshadow.store.refs import display_path
from gitshadow.undo.merge import MergeEdit, edits, is_binary, split_lines

_AGAIN_S = 10.0
_BOM = b"\xef\xbb\xbf"
_MOST_BYTES = 8 << 20
Opener = Callable[[str], tuple[str, HistoryBackend]]
"""Returns the top of the worktree of a directory and who answers about it; raises ShadowError."""


class Place(NamedTuple):
    """A file in a worktree; `path` as documents spell it."""

    file: str
    path: str
    backend: HistoryBackend


class LineMap(NamedTuple):
    """Which line of the file each line of a buffer is, None where it is none of them."""

    in_file: tuple[int | None, ...]
    changes: tuple[MergeEdit, ...]

    def carried(self, edit: MergeEdit) -> MergeEdit | None:
        """Return an edit of the file as one of the buffer.

        None: the buffer was changed there, or right beside it.
        """
        grown = 0
        for change in self.changes:
            if change.start <= edit.end and change.end >= edit.start:
                return None
            if change.end < edit.start:
                grown += len(change.lines) - (change.end - change.start)
        return MergeEdit(edit.start + grown, edit.end + grown, edit.lines)


class AuthorRun(NamedTuple):
    """Lines of a buffer, from `first` to `last`, that one turn wrote, or one author without turns.

    `owner` is that of the first line; `lines` are those of the file.
    """

    first: int
    last: int
    owner: OwnerRow
    lines: tuple[BlameLine, ...]


class Authors(NamedTuple):
    """The runs of a text, which line of the file each of its lines is, and whose those are."""

    runs: tuple[AuthorRun, ...]
    lines: LineMap
    owners: tuple[OwnerRow, ...]


@dataclass(slots=True)
class Documents:
    """The worktrees of open documents, and what was last asked about each document."""

    opened: Opener
    log: Callable[[str], None]
    _worktrees: dict[str, tuple[str, HistoryBackend]] = field(default_factory=dict)
    _failed: dict[str, float] = field(default_factory=dict)
    _told: set[str] = field(default_factory=set)
    _known: dict[str, tuple[object, Authors | None]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def place(self, file: str) -> Place | None:
        """Return where a file is recorded; None, said once in the log, if it is not."""
        # A link is another file's name: authors are those of the file that Git has there.
        directory = os.path.realpath(os.path.dirname(file))
        with self._lock:
            found = self._worktree(directory)
        if found is None:
            return None
        root, backend = found
        inside = os.path.relpath(os.path.join(directory, os.path.basename(file)), root)
        if inside.split(os.sep)[0] == os.pardir:
            return None
        path = display_path(RepoPath(os.fsencode(inside)))
        return Place(os.path.join(root, inside), path, backend)

    def _worktree(self, directory: str) -> tuple[str, HistoryBackend] | None:
        if directory in self._worktrees:
            return self._worktrees[directory]
        now = time.monotonic()
        if now - self._failed.get(directory, -_AGAIN_S) < _AGAIN_S:
            return None
        try:
            root, backend = self.opened(directory)
        except (ShadowError, OSError) as error:
            if directory not in self._failed:
                self.log(f"no authors in {directory}: {error}")
            self._failed[directory] = now
            return None
        top = os.path.realpath(root)
        # One backend for a worktree: by it, files are known to be of the same one.
        known = (one for one in self._worktrees.values() if one[0] == top)
        self._worktrees[directory] = next(known, (top, backend))
        return self._worktrees[directory]

    def authors(self, place: Place, text: str) -> Authors | None:
        """Return the authors of a text; None for what has no lines, or none that are known."""
        data = content_of(place.file)
        if data is None or is_binary(data) or _has_other_lines(text):
            return None
        key = (place.backend.mark(), data, text)
        with self._lock:
            known = self._known.get(place.file)
        if known is not None and known[0] == key:
            return known[1]
        found = self._asked(place, data, text)
        with self._lock:
            self._known[place.file] = (key, found)
        return found

    def _asked(self, place: Place, data: bytes, text: str) -> Authors | None:
        try:
            answer = place.backend.send(BLAME, BlameRequest(place.path))
            blamed = lines_of(answer)
        except ShadowError as error:
            if place.path not in self._told:
                self._told.add(place.path)
                self.log(f"no authors of {place.path}: {error}")
            return None
        lines = compared(text, data)
        runs = tuple(_runs(blamed, answer.owners, lines))
        return Authors(runs, lines, answer.owners)

    def forget(self, file: str) -> None:
        """Drop what is known of a document that was closed."""
        with self._lock:
            self._known.pop(file, None)


def origin(
    place: Place, owner: OwnerRow, number: int
) -> tuple[str, Sequence[str] | None]:
    """Return the short id of the turn of a line, and the lines that it replaced, if known.

    `number` is that of the line, from 1, in the state that it came with.
    """
    if owner.seq is None or owner.machine:
        return "", None
    try:
        shown = place.backend.send(SHOW, ShowRequest(str(owner.seq), hunks=True))
    except ShadowError:
        return "", None
    turn = shown.thing.turn_short if isinstance(shown.thing, EventRow) else ""
    diffs = () if shown.file_diffs is UNSET else shown.file_diffs
    for diff in diffs:
        if diff.path == owner.path:
            return turn, _replaced(diff.hunks, number)
    return turn, None


def unreviewed(place: Place) -> Set[int]:
    """Return the lines of agents in a file, counted from 1, that nobody has reviewed."""
    request = BlameRequest(place.path, unreviewed=True)
    try:
        return frozenset(place.backend.send(BLAME, request).unreviewed)
    except ShadowError:
        return frozenset()


def _replaced(diff: Sequence[str], number: int) -> tuple[str, ...] | None:
    """Return the lines for which a diff puts a line, by its new number; None without it."""
    for hunk in read_hunks(diff):
        for _, lines in hunk.edits() if isinstance(hunk, PatchHunk) else ():
            if number in [line.new for line in lines]:
                return tuple(line.text for line in lines if line.sign == "-")
    return None


def compared(text: str, data: bytes) -> LineMap:
    """Compare the lines of a buffer with those of its file."""
    buffer = split_lines(text.encode("utf-8", "surrogatepass"))
    file = split_lines(data)
    changes = tuple(edits(file, buffer)) if buffer != file else ()
    if changes and _has_other_lines(text):
        changes = (MergeEdit(0, len(file), tuple(buffer)),)
    return LineMap(tuple(_numbers(changes, len(file))), changes)


def _has_other_lines(text: str) -> bool:
    # An editor counts a lone carriage return as the end of a line, and Git does not.
    return "\r" in text.replace("\r\n", "")


def _numbers(changes: Sequence[MergeEdit], count: int) -> Iterator[int | None]:
    at = 0
    for change in changes:
        yield from range(at, change.start)
        yield from [None] * len(change.lines)
        at = change.end
    yield from range(at, count)


def _runs(
    blamed: Sequence[BlameLine], owners: Sequence[OwnerRow], lines: LineMap
) -> Iterator[AuthorRun]:
    """Yield the runs of a buffer in order; lines that the editor changed are in none."""
    seen = [
        None if number is None or number >= len(blamed) else blamed[number]
        for number in lines.in_file
    ]
    at = 0
    for _, group in groupby(seen, lambda line: line and _unit(owners[line.owner])):
        found = list(group)
        run = tuple(line for line in found if line is not None)
        if run:
            yield AuthorRun(at, at + len(run) - 1, owners[run[0].owner], run)
        at += len(found)


def _unit(owner: OwnerRow) -> tuple[object, ...]:
    if owner.actor == "agent" and owner.turn is not None:
        return owner.session, owner.turn
    who = (owner.actor, owner.session, owner.agent, owner.author)
    return (*who, owner.commit, owner.seq)


def content_of(file: str) -> bytes | None:
    """Return what a regular file holds; None for anything else, and for what is too large."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except (OSError, ValueError):  # a ValueError: there is a NUL in its name
        return None
    with open(descriptor, "rb") as stream:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size > _MOST_BYTES:
            return None
        return stream.read().removeprefix(_BOM)
