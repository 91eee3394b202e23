"""Read and import our own history as lines of JSON: sessions, models, turns, calls, events.

A file is imported only for what no ref contains: prompts, ends, models and gaps. Rows that belong
to a commit come from the refs alone, so no file can make anything undoable. Sessions that this
journal recorded itself stay as they are, so a second import changes nothing.
Invariant: reading is pure and bounded; what is wrong is counted and named, never raised. An import
is one transaction: call it inside `db.write()`.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import NamedTuple, TypeVar

from gitshadow.adapters.payload import MAX_NATIVE_CHARS, MAX_PATHS, Payload
from gitshadow.config import PromptPolicy
from gitshadow.errors import StoreError
from gitshadow.interchange.claims import Reader, bounded
from gitshadow.messages.codec import JsonObject, encode
from gitshadow.model import (
    Actor,
    Call,
    CommitEvent,
    Event,
    EventKind,
    Gap,
    JsonValue,
    RepoPath,
    Session,
    ToolClass,
    Turn,
)
from gitshadow.query.rows import call_row, event_row, rfc3339, turn_row
from gitshadow.recording.workspace import Workspace
from gitshadow.store.journal import events, sessions, turns
from gitshadow.store.journal.db import Db
from gitshadow.store.object_format import ObjectFormat
from gitshadow.store.paths import parse_path, safe_path
from gitshadow.store.replay import REBUILT

FORMAT = "agent-undo-events"
VERSION = 1
_SESSION = re.compile(r"[a-z0-9-]{1,40}")
_MACHINE = re.compile(r"[0-9a-f]{12}")
_WORKTREE = re.compile(r"[A-Za-z0-9._-]{1,200}")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOST_NUMBER = 1 << 53
_E = TypeVar("_E", Actor, ToolClass)
_R = TypeVar("_R", Turn, Call)
IMPORTED = "imported"
# How far beyond the newest event a gap of a file may be numbered. A forged number near the end of
# the range would use up the numbers of all later events.
_MOST_AHEAD = 1_000_000


class ModelLine(NamedTuple):
    """The model that a session named, and since when."""

    session: str
    since_ns: int
    model: str


class EventLine(NamedTuple):
    """An event's number and commit; a gap has no commit and is given whole."""

    seq: int
    commit: str | None
    gap: Gap | None


Line = Session | ModelLine | Turn | Call | EventLine


def header(machine: str | None, form: ObjectFormat) -> JsonObject:
    """Return the first line of a file: the history of a machine, and of what format ids are."""
    return {
        "type": "header",
        "format": FORMAT,
        "version": VERSION,
        "machine": machine,
        "object_format": form.name,
    }


def session_line(session: Session) -> JsonObject:
    """Return the line of a session."""
    # The end of a session that only refs know is assumed here; it may be open elsewhere.
    assumed = session.end_reason == REBUILT
    return {
        "type": "session",
        "id": session.id,
        "native_id": session.native_id,
        "actor": session.actor.value,
        "agent": session.agent,
        "parent": session.parent,
        "started": rfc3339(session.started_ns),
        "ended": None if assumed else rfc3339(session.ended_ns),
        "end_reason": None if assumed else session.end_reason,
    }


def model_line(session: str, since_ns: int, model: str) -> JsonObject:
    """Return the line of a model that a session named."""
    since = rfc3339(since_ns)
    return {"type": "model", "session": session, "since": since, "model": model}


def turn_line(turn: Turn) -> JsonObject:
    """Return the line of a turn."""
    row = encode(turn_row(turn, 0, 0))
    names = ("id", "session", "ordinal", "started", "ended", "prompt")
    return {"type": "turn"} | {name: row[name] for name in names}


def call_line(call: Call) -> JsonObject:
    """Return the line of a tool call."""
    row = encode(call_row(call))
    del row["call"]
    return {"type": "call", **row, "worktree": call.worktree}


def event_line(event: Event) -> JsonObject:
    """Return the line of an event."""
    return {"type": "event", **encode(event_row(event))}


def is_header(row: Payload) -> bool:
    """Return whether a line begins a file of this format and version."""
    return row.value("format") == FORMAT and row.value("version") == VERSION


def machine_of(row: Payload) -> str | None:
    """Return the machine whose history follows a header, None if it names none."""
    return _matching(row, "machine", _MACHINE)


def read_lines(texts: Iterable[str], reader: Reader) -> Iterator[Line]:
    """Yield the lines after the header, in their order."""
    for text in texts:
        row = reader.object_of(text)
        if row is None:
            continue
        kind = row.value("type")
        read = _READERS.get(kind) if isinstance(kind, str) else None
        line = None if read is None else read(row)
        if line is None:
            reader.skip(f"a line of type {bounded(str(kind))} cannot be read")
        else:
            yield line


def _session(row: Payload) -> Session | None:
    name, started = _matching(row, "id", _SESSION), _time(row, "started")
    actor = _member(Actor, row.value("actor"))
    if name is None or started is None or actor is None:
        return None
    return Session(
        id=name,
        native_id=_text(row, "native_id", MAX_NATIVE_CHARS) or "",
        actor=actor,
        agent=row.identifier("agent") if actor is Actor.AGENT else None,
        parent=_matching(row, "parent", _SESSION),
        started_ns=started,
        ended_ns=_time(row, "ended"),
        end_reason=_text(row, "end_reason", 200),
    )


