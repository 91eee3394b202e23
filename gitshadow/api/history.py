"""history: what happened, newest first, a row for each turn, undo, switch and group of changes.

A turn is where its newest change is, with the changes of its subagents. What people and unknown
programs wrote between turns is one row until a pause. Rows come from bursts, ops and the rare
events, so that a page costs what it shows, however many changes there were.
"""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, takewhile
from typing import NamedTuple

from gitshadow.api.lists import event_kinds
from gitshadow.errors import UsageError
from gitshadow.messages.history import HistoryAnswer, HistoryRequest, HistoryRow
from gitshadow.messages.rows import EventRow
from gitshadow.model import (
    Actor,
    Burst,
    Confidence,
    Event,
    EventKind,
    Gap,
    HeadChange,
    Oid,
    Op,
    PathChange,
    RepoPath,
    Session,
    Turn,
    paths_of,
)
from gitshadow.query.params import typed_paths
from gitshadow.query.resolve import session_of
from gitshadow.query.rows import event_rows, rfc3339
from gitshadow.recording.context import RecorderContext
from gitshadow.reporting.patches import sum_of_lines
from gitshadow.store.journal import (
    alerts,
    bursts,
    events,
    ops,
    sessions,
    short_ids,
    switches,
)
from gitshadow.store.journal.events import EventFilter
from gitshadow.store.paths import any_within
from gitshadow.store.refs import display_path
from gitshadow.undo.effective import Undone
from gitshadow.undo.targets import (
    Unit,
    events_of,
    root_of,
    short_name,
    stretches_of,
    turn_of_burst,
    unit_of,
)

_PAGE = 50
_RARE = (EventKind.HEAD, EventKind.GAP, EventKind.COVERAGE)
_NAMED_FILES = 3
_PROMPT_CHARS = 400
_EVENTS_SHOWN = 2_000
_UNSURE = frozenset({Confidence.LOW, Confidence.AMBIGUOUS})


class _Found(NamedTuple):
    """Something to show, and the number of its newest event, by which rows are ordered."""

    seq: int
    order: int
    thing: Turn | Burst | Op | tuple[Event, ...]


class _Candidates(NamedTuple):
    """Bursts without turns, turns, and sessions with children that may have what is asked for."""

    bursts: frozenset[str]
    turns: frozenset[str]
    sessions: frozenset[str]

    def may_have(self, burst: Burst) -> bool:
        """Return False only if nothing fits in a burst, or in the turn that it belongs to."""
        if burst.turn is None:
            return burst.id in self.bursts
        return _whole(burst.turn) in self.turns or burst.session in self.sessions


def history(context: RecorderContext, request: HistoryRequest) -> HistoryAnswer:
    """Return the newest rows that fit.

    Raises:
        UsageError: there is no such kind, session or event.
    """
    context.observer.settle()
    here = context.workspace.layout.worktree
    names = dict.fromkeys(request.worktrees or (here,))
    readers = [_Reader(context, request, name) for name in names]
    rows: list[HistoryRow] = []
    more = False
    for reader, found in _chosen(readers, request):
        row = reader.row(found)
        if row is None:
            continue
        if request.limit is not None and len(rows) >= request.limit:
            more = True
            break
        rows.append(row._replace(seq=found.seq, worktree=reader.worktree))
    if request.above is not None:
        rows.reverse()
    return HistoryAnswer(tuple(rows), more)


def _chosen(
    readers: Sequence["_Reader"], request: HistoryRequest
) -> Iterator[tuple["_Reader", _Found]]:
    """Return what may be shown of some worktrees, from the end that was asked for."""
    below, above = request.below, request.above
    if request.of is not None:
        below = 1 + max(reader.row_with(request.of) for reader in readers)
    found: Iterator[tuple[_Reader, _Found]] = heapq.merge(
        *(reader.found_here() for reader in readers),
        key=lambda part: (-part[1].seq, part[1].order),
    )
    if above is not None:
        newer = list(takewhile(lambda part: part[1].seq > above, found))
        found = iter(newer[::-1])
    return (part for part in found if below is None or part[1].seq < below)


