"""The rows of the table of events as values, and back."""

import json

from gitshadow.model import (
    PLAIN_MODES,
    Actor,
    Attribution,
    Baseline,
    Confidence,
    Event,
    EventKind,
    FileVersion,
    Gap,
    HeadChange,
    PathChange,
)
from gitshadow.store.journal.db import Row, version_cells

_COLUMNS = (
    "seq, ts_ns, worktree, kind, path, old_path, before_oid, before_mode, after_oid,"
    " after_mode, actor, session, agent, turn, call, tool, confidence, reason,"
    " candidates, burst, commit_oid, op, offline, switched, note, moved_in,"
    " inexact"
)
SELECT = f"SELECT {_COLUMNS} FROM events"
INSERT = f"INSERT OR IGNORE INTO events ({_COLUMNS}) VALUES ({', '.join('?' * 27)})"
# SQLite uses the partial index `events_rare` only if the query has its condition word for word
# (https://sqlite.org/partialindex.html). Without it each of these queries reads the whole table.
RARE = "kind IN ('gap', 'head', 'baseline', 'coverage')"


def values_of(event: Event) -> Row:
    """Return the cells of an event, in the order of the columns."""
    head = (event.seq, event.ts_ns, event.worktree, event.kind.value)
    if isinstance(event, PathChange):
        return (
            *head,
            event.path,
            event.old_path,
            *version_cells(event.before),
            *version_cells(event.after),
            *attribution_values(event.attribution),
            event.burst,
            event.commit,
            event.op,
            int(event.offline),
            int(event.switched),
            None,
            int(event.moved_in),
            int(event.inexact),
        )
    if isinstance(event, Gap):
        rest = (None, None, None, 0, 0, event.note, 0, 0)
        return (*head, event.path, *(None,) * 5, *(None,) * 9, *rest)
    who = attribution_values(event.attribution)
    modes: tuple[int | None, int | None] = None, None
    note, files = None, 0
    if isinstance(event, HeadChange):
        note, files = event.note, event.files
        modes = event.modes if files else modes
    cells = (None, None, None, modes[0], None, modes[1])
    return (*head, *cells, *who, None, event.commit, None, 0, files, note, 0, 0)


def attribution_values(who: Attribution) -> Row:
    """Return the columns from `actor` to `candidates` of a row that has an author."""
    return (
        who.actor.value,
        who.session,
        who.agent,
        who.turn,
        who.call,
        who.tool,
        who.confidence.value,
        who.reason,
        json.dumps(who.candidates) if who.candidates else None,
    )


def event_of(row: Row) -> Event:
    """Return the event of a row of `SELECT`."""
    seq, ts_ns, worktree, kind = row[0], row[1], row[2], EventKind(row[3])
    if kind is EventKind.GAP:
        return Gap(seq, ts_ns, worktree, row[24], row[4])
    who = Attribution(
        actor=Actor(row[10]),
        session=row[11],
        agent=row[12],
        turn=row[13],
        call=row[14],
        tool=row[15],
        confidence=Confidence(row[16]),
        reason=row[17],
        candidates=tuple(json.loads(row[18])) if row[18] else (),
    )
    if kind is EventKind.HEAD:
        modes = (row[7], row[9]) if row[23] else PLAIN_MODES
        return HeadChange(seq, ts_ns, worktree, who, row[20], row[24], row[23], modes)
    if kind is EventKind.BASELINE:
        return Baseline(seq, ts_ns, worktree, who, row[20])
    return PathChange(
        seq,
        ts_ns,
        worktree,
        kind,
        row[4],
        who,
        row[20],
        row[5],
        None if row[6] is None else FileVersion(row[6], row[7]),
        None if row[8] is None else FileVersion(row[8], row[9]),
        row[19],
        row[21],
        row[22] != 0,
        row[23] != 0,
        row[25] != 0,
        row[26] != 0,
    )
