"""Rows of documents as frozen values; a missing field is empty here.

Invariant: pure; everything shown is in a verb's `--json` too.
"""

from collections.abc import Mapping
from typing import NamedTuple

from gitshadow.messages.states import FileDiff
from gitshadow.render.document import Document, flag, number, rows, text, texts


class EventRow(NamedTuple):
    """One row of `log`: a change of one path, or an event of the recording."""

    seq: int
    ts: str
    kind: str
    path: str = ""
    old_path: str = ""
    actor: str = ""
    agent: str = ""
    session: str = ""
    turn: str = ""
    tool: str = ""
    confidence: str = ""
    burst: str = ""
    op: str = ""
    note: str = ""
    prompt: str = ""
    switched: bool = False


class OpRow(NamedTuple):
    """One row of `ops`: an undo, redo or restore, and the ids that it undid."""

    id: str
    kind: str
    ts: str
    target: str = ""
    undoes: tuple[str, ...] = ()
    status: str = ""
    undone_by: str = ""


class PinRow(NamedTuple):
    """One row of `pins`."""

    name: str
    ts: str


class FileRow(NamedTuple):
    """One changed file: of a unit, or between a moment and now."""

    path: str
    kind: str
    old_path: str = ""
    added: int = -1
    removed: int = -1


def events_in(document: Document, key: str = "rows") -> tuple[EventRow, ...]:
    """Return the events of a document, in its order."""
    return tuple(_event(row) for row in rows(document, key))


def ops_in(document: Document) -> tuple[OpRow, ...]:
    """Return the ops of a document, in its order."""
    return tuple(
        OpRow(
            id=text(row, "id"),
            kind=text(row, "kind"),
            ts=text(row, "ts"),
            target=text(row, "target"),
            undoes=tuple(texts(row, "undoes")),
            status=text(row, "status"),
            undone_by=text(row, "undone_by"),
        )
        for row in rows(document, "rows")
    )


def pins_in(document: Document) -> tuple[PinRow, ...]:
    """Return the pins of a document, in its order."""
    return tuple(
        PinRow(text(row, "name"), text(row, "ts")) for row in rows(document, "rows")
    )


def files_in(document: Document) -> tuple[FileRow, ...]:
    """Return the files that a comparison of two moments lists."""
    return tuple(
        FileRow(
            text(row, "path"),
            text(row, "kind"),
            text(row, "old_path"),
            number(row, "added") if "added" in row else -1,
            number(row, "removed") if "removed" in row else -1,
        )
        for row in rows(document, "stat")
    )


def diffs_in(document: Document) -> tuple[FileDiff, ...]:
    """Return the changes of files that an answer with `hunks` has."""
    return tuple(
        FileDiff(
            text(row, "path"),
            text(row, "old_path"),
            tuple(texts(row, "header")),
            tuple(texts(row, "hunks")),
        )
        for row in rows(document, "file_diffs")
    )


def files_of(events: tuple[EventRow, ...]) -> tuple[FileRow, ...]:
    """Return the files that events changed, by name, each with its net change.

    Args:
        events: In any order of time; the oldest kind and the newest decide.
    """
    found: dict[str, FileRow] = {}
    for event in sorted(events):
        if not event.path:
            continue
        before = found.pop(event.old_path or event.path, None)
        found[event.path] = FileRow(
            event.path,
            _together(before, event),
            before.old_path if before else event.old_path,
        )
    return tuple(found[path] for path in sorted(found))


def _together(before: FileRow | None, event: EventRow) -> str:
    if before is None or before.kind == event.kind:
        return event.kind
    if event.kind == "delete":
        return "delete"
    return before.kind if before.kind in ("create", "rename") else event.kind


def _event(row: Mapping[str, object]) -> EventRow:
    return EventRow(
        seq=number(row, "seq"),
        ts=text(row, "ts"),
        kind=text(row, "kind"),
        path=text(row, "path"),
        old_path=text(row, "old_path"),
        actor=text(row, "actor"),
        agent=text(row, "agent"),
        session=text(row, "session"),
        turn=text(row, "turn"),
        tool=text(row, "tool"),
        confidence=text(row, "confidence"),
        burst=text(row, "burst"),
        op=text(row, "op"),
        note=text(row, "note") or text(row, "reason") * (not text(row, "path")),
        prompt=text(row, "prompt"),
        switched=flag(row, "switched"),
    )
