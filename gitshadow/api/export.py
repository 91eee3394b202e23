"""export: who wrote which line, or what happened, in a form that others read."""

from collections.abc import Iterator

from gitshadow.api import Document, Params
from gitshadow.interchange import agent_trace, authorship, export
from gitshadow.interchange.agent_trace import TraceOrigin
from gitshadow.interchange.export import CommitChange, Exporting
from gitshadow.model import Oid, RepoPath
from gitshadow.query import params as read
from gitshadow.query.rows import Row
from gitshadow.recording.context import RecorderContext
from gitshadow.store.refs import display_path

_UNNAMED = "its name cannot be written in this format"


def export_traces(context: RecorderContext, params: Params) -> Document:
    """Return Agent Trace records: of each commit, then of what is not committed."""
    context.observer.settle()
    exporter = Exporting(context, export.chosen(context, params))
    records: list[Row] = []
    left_out: list[RepoPath] = []
    for change in _changes(exporter):
        named = [one for one in change.files if agent_trace.is_expressible(one.path)]
        left_out += [one.path for one in change.files if one not in named]
        origin = TraceOrigin(change.commit, change.timestamp)
        records += agent_trace.records(origin, named)
    return {"records": records, "left_out": _left_out(left_out)}


def _changes(exporter: Exporting) -> Iterator[CommitChange]:
    yield from exporter.commits()
    last = exporter.uncommitted()
    if last is not None:
        yield last


def export_notes(context: RecorderContext, params: Params) -> Document:
    """Return, and without `dry_run` write, git-ai's notes of commits."""
    context.observer.settle()
    exporter = Exporting(context, export.chosen(context, params))
    found: dict[Oid, bytes] = {}
    left_out: list[RepoPath] = []
    for change in exporter.commits():
        assert change.commit is not None
        note = authorship.format_note(change.commit, change.files)
        if note is not None:
            left_out += note.left_out
            if note.text:
                found[change.commit] = note.text
    written = False
    if found and not read.flag(params, "dry_run"):
        authorship.refuse_beside_git_ai(context)
        authorship.write_notes(context, found, authorship.notes_state(context))
        written = True
    return {
        "ref": authorship.NOTES_REF,
        "written": written,
        "notes": [
            {"commit": commit, "text": text.decode("utf-8")}
            for commit, text in found.items()
        ],
        "left_out": _left_out(left_out),
    }


def export_remove(context: RecorderContext, params: Params) -> Document:
    """Take back, unless `dry_run`, the notes that `export_notes` wrote."""
    before = authorship.notes_state(context)
    dry_run = read.flag(params, "dry_run")
    if not dry_run:
        authorship.remove_notes(context, before)
    return {"ref": authorship.NOTES_REF, "removed": before.count, "dry_run": dry_run}


def _left_out(paths: list[RepoPath]) -> list[Row]:
    return [
        {"path": display_path(path), "reason": _UNNAMED} for path in sorted(set(paths))
    ]
