"""Open documents: the worktree that each is in, its text beside its file, and its authors.

Invariant: an answer is for one version of the text and one state of the journal; nothing is polled.
"""

import os
import stat
import threading
import time
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field
from typing import NamedTuple

from gitshadow.errors import ShadowError
from gitshadow.lsp.authors import AuthorRun, runs_of
from gitshadow.lsp.buffers import LineMap, mapped
from gitshadow.messages.backend import HistoryBackend
from gitshadow.messages.blame import BLAME, BlameRequest, OwnerRow
from gitshadow.messages.codec import UNSET
from gitshadow.messages.rows import EventRow
from gitshadow.messages.states import SHOW, ShowRequest
from gitshadow.model import RepoPath
from gitshadow.render.blame import lines_of
from gitshadow.render.hunks import PatchHunk, read_hunks
from gitshadow.store.refs import display_path
from gitshadow.undo.merge import is_binary, split_lines

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
        if inside.startswith(os.pardir):
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
            self._failed[directory] = now
            if directory not in self._told:
                self._told.add(directory)
                self.log(f"no authors in {directory}: {error}")
            return None
        self._worktrees[directory] = (os.path.realpath(root), backend)
        return self._worktrees[directory]

    def authors(self, place: Place, text: str) -> Authors | None:
        """Return the authors of a text; None for what has no lines, or none that are known."""
        data = _content(place.file)
        # An editor counts a lone carriage return as the end of a line, and Git does not.
        if data is None or is_binary(data) or "\r" in text.replace("\r\n", ""):
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
        lines = _mapped(text, data)
        runs = tuple(runs_of(blamed, answer.owners, lines))
        return Authors(runs, lines, answer.owners)

    def forget(self, file: str) -> None:
        """Drop what is known of a document that was closed."""
        with self._lock:
            self._known.pop(file, None)


def origin(
    place: Place, owner: OwnerRow, number: int
) -> tuple[str, Sequence[str] | None]:
    """Return the short id of the turn of a line, and the lines that it replaced, if known.

    Args:
        place: The file.
        owner: Who wrote it.
        number: Its number, from 1, in the state that it came with.
    """
    if owner.seq is None or owner.machine:
        return "", None
    asked = ShowRequest(str(owner.seq), hunks=True)
    try:
        shown = place.backend.send(SHOW, asked)
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


def compared(file: str, text: str) -> LineMap:
    """Compare the text of a buffer with its file; a file that is gone has no lines."""
    return _mapped(text, _content(file) or b"")


def _mapped(text: str, data: bytes) -> LineMap:
    return mapped(split_lines(text.encode("utf-8", "surrogatepass")), split_lines(data))


def _content(file: str) -> bytes | None:
    """Return what a regular file holds; None for anything else, and for what is too large."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with open(descriptor, "rb") as stream:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size > _MOST_BYTES:
            return None
        return stream.read().removeprefix(_BOM)
