"""export: who wrote which line, or what happened, in a form that others read."""

from collections.abc import Iterator, Sequence

from gitshadow.interchange import agent_trace, authorship, event_lines, export
from gitshadow.interchange.agent_trace import TraceOrigin
from gitshadow.interchange.export import CommitChange, Exporting
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
    LeftOut,
)
from gitshadow.model import CommitEvent, Gap, Oid, RepoPath, Session
from gitshadow.recording.context import RecorderContext
from gitshadow.store import machine
from gitshadow.store.journal import events, sessions, turns
from gitshadow.store.journal.db import Db
from gitshadow.store.refs import display_path

_UNNAMED = "its name cannot be written in this format"
_PAGE = 20_000


def export_events(
    context: RecorderContext, request: ExportEventsRequest
) -> ExportEventsAnswer:
    """Return a page of our own format.

    The first page (`after` is 0) begins with header, sessions, models, turns and calls.
    """
    after = request.after
    if not after:
        context.observer.settle()
    wanted = export.chosen(context, request.words)
    db = context.workspace.db
    seqs = None if wanted.commits is None else Exporting(context, wanted).seqs()
    page = events.page(db, after, _PAGE)
    lines: list[JsonObject] = []
    if not after:
        lines.append(event_lines.header(machine.current(db)))
        lines += _context(db, _sessions(db, wanted.sessions, seqs))
    for event in page:
        session = None if isinstance(event, Gap) else event.attribution.session
        mine = not wanted.sessions or session in wanted.sessions
        if mine and (seqs is None or event.seq in seqs):
            lines.append(event_lines.event_line(event))
    more = page[-1].seq if len(page) == _PAGE else None
    return ExportEventsAnswer(tuple(lines), more)


def _sessions(
    db: Db, wanted: frozenset[str], seqs: export.Seqs | None
) -> list[Session]:
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
    exporter = Exporting(context, export.chosen(context, request.words))
    records: list[JsonObject] = []
    left_out: list[RepoPath] = []
    for change in _changes(exporter):
        named = [one for one in change.files if agent_trace.is_expressible(one.path)]
        left_out += [one.path for one in change.files if one not in named]
        origin = TraceOrigin(change.commit, change.timestamp)
        records += agent_trace.records(origin, named)
    return ExportTracesAnswer(tuple(records), _left_out(left_out))


def _changes(exporter: Exporting) -> Iterator[CommitChange]:
    for _, change in exporter.commits():
        yield change
    last = exporter.uncommitted()
    if last is not None:
        yield last


def export_notes(context: RecorderContext, request: ExportRequest) -> ExportNotesAnswer:
    """Return, and without `dry_run` write, git-ai's notes of commits."""
    context.observer.settle()
    exporter = Exporting(context, export.chosen(context, request.words))
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


def _left_out(paths: list[RepoPath]) -> tuple[LeftOut, ...]:
    return tuple(LeftOut(display_path(path), _UNNAMED) for path in sorted(set(paths)))
