"""Blame one file of a worktree: replay its events, then Git, then moved or copied lines.

Copies are `-C` of git-blame(1): lines that one event added are searched in what the files of its
burst held before it, in its own file at least 20 letters and digits, in another one 40, as many as
Git asks for.
Invariant: after a barrier; only snapshots are written, and they can be dropped. Each line has an
origin: a line that no recorded state has is shown as unrecorded. Only runs of whole, equal lines
count as copied.
"""

import contextlib
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from typing import NamedTuple

from gitshadow.blame.git_blame import GitOrigins
from gitshadow.blame.git_history import GitPast
from gitshadow.blame.owners import (
    BlamedContent,
    Diff,
    OriginSource,
    Owner,
    Vector,
    carried,
    count_lines,
    fresh,
    split_lines,
    whole,
)
from gitshadow.blame.replay import Removal, Replay
from gitshadow.blame.replay_cache import Resuming
from gitshadow.blame.rewrites import Rewrites
from gitshadow.blame.rewritten_commits import RewrittenCommits
from gitshadow.blame.snapshots import DoubtError
from gitshadow.errors import UsageError
from gitshadow.model import FileVersion, Oid, PathChange, RepoPath
from gitshadow.recording.context import RecorderContext
from gitshadow.store.content_diff import line_hunks
from gitshadow.store.journal import events
from gitshadow.store.journal.state import uncollected
from gitshadow.store.refs import display_path
from gitshadow.undo.effective import undoings_of
from gitshadow.undo.merge import merge

UNSEEN = "it is on disk, but in no recorded state"
# The limits of -M and -C in git-blame(1): shorter runs of lines are equal by chance.
_LEAST_IN_OWN, _LEAST_IN_OTHER = 20, 40
_MOST_STEPS = 2_000_000
"""So many lines are compared for one answer: about a second."""
_NOT_ALNUM = bytes(byte for byte in range(256) if byte > 127 or not chr(byte).isalnum())
_MOST_SOURCES = 64
"""So many files of a burst are looked through for lines that were moved or copied."""


def laid_over(
    recorded: BlamedContent | None, path: RepoPath, data: bytes, diff: Diff
) -> Vector:
    """Return the origins of a content's lines, as far as the recorded state has them.

    Args:
        recorded: The last recorded state of the file, None where there is none.
        path: The file.
        data: What it holds.
        diff: How lines are compared.
    """
    unseen = Owner(source=OriginSource.UNRECORDED, path=path, note=UNSEEN)
    if recorded is None:
        return fresh(unseen, count_lines(data))
    # This is the usual case, and a diff of equal contents would still read every line.
    if recorded.data == data:
        return recorded.vector
    return carried(recorded.vector, diff(whole(recorded.data), whole(data)), unseen)


class CopySource(NamedTuple):
    """Store a state to look in for lines that an event added; `is_own`: of the file itself."""

    event: PathChange
    state: BlamedContent
    is_own: bool


Places = Callable[[Sequence[PathChange]], Iterable[CopySource]]
"""Give the states to look in for what some events added; of one event its own file's first."""


def traced(data: bytes, vector: Vector, places: Places) -> Vector:
    """Return a settled vector with the origins of what was moved or copied."""
    lines, made = split_lines(data), list(vector)
    # With running sums, the weight of any run of lines is one subtraction.
    weights = (len(line.translate(None, _NOT_ALNUM)) for line in lines)
    sums, left = list(accumulate(weights, initial=0)), _MOST_STEPS
    runs: dict[int, list[tuple[int, int]]] = {}
    asked: dict[int, PathChange] = {}
    for start, end in _runs(vector):
        event = vector[start].owner.event
        if event is not None and sums[end] - sums[start] >= _LEAST_IN_OWN:
            runs.setdefault(event.seq, []).append((start, end))
            asked[event.seq] = event
    for event, state, is_own in places([asked[seq] for seq in sorted(asked)]):
        search = _Search(lines, sums, split_lines(state.data), left)
        rest: list[tuple[int, int]] = []
        for start, end in runs[event.seq]:
            for at, length, there in search.found(
                start, end, _LEAST_IN_OWN if is_own else _LEAST_IN_OTHER
            ):
                # The lines get the origins that they had there. The event that copied them wrote
                # nothing.
                made[at : at + length] = state.vector[there : there + length]
                rest.append((start, at))
                start = at + length
            rest.append((start, end))
        runs[event.seq] = rest
        # The limit is for the whole answer; per source, 64 sources could take a minute.
        left = search.left
    return made