def _model(row: Payload) -> ModelLine | None:
    session, since = _matching(row, "session", _SESSION), _time(row, "since")
    model = _text(row, "model", 250)
    if session is None or since is None or model is None:
        return None
    return ModelLine(session, since, model)


def _turn(row: Payload) -> Turn | None:
    session, name = _matching(row, "session", _SESSION), row.identifier("id")
    ordinal, started = _number(row, "ordinal"), _time(row, "started")
    if session is None or name is None or ordinal is None or started is None:
        return None
    return Turn(
        id=name,
        session=session,
        ordinal=ordinal,
        started_ns=started,
        ended_ns=_time(row, "ended"),
        prompt=row.prompt_text("prompt"),
    )


def _call(row: Payload) -> Call | None:
    session, name = _matching(row, "session", _SESSION), row.identifier("id")
    opened, kind = _time(row, "opened"), _member(ToolClass, row.value("class"))
    worktree = _matching(row, "worktree", _WORKTREE)
    if session is None or name is None or opened is None:
        return None
    if kind is None or worktree is None:
        return None
    paths = row.value("paths")
    return Call(
        id=name,
        session=session,
        turn=row.identifier("turn"),
        tool=row.identifier("tool") or "tool",
        tool_class=kind,
        opened_ns=opened,
        closed_ns=_time(row, "closed"),
        outcome=_text(row, "outcome", 200),
        paths=_paths(paths) if isinstance(paths, list) else (),
        worktree=worktree,
    )


def _event(row: Payload) -> EventLine | None:
    seq, commit = _number(row, "seq"), row.value("commit")
    if seq is None:
        return None
    if isinstance(commit, str):
        return EventLine(seq, commit, None)
    ts_ns, worktree = _time(row, "ts"), _matching(row, "worktree", _WORKTREE)
    if row.value("kind") != EventKind.GAP.value or ts_ns is None or worktree is None:
        return None
    named = _paths([row.value("path")])
    note = _text(row, "note", 10_000)
    gap = Gap(seq, ts_ns, worktree, note, named[0] if named else None)
    return EventLine(seq, None, gap)


_READERS = {
    "session": _session,
    "model": _model,
    "turn": _turn,
    "call": _call,
    "event": _event,
}


def _text(row: Payload, key: str, most: int) -> str | None:
    found = row.text(key)
    return None if found is None else found[:most]


def _matching(row: Payload, key: str, pattern: re.Pattern[str]) -> str | None:
    found = row.value(key)
    return found if isinstance(found, str) and pattern.fullmatch(found) else None


def _number(row: Payload, key: str) -> int | None:
    value = row.value(key)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value < _MOST_NUMBER else None


def _time(row: Payload, key: str) -> int | None:
    """Return an RFC 3339 time in nanoseconds, exact to the microsecond."""
    # Not `timestamp()`: a float cannot hold the nanoseconds of today exactly.
    value = row.value(key)
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
        passed = None if moment is None else moment.astimezone(UTC) - _EPOCH
    except (ValueError, OverflowError):
        return None
    if passed is None or passed.days < 0:
        return None
    micros = (passed.days * 86400 + passed.seconds) * 1_000_000 + passed.microseconds
    return micros * 1000


def _member(kind: type[_E], value: JsonValue) -> _E | None:
    return next((one for one in kind if one.value == value), None)


def _paths(values: list[JsonValue]) -> tuple[RepoPath, ...]:
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
    """The number of lines that were new, of known ones, and of events that are elsewhere.

    Elsewhere are those whose commits no ref here reaches.
    """

    new: int = 0
    known: int = 0
    elsewhere: int = 0


@dataclass(slots=True)
class Importer:
    """Import the lines of one file."""

    workspace: Workspace
    done: ImportCounts = field(default_factory=ImportCounts)
    _open: dict[str, bool] = field(default_factory=dict)

    def take(self, lines: Iterable[Line]) -> ImportCounts:
        """Import lines; those of a session come after the session's own line."""
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
        """Return whether a session is known here only from refs and files of other clones."""
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
        known = turns.get_turn(self.workspace.db, told.session, told.id)
        if self.workspace.config.prompts is PromptPolicy.OFF:
            told = replace(told, prompt=None)
        if told.ended_ns is None:
            ended = told.started_ns if known is None else known.ended_ns
            told = replace(told, ended_ns=ended)
        self._put(told, known, turns.put_turn)

    def _call(self, told: Call) -> None:
        known = turns.get_call(self.workspace.db, told.session, told.id)
        if told.closed_ns is None:
            closed = told.opened_ns if known is None else known.closed_ns
            told = replace(told, closed_ns=closed)
        self._put(told, known, turns.open_call)

    def _put(self, told: _R, known: _R | None, put: Callable[[Db, _R], None]) -> None:
        changes = told != known and self._may_change(told.session)
        if changes:
            put(self.workspace.db, told)
        self._count(changes)

    def _event(self, told: EventLine) -> None:
        db = self.workspace.db
        known = events.get(db, told.seq)
        commit = known.commit if isinstance(known, CommitEvent) else None
        if told.gap is not None and known is None:
            self._gap(told.gap)
        elif known is None or commit != told.commit:
            self.done.elsewhere += 1
        else:
            self._count(changed=False)

    def _gap(self, gap: Gap) -> None:
        db = self.workspace.db
        if gap.seq > events.last_seq(db) + _MOST_AHEAD:
            self.done.elsewhere += 1
            return
        events.insert(db, [gap])
        events.raise_next(db, 0)
        self._count(changed=True)
