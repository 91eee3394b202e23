"""Blame over one worktree: wires journal, object store and Git to `blame`.

Invariant: after a barrier; nothing is written but snapshots, which nobody needs.
"""

import contextlib
from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from gitshadow.blame.copies import CopySource, traced
from gitshadow.blame.git_blame import GitOrigins
from gitshadow.blame.git_history import GitPast
from gitshadow.blame.owners import (
    BlamedContent,
    Diff,
    OriginSource,
    Owner,
    Vector,
    count_lines,
    fresh,
)
from gitshadow.blame.present_content import laid_over
from gitshadow.blame.replay import Removal, Replay
from gitshadow.blame.replay_bounds import DoubtError
from gitshadow.blame.replay_cache import Resuming
from gitshadow.blame.rewrites import Rewrites
from gitshadow.errors import UsageError
from gitshadow.model import Event, FileVersion, Oid, RepoPath
from gitshadow.recording.context import RecorderContext
from gitshadow.store.journal import events
from gitshadow.store.refs import display_path
from gitshadow.store.repo import line_hunks
from gitshadow.undo.effective import undoings_of


@dataclass(frozen=True, slots=True, kw_only=True)
class BlameRequest:
    """Say what is to be blamed: a path, now, at an event (`seq`) or in a commit of the user's.

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
    """Hold a content, the settled origins of its lines, and who can say more of them."""

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
        self, context: RecorderContext, wish: BlameRequest, past: GitPast | None = None
    ) -> None:
        self._context = context
        self._ws = context.workspace
        self._wish = wish
        self._diff: Diff = partial(line_hunks, ignore_space=wish.ignore_space)
        options = ("-w",) * wish.ignore_space + ("-C",) * wish.copies
        self._past = past or past_of(context, options)
        self._resuming = Resuming(
            self._ws.db, self._past, self._ws.layout.worktree, wish.path
        )

    def answer(self) -> Blamed:
        """Return who wrote each line.

        Raises:
            UsageError: the file is not there, or nothing is known of it.
        """
        with contextlib.suppress(DoubtError):
            if self._is_plain:
                replay = self._replay({})
                first = self._resuming.resume(replay, self._wish.seq)
                if first is not None:
                    return self._answered(replay, first)
        history = self._history(self._wish.path)
        replay = self._replay(self._taken_back(history))
        if self._is_plain and self._wish.seq is None:
            self._resuming.feed(replay, history)
        else:
            replay.feed(history)
        return self._answered(replay, history[0] if history else None)

    @property
    def _is_plain(self) -> bool:
        """Tell a wish whose replay is everybody's, so that snapshots serve it."""
        return not (self._wish.removed or self._wish.ignore_space)

    def _answered(self, replay: Replay, first: Event | None) -> Blamed:
        ground = GitOrigins(self._past, replay.read, self._diff, replay.rewrites, first)
        data, vector = self._content(replay)
        vector = ground.settle(vector)
        if self._wish.copies:
            vector = ground.settle(traced(data, vector, self._places))
        return Blamed(data, vector, ground, replay.removals or [])

    def _history(self, path: RepoPath) -> list[Event]:
        rows = events.history(self._ws.db, None, (path,), 0)
        seq = self._wish.seq
        return [row for row in rows if seq is None or row.seq <= seq]

    def _taken_back(self, history: list[Event]) -> dict[str, frozenset[int]]:
        return {
            op: frozenset(row.seq for row in history if unit.holds(row))
            for op, unit in undoings_of(self._ws.db, history).items()
        }

    def _replay(self, taken_back: Mapping[str, Collection[int]]) -> Replay:
        rewrites = Rewrites(
            self._past, self._diff, ignore_space=self._wish.ignore_space
        )
        removals: list[Removal] | None = [] if self._wish.removed else None
        read = self._ws.repo.read_blob
        return Replay(read, self._diff, rewrites, taken_back, removals)

    # -- which content -----------------------------------------------------------------------

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
                f"cannot find {display_path(path)} in commit {commit[:10]}"
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
        self, replay: Replay, version: FileVersion | None, row: Event | None = None
    ) -> BlamedContent | None:
        """Return a state that nothing recorded made, as far as the replay knows."""
        if version is None:
            return None
        path = self._wish.path if row is None else _name_before(row)
        owner = Owner(
            source=OriginSource.GROUND, path=path, event=row, content=version.oid
        )
        return replay.state_of(version, owner)

    # -- lines from elsewhere ----------------------------------------------------------------

    def _places(self, asked: Sequence[Event]) -> Iterator[CopySource]:
        """Yield what the files of each event's burst held right before it, its own first."""
        own: dict[RepoPath, list[tuple[Event, Event]]] = {}
        for event in asked:
            own.setdefault(_name_before(event), []).append((event, event))
        yield from self._states_before(own, is_own=True)
        others: dict[RepoPath, list[tuple[Event, Event]]] = {}
        bursts: dict[tuple[str, str | None], list[Event]] = {}
        for event in asked:
            key = event.worktree, event.burst
            if key not in bursts:
                bursts[key] = self._firsts(event)
            for row in bursts[key]:
                if _name_before(row) != _name_before(event):
                    others.setdefault(_name_before(row), []).append((row, event))
        yield from self._states_before(others, is_own=False)

    def _states_before(
        self, wanted: Mapping[RepoPath, list[tuple[Event, Event]]], *, is_own: bool
    ) -> Iterator[CopySource]:
        """Replay each file once; yield its state before a row, and before the event."""
        for path, pairs in wanted.items():
            history = self._history(path)
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

    def _firsts(self, event: Event) -> list[Event]:
        """Return the first event of each file in an event's burst, as many as are looked at."""
        if event.burst is None:
            return []
        wanted = events.EventFilter(worktree=event.worktree, burst=event.burst)
        first: dict[RepoPath, Event] = {}
        for row in sorted(events.rows(self._ws.db, wanted), key=_seq):
            if row.path is not None:
                first.setdefault(_name_before(row), row)
        return list(first.values())[:_MOST_SOURCES]


def _seq(event: Event) -> int:
    return event.seq


def _first_seq(pair: tuple[Event, Event]) -> int:
    return min(pair[0].seq, pair[1].seq)


def _name_before(event: Event) -> RepoPath:
    name = event.old_path or event.path
    assert name is not None
    return name


_MOST_SOURCES = 64
"""So many files of a burst are looked through for lines that were moved or copied."""