@dataclass(slots=True)
class _Search:
    """Look for runs of lines in another content; `sums` are of letters and digits before each.

    Where no steps are `left` it gives up: ten thousand equal lines have a hundred million pairs,
    and each of them has an owner as it is, the event that wrote it here.
    """

    lines: Sequence[bytes]
    sums: Sequence[int]
    theirs: Sequence[bytes]
    left: int
    _where: dict[bytes, list[int]] = field(default_factory=dict)

    def found(self, start: int, end: int, least: int) -> Iterator[tuple[int, int, int]]:
        """Yield start, length and place there of runs that hold enough, within some lines."""
        if not self._where:
            for place, text in enumerate(self.theirs):
                self._where.setdefault(text, []).append(place)
        at = start
        while at < end and self.sums[end] - self.sums[at] >= least:
            length, source = self._longest(at, end, self._where.get(self.lines[at], ()))
            if length and self.sums[at + length] - self.sums[at] >= least:
                yield at, length, source
                at += length
            else:
                at += 1

    def _longest(self, at: int, end: int, places: Sequence[int]) -> tuple[int, int]:
        """Return length and place of the longest run from a line on."""
        best = (0, 0)
        for source in places:
            if self.left <= 0:
                break
            length, most = 0, min(end - at, len(self.theirs) - source)
            while (
                length < most
                and self.lines[at + length] == self.theirs[source + length]
            ):
                length += 1
            self.left -= length + 1
            best = max(best, (length, source))
        return best


def _runs(vector: Vector) -> Iterator[tuple[int, int]]:
    """Yield [start, end) of neighbouring lines that one event wrote."""
    start = 0
    for at in range(1, len(vector) + 1):
        if at == len(vector) or vector[at].owner is not vector[start].owner:
            if vector[start].owner.source is OriginSource.EVENT:
                yield start, at
            start = at


@dataclass(frozen=True, slots=True, kw_only=True)
class BlameQuery:
    """Store what is to be blamed: a path, now, at an event (`seq`) or in a commit of the user's.

    `content` is what the path held at that event, None for now and for a commit.
    """

    path: RepoPath
    seq: int | None = None
    content: FileVersion | None = None
    commit: Oid | None = None
    ignore_space: bool = False
    copies: bool = False
    removed: bool = False


@dataclass(frozen=True, slots=True)
class Blamed:
    """Store a content, the settled origins of its lines, and who can say more of them."""

    data: bytes
    vector: Vector
    ground: GitOrigins
    removals: list[Removal]


def past_of(context: RecorderContext, options: tuple[str, ...] = ()) -> GitPast:
    """Return what answers of Git's past; one may serve many wishes while HEAD stays."""
    ws = context.workspace
    return GitPast(ws.repo, ws.git, ws.db, options)


