"""The notice that a session gets at its next prompt if its work was undone, or redone.

A session gets one notice of an op, and none of its own ops or of ops that were reversed before
the notice. If an op that it knows of is reversed, it gets a notice of that.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from gitshadow.model import Actor, Op, OpKind, Session
from gitshadow.query.rows import rfc3339
from gitshadow.recording.context import RecorderContext
from gitshadow.store.journal import alerts, events, meta, ops, sessions
from gitshadow.store.journal.alerts import Alert
from gitshadow.store.journal.db import Db
from gitshadow.store.journal.events import EventFilter
from gitshadow.store.journal.ops import EndedOps
from gitshadow.store.refs import display_path, parse_path, quote
from gitshadow.undo.effective import EffectiveOps, standing
from gitshadow.undo.targets import events_of, family, root_of, unit_of_ids

# Nothing is queued: the ops in effect say what there is to tell. Per session the journal keeps only
# which ops the session knows of, and which ops had ended then, so a crash loses no notice.
_TOLD = "told"
_OPS_SHOWN = 3
_PATHS_SHOWN = 6
# The notice goes into a model's context, which costs tokens: it names a few paths, not all.
_PATH_CHARACTERS = 160
_FIRST = (
    "gitshadow: work of this session was undone since your last turn. These files no"
    " longer contain it; read them again before you build on them."
)
_AGAIN = "gitshadow: an undo of this session's work was reversed"


class _Mark(NamedTuple):
    """Which ops had ended at a session's last notice, and which of them it knows of."""

    looked: EndedOps = EndedOps(0, 0)
    told: tuple[str, ...] = ()


class _Reader(NamedTuple):
    """A session: since when it runs, whose work is its own, and whose ops are its own."""

    since_ns: int
    mine: Collection[str]
    around: Collection[str]

    @classmethod
    def of(cls, db: Db, session: Session) -> "_Reader":
        around = family(db, root_of(db, session.id))
        return cls(session.started_ns, set(family(db, session.id)), set(around))


class _Change(NamedTuple):
    """An op, and the paths of a session's work that it undid or redid."""

    op: Op
    paths: Sequence[str]


def take(context: RecorderContext, session: str) -> str:
    """Return the notice for a session, empty if there is none; it is not repeated."""
    db = context.workspace.db
    alarming = "\n".join(map(_alert_line, alerts.take_untold(db, session)))
    undone = _of_undos(db, session)
    return "\n".join(part for part in (alarming, undone) if part)


def _alert_line(alert: Alert) -> str:
    return (
        f"gitshadow: the user was alerted that a turn of this session {alert.text}."
        " Tell the user if that was not intended."
    )


def _of_undos(db: Db, session: str) -> str:
    known, ended = sessions.get(db, session), ops.ended(db)
    # The common case first, without a look at any op: nothing was undone since the session began.
    if known is None or ended.newest_ns <= known.started_ns:
        return ""
    marks = _marks(db)
    mark = marks.get(session, _Mark())
    if mark.looked == ended:
        return ""
    reader = _Reader.of(db, known)
    now = standing(db)
    gone = list(_taken_back(db, reader, now))
    again = list(_brought_back(db, reader, now, mark.told))
    _remember(db, {**marks, session: _Mark(ended, tuple(one.op.id for one in gone))})
    fresh = [change for change in gone if change.op.id not in mark.told]
    return "\n".join([*_lines(db, fresh), *_lines_again(again)])


def tell(context: RecorderContext, agent: str, native: str) -> str:
    """Return the notice for a session by the agent's own id of it, as `take` does."""
    known = sessions.find_native(context.workspace.db, agent, native)
    return take(context, known.id) if known is not None else ""


def _marks(db: Db) -> Mapping[str, _Mark]:
    rows: dict[str, tuple[tuple[int, int], list[str]]]
    rows = json.loads(meta.get(db, _TOLD) or "{}")
    return {
        session: _Mark(EndedOps(*looked), tuple(told))
        for session, (looked, told) in rows.items()
    }


def _remember(db: Db, marks: Mapping[str, _Mark]) -> None:
    # Marks of sessions that were pruned would stay for ever.
    kept = {one: mark for one, mark in marks.items() if sessions.get(db, one)}
    with db.write():
        meta.put(db, _TOLD, json.dumps(kept))


def _taken_back(db: Db, reader: _Reader, now: EffectiveOps) -> Iterator[_Change]:
    """Yield the ops in effect that others ran and that undid work of a session."""
    for op in now.ops:
        if op.ts_ns > reader.since_ns and op.kind is not OpKind.REDO:
            paths = [] if op.session in reader.around else paths_of(db, op, reader.mine)
            if paths:
                yield _Change(op, paths)


def _brought_back(
    db: Db, reader: _Reader, now: EffectiveOps, told: Sequence[str]
) -> Iterator[_Change]:
    """Yield what others undid of the ops that were reported to a session."""
    for known in told:
        op, undoer = ops.get(db, known), now.undone_by.get(known)
        if op is None or undoer is None or undoer.session in reader.around:
            continue
        changed = set(paths_of(db, undoer))
        paths = [path for path in paths_of(db, op, reader.mine) if path in changed]
        if paths:
            yield _Change(undoer, paths)


def paths_of(db: Db, op: Op, whose: Collection[str] | None = None) -> list[str]:
    """Return the paths that an op changed, of work of these sessions alone where it says."""
    if op.report is not None:
        items = json.loads(op.report)["items"]
        return [
            path
            for item in items
            if (whose is None or item["session"] in whose) and item["action"] != "none"
            for path in (item.get("old_path"), item["path"])
            if path is not None
        ]
    # Without a report: a crash ended the op after its commit. Its events name the paths.
    found = {row.path for row in events.changes(db, EventFilter(op=op.id))}
    if whose is not None:
        taken = events_of(db, op.worktree, unit_of_ids(db, op.undoes))
        found &= {one.path for one in taken if one.attribution.session in whose}
    return [display_path(path) for path in sorted(found)]


def _lines(db: Db, found: Sequence[_Change]) -> Iterator[str]:
    """Yield the notice, newest op first, without a character that is not printed as it is."""
    if not found:
        return
    yield _FIRST
    for op, paths in found[:_OPS_SHOWN]:
        who = who_ran(db, op)
        yield f"- {rfc3339(op.ts_ns)}, by {who} ({op.kind.value}): {_listed(paths)}"
    if len(found) > _OPS_SHOWN:
        yield f"- and {len(found) - _OPS_SHOWN} times before"


def _lines_again(found: Sequence[_Change]) -> Iterator[str]:
    """Yield one line for everything that was redone; its content is on the disk."""
    if found:
        paths = [path for change in found for path in change.paths]
        yield f"{_AGAIN}: {_listed(paths)}. Read these files again."


def _listed(paths: Sequence[str]) -> str:
    shown = [_shown(path) for path in dict.fromkeys(paths)]
    rest = len(shown) - _PATHS_SHOWN
    return ", ".join(shown[:_PATHS_SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def who_ran(db: Db, op: Op) -> str:
    """Return who ran an op, in words for an agent."""
    runner = sessions.get(db, op.session)
    if runner is None or runner.actor is not Actor.AGENT:
        return "the user"
    return f"another session ({quote(runner.id.encode())})"


def _shown(path: str) -> str:
    # The name of a file could contain instructions for a model. Quoted, it has no line breaks.
    said = quote(parse_path(path))
    return said if len(said) <= _PATH_CHARACTERS else f"{said[:_PATH_CHARACTERS]}…"
