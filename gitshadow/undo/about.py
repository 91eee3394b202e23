"""What an undo is about: whose work, of which turn, asked for by which prompt, and when.

Invariant: only reads the journal; what an op undid counts as what it is about itself.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gitshadow.model import Actor, OpKind, PathChange, RepoPath
from gitshadow.store.journal import ops, sessions, turns
from gitshadow.store.journal.db import Db
from gitshadow.undo.targets import root_of, stretches_of, unit_of_ids

_PROMPT_CHARS = 200
# An undo of an undo is about what the first one undid; the journal keeps nothing further back.
_NESTED = 8


class About(NamedTuple):
    """The work of one agent, or one person, in one turn.

    `ordinal` is the turn's number in its session, `turns` the highest one there, `prompt` the
    beginning of its prompt on one line. `kind` is set for a restore, which has no turn.
    `turn_short` is the turn's short id.
    """

    actor: Actor
    agent: str | None
    session: str
    turn: str | None
    ordinal: int | None
    turns: int
    prompt: str
    newest_ns: int
    files: int
    kind: OpKind | None = None
    turn_short: str = ""


def about(db: Db, worktree: str, rows: Iterable[PathChange]) -> tuple[About, ...]:
    """Return what some events are about, the newest first."""
    roots: dict[str, str] = {}
    groups: dict[tuple[str, str | None, OpKind | None], list[PathChange]] = {}
    for row, kind in _written(db, worktree, list(rows), _NESTED):
        who = row.attribution
        if who.session not in roots:
            roots[who.session] = root_of(db, who.session)
        root = roots[who.session]
        # A subagent's turn is `<turn>/<child>`: the user asked for the first part only.
        turn = (
            who.turn.split("/", 1)[0] if who.turn and root != who.session else who.turn
        )
        groups.setdefault((root, turn, kind), []).append(row)
    found = [_about(db, *key, rows) for key, rows in groups.items()]
    return tuple(sorted(found, key=lambda one: one.newest_ns, reverse=True))


def _written(
    db: Db, worktree: str, rows: Sequence[PathChange], depth: int
) -> list[tuple[PathChange, OpKind | None]]:
    """Return events with the ops among them replaced by what these undid."""
    found: list[tuple[PathChange, OpKind | None]]
    found = [(row, None) for row in rows if row.op is None]
    for op_id in dict.fromkeys(row.op for row in rows if row.op is not None):
        op = ops.get(db, op_id)
        # The ends of a stretch are the newest and of the same author and path as all of it.
        undone: Sequence[PathChange] = (
            stretches_of(db, worktree, unit_of_ids(db, op.undoes)).rows
            if op is not None and depth
            else ()
        )
        if undone:
            found += _written(db, worktree, undone, depth - 1)
        else:
            kind = op.kind if op is not None else OpKind.RESTORE
            found += [(row, kind) for row in rows if row.op == op_id]
    return found


def _about(
    db: Db,
    session: str,
    turn: str | None,
    kind: OpKind | None,
    rows: Sequence[PathChange],
) -> About:
    known = sessions.get(db, session)
    near = turns.near(db, session, turn)
    of_turn = next((one for one in near if one.id == turn), None)
    prompt = (of_turn.prompt or "")[: _PROMPT_CHARS * 2] if of_turn is not None else ""
    paths: set[RepoPath | None] = {row.path for row in rows}
    return About(
        actor=known.actor if known is not None else Actor.UNKNOWN,
        agent=known.agent if known is not None else None,
        session=session,
        turn=turn,
        ordinal=of_turn.ordinal if of_turn is not None else None,
        turns=max((one.ordinal for one in near), default=0),
        prompt=" ".join(prompt.split())[:_PROMPT_CHARS],
        newest_ns=max(row.ts_ns for row in rows),
        files=len(paths),
        kind=kind,
        turn_short=of_turn.short_id if of_turn is not None else "",
    )