class Blaming:
    """Answer one wish."""

    def __init__(
        self, context: RecorderContext, wish: BlameQuery, past: GitPast | None = None
    ) -> None:
        self._context = context
        self._ws = context.workspace
        self._wish = wish
        self._diff: Diff = partial(line_hunks, ignore_space=wish.ignore_space)
        options = ("-w",) * wish.ignore_space + ("-C",) * wish.copies
        self._past = past or past_of(context, options)
        # A snapshot depends on what one worktree's reflog says, so it belongs to that worktree.
        self._resuming = Resuming(
            self._ws.db, self._past, self._ws.layout.worktree, wish.path
        )

    # All that a replay makes stays and is in no cycle.
    @uncollected()
    def answer(self) -> Blamed:
        """Return who wrote each line.

        Raises:
            UsageError: the file is not there, or nothing is known of it.
        """
        # A snapshot that cannot decide is no error: then the replay begins at the first event.
        with contextlib.suppress(DoubtError):
            if self._is_plain:
                replay = self._replay({})
                first = self._resuming.resume(replay, self._wish.seq)
                if first is not None:
                    return self._answered(replay, first)
        history = self._history(self._wish.path)
        replay = self._replay(self._taken_back(history))
        # A replay that ends at an earlier event would replace snapshots that later replays need.
        if self._is_plain and self._wish.seq is None:
            self._resuming.feed(replay, history)
        else:
            replay.feed(history)
        return self._answered(replay, history[0] if history else None)

    @property
    def _is_plain(self) -> bool:
        """Return whether all queries share this replay, so that snapshots can serve it."""
        return not (self._wish.removed or self._wish.ignore_space)

    def _answered(self, replay: Replay, first: PathChange | None) -> Blamed:
        ground = GitOrigins(self._past, replay.read, self._diff, replay.rewrites, first)
        data, vector = self._content(replay)
        # Only what an event wrote is searched for copies, and Git's answer may lead back to events.
        vector = ground.settle(vector)
        if self._wish.copies:
            vector = ground.settle(traced(data, vector, self._places))
        return Blamed(data, vector, ground, replay.removals or [])

    def _history(self, path: RepoPath) -> list[PathChange]:
        # All worktrees count: commits and checkouts carry content from one to the other.
        rows = events.history(self._ws.db, None, (path,), 0)
        seq = self._wish.seq
        return [row for row in rows if seq is None or row.seq <= seq]

    def _taken_back(self, history: list[PathChange]) -> dict[str, frozenset[int]]:
        return {
            op: frozenset(row.seq for row in history if unit.holds(row))
            for op, unit in undoings_of(
                self._ws.db, (row.op for row in history)
            ).items()
        }

    def _replay(self, taken_back: Mapping[str, Collection[int]]) -> Replay:
        read = self._ws.repo.packed_first()
        rewrites = Rewrites(
            self._past, self._diff, ignore_space=self._wish.ignore_space
        )
        rewrites.commits = RewrittenCommits(
            self._past,
            read,
            self._diff,
            merge,
            rewrites.is_written,
        )
        removals: list[Removal] | None = [] if self._wish.removed else None
        return Replay(read, self._diff, rewrites, taken_back, removals)

    def _content(self, replay: Replay) -> tuple[bytes, Vector]:
        wish = self._wish
        if wish.commit is not None:
            return self._committed(replay, wish.commit)
        recorded = replay.at(self._ws.layout.worktree, wish.path)
        if wish.content is not None:
            data = self._ws.repo.read_blob(wish.content.oid)
            if recorded is None or recorded.oid != wish.content.oid:
                known = replay.rewrites.recorded(wish.content.oid)
                if known is not None and len(known.vector) == count_lines(data):
                    return data, known.vector
            if recorded is None:
                recorded = self._untouched(replay, wish.content)
        else:
            data = self._on_disk()
            if recorded is None:
                recorded = self._untouched(replay, self._known_version())
        return data, laid_over(recorded, wish.path, data, self._diff)

    def _committed(self, replay: Replay, commit: Oid) -> tuple[bytes, Vector]:
        path = self._wish.path
        blob = self._past.blob(commit, path)
        if blob is None:
            raise UsageError(
                f"cannot find {display_path(path) or '.'} in commit {commit[:10]}"
            )
        data = self._ws.repo.read_blob(blob)
        known = replay.rewrites.recorded(blob)
        if known is not None and len(known.vector) == count_lines(data):
            return data, known.vector
        owner = Owner(
            source=OriginSource.GROUND,
            path=path,
            commit=commit,
            content=blob,
            switched=True,
        )
        return data, fresh(owner, count_lines(data))

    def _on_disk(self) -> bytes:
        path, files = self._wish.path, self._ws.files
        name = display_path(path) or "."
        try:
            look = files.look(path)
            reading = files.read(path) if look is not None and not look.is_dir else None
        except OSError as error:
            raise UsageError(f"could not read {name}: {error.strerror}") from error
        if reading is not None:
            return reading.data
        if look is None:
            raise UsageError(
                f"cannot find file {name}",
                hint="for an earlier version: --at WHEN, or --commit REV",
            )
        kind = "a directory" if look.is_dir else "neither a file nor a link"
        raise UsageError(f"cannot blame {name}: it is {kind}")

    def _known_version(self) -> FileVersion | None:
        """Return what is known of a path without events: its recorded state, else HEAD's."""
        path = self._wish.path
        state = self._ws.states.get(path)
        if state is not None:
            return state.version
        head = self._past.began(None)
        blob = None if head is None else self._past.blob(head, path)
        if blob is None:
            raise UsageError(
                f"cannot blame {display_path(path)}: not recorded",
                hint="to see what is not recorded, and why: git agent-undo status",
            )
        return FileVersion(blob, 0o100644)

    def _untouched(
        self, replay: Replay, version: FileVersion | None, row: PathChange | None = None
    ) -> BlamedContent | None:
        """Return a state that nothing recorded made, as far as the replay knows."""
        if version is None:
            return None
        path = self._wish.path if row is None else row.path_before
        owner = Owner(
            source=OriginSource.GROUND, path=path, event=row, content=version.oid
        )
        return replay.state_of(version, owner)

    def _places(self, asked: Sequence[PathChange]) -> Iterator[CopySource]:
        """Yield what the files of each event's burst held right before it, its own first."""
        own: dict[RepoPath, list[tuple[PathChange, PathChange]]] = {}
        for event in asked:
            own.setdefault(event.path_before, []).append((event, event))
        yield from self._states_before(own, is_own=True)
        others: dict[RepoPath, list[tuple[PathChange, PathChange]]] = {}
        bursts: dict[tuple[str, str | None], list[PathChange]] = {}
        for event in asked:
            key = event.worktree, event.burst
            if key not in bursts:
                bursts[key] = self._firsts(event)
            for row in bursts[key]:
                if row.path_before != event.path_before:
                    others.setdefault(row.path_before, []).append((row, event))
        yield from self._states_before(others, is_own=False)

    def _states_before(
        self,
        wanted: Mapping[RepoPath, list[tuple[PathChange, PathChange]]],
        *,
        is_own: bool,
    ) -> Iterator[CopySource]:
        """Replay each file once; yield its state before a row, and before the event."""
        for path, pairs in wanted.items():
            history = self._history(path)
            # One replay serves all rows of a file, because the pairs are sorted by their first
            # event.
            replay, fed = self._replay(self._taken_back(history)), 0
            for row, event in sorted(pairs, key=_first_seq):
                until = bisect_left(history, _first_seq((row, event)), key=_seq)
                replay.feed(history[fed:until])
                fed = until
                state = replay.at(row.worktree, path)
                if state is None and row.before is not None:
                    state = self._untouched(replay, row.before, row)
                if state is not None:
                    yield CopySource(event, state, is_own)

    def _firsts(self, event: PathChange) -> list[PathChange]:
        """Return the first event of each file in an event's burst, as many as are looked at."""
        if event.burst is None:
            return []
        wanted = events.EventFilter(worktree=event.worktree, burst=event.burst)
        first: dict[RepoPath, PathChange] = {}
        for row in sorted(events.changes(self._ws.db, wanted), key=_seq):
            first.setdefault(row.path_before, row)
        # A formatter's burst can have thousands of files; each costs a replay of its history.
        return list(first.values())[:_MOST_SOURCES]


def _seq(event: PathChange) -> int:
    return event.seq


def _first_seq(pair: tuple[PathChange, PathChange]) -> int:
    return min(pair[0].seq, pair[1].seq)
