"""Resolve what people type to a target, and a target to its unit of events.

Besides ids there are addresses: `t12` and `u3`, which lists print, and `last`, `last~1`,
`last:FILE`, `@claude-code`. `last` is the newest turn in which an agent changed something here, or
its newest group of changes where its hooks report no turns; if none changed anything recorded, the
newest turn. `~N` goes N further back. `last:FILE` is the newest turn that changed the file, limited
to that file. A file is named from the top of the worktree, as in Git's `HEAD:FILE`.
Invariant: an address never means a person's work. What names nothing, or several things, is a
UsageError with a remedy. What is typed after `--` is always a path. What Git switched and changes
of coverage belong to no unit.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeGuard

from gitshadow.errors import UnknownIdError, UsageError
from gitshadow.model import (
    Actor,
    Burst,
    Call,
    Confidence,
    Event,
    EventKind,
    Op,
    PathChange,
    RepoPath,
    Session,
    Turn,
)
from gitshadow.store.journal import (
    bursts,
    events,
    ops,
    sessions,
    short_ids,
    stretches,
    turns,
)
from gitshadow.store.journal.db import Db
from gitshadow.store.journal.events import EventFilter
from gitshadow.store.journal.prune import tombstones
from gitshadow.store.journal.stretches import Singles, Stretches
from gitshadow.store.paths import any_within
from gitshadow.store.refs import parse_path

_SURE = frozenset({Confidence.CERTAIN, Confidence.HIGH, Confidence.MEDIUM})
_SHOWN = 8
# The shortest abbreviation that Git accepts, too: core.abbrev in git-config(1).
_LEAST_PREFIX = 4
_NO_SINGLES = Singles()
NEWEST = "last"
Named = Session | Turn | Call | Burst | Op | Event
Addressed = Turn | Burst | Op
ReadRows = Callable[[Db, EventFilter], Sequence[Event]]
_ADDRESS = re.compile(
    r"(?:last|@(?P<agent>[a-z0-9][a-z0-9._-]*))(?:~(?P<back>[0-9]{1,6}))?(?::(?P<path>.+))?",
    re.DOTALL,
)


def is_undoable(event: Event) -> TypeGuard[PathChange]:
    """Return whether an event is a change of a path that undo can revert."""
    if not isinstance(event, PathChange) or event.switched:
        return False
    return event.kind is not EventKind.COVERAGE


def is_agents(event: PathChange) -> bool:
    """Return whether an agent wrote it, for all that is known: at `medium` or better."""
    who = event.attribution
    return who.actor is Actor.AGENT and who.confidence in _SURE


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """Ids; an event belongs to the unit if one of them is its own.

    `turns` and `calls` are (session, id) pairs.
    """

    bursts: frozenset[str] = frozenset()
    sessions: frozenset[str] = frozenset()
    turns: frozenset[tuple[str, str]] = frozenset()
    calls: frozenset[tuple[str, str]] = frozenset()
    ops: frozenset[str] = frozenset()
    seqs: frozenset[int] = frozenset()

    def holds(self, event: PathChange) -> bool:
        """Return whether an event belongs to the unit."""
        if not is_undoable(event):
            return False
        if event.seq in self.seqs or event.burst in self.bursts:
            return True
        if event.op is not None:
            return event.op in self.ops
        who = event.attribution
        return (
            who.session in self.sessions
            or (who.session, who.turn) in self.turns
            or (who.session, who.call) in self.calls
        )

    def __or__(self, other: "Unit") -> "Unit":
        return Unit(
            bursts=self.bursts | other.bursts,
            sessions=self.sessions | other.sessions,
            turns=self.turns | other.turns,
            calls=self.calls | other.calls,
            ops=self.ops | other.ops,
            seqs=self.seqs | other.seqs,
        )


Undoings = Mapping[str, Unit]
"""What each recorded op undid, by op id."""


class Target(NamedTuple):
    """One word as typed; `path` is the path that it names, None outside the worktree."""

    text: str
    path: RepoPath | None = None
    path_only: bool = False


def resolve(db: Db, worktree: str, target: Target) -> Named | RepoPath:
    """Return what a target names: a thing of the journal, or a recorded path.

    A whole id comes before the beginning of one. A word that is the path of a recorded file as
    well is refused, unless it is too short to be taken for the beginning of an id.

    Raises:
        UsageError: nothing fits, or several things do.
    """
    if target.path_only:
        return _path(db, worktree, target)
    path = target.path
    # A whole id comes before a prefix: `1` is event 1, not the beginning of another id.
    found = _named_in_full(db, worktree, target)
    # It also comes before a file that only Git switched, of which nothing can be undone: to find
    # that out takes a look into the trees of every move of HEAD.
    rows = events.own_rows if found else events.rows
    if path is not None and not _is_recorded(db, worktree, path, rows):
        path = None
    if not found and (path is None or len(target.text) >= _LEAST_PREFIX):
        found = list(_beginning(db, target.text))
    if path is not None and found:
        shown = ", ".join(_described(one) for one in found[:_SHOWN])
        raise UsageError(
            f"ambiguous target '{target.text}': it is a file and also an id of {shown}",
            hint=f"for the file: -- {target.text}; for the id: type it in full",
        )
    if path is not None:
        return path
    if len(found) == 1:
        return found[0]
    if found:
        shown = ", ".join(_described(one) for one in found[:_SHOWN])
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        raise UsageError(
            f"ambiguous id '{target.text}': matches {len(found)} objects",
            hint=f"type more of it; it could be: {shown}{more}",
        )
    # Known, but gone: the error says so instead of denying that it ever was.
    pruned = [one for one in sorted(tombstones(db)) if one.startswith(target.text)]
    if pruned and target.text:
        raise UnknownIdError(
            f"cannot undo {target.text}: session {pruned[0]} was pruned",
            typed=target.text,
            hint="its recording is gone; to list the others: git agent-undo sessions",
        )
    raise UnknownIdError(
        f"cannot find {target.text}",
        typed=target.text,
        hint="to list ids: git agent-undo log, sessions, turns or ops",
    )


def _named_in_full(db: Db, worktree: str, target: Target) -> list[Named]:
    """Return what has exactly this id, or this address."""
    found: list[Named] = list(_exact(db, target.text))
    try:
        addressed = find_address(db, worktree, target.text)
    except UsageError:
        # A file may be called `last`.
        if target.path is None or not _is_recorded(db, worktree, target.path):
            raise
        return found
    if addressed is not None and addressed not in found:
        found.append(addressed)
    return found


def find_address(db: Db, worktree: str, typed: str) -> Addressed | None:
    """Return what an address names; None for a text that is no address.

    Raises:
        UsageError: it is one, and there is no such turn.
    """
    form = _ADDRESS.fullmatch(typed)
    if form is None:
        return _numbered(db, typed)
    back = int(form["back"] or 0)
    path = _file_of(form)
    seen: list[Turn | Burst] = []
    for one in newest_turns(db, worktree, form["agent"], path):
        if len(seen) == back:
            return one
        seen.append(one)
    if typed == NEWEST and not seen and (silent := turns.without_changes(db)):
        return silent[-1]
    what = f"turn of {form['agent']}" if form["agent"] else "turn of an agent"
    where = form["path"] or "anything here"
    raise UsageError(
        f"cannot find {typed}: no {what} is known to have changed {where}"
        if not seen
        else f"cannot find {typed}: only {len(seen)} such turns",
        hint="to list turns: git agent-undo turns",
    )


def _file_of(form: re.Match[str]) -> RepoPath | None:
    if not form["path"]:
        return None
    return RepoPath(os.path.normpath(parse_path(form["path"])))


def addressed_files(typed: Sequence[str]) -> tuple[RepoPath, ...]:
    """Return the file to which an address such as `last:FILE` limits a request, if any does.

    Raises:
        UsageError: one does, and other targets would not be limited to it.
    """
    forms = [form for text in typed if (form := _ADDRESS.fullmatch(text)) is not None]
    files = tuple(path for form in forms if (path := _file_of(form)) is not None)
    if files and len(typed) > 1:
        raise UsageError(
            f"cannot combine {typed[0]} with another target: it means one file",
            hint="for several files of one turn: TURN --only FILE --only FILE",
        )
    return files


def _numbered(db: Db, typed: str) -> Addressed | None:
    found = short_ids.find(db, typed)
    if found is None:
        return None
    if found.kind == short_ids.TURN:
        return turns.get_turn(db, found.session, found.id)
    return ops.get(db, found.id)


def newest_turns(
    db: Db, worktree: str, agent: str | None = None, path: RepoPath | None = None
) -> Iterator[Turn | Burst]:
    """Yield the turns in which agents changed something, newest first.

    A group of changes without a turn counts as one; a subagent's turn is its parent's.

    Args:
        db: The journal.
        worktree: Where the changes are.
        agent: Only turns of this agent.
        path: Only turns that changed this file, or something below this directory.
    """
    seen: set[tuple[str, str]] = set()
    for burst in bursts.list_bursts(db, worktree):
        session = sessions.get(db, burst.session)
        if session is None or session.actor is not Actor.AGENT:
            continue
        one = turn_of_burst(db, burst)
        key = (one.session, one.id)
        if key in seen:
            continue
        whose = sessions.get(db, one.session)
        if agent is not None and (whose is None or whose.agent != agent):
            continue
        if not _changed(db, worktree, one, path):
            continue
        seen.add(key)
        yield one


def turn_of_burst(db: Db, burst: Burst) -> Turn | Burst:
    """Return the turn of a burst, a subagent's parent's; the burst itself without a turn."""
    if burst.turn is None:
        return burst
    root = root_of(db, burst.session)
    # A subagent's turn is `<turn>/<child>`.
    whole = burst.turn.split("/", 1)[0] if root != burst.session else burst.turn
    found = turns.get_turn(db, root, whole)
    return found or turns.get_turn(db, burst.session, burst.turn) or burst


def _changed(db: Db, worktree: str, one: Turn | Burst, path: RepoPath | None) -> bool:
    """Return whether a turn surely changed something, below a path if there is one."""
    for row in events_of(db, worktree, unit_of(db, one)):
        fits = path is None or any_within((row.path, row.old_path), (path,))
        if fits and is_agents(row):
            return True
    return False


def undoes_of(thing: Named) -> str:
    """Return the id under which an op stores that it undid a thing."""
    if isinstance(thing, Turn | Call):
        return f"{thing.session}:{thing.id}"
    return str(thing.seq) if isinstance(thing, Event) else thing.id


def short_name(db: Db, undone: str) -> str:
    """Return what an op undid as lists name it, from an id that the op stores."""
    session, _, turn = undone.partition(":")
    if turn:
        found = turns.get_turn(db, session, turn)
        return (found.short_id if found is not None else "") or undone
    burst = bursts.get(db, undone)
    if burst is not None:
        one = turn_of_burst(db, burst)
        return (one.short_id if isinstance(one, Turn) else "") or undone
    return short_ids.of(db, short_ids.OP, undone) or undone


def unit_of(db: Db, thing: Named) -> Unit:
    """Return the events of a thing, those of its child sessions included."""
    if isinstance(thing, Session):
        return Unit(sessions=frozenset(family(db, thing.id)))
    if isinstance(thing, Turn):
        return _turn_unit(db, thing)
    if isinstance(thing, Call):
        return Unit(calls=frozenset({(thing.session, thing.id)}))
    if isinstance(thing, Burst):
        return Unit(bursts=frozenset({thing.id}))
    if isinstance(thing, Op):
        return Unit(ops=frozenset({thing.id}))
    return Unit(seqs=frozenset({thing.seq}))


def unit_of_ids(db: Db, undoes: Sequence[str]) -> Unit:
    """Return what an op undid, from the ids that it stores; unknown ones are left out."""
    unit = Unit(seqs=frozenset(int(one) for one in undoes if one.isdigit()))
    for one in undoes:
        if not one.isdigit():
            for thing in _exact(db, one):
                unit |= unit_of(db, thing)
    return unit


def events_of(db: Db, worktree: str, unit: Unit) -> list[PathChange]:
    """Return the undoable events of a unit in one worktree, oldest first."""
    wanted = _parts(worktree, unit)
    found = {row.seq: row for each in wanted for row in events.writes(db, each)}
    single = events.by_seqs(db, unit.seqs).values()
    found |= {row.seq: row for row in single if row.worktree == worktree}
    return [found[seq] for seq in sorted(found) if unit.holds(found[seq])]


def stretches_of(
    db: Db, worktree: str, unit: Unit, singles: Singles = _NO_SINGLES
) -> Stretches:
    """Return the undoable events of a unit in one worktree, without those inside stretches.

    Args:
        db: The journal.
        worktree: The worktree.
        unit: The unit.
        singles: What is asked for one by one later; it is never inside a stretch.
    """
    # What was named one by one was read one by one before, too: it is not much.
    if unit.seqs:
        return Stretches(tuple(events_of(db, worktree, unit)))
    return stretches.of_unit(db, _parts(worktree, unit), singles)


def _parts(worktree: str, unit: Unit) -> list[EventFilter]:
    parts = [EventFilter(worktree=worktree, burst=one) for one in unit.bursts]
    parts += [EventFilter(worktree=worktree, op=one) for one in unit.ops]
    if unit.sessions:
        parts.append(EventFilter(worktree=worktree, sessions=unit.sessions))
    for session, turn in unit.turns:
        parts.append(EventFilter(worktree=worktree, sessions=(session,), turn=turn))
    for session, call in unit.calls:
        parts.append(EventFilter(worktree=worktree, sessions=(session,), call=call))
    return parts


def family(db: Db, session: str) -> list[str]:
    """Return a session and all sessions below it."""
    found = [session]
    for one in found:
        found += [
            child.id for child in sessions.children(db, one) if child.id not in found
        ]
    return found


def root_of(db: Db, session: str) -> str:
    """Return the topmost session above one, itself where it has no parent."""
    seen = [session]
    while True:
        known = sessions.get(db, seen[-1])
        if known is None or known.parent is None or known.parent in seen:
            return seen[-1]
        seen.append(known.parent)


def check_undoable(thing: Named) -> None:
    """Raise UsageError for an event that no undo reverses."""
    if isinstance(thing, Event) and not is_undoable(thing):
        raise UsageError(
            f"cannot undo event {thing.seq}: a {thing.kind.value} row is not a file change",
            hint="git agent-undo log lists what can be undone",
        )


def _turn_unit(db: Db, turn: Turn) -> Unit:
    """Return a turn with its parts: child sessions call theirs `<turn>/<child>`.

    A child without turns of its own belongs to the turn in which it began.
    """
    pairs = {(turn.session, turn.id)}
    whole: set[str] = set()
    for child in family(db, turn.session)[1:]:
        own = turns.list_turns(db, child)
        pairs |= {(child, one.id) for one in own if one.id.startswith(turn.id + "/")}
        known = sessions.get(db, child)
        if not own and known is not None and _began_in(turn, known):
            whole.add(child)
    return Unit(turns=frozenset(pairs), sessions=frozenset(whole))


def _began_in(turn: Turn, session: Session) -> bool:
    # A child without turns has only its time to show which turn of the parent began it.
    if session.started_ns < turn.started_ns:
        return False
    return turn.ended_ns is None or session.started_ns <= turn.ended_ns


def _exact(db: Db, text: str) -> Iterator[Named]:
    """Yield what has exactly this id; a number is an event first."""
    event = events.numbered(db, text)
    if event is not None:
        yield event
        return
    session, _, rest = text.partition(":")
    pair = (
        (turns.get_call(db, session, rest) or turns.get_turn(db, session, rest))
        if rest
        else None
    )
    if pair is not None:
        yield pair
        return
    for thing in _beginning(db, text):
        if thing.id == text or (isinstance(thing, Session) and thing.native_id == text):
            yield thing


def _beginning(db: Db, text: str) -> Iterator[Session | Turn | Call | Burst | Op]:
    if not text:
        return
    yield from sessions.by_prefix(db, text)
    yield from turns.turns_by_prefix(db, text)
    yield from turns.calls_by_prefix(db, text)
    yield from bursts.by_prefix(db, text)
    yield from ops.by_prefix(db, text)


def _path(db: Db, worktree: str, target: Target) -> RepoPath:
    if target.path is None:
        raise UsageError(f"cannot use path {target.text}: outside the worktree")
    if not _is_recorded(db, worktree, target.path):
        raise UsageError(
            f"cannot find a recorded change to {target.text}",
            hint="git agent-undo log -- PATH",
        )
    return target.path


def _is_recorded(
    db: Db, worktree: str, path: RepoPath, rows: ReadRows = events.rows
) -> bool:
    return bool(rows(db, EventFilter(worktree=worktree, paths=(path,), limit=1)))


def _described(thing: Named) -> str:
    if isinstance(thing, Event):
        return f"event {thing.seq}"
    kind = type(thing).__name__.lower()
    if isinstance(thing, Turn | Call):
        return f"{kind} {thing.session}:{thing.id}"
    return f"{kind} {thing.id}"
