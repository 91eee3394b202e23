"""Read and import our own history as lines of JSON: sessions, models, turns, calls, events.

A file is imported only for what no ref contains: prompts, ends, models and gaps. Rows that belong
to a commit come from the refs alone, so no file can make anything undoable. Sessions that this
journal recorded itself stay as they are, so a second import changes nothing.
Invariant: reading is pure and bounded; what is wrong is counted and named, never raised. An import
is one transaction: call it inside `db.write()`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import NamedTuple, TypeVar

from gitshadow.adapters.payload import (
    MAX_NATIVE_CHARS,
    MAX_PATHS,
    MAX_PROMPT_CHARS,
    shortened_id,
)
from gitshadow.config import PromptPolicy
from gitshadow.errors import StoreError
from gitshadow.interchange.claims import Reader, bounded
from gitshadow.model import (
    Actor,
    Call,
    Event,
    EventKind,
    RepoPath,
    Session,
    ToolClass,
    Turn,
)
from gitshadow.recording.workspace import Workspace
from gitshadow.store.journal import events, sessions, turns
from gitshadow.store.paths import parse_path, safe_path
from gitshadow.store.replay import REBUILT

FORMAT = "agent-undo-events"
VERSION = 1
HEADER: Mapping[str, object] = {
    "type": "header",
    "format": FORMAT,
    "version": VERSION,
}
_SESSION = re.compile(r"[a-z0-9-]{1,40}")
_MACHINE = re.compile(r"[0-9a-f]{12}")
_WORKTREE = re.compile(r"[A-Za-z0-9._-]{1,200}")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOST_NUMBER = 1 << 53
_E = TypeVar("_E", Actor, ToolClass)
IMPORTED = "imported"
_MOST_AHEAD = 1_000_000
"""So far beyond the newest event a gap of a file may be numbered."""


class ModelLine(NamedTuple):
    """Store which model a session named, from when on."""

    session: str
    since_ns: int
    model: str


class EventLine(NamedTuple):
    """Identify an event by its number and its commit."""

    seq: int
    commit: str | None
    gap: Event | None


Line = Session | ModelLine | Turn | Call | EventLine


def is_header(row: Mapping[str, object]) -> bool:
    """Return whether a line begins a file of this format and version."""
    return row.get("format") == FORMAT and row.get("version") == VERSION


def machine_of(row: Mapping[str, object]) -> str | None:
    """Return which machine's history a header announces, None where it does not say."""
    found = row.get("machine")
    return found if isinstance(found, str) and _MACHINE.fullmatch(found) else None


def read_lines(texts: Iterable[str], reader: Reader) -> Iterator[Line]:
    """Yield what the lines behind the header hold, in their order."""
    for text in texts:
        row = reader.object_of(text)
        if row is None:
            continue
        kind = row.get("type")
        read = _READERS.get(kind) if isinstance(kind, str) else None
        line = None if read is None else read(row)
        if line is None:
            reader.skip(f"a line of type {bounded(str(kind))} cannot be read")
        else:
            yield line


def _session(row: Mapping[str, object]) -> Session | None:
    name, started = _our_id(row, "id"), _time(row, "started")
    actor = _member(Actor, row.get("actor"))
    if name is None or started is None or actor is None:
        return None
    return Session(
        id=name,
        native_id=_text(row, "native_id", MAX_NATIVE_CHARS) or "",
        actor=actor,
        agent=_id(row, "agent") if actor is Actor.AGENT else None,
        parent=_our_id(row, "parent"),
        started_ns=started,
        ended_ns=_time(row, "ended"),
        end_reason=_text(row, "end_reason", 200),
    )


def _model(row: Mapping[str, object]) -> ModelLine | None:
    session, since = _our_id(row, "session"), _time(row, "since")
    model = _text(row, "model", 250)
    if session is None or since is None or model is None:
        return None
    return ModelLine(session, since, model)


def _turn(row: Mapping[str, object]) -> Turn | None:
    session, name = _our_id(row, "session"), _id(row, "id")
    ordinal, started = _number(row, "ordinal"), _time(row, "started")
    if session is None or name is None or ordinal is None or started is None:
        return None
    return Turn(
        id=name,
        session=session,
        ordinal=ordinal,
        started_ns=started,
        ended_ns=_time(row, "ended"),
        prompt=_text(row, "prompt", MAX_PROMPT_CHARS),
    )


def _call(row: Mapping[str, object]) -> Call | None:
    session, name = _our_id(row, "session"), _id(row, "id")
    opened, kind = _time(row, "opened"), _member(ToolClass, row.get("class"))
    worktree = _worktree(row)
    if None in (session, name, opened, kind, worktree):
        return None
    paths = row.get("paths")
    return Call(
        id=name or "",
        session=session or "",
        turn=_id(row, "turn"),
        tool=_id(row, "tool") or "tool",
        tool_class=kind or ToolClass.OTHER,
        opened_ns=opened or 0,
        closed_ns=_time(row, "closed"),
        outcome=_text(row, "outcome", 200),
        paths=_paths(paths) if isinstance(paths, list) else (),
        worktree=worktree or "",
    )


def _event(row: Mapping[str, object]) -> EventLine | None:
    seq, commit = _number(row, "seq"), row.get("commit")
    if seq is None:
        return None
    if isinstance(commit, str):
        return EventLine(seq, commit, None)
    ts_ns, worktree = _time(row, "ts"), _worktree(row)
    if row.get("kind") != EventKind.GAP.value or ts_ns is None or worktree is None:
        return None
    path = row.get("path")
    named = _paths([path]) if path is not None else ()
    gap = Event(
        seq=seq,
        ts_ns=ts_ns,
        worktree=worktree,
        kind=EventKind.GAP,
        path=named[0] if named else None,
        note=_text(row, "note", 10_000),
    )
    return EventLine(seq, None, gap)


