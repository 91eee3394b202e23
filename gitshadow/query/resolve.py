"""Resolve ids as people type them: of sessions, turns, calls, events, ops and our commits.

An id is whole, or a prefix that fits one thing only. It belongs to this machine or to one from
which something was fetched. A program that an agent started may name only things of its own
session; only its processes show which one that is, because an agent can write its own settings,
variables and arguments.
Invariant: what names nothing or several things is a UsageError (exit 2) that lists candidates. What
is known here is ours, whatever other machines call the same. A commit that is not in our format is
None. If two sessions fit the caller, none does.
"""

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from gitshadow.attribution.native_ids import is_guessed
from gitshadow.attribution.process import ProcessId, is_alive
from gitshadow.errors import RefusedError, StoreError, UnknownIdError, UsageError
from gitshadow.model import (
    Actor,
    Burst,
    Call,
    CommitEvent,
    Event,
    Oid,
    Op,
    Session,
    Turn,
)
from gitshadow.recording.context import RecorderContext
from gitshadow.recording.workspace import Workspace
from gitshadow.store.journal import bursts, events, ops, sessions, turns
from gitshadow.store.journal.db import Db
from gitshadow.store.object_format import ABBREVIATED_OID_PATTERN
from gitshadow.store.objects import CommitInfo
from gitshadow.store.refs import ShadowCommit, parse_message
from gitshadow.undo.effective import Undone
from gitshadow.undo.targets import (
    events_of,
    family,
    find_address,
    newest_turns,
    unit_of,
)
from gitshadow.words import ago, shortened

_SHOWN = 6
_PROMPT_SHOWN = 40
_T = TypeVar("_T")
Thing = Session | Turn | Call | Burst | Op | Event
# A commit message has whole microseconds, the journal nanoseconds: a row of the same moment may be
# up to 999 ns later than the message says.
_MICRO_NS = 999
_OID = re.compile(ABBREVIATED_OID_PATTERN)
# An agent may write this instead of an id, for all that its session wrote.
WHOLE = "session"


@dataclass(frozen=True, slots=True)
class ResolvedId:
    """One thing that an id names."""

    id: str
    thing: Thing


def session_of(db: Db, typed: str) -> Session:
    """Return the session that an id, a native id or a unique prefix of either names.

    Raises:
        UsageError: none fits, or several do.
    """
    found = sessions.by_prefix(db, typed)
    return _only(typed, found, [session.id for session in found], "session")


def find(ws: Workspace, typed: str) -> ResolvedId:
    """Return what an id or an address names: an event, call, turn, burst, session or op.

    Raises:
        UsageError: nothing fits, or several things do.
    """
    chosen = things(ws, typed)
    return _only(typed, chosen, [_described(ws.db, one) for one in chosen], "id")


def things(ws: Workspace, typed: str) -> list[ResolvedId]:
    """Return all that an id may name: what it names exactly, else what begins so.

    Raises:
        UsageError: it is an address, such as `last~9`, of a turn that does not exist.
    """
    found = _things(ws.db, typed)
    addressed = find_address(ws.db, ws.layout.worktree, typed)
    if addressed is None:
        return found
    exact = [one for one in found if one.id == typed and one.thing != addressed]
    return [*exact, ResolvedId(addressed.id, addressed)]


def _things(db: Db, typed: str) -> list[ResolvedId]:
    event = events.numbered(db, typed)
    if event is not None:
        return [ResolvedId(typed, event)]
    found = [ResolvedId(item.id, item) for item in sessions.by_prefix(db, typed)]
    found += [ResolvedId(item.id, item) for item in turns.turns_by_prefix(db, typed)]
    found += [ResolvedId(item.id, item) for item in turns.calls_by_prefix(db, typed)]
    found += [ResolvedId(item.id, item) for item in bursts.by_prefix(db, typed)]
    found += [ResolvedId(item.id, item) for item in ops.by_prefix(db, typed)]
    # A whole id wins: it may be the beginning of a longer one, which nobody could name otherwise.
    return [item for item in found if item.id == typed] or found


