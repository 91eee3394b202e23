"""What a session is told when its work was taken back: once, at its next prompt.

Nothing is queued. What there is to tell follows from the ops in effect; a mark per session says
up to which of them it was told.
Invariant: a session is told of an op at most once, and never of one that it ran itself or that
was taken back in its turn.
"""

import json
from collections.abc import Collection, Iterator, Mapping

from gitshadow.engine.desk import Desk
from gitshadow.engine.rows import rfc3339
from gitshadow.model import Actor, Op, OpKind
from gitshadow.store.journal import events, meta, ops, sessions
from gitshadow.store.journal.db import Db
from gitshadow.store.journal.events import EventFilter
from gitshadow.store.refs import display_path, parse_path, quote
from gitshadow.undo.effective import effective_ops
from gitshadow.undo.targets import events_of, family, root_of, unit_of_ids

_TOLD = "told"
_OPS_SHOWN = 3
_PATHS_SHOWN = 6
_PATH_CHARACTERS = 160
_FIRST = (
    "gitshadow: work of this session was taken back since your last turn. These files no"
    " longer hold it; read them again before you build on them."
)


def take(desk: Desk, session: str) -> str:
    """Return what a session is to be told now, empty if nothing; it is not told again."""
    db = desk.workspace.db
    known = sessions.get(db, session)
    newest_ns = ops.newest_ns(db)
    if known is None or newest_ns is None:
        return ""
    told = _told(db)
    floor_ns = max(known.started_ns, told.get(session, 0))
    if newest_ns <= floor_ns:
        return ""
    mine = set(family(db, session))
    around = set(family(db, root_of(db, session)))
    found: dict[str, tuple[Op, list[str]]] = {}
    for op in effective_ops(db):
        if op.ts_ns > floor_ns and op.kind is not OpKind.REDO:
            paths = [] if op.session in around else _paths(db, op, mine)
            if paths:
                found[op.id] = (op, paths)
    if not found:
        return ""
    with db.write():
        marks = {one: at for one, at in told.items() if sessions.get(db, one)}
        marks[session] = max(op.ts_ns for op, _ in found.values())
        meta.put(db, _TOLD, json.dumps(marks))
    return "\n".join(_lines(db, list(found.values())))


def _told(db: Db) -> Mapping[str, int]:
    """Return the time of the newest op that each session was told of."""
    marks: dict[str, int] = json.loads(meta.get(db, _TOLD) or "{}")
    return marks


def _paths(db: Db, op: Op, mine: Collection[str]) -> list[str]:
    """Return the paths at which an op took work of these sessions back."""
    if op.report is not None:
        items = json.loads(op.report)["items"]
        return [
            path
            for item in items
            if item["session"] in mine and item["action"] != "none"
            for path in (item.get("old_path"), item["path"])
            if path is not None
        ]
    # A crash ended it after its commit, before its report.
    taken = events_of(db, op.worktree, unit_of_ids(db, op.undoes))
    whose = {
        one.path for one in taken if one.attribution and one.attribution.session in mine
    }
    rows = events.rows(db, EventFilter(op=op.id))
    return [display_path(row.path) for row in rows if row.path and row.path in whose]


def _lines(db: Db, found: list[tuple[Op, list[str]]]) -> Iterator[str]:
    """Yield the notice, newest op first, without a character that is not printed as it is."""
    yield _FIRST
    for op, paths in found[:_OPS_SHOWN]:
        shown = [_shown(path) for path in dict.fromkeys(paths)]
        rest = len(shown) - _PATHS_SHOWN
        more = f" and {rest} more" if rest > 0 else ""
        names = ", ".join(shown[:_PATHS_SHOWN])
        yield f"- {rfc3339(op.ts_ns)}, by {_who(db, op)} ({op.kind.value}): {names}{more}"
    if len(found) > _OPS_SHOWN:
        yield f"- and {len(found) - _OPS_SHOWN} times before"


def _who(db: Db, op: Op) -> str:
    runner = sessions.get(db, op.session)
    if runner is None or runner.actor is not Actor.AGENT:
        return "the user"
    return f"another session ({quote(runner.id.encode())})"


def _shown(path: str) -> str:
    said = quote(parse_path(path))
    return said if len(said) <= _PATH_CHARACTERS else f"{said[:_PATH_CHARACTERS]}…"