_READERS = {
    "session": _session,
    "model": _model,
    "turn": _turn,
    "call": _call,
    "event": _event,
}


def _text(row: Mapping[str, object], key: str, most: int) -> str | None:
    value = row.get(key)
    if not isinstance(value, str) or not value:
        return None
    return value[:most].encode("utf-8", "replace").decode("utf-8")


def _id(row: Mapping[str, object], key: str) -> str | None:
    value = _text(row, key, 10_000)
    return None if value is None else shortened_id(value)


def _our_id(row: Mapping[str, object], key: str) -> str | None:
    value = row.get(key)
    fits = isinstance(value, str) and _SESSION.fullmatch(value)
    return str(value) if fits else None


def _worktree(row: Mapping[str, object]) -> str | None:
    value = row.get("worktree")
    fits = isinstance(value, str) and _WORKTREE.fullmatch(value)
    return str(value) if fits else None


def _number(row: Mapping[str, object], key: str) -> int | None:
    value = row.get(key)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value < _MOST_NUMBER else None


def _time(row: Mapping[str, object], key: str) -> int | None:
    """Return an RFC 3339 time in nanoseconds; exactly, to its microsecond."""
    value = row.get(key)
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
        passed = None if moment is None else moment.astimezone(UTC) - _EPOCH
    except (ValueError, OverflowError):
        return None
    if passed is None or passed.days < 0:
        return None
    micros = (passed.days * 86400 + passed.seconds) * 1_000_000 + passed.microseconds
    return micros * 1000


def _member(kind: type[_E], value: object) -> _E | None:
    return next((one for one in kind if one.value == value), None)


def _paths(values: list[object]) -> tuple[RepoPath, ...]:
    found = []
    for value in values[:MAX_PATHS]:
        try:
            path = RepoPath(parse_path(value)) if isinstance(value, str) else None
        except StoreError:
            continue
        if path is not None and safe_path(path):
            found.append(path)
    return tuple(found)


@dataclass(slots=True)
class ImportCounts:
    """Count lines: `new` ones, those that were `known`, and events that are `elsewhere`.

    Elsewhere are those whose commits no ref here reaches.
    """

    new: int = 0
    known: int = 0
    elsewhere: int = 0


@dataclass(slots=True)
class Importer:
    """Take the lines of one file."""

    workspace: Workspace
    done: ImportCounts = field(default_factory=ImportCounts)
    _open: dict[str, bool] = field(default_factory=dict)

    def take(self, lines: Iterable[Line]) -> ImportCounts:
        """Take lines; those of a session stand behind the session's own."""
        for line in lines:
            if isinstance(line, Session):
                self._session(line)
            elif isinstance(line, ModelLine):
                self._model(line)
            elif isinstance(line, Turn):
                self._turn(line)
            elif isinstance(line, Call):
                self._call(line)
            else:
                self._event(line)
        return self.done

    def _count(self, changed: bool) -> None:
        self.done.new += changed
        self.done.known += not changed

    def _may_change(self, session: str) -> bool:
        """Return whether all that is known here of a session came from elsewhere."""
        if session not in self._open:
            known = sessions.get(self.workspace.db, session)
            ours = known is None or known.end_reason not in (REBUILT, IMPORTED)
            self._open[session] = not ours
        return self._open[session]

    def _session(self, told: Session) -> None:
        known = sessions.get(self.workspace.db, told.id)
        if known is not None and not self._may_change(told.id):
            self._count(changed=False)
            return
        wanted = told
        if told.ended_ns is None:
            # It may be open there; here it ended when it last wrote.
            ended = known.ended_ns if known is not None else told.started_ns
            wanted = replace(told, ended_ns=ended, end_reason=REBUILT)
        self._open[told.id] = True
        if wanted != known:
            sessions.put(self.workspace.db, wanted)
        self._count(wanted != known)

    def _model(self, told: ModelLine) -> None:
        db = self.workspace.db
        before = sessions.model_at(db, told.session, told.since_ns)
        if self._may_change(told.session):
            sessions.note_model(db, told.session, told.since_ns, told.model)
        self._count(sessions.model_at(db, told.session, told.since_ns) != before)

    def _turn(self, told: Turn) -> None:
        db = self.workspace.db
        known = turns.get_turn(db, told.session, told.id)
        if self.workspace.config.prompts is PromptPolicy.OFF:
            told = replace(told, prompt=None)
        if told.ended_ns is None:
            ended = told.started_ns if known is None else known.ended_ns
            told = replace(told, ended_ns=ended)
        changes = told != known and self._may_change(told.session)
        if changes:
            turns.put_turn(db, told)
        self._count(changes)

    def _call(self, told: Call) -> None:
        db = self.workspace.db
        known = turns.get_call(db, told.session, told.id)
        if told.closed_ns is None:
            closed = told.opened_ns if known is None else known.closed_ns
            told = replace(told, closed_ns=closed)
        changes = told != known and self._may_change(told.session)
        if changes:
            turns.open_call(db, told)
        self._count(changes)

    def _event(self, told: EventLine) -> None:
        db = self.workspace.db
        known = events.get(db, told.seq)
        if told.gap is not None and known is None:
            self._gap(told.gap)
        elif known is None or known.commit != told.commit:
            self.done.elsewhere += 1
        else:
            self._count(changed=False)

    def _gap(self, gap: Event) -> None:
        db = self.workspace.db
        if gap.seq > events.last_seq(db) + _MOST_AHEAD:
            self.done.elsewhere += 1
            return
        events.insert(db, [gap])
        events.raise_next(db, 0)
        self._count(changed=True)