def _described(db: Db, found: ResolvedId) -> str:
    """Return a candidate as people tell it apart: id, agent, age and prompt."""
    thing = found.thing
    if not isinstance(thing, Session | Turn):
        return found.id
    name, session = found.id, sessions.get(db, found.id)
    if isinstance(thing, Turn):
        name = thing.short_id or name
        session = sessions.get(db, thing.session)
    agent = session.agent if session is not None else None
    age = ago((time.time_ns() - thing.started_ns) / 1e9)
    said = ", ".join(word for word in (agent, age) if word)
    prompt = " ".join((thing.prompt or "").split()) if isinstance(thing, Turn) else ""
    quoted = f': "{shortened(prompt, _PROMPT_SHOWN)}"' if prompt else ""
    return f"{name} ({said}{quoted})"


def _only(typed: str, found: Sequence[_T], ids: Sequence[str], what: str) -> _T:
    if len(found) == 1:
        return found[0]
    if not found:
        raise UnknownIdError(
            f"cannot find {what} {typed}",
            typed=typed,
            hint="to list ids: git agent-undo log, git agent-undo sessions",
        )
    shown = ", ".join(ids[:_SHOWN]) + (" …" if len(ids) > _SHOWN else "")
    raise UsageError(
        f"ambiguous id '{typed}': matches {len(found)} objects", hint=shown
    )


class Recorded(NamedTuple):
    """One commit of ours, and what its message says."""

    oid: Oid
    info: CommitInfo
    said: ShadowCommit


def recorded_commit(ws: Workspace, typed: str) -> Recorded | None:
    """Return the commit of ours that an id names, None where it names none.

    Args:
        ws: The workspace.
        typed: An object id or its beginning, seven digits or more.
    """
    # One in 27 object ids has no letter in its first seven digits. An event's number is the
    # commoner meaning, and a commit can still be named by more digits.
    if _OID.fullmatch(typed) is None or events.numbered(ws.db, typed) is not None:
        return None
    oid = ws.repo.resolve(typed)
    if oid is None or not oid.startswith(typed):
        return None
    try:
        info = ws.repo.commit(oid)
        said = parse_message(info.message)
    except StoreError:
        return None
    return None if said is None else Recorded(oid, info, said)


def events_of_commit(ws: Workspace, commit: Recorded) -> list[Event]:
    """Return the events that made what a commit changed, oldest first."""
    # A sync commit has no events of its own: it repeats what other sessions wrote.
    own = events.of_commit(ws.db, commit.oid, commit.said.seqs)
    return own or _foreign(ws, commit)


def newest_until(ws: Workspace, commit: Recorded) -> int:
    """Return the number of the newest row when a commit was made."""
    until_ns = commit.said.time_ns + _MICRO_NS
    return events.seq_until(ws.db, commit.said.worktree, until_ns)


def _foreign(ws: Workspace, commit: Recorded) -> list[Event]:
    if not commit.info.parents:
        return []
    before = ws.repo.commit(commit.info.parents[0]).tree
    until_ns = commit.said.time_ns + _MICRO_NS
    found: dict[int, Event] = {}
    for change in ws.repo.trees.diff(before, commit.info.tree):
        oid = None if change.new is None else change.new[1]
        row = events.newest_with(
            ws.db, commit.said.worktree, change.path, oid, until_ns
        )
        # All that Git switched at once is one event.
        event = None if row is None else events.get(ws.db, row.seq)
        if event is not None:
            found[event.seq] = event
    return [found[seq] for seq in sorted(found)]


class Own(NamedTuple):
    """A session, and all sessions whose work is its own: itself and its subagents."""

    session: Session
    whose: frozenset[str]


def own_of(db: Db, ancestors: Sequence[ProcessId]) -> Own:
    """Return the session of an agent that is the nearest of some processes.

    Args:
        db: The journal.
        ancestors: Of the program that asks, nearest first.

    Raises:
        RefusedError: no agent above reported a session, or one process has several.
    """
    tops = sessions_above(db, ancestors)
    if len(tops) == 1:
        return Own(tops[0], frozenset(family(db, tops[0].id)))
    if tops:
        raise RefusedError(
            "cannot identify the current session: this process has several",
            hint="a person can use: git agent-undo sessions, git agent-undo undo TARGET",
        )
    raise RefusedError(
        "cannot identify the current session",
        hint="agent hooks report it: git agent-undo hooks install AGENT",
    )


