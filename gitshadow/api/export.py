"""export: who wrote which line, or what happened, in a form that others read."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from gitshadow.blame.classification import Credit
from gitshadow.blame.line_owners import Owning
from gitshadow.blame.line_sets import Part, Portion, Portions
from gitshadow.blame.scope import LineScope, ScopeKind, named_range
from gitshadow.interchange import agent_trace, authorship, event_lines
from gitshadow.interchange.agent_trace import TraceOrigin
from gitshadow.interchange.claims import FileSpans, SpanWriter, runs
from gitshadow.messages.codec import JsonObject
from gitshadow.messages.exchange import (
    CommitNote,
    ExportEventsAnswer,
    ExportEventsRequest,
    ExportNotesAnswer,
    ExportRemoveAnswer,
    ExportRemoveRequest,
    ExportRequest,
    ExportTracesAnswer,
    UnnamedFile,
)
from gitshadow.model import Actor, CommitEvent, Gap, Oid, RepoPath, Session
from gitshadow.query.resolve import session_of
from gitshadow.query.rows import rfc3339
from gitshadow.recording.context import RecorderContext
from gitshadow.store import machine
from gitshadow.store.journal import events, sessions, turns
from gitshadow.store.journal.db import Db
from gitshadow.store.refs import display_path

_UNNAMED = "its name cannot be written in this format"
_PAGE = 20_000
Seqs = Collection[int]
"""Numbers of events."""


@dataclass(frozen=True, slots=True)
class ExportScope:
    """The sessions (none: all) and commits to export.

    `commits` is None if no range was named: all since recording began.
    """

    sessions: frozenset[str]
    commits: tuple[Oid, ...] | None


@dataclass(frozen=True, slots=True)
class CommitChange:
    """The lines that a commit added (None: not committed), and when they were written."""

    commit: Oid | None
    ts_ns: int
    files: Sequence[FileSpans]

    @property
    def timestamp(self) -> str:
        """Return the time in RFC 3339."""
        return rfc3339(self.ts_ns) or ""


def chosen(context: RecorderContext, words: Iterable[str]) -> ExportScope:
    """Return the sessions (by id) and commits (by revision or range) that words name.

    Raises:
        UsageError: a word names neither.
    """
    ws = context.workspace
    found: set[str] = set()
    commits: dict[Oid, None] = {}
    ranges = False
    for word in words:
        known = sessions.by_prefix(ws.db, word)
        scope = None if known else named_range(context, word)
        if scope is None:
            found.add(session_of(ws.db, word).id)
        else:
            ranges = True
            commits.update(dict.fromkeys(_commits(context, scope)))
    return ExportScope(frozenset(found), tuple(commits) if ranges else None)


def _commits(context: RecorderContext, scope: LineScope) -> list[Oid]:
    if scope.commit is None:
        return []
    if scope.kind is ScopeKind.ADDED:
        return [scope.commit]
    return context.workspace.git.commits_between(scope.base, scope.commit)


class Exporter:
    """Find the lines of writers, commit by commit."""

    def __init__(self, context: RecorderContext, wanted: ExportScope) -> None:
        self._ws = context.workspace
        self._wanted = wanted
        self._owning = Owning(context)
        self._portions = Portions(context, self._owning)

    def commits(self) -> Iterator[tuple[Oid, CommitChange]]:
        """Yield each commit that brought a line of a known author, oldest first."""
        for commit in self._listed():
            info = self._ws.repo.commit(commit)
            person = info.author.decode("utf-8", "replace")
            parts = self._portions.added_by(commit, ())
            files = list(self._files(parts, person))
            if files:
                ts_ns = info.author_time * 1_000_000_000
                yield commit, CommitChange(commit, ts_ns, files)

    def uncommitted(self) -> CommitChange | None:
        """Return uncommitted lines; None if there are none, or if commits were named."""
        if self._wanted.commits is not None:
            return None
        newest = 0
        files: list[FileSpans] = []
        for part in self._portions.uncommitted():
            files += self._files([part], "")
            if isinstance(part, Portion):
                events = [credit.event for credit in part.owned.credits]
                newest = max([newest, *(e.ts_ns for e in events if e is not None)])
        return CommitChange(None, newest, files) if files else None

    def seqs(self) -> Seqs:
        """Return the events that wrote a line of the chosen commits."""
        found: set[int] = set()
        for commit in self._listed():
            for part in self._portions.added_by(commit, ()):
                if isinstance(part, Portion):
                    credits = (part.owned.credits[line - 1] for line in part.lines)
                    found.update(c.event.seq for c in credits if c.event is not None)
        return found

    def _listed(self) -> Sequence[Oid]:
        if self._wanted.commits is not None:
            return self._wanted.commits
        head = self._ws.repo.head()[1]
        if head is None:
            return ()
        return self._ws.git.commits_between(self._owning.recorded_since(), head)

    def _files(
        self, parts: Iterator[Part] | Sequence[Part], person: str
    ) -> Iterator[FileSpans]:
        for part in parts:
            if not isinstance(part, Portion):
                continue
            found: dict[SpanWriter, list[int]] = {}
            for line in part.lines:
                writer = self._writer(part.owned.credits[line - 1], person)
                if writer is not None:
                    found.setdefault(writer, []).append(line)
            if found:
                spans = [(writer, runs(lines)) for writer, lines in found.items()]
                yield FileSpans(part.owned.path, part.owned.data, spans)

    def _writer(self, credit: Credit, person: str) -> SpanWriter | None:
        """Return the agent or person to name for a line; None if the author is unknown."""
        # A guess must not become a fact in another tool: lines of an unknown author are left out.
        event, session = credit.event, credit.session
        if event is None or session is None or credit.actor is Actor.UNKNOWN:
            return None
        if self._wanted.sessions and session not in self._wanted.sessions:
            return None
        if credit.actor is Actor.HUMAN:
            return SpanWriter(person=person)
        known = sessions.get(self._ws.db, session)
        return SpanWriter(
            agent=credit.agent,
            session=session,
            native=known.native_id if known is not None else session,
            model=sessions.model_at(self._ws.db, session, event.ts_ns),
            part=credit.call or credit.turn,
            confidence=credit.confidence.value,
            person=person,
        )


def export_events(
    context: RecorderContext, request: ExportEventsRequest
) -> ExportEventsAnswer:
    """Return a page of our own format.

    The first page (`after` is 0) begins with header, sessions, models, turns and calls.
    """
    after = request.after
    if not after:
        context.observer.settle()
    wanted = chosen(context, request.words)
    db, form = context.workspace.db, context.workspace.repo.format
    seqs = None if wanted.commits is None else Exporter(context, wanted).seqs()
    page = events.page(db, after, _PAGE)
    lines: list[JsonObject] = []
    if not after:
        lines.append(event_lines.header(machine.current(db), form))
        lines += _context(db, _sessions(db, wanted.sessions, seqs))
    for event in page:
        session = None if isinstance(event, Gap) else event.attribution.session
        mine = not wanted.sessions or session in wanted.sessions
        if mine and (seqs is None or event.seq in seqs):
            lines.append(event_lines.event_line(event))
    more = page[-1].seq if len(page) == _PAGE else None
    return ExportEventsAnswer(tuple(lines), more)


def _sessions(db: Db, wanted: frozenset[str], seqs: Seqs | None) -> list[Session]:
    found = sessions.all_sessions(db)[::-1]
    if seqs is not None:
        rows = (events.get(db, seq) for seq in seqs)
        wrote = {
            one.attribution.session for one in rows if isinstance(one, CommitEvent)
        }
        found = [one for one in found if one.id in wrote]
    return [one for one in found if not wanted or one.id in wanted]


def _context(db: Db, found: Sequence[Session]) -> Iterator[JsonObject]:
    for one in found:
        yield event_lines.session_line(one)
    for one in found:
        for since_ns, model in sessions.models_of(db, one.id):
            yield event_lines.model_line(one.id, since_ns, model)
    for one in found:
        yield from map(event_lines.turn_line, turns.list_turns(db, one.id))
    for one in found:
        yield from map(event_lines.call_line, turns.list_calls(db, one.id))


def export_traces(
    context: RecorderContext, request: ExportRequest
) -> ExportTracesAnswer:
    """Return Agent Trace records: of each commit, then of what is not committed."""
    context.observer.settle()
    exporter = Exporter(context, chosen(context, request.words))
    records: list[JsonObject] = []
    left_out: list[RepoPath] = []
    for change in _changes(exporter):
        named = [one for one in change.files if agent_trace.is_expressible(one.path)]
        left_out += [one.path for one in change.files if one not in named]
        origin = TraceOrigin(change.commit, change.timestamp)
        records += agent_trace.records(origin, named)
    return ExportTracesAnswer(tuple(records), _left_out(left_out))


def _changes(exporter: Exporter) -> Iterator[CommitChange]:
    for _, change in exporter.commits():
        yield change
    last = exporter.uncommitted()
    if last is not None:
        yield last


def export_notes(context: RecorderContext, request: ExportRequest) -> ExportNotesAnswer:
    """Return, and without `dry_run` write, git-ai's notes of commits."""
    context.observer.settle()
    exporter = Exporter(context, chosen(context, request.words))
    found: dict[Oid, bytes] = {}
    left_out: list[RepoPath] = []
    for commit, change in exporter.commits():
        note = authorship.format_note(commit, change.files)
        if note is not None:
            left_out += note.left_out
            if note.text:
                found[commit] = note.text
    written = bool(found) and not request.dry_run
    if written:
        authorship.refuse_beside_git_ai(context)
        authorship.write_notes(context, found, authorship.notes_state(context))
    return ExportNotesAnswer(
        ref=authorship.NOTES_REF,
        written=written,
        notes=tuple(
            CommitNote(commit, text.decode("utf-8")) for commit, text in found.items()
        ),
        left_out=_left_out(left_out),
    )


def export_remove(
    context: RecorderContext, request: ExportRemoveRequest
) -> ExportRemoveAnswer:
    """Remove, unless `dry_run`, the notes that `export_notes` wrote."""
    before = authorship.notes_state(context)
    if not request.dry_run:
        authorship.remove_notes(context, before)
    return ExportRemoveAnswer(authorship.NOTES_REF, before.count, request.dry_run)


def _left_out(paths: list[RepoPath]) -> tuple[UnnamedFile, ...]:
    return tuple(
        UnnamedFile(display_path(path), _UNNAMED) for path in sorted(set(paths))
    )
