"""Blame over one worktree: wires journal, object store and Git to `blame`.

Invariant: after a barrier; nothing is written.
"""

import contextlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial

from gitshadow.blame.before import DoubtError
from gitshadow.blame.copies import Copies
from gitshadow.blame.ground import Ground
from gitshadow.blame.owners import (
    Diff,
    Owner,
    Source,
    State,
    Vector,
    count_lines,
    fresh,
)
from gitshadow.blame.present import laid_over
from gitshadow.blame.replay import Removal, Replay
from gitshadow.blame.rewrites import Rewrites
from gitshadow.engine.desk import Desk
from gitshadow.engine.past import GitPast
from gitshadow.engine.resuming import Resuming
from gitshadow.errors import UsageError
from gitshadow.model import Event, FileVersion, Oid, RepoPath
from gitshadow.store.journal import events
from gitshadow.store.refs import display_path
from gitshadow.store.repo import line_hunks
from gitshadow.undo.effective import undoings_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
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
    ground: Ground
    removals: list[Removal]


def past_of(desk: Desk, options: tuple[str, ...] = ()) -> GitPast:
    """Return what answers of Git's past; one may serve many wishes while HEAD stays."""
    ws = desk.workspace
    return GitPast(ws.repo, ws.git, ws.db, options)


class Blaming:
    """Answer one wish."""

    def __init__(self, desk: Desk, wish: Wish, past: GitPast | None = None) -> None:
        self._desk = desk
        self._ws = desk.workspace
        self._wish = wish
        self._diff: Diff = partial(line_hunks, ignore_space=wish.ignore_space)
        options = ("-w",) * wish.ignore_space + ("-C",) * wish.copies
        self._past = past or past_of(desk, options)
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
        ground = Ground(self._past, replay.read, self._diff, replay.rewrites, first)
        data, vector = self._content(replay)
        vector = ground.settle(vector)
        if self._wish.copies:
            vector = ground.settle(self._copied(data, vector))
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
                f"could not find {display_path(path)} in commit {commit[:10]}"
            )
        data = self._ws.repo.read_blob(blob)
        known = replay.rewrites.recorded(blob)
        if known is not None and len(known.vector) == count_lines(data):
            return data, known.vector
        owner = Owner(
            source=Source.GROUND,
            path=path,
            commit=commit,
            content=blob,
            switched=True,
        )
        return data, fresh(owner, count_lines(data))

    def _on_disk(self) -> bytes:
        path = self._wish.path
        try:
            reading = self._ws.files.read(path) if path else None
        except OSError as error:
            raise UsageError(f"could not read {display_path(path)}: {error}") from error
        if reading is None:
            raise UsageError(
                f"could not find file {display_path(path)}",
                hint="as it was: --at WHEN, or --commit REV",
            )
        return reading.data

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
                f"could not blame {display_path(path)}: it is not recorded",
                hint="git agent-undo status lists what is left out, and why",
            )
        return FileVersion(blob, 0o100644)

    def _untouched(self, replay: Replay, version: FileVersion | None) -> State | None:
        if version is None:
            return None
        owner = Owner(source=Source.GROUND, path=self._wish.path, content=version.oid)
        return replay.state_of(version, owner)

    # -- lines from elsewhere ----------------------------------------------------------------

    def _copied(self, data: bytes, vector: Vector) -> Vector:
        return Copies(self._before_of).traced(data, vector)

    def _before_of(self, event: Event) -> list[State]:
        """Return what the files of an event's burst held right before it, its own first."""
        rows = self._together_with(event)
        found: list[State] = []
        for row in rows:
            assert row.path is not None
            source = row.old_path or row.path
            history = self._history(source)
            first = min(row.seq, event.seq)
            replay = self._replay(self._taken_back(history))
            replay.feed([one for one in history if one.seq < first])
            state = replay.at(row.worktree, source)
            if state is None and row.before is not None:
                state = replay.state_of(
                    row.before,
                    Owner(
                        source=Source.GROUND,
                        path=source,
                        event=row,
                        content=row.before.oid,
                    ),
                )
            if state is not None:
                found.append(state)
        return found

    def _together_with(self, event: Event) -> list[Event]:
        wanted = events.EventFilter(worktree=event.worktree, burst=event.burst)
        rows = events.rows(self._ws.db, wanted) if event.burst else [event]
        first: dict[RepoPath, Event] = {}
        for row in sorted(rows, key=lambda one: one.seq):
            if row.path is not None and row.seq != event.seq:
                first.setdefault(row.old_path or row.path, row)
        assert event.path is not None
        first.pop(event.old_path or event.path, None)
        return [event, *list(first.values())[:_MOST_SOURCES]]


_MOST_SOURCES = 64
"""So many other files of a burst are looked through for lines that were moved or copied."""