def sessions_above(db: Db, ancestors: Sequence[ProcessId]) -> list[Session]:
    """Return the sessions of the nearest process that has any, without those below others."""
    live = [one for one in sessions.live(db) if _counts(one)]
    # The nearest process decides: an agent that runs inside another's shell is its own session.
    for process in ancestors:
        here = [one for one in live if (one.pid, one.pid_started) == process]
        known = {one.id for one in here}
        # A pid may be used again: only a process with the recorded start time is the same one.
        if here and is_alive(process):
            return [one for one in here if one.parent not in known]
    return []


def own_thing(ws: Workspace, own: Own, typed: str) -> Thing:
    """Return what an id names among a session's own work.

    Raises:
        RefusedError: it names somebody else's work, or an undo.
        UsageError: it names nothing, or several things.
    """
    if typed == WHOLE:
        return own.session
    found = things(ws, typed) if typed else []
    mine = [one for one in found if _is_own(one, own)]
    if len(mine) == 1:
        return mine[0].thing
    if mine:
        raise UsageError(f"ambiguous id {typed}: it matches several objects")
    if found:
        raise RefusedError(f"cannot undo {typed}: it is not work of this session")
    raise UsageError(
        f"cannot find {typed}", hint="ids are shown in the list of changes"
    )


def newest_of(ws: Workspace, own: Own) -> Turn | Burst | None:
    """Return the newest turn of a session that is in effect; None if all are undone."""
    undone = Undone(ws.db, ws.layout.worktree)
    for turn in newest_turns(ws.db, ws.layout.worktree):
        rows = events_of(ws.db, ws.layout.worktree, unit_of(ws.db, turn))
        taken = [row for row in rows if row.attribution.session in own.whose]
        if taken and undone.all(taken) is None:
            return turn
    return None


def _counts(session: Session) -> bool:
    # Without hooks, a session is an agent's only because its process looks like one. That is no
    # proof of who asks.
    return session.actor is Actor.AGENT and not is_guessed(session)


def _is_own(found: ResolvedId, own: Own) -> bool:
    thing = found.thing
    if isinstance(thing, Session):
        return thing.id in own.whose
    if isinstance(thing, Turn | Call | Burst):
        return thing.session in own.whose
    if isinstance(thing, CommitEvent):
        return thing.attribution.session in own.whose
    return False


def routed(context: RecorderContext, typed: str) -> tuple[str | None, str]:
    """Return the machine whose history knows an id, None for ours, and the id as it has it.

    Raises:
        UsageError: several machines fit.
    """
    numbered = context.others.numbered(typed)
    if numbered is not None:
        return numbered
    # Ours first: another machine can choose its ids freely, and must not shadow one of ours.
    if _knows(context, typed):
        return None, typed
    for machine, other in context.others.contexts():
        if _knows(other, typed):
            return machine, typed
    return None, typed


def session_anywhere(
    context: RecorderContext, typed: str
) -> tuple[RecorderContext, Session]:
    """Return the session that an id names, with the context on whose journal it is.

    Raises:
        UsageError: none fits, or several do.
    """
    if not sessions.by_prefix(context.workspace.db, typed):
        for _, other in context.others.contexts():
            if sessions.by_prefix(other.workspace.db, typed):
                return other, session_of(other.workspace.db, typed)
    return context, session_of(context.workspace.db, typed)


def explained(context: RecorderContext, error: UnknownIdError) -> UsageError:
    """Return what to say of an id that is not known here: of another machine's, what helps."""
    try:
        machine = _whose(context, error.typed)
    except UsageError as several:
        return several
    if machine is None:
        return error
    return UsageError(
        f"cannot use {error.typed} here: it was recorded on another machine ({machine})",
        hint=f"to see it: git agent-undo show {error.typed}; undo it on the machine"
        f" that recorded it, or: git revert COMMIT",
    )


def _whose(context: RecorderContext, typed: str) -> str | None:
    """Return the other machine that knows an id, also one like SESSION:TURN."""
    machine, _ = routed(context, typed)
    if machine is not None:
        return machine
    session = typed.partition(":")[0]
    known = context.others.contexts()
    return next((m for m, it in known if sessions.get(it.workspace.db, session)), None)


def _knows(context: RecorderContext, typed: str) -> bool:
    commit = recorded_commit(context.workspace, typed)
    if commit is not None:
        return bool(events_of_commit(context.workspace, commit))
    return bool(things(context.workspace, typed))