@dataclass(slots=True)
class _Reader:
    context: RecorderContext
    request: HistoryRequest
    worktree: str
    _undone: Undone = field(init=False)
    _sessions: dict[str, Session | None] = field(default_factory=dict)
    _turns_by_name: dict[tuple[str, str], Turn | Burst] = field(default_factory=dict)
    _paths: tuple[RepoPath, ...] = ()
    _session: str | None = None
    _alerts: dict[tuple[str, str], list[str]] | None = None
    _kinds: frozenset[EventKind] = frozenset(EventKind)

    def __post_init__(self) -> None:
        ws, asked = self.context.workspace, self.request
        self._undone = Undone(ws.db, self.worktree)
        self._paths = typed_paths(ws.layout, asked.cwd, asked.paths)
        if asked.session is not None:
            self._session = session_of(ws.db, asked.session).id
        if asked.kinds:
            self._kinds = frozenset(event_kinds(asked.kinds))

    def found_here(self) -> Iterator[tuple["_Reader", _Found]]:
        """Yield all that may be shown, newest first, each with this reader."""
        for one in self.found():
            yield self, one

    def found(self) -> Iterator[_Found]:
        """Yield all that may be shown, newest first."""
        parts = [self._turns()]
        if self.request.agent is None and self._session is None:
            parts += [self._ops(), self._rare()]
        return heapq.merge(*parts, key=lambda one: (-one.seq, one.order))

    def row_with(self, seq: int) -> int:
        """Return the number of the newest event of the row with an event; 0 if there is none.

        Raises:
            UsageError: there is no such event.
        """
        event = events.get(self.context.workspace.db, seq)
        if event is None:
            raise UsageError(f"cannot find event {seq}")
        if event.worktree != self.worktree:
            return 0
        found = next((one for one in self.found() if self._has(one, event)), None)
        return 0 if found is None or self.row(found) is None else found.seq

    def _has(self, found: _Found, event: Event) -> bool:
        thing = found.thing
        if isinstance(thing, tuple):
            return event in thing
        if not isinstance(event, PathChange):
            return False
        if isinstance(thing, Op) or event.op is not None:
            return isinstance(thing, Op) and thing.id == event.op
        burst = bursts.get(self.context.workspace.db, event.burst or "")
        return burst is not None and self._thing_of(burst) == thing

    def _turns(self) -> Iterator[_Found]:
        db = self.context.workspace.db
        seen: set[tuple[str, str]] = set()
        candidates = [self._candidates(one) for one in self._filters()]
        for burst in bursts.each_newest(db, self.worktree):
            if not all(each.may_have(burst) for each in candidates):
                continue
            one = self._thing_of(burst)
            if (one.session, one.id) not in seen:
                seen.add((one.session, one.id))
                yield _Found(burst.last_seq, 0, one)

    def _filters(self) -> Iterator[EventFilter]:
        """Yield what one event of a row has to fit; another one may fit another filter."""
        asked, here = self.request, EventFilter(worktree=self.worktree)
        if asked.text:
            yield replace(here, text=asked.text)
        if self._paths or asked.kinds:
            kinds = self._kinds if asked.kinds else None
            yield replace(here, paths=self._paths or None, kinds=kinds)
        if asked.since is not None or asked.until is not None:
            yield replace(here, since_ns=asked.since, until_ns=asked.until)

    def _candidates(self, wanted: EventFilter) -> _Candidates:
        """Return what may fit by one query: to read each row's changes takes far longer."""
        db = self.context.workspace.db
        found = set(events.groups(db, wanted))
        # A child session without turns belongs to a turn of its parent.
        roots = {(one, root_of(db, one)) for one in {group[1] for group in found}}
        return _Candidates(
            frozenset(burst for burst, _, turn in found if turn is None),
            frozenset(_whole(turn) for _, _, turn in found if turn is not None),
            frozenset(root for session, root in roots if root != session),
        )

    def _thing_of(self, burst: Burst) -> Turn | Burst:
        """Return the turn of a burst, or the burst itself."""
        if burst.turn is None:
            return burst
        # A turn can have many bursts, and each lookup reads sessions and turns.
        key = (burst.session, burst.turn)
        if key not in self._turns_by_name:
            self._turns_by_name[key] = turn_of_burst(self.context.workspace.db, burst)
        found = self._turns_by_name[key]
        return found if isinstance(found, Turn) else burst

    def _ops(self) -> Iterator[_Found]:
        ws = self.context.workspace
        for op in ops.done_in_order(ws.db, self.worktree):
            wanted = EventFilter(op=op.id, limit=1)
            newest = events.changes(ws.db, wanted)
            yield _Found(newest[0].seq if newest else 0, 1, op)

    def _rare(self) -> Iterator[_Found]:
        """Yield moves of HEAD, gaps and changes of coverage; those of one commit are one."""
        for _, run in groupby(self._rare_events(), _coverage_commit):
            found = tuple(run)
            if _coverage_commit(found[0]) is None:
                yield from (_Found(one.seq, 2, (one,)) for one in found)
            else:
                yield _Found(found[0].seq, 2, found)

    def _rare_events(self) -> Iterator[Event]:
        ws = self.context.workspace
        kinds = tuple(kind for kind in _RARE if kind in self._kinds)
        if not kinds:
            return
        wanted = EventFilter(kinds=kinds, worktree=self.worktree, limit=_PAGE)
        while True:
            part = events.rows(ws.db, wanted)
            yield from part
            if len(part) < _PAGE:
                return
            wanted = replace(wanted, before_seq=part[-1].seq)

    def row(self, found: _Found) -> HistoryRow | None:
        """Return the row of something, None if it does not fit or nothing of it is left."""
        thing = found.thing
        if isinstance(thing, Turn | Burst):
            return self._row_of_turn(thing)
        if isinstance(thing, Op):
            return self._row_of_op(thing)
        return self._row_of_events(thing)

    def _row_of_turn(self, thing: Turn | Burst) -> HistoryRow | None:
        session = self._session_of(thing.session)
        if self._session is not None and thing.session != self._session:
            return None
        agent = session.agent if session is not None else None
        if self.request.agent is not None and agent != self.request.agent:
            return None
        rows = self._changes(unit_of(self.context.workspace.db, thing))
        if not rows:
            return None
        is_turn = isinstance(thing, Turn)
        asked = thing.prompt if isinstance(thing, Turn) else None
        prompt = " ".join((asked or "").split())
        row = self._with_files(
            HistoryRow(
                kind="turn" if is_turn else "changes",
                id=(thing.short_id if isinstance(thing, Turn) else "") or thing.id,
                ts=rfc3339(max(one.ts_ns for one in rows)),
                actor=(session.actor if session is not None else Actor.UNKNOWN).value,
                agent=agent,
                session=thing.session,
                prompt=prompt[:_PROMPT_CHARS],
                alerts=self._alerts_of(thing),
            ),
            rows,
        )
        return row if self._has_text(asked or "", rows) else None

    def _alerts_of(self, thing: Turn | Burst) -> tuple[str, ...]:
        if self._alerts is None:
            self._alerts = alerts.of_turns(self.context.workspace.db)
        turn = thing.id if isinstance(thing, Turn) else thing.turn or ""
        return tuple(self._alerts.get((thing.session, turn), ()))

    def _row_of_op(self, op: Op) -> HistoryRow | None:
        ws = self.context.workspace
        rows = self._changes(Unit(ops=frozenset({op.id})))
        if not rows:
            return None
        session = self._session_of(op.session)
        names = [short_name(ws.db, one) for one in op.undoes]
        row = self._with_files(
            HistoryRow(
                kind=op.kind.value,
                id=short_ids.of(ws.db, short_ids.OP, op.id) or op.id,
                ts=rfc3339(op.ts_ns),
                actor=(session.actor if session is not None else Actor.HUMAN).value,
                agent=session.agent if session is not None else None,
                session=op.session,
                note=" ".join(dict.fromkeys(names)) or op.target,
            ),
            rows,
        )
        return row if self._has_text("", rows) else None

    def _row_of_events(self, found: Sequence[Event]) -> HistoryRow | None:
        """Return the row of a move of HEAD, of a gap, or of one change of coverage."""
        newest = found[0]
        note = newest.note if isinstance(newest, HeadChange | Gap) else ""
        paths = [
            one.path
            for one in found
            if isinstance(one, PathChange | Gap) and one.path is not None
        ]
        chosen = [path for path in paths if self._is_chosen(path)]
        shown = tuple(display_path(path) for path in sorted(chosen))
        files = len(shown)
        if isinstance(newest, HeadChange):
            files = newest.files
        if not self._is_within_time(newest.ts_ns) or not self._fits(newest, chosen):
            return None
        if not self._is_sought((note or "", *shown)):
            return None
        return HistoryRow(
            kind=newest.kind.value,
            id=str(newest.seq),
            ts=rfc3339(newest.ts_ns),
            files=files,
            paths=shown[:_NAMED_FILES],
            note=note or "",
            events=self._event_rows(found),
        )

    def _fits(self, event: Event, chosen: Sequence[RepoPath]) -> bool:
        """Return whether an event is about one of the paths that were asked for."""
        if not self._paths or chosen:
            return True
        if not isinstance(event, HeadChange):
            return False
        return switches.touches(self.context.workspace.db, event, self._paths)

    def _changes(self, unit: Unit) -> list[PathChange]:
        """Return the changes of a unit that were asked for, oldest first."""
        rows = self._writes(unit)
        if not any(self._is_within_time(row.ts_ns) for row in rows):
            return []
        # With paths only these are counted, as in `git log --stat PATH`.
        return [
            row
            for row in rows
            if row.kind in self._kinds and self._is_chosen(row.path, row.old_path)
        ]

    def _writes(self, unit: Unit) -> Sequence[PathChange]:
        """Return the writes of a unit; of those alike only the ends if no more is asked for."""
        db, asked = self.context.workspace.db, self.request
        moments = asked.since is not None or asked.until is not None
        if asked.events or asked.kinds or moments:
            return events_of(db, self.worktree, unit)
        return stretches_of(db, self.worktree, unit, self._undone.singles).rows

    def _with_files(self, row: HistoryRow, rows: Sequence[PathChange]) -> HistoryRow:
        paths = {one.path for one in rows}
        undone = [(one.path, self._undone.by(one)) for one in rows]
        standing = {path for path, op in undone if op is None}
        newest = max(
            (op for _, op in undone if op), key=lambda op: op.ts_ns, default=None
        )
        unsure = {one.path for one in rows if one.attribution.confidence in _UNSURE}
        added, removed = None, None
        if self.request.lines:
            added, removed = sum_of_lines(self.context.workspace.repo, rows)
        return row._replace(
            files=len(paths),
            paths=tuple(display_path(one) for one in sorted(paths)[:_NAMED_FILES]),
            added=added,
            removed=removed,
            undone=len(paths - standing),
            unsure=len(unsure) if row.actor == Actor.AGENT.value else 0,
            undone_by=newest.id if newest is not None else "",
            events=self._event_rows(rows[::-1]),
        )

    def _event_rows(self, found: Sequence[Event]) -> tuple[EventRow, ...]:
        """Return the newest of some events, if they were asked for."""
        if not self.request.events:
            return ()
        return event_rows(self.context.workspace.db, found[:_EVENTS_SHOWN])

    def _session_of(self, name: str) -> Session | None:
        if name not in self._sessions:
            self._sessions[name] = sessions.get(self.context.workspace.db, name)
        return self._sessions[name]

    def _is_within_time(self, ts_ns: int) -> bool:
        since, until = self.request.since, self.request.until
        return (since or 0) <= ts_ns and (until is None or ts_ns <= until)

    def _is_chosen(self, *ends: RepoPath | None) -> bool:
        return not self._paths or any_within(ends, self._paths)

    def _has_text(self, prompt: str, rows: Sequence[PathChange]) -> bool:
        return self._is_sought((prompt, *map(display_path, paths_of(rows))))

    def _is_sought(self, texts: Sequence[str]) -> bool:
        """Return whether a text has what is sought, in capital or small letters."""
        wanted = (self.request.text or "").lower()
        return not wanted or any(wanted in text.lower() for text in texts)


def _whole(turn: str) -> str:
    """Return the id of the turn to which a child's turn, `<turn>/<child>`, belongs."""
    return turn.split("/", 1)[0]


def _coverage_commit(event: Event) -> Oid | None:
    """Return the commit of a change of coverage, None for other events."""
    if not isinstance(event, PathChange) or event.kind is not EventKind.COVERAGE:
        return None
    return event.commit
