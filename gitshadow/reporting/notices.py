"""What a session is told when its work was taken back, or came back: once, at its next prompt.

Nothing is queued. What there is to tell follows from the ops in effect; per session it is kept
which ops it knows of as in effect, and up to which op it was looked for.
Invariant: a session is told of an op at most once while that is in effect, and never of one that
it ran itself or that was taken back before it was told; that it came back, where it was told.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from gitshadow.model import Actor, Op, OpKind, Session
from gitshadow.query.rows import rfc3339
from gitshadow.recording.context import RecorderContext
from gitshadow.store.journal import events, meta, ops, sessions
from gitshadow.store.journal.db import Db
from gitshadow.store.journal.events import EventFilter
from gitshadow.store.journal.ops import EndedOps
from gitshadow.store.refs import display_path, parse_path, quote
from gitshadow.undo.effective import EffectiveOps, standing
from gitshadow.undo.targets import events_of, family, root_of, unit_of_ids

_TOLD = "told"
_OPS_SHOWN = 3
_PATHS_SHOWN = 6
_PATH_CHARACTERS = 160
_FIRST = (
    "gitshadow: work of this session was undone since your last turn. These files no"
    " longer contain it; read them again before you build on them."
)
_AGAIN = "gitshadow: an undo of this session's work was reversed"


class _Mark(NamedTuple):
    """Store which ops had ended when a session was told last, and which of them it knows of."""

    looked: EndedOps = EndedOps(0, 0)
    told: tuple[str, ...] = ()


class _Reader(NamedTuple):
    """Store a session: since when, which sessions' work is its own, and who counts as itself."""

    since_ns: int
    mine: Collection[str]
    around: Collection[str]

    @classmethod
    def of(cls, db: Db, session: Session) -> "_Reader":
        around = family(db, root_of(db, session.id))
        return cls(session.started_ns, set(family(db, session.id)), set(around))


class _Change(NamedTuple):
    """Store an op, and the paths of a session's work that it took back or brought back."""

    op: Op
    paths: Sequence[str]


def take(context: RecorderContext, session: str) -> str:
    """Return what a session is to be told now, empty if nothing; it is not told again."""
    db = context.workspace.db
    known, ended = sessions.get(db, session), ops.ended(db)
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
    """Return what a session is to be told, by the agent's own id of it, as `take` does."""
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
    kept = {one: mark for one, mark in marks.items() if sessions.get(db, one)}
    with db.write():
        meta.put(db, _TOLD, json.dumps(kept))


def _taken_back(db: Db, reader: _Reader, now: EffectiveOps) -> Iterator[_Change]:
    """Yield the ops in effect that others ran and that took work of a session back."""
    for op in now.ops:
        if op.ts_ns > reader.since_ns and op.kind is not OpKind.REDO:
            paths = [] if op.session in reader.around else paths_of(db, op, reader.mine)
            if paths:
                yield _Change(op, paths)


def _brought_back(
    db: Db, reader: _Reader, now: EffectiveOps, told: Sequence[str]
) -> Iterator[_Change]:
    """Yield what others took back of the ops that a session was told of."""
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
    # A crash ended it after its commit, before its report.
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
    """Yield one line for all that came back; what happened to it is on the disk to see."""
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
    said = quote(parse_path(path))
    return said if len(said) <= _PATH_CHARACTERS else f"{said[:_PATH_CHARACTERS]}…"
