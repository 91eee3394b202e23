"""export: who wrote which line, or what happened, in a form that others read."""

from collections.abc import Iterator

from gitshadow.engine import exporting, notes
from gitshadow.engine import params as read
from gitshadow.engine.desk import Desk
from gitshadow.engine.exporting import Change, Exporting
from gitshadow.engine.rows import Row
from gitshadow.engine.verbs import Document, Params
from gitshadow.exchange import agent_trace, authorship
from gitshadow.exchange.agent_trace import Origin
from gitshadow.model import Oid, RepoPath
from gitshadow.store.refs import display_path

_UNNAMED = "its name cannot be written in this format"


def export_traces(desk: Desk, params: Params) -> Document:
    """Return Agent Trace records: of each commit, then of what is not committed."""
    desk.observer.settle()
    exporter = Exporting(desk, exporting.chosen(desk, params))
    records: list[Row] = []
    left_out: list[RepoPath] = []
    for change in _changes(exporter):
        named = [one for one in change.files if agent_trace.is_expressible(one.path)]
        left_out += [one.path for one in change.files if one not in named]
        origin = Origin(change.commit, change.timestamp)
        records += agent_trace.records(origin, named)
    return {"records": records, "left_out": _left_out(left_out)}


def _changes(exporter: Exporting) -> Iterator[Change]:
    yield from exporter.commits()
    last = exporter.uncommitted()
    if last is not None:
        yield last


def export_notes(desk: Desk, params: Params) -> Document:
    """Return, and without `dry_run` write, git-ai's notes of commits."""
    desk.observer.settle()
    exporter = Exporting(desk, exporting.chosen(desk, params))
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
        notes.refuse_beside_git_ai(desk)
        notes.write(desk, found, notes.standing(desk))
        written = True
    return {
        "ref": notes.REF,
        "written": written,
        "notes": [
            {"commit": commit, "text": text.decode("utf-8")}
            for commit, text in found.items()
        ],
        "left_out": _left_out(left_out),
    }


def export_remove(desk: Desk, params: Params) -> Document:
    """Take back, unless `dry_run`, the notes that `export_notes` wrote."""
    before = notes.standing(desk)
    dry_run = read.flag(params, "dry_run")
    if not dry_run:
        notes.take_back(desk, before)
    return {"ref": notes.REF, "removed": before.count, "dry_run": dry_run}


def _left_out(paths: list[RepoPath]) -> list[Row]:
    return [
        {"path": display_path(path), "reason": _UNNAMED} for path in sorted(set(paths))
    ]
