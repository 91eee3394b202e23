"""Examining a worktree's recording: what is wrong with it, each finding with its remedy.

Invariant: reads only; a finding that is not ok always has a remedy, a command where one helps.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import takewhile
from typing import NamedTuple

from gitshadow.adapters import registry
from gitshadow.adapters.base import HookPhase
from gitshadow.attribution import lifecycle
from gitshadow.attribution.native_ids import is_hooked
from gitshadow.attribution.windows import OUTCOME_DENIED, OUTCOME_UNREPORTED
from gitshadow.capture.coverage import TOO_LARGE
from gitshadow.errors import StoreError
from gitshadow.maintenance import file_system
from gitshadow.maintenance.startup_repair import ref_locks
from gitshadow.maintenance.upkeep import TROUBLE
from gitshadow.messages.status import CheckRow, UnreportedRow
from gitshadow.model import Call, Oid, Session, micro
from gitshadow.platform import current
from gitshadow.query.rows import rfc3339
from gitshadow.recording.context import RecorderContext
from gitshadow.recording.workspace import Workspace
from gitshadow.sharing import mirror, remotes
from gitshadow.sharing.transfer import secret_names
from gitshadow.store.journal import events, meta, ops, sessions, turns
from gitshadow.store.journal.db import Db
from gitshadow.store.refs import display_path
from gitshadow.words import counted

FIX = "git agent-undo doctor --fix"
REINDEX = "git agent-undo reindex"
FSCK = "git fsck"
MENDING, RECORDING = "mending", "recording now"
_OF_OBJECTS = ("refs", "objects", MENDING, RECORDING)
_SHOWN = 5
_NOTES = 2
_WANTED_WATCHES = 1 << 20
_WANTED_INSTANCES = 512
_RECENT_NS = 7 * 86_400 * 1_000_000_000
_SESSIONS, _CALLS = 8, 20
_LACKS: Mapping[HookPhase, tuple[str, int]] = {
    HookPhase.BEFORE: ("{} reports that tool calls end, but not that they start", 3),
    HookPhase.AFTER: ("{} reports that tool calls start, but not that they end", 3),
    HookPhase.PROMPT: ("{} reports tool calls, but no prompts", 3),
    # A person may cancel several turns while the model answers, when no call is open.
    HookPhase.TURN_END: ("{} reports prompts, but not that turns end", 5),
}
"""What is said of an event that does not come, and how often in a row it must be missing."""


def examine(context: RecorderContext, stuck: Sequence[CheckRow] = ()) -> list[CheckRow]:
    """Return all findings, the same ones in the same order whatever they say.

    Last come those of `stuck`: what could not be done before.
    """
    parts: tuple[Callable[[RecorderContext], Iterator[CheckRow]], ...] = (
        _journal,
        _recording,
        _watches,
        _platform,
        _file_system,
        _witness,
        _refs,
        _objects,
        _rows,
        _locks,
        _undos,
        _spool,
        _hook_events,
        _coverage,
        _remotes,
        _gaps,
        _packing,
        _mirror,
        _secrets,
    )
    found = [check for part in parts for check in part(context)]
    return _with_owners(context.workspace, [*found, *stuck])


def missing(ws: Workspace) -> list[Oid]:
    """Return the objects that our refs need and that are lost; a partial clone has others not."""
    tips = sorted(set(ws.repo.refs().values()))
    return ws.git.lost(ws.git.missing(tips)) if tips else []


def _check(
    name: str, wrong: object, said: str, fine: str, remedy: str = FIX
) -> CheckRow:
    """Return a row with what is wrong and its remedy, or with what is fine."""
    return CheckRow(name, not wrong, said if wrong else fine, remedy if wrong else None)


def _recording(context: RecorderContext) -> Iterator[CheckRow]:
    enabled = context.workspace.config.enabled
    unreadable = context.workspace.index.unreadable
    if enabled and unreadable is not None:
        fix = "use the git that wrote it, or delete the index and run: git reset"
        yield CheckRow("recording", False, unreadable, fix)
    else:
        fix = "git config agent-undo.enabled true"
        yield _check(
            "recording", not enabled, "recording is off", "recording is on", fix
        )
    degraded = context.observer.degraded
    yield CheckRow(
        "watcher", degraded is None, degraded or "nothing is missing", degraded
    )


def _journal(context: RecorderContext) -> Iterator[CheckRow]:
    wrong = context.workspace.db.damage()
    fine = "every page of the journal can be read"
    yield _check("journal", wrong, f"damaged: {wrong}", fine)


def _watches(context: RecorderContext) -> Iterator[CheckRow]:
    """A watch for each directory, and a few instances for each daemon, where both are limited."""
    limits = current().machine_facts().watch_limits()
    if limits is None:
        return
    paths = context.workspace.states.all()
    need = len({os.path.dirname(path) for path in paths}) + 1
    have, instances = limits.watches, limits.instances
    remedy = None
    # Other programs of the user have watches under the same limit.
    if have is not None and have < 2 * need:
        remedy = limits.raise_watches.format(max(_WANTED_WATCHES, 4 * need))
    elif instances is not None and instances < _WANTED_INSTANCES // 4:
        remedy = limits.raise_instances.format(_WANTED_INSTANCES)
    yield CheckRow(
        limits.name,
        remedy is None,
        f"{counted(need, 'directory', 'directories')} to watch; the limits for all"
        f" your programs are {have or 'unknown'} watches and {instances or 'unknown'}"
        f" instances",
        remedy,
    )


def _platform(context: RecorderContext) -> Iterator[CheckRow]:
    """What this system does not show, where that is less than what Linux does."""
    unknown = current().UNKNOWN
    if unknown:
        yield CheckRow(
            "platform", True, f"not known on this system: {', '.join(unknown)}", None
        )


def _file_system(context: RecorderContext) -> Iterator[CheckRow]:
    """What is recorded otherwise here, and names that this file system cannot keep apart."""
    ws = context.workspace
    for said in file_system.differences(ws):
        yield CheckRow("file system", True, said, None)
    clash = file_system.clash(ws)
    if clash is not None:
        fix = "rename all but one of them, on a file system that has them all"
        yield CheckRow("names", False, clash, fix)


def _witness(context: RecorderContext) -> Iterator[CheckRow]:
    """Whether the kernel's reports can be had, where a person wants them."""
    if not context.workspace.config.witness:
        yield CheckRow("witness", True, "the kernel is not asked who wrote", None)
        return
    why = context.processes.witness.check()
    yield _check(
        "witness",
        why,
        f"the kernel does not report who wrote: {why}",
        "the kernel reports who wrote",
        "see docs/how.md, or: git config agent-undo.witness false",
    )


def _refs(context: RecorderContext) -> Iterator[CheckRow]:
    ws = context.workspace
    # Rows are read before refs: a session that begins in between has its ref first.
    chains = sessions.chains(ws.db)
    found = ws.repo.refs()
    broken = ws.repo.broken_refs()
    gone = [one.ref for one in chains if one.ref not in found and one.ref not in broken]
    for chain in chains:
        try:
            ws.repo.read_tree(ws.repo.commit(chain.tip).tree)
        except StoreError:
            broken.append(chain.ref)
    # Somebody who records at this moment moves a ref before its row: the new tip descends.
    changed = [
        one.ref
        for one in chains
        if one.ref not in broken
        and found.get(one.ref, one.tip) != one.tip
        and not ws.git.descends(found[one.ref], one.tip)
    ]
    findings = (
        ("cannot be read", broken),
        ("gone", gone),
        ("changed to something else", changed),
    )
    said = [f"{what}: {', '.join(which[:_SHOWN])}" for what, which in findings if which]
    yield _check("refs", said, "; ".join(said), "all refs are intact")


def _objects(context: RecorderContext) -> Iterator[CheckRow]:
    broken = context.workspace.repo.loose.all_broken()
    if broken:
        said = f"broken in the object store: {_some(broken)}"
        yield CheckRow("objects", False, said, FIX)
        return
    try:
        found = missing(context.workspace)
    except StoreError as error:
        yield CheckRow("objects", False, error.message, FIX)
        return
    said = f"missing in the history: {_some(found)}"
    yield _check("objects", found, said, "no object of the history is missing")


def _with_owners(ws: Workspace, found: Sequence[CheckRow]) -> list[CheckRow]:
    """Name damaged objects of the user: `doctor --fix` writes only ours."""
    wrong = [one for one in found if one.name in _OF_OBJECTS and one.remedy]
    theirs: list[Oid] = []
    if wrong:
        with suppress(StoreError):
            theirs = _damage_of_user(ws)
    if not theirs:
        return [*found]
    said = f"not gitshadow's, your own history needs it: {_some(theirs)}"
    alone = theirs == sorted(ws.repo.loose.all_broken())
    remedy = FSCK if alone else f"{FSCK}; then {FIX}"
    return [
        one._replace(message=f"{one.message}; {said}", remedy=remedy)
        if one in wrong
        else one
        for one in found
    ]


def _damage_of_user(ws: Workspace) -> list[Oid]:
    """Return the broken and missing objects that the user's own refs, reflogs and index need."""
    reached, stops = ws.git.reached_by_user()
    broken = set(ws.repo.loose.all_broken())
    gone = [oid for oid in stops - broken if not ws.repo.has(oid)]
    return sorted(broken & (reached | stops) | {*ws.git.lost(gone)})


def _some(oids: Sequence[Oid]) -> str:
    return f"{len(oids)}, {', '.join(oid[:10] for oid in oids[:_SHOWN])}"


def _rows(context: RecorderContext) -> Iterator[CheckRow]:
    """Rows whose commits are gone can be undone no more, and say so too late."""
    ws = context.workspace
    commits = events.commits(ws.db)
    there = ws.git.sizes(commits) if commits else {}
    gone = [oid for oid in commits if oid not in there]
    said = f"the commits of {counted(len(gone), 'write')} are missing"
    yield _check("rows", gone, said, "every change has its commit", REINDEX)


def _locks(context: RecorderContext) -> Iterator[CheckRow]:
    found = ref_locks(context.workspace)
    stale = [one for one in found if one.is_stale]
    shown = "; ".join(one.describe() for one in (stale or found)[:_SHOWN])
    said = f"left by a killed process: {shown}"
    yield _check("locks", stale, said, shown or "no ref is locked")


def _undos(context: RecorderContext) -> Iterator[CheckRow]:
    ws = context.workspace
    found = ops.applying(ws.db, ws.layout.worktree)
    said = "".join(f"{one.id} could not be finished yet" for one in found[:1])
    yield _check("undo", found, said, "none is unfinished")


def _spool(context: RecorderContext) -> Iterator[CheckRow]:
    waiting = len(context.spool.waiting())
    yield CheckRow(
        "spool",
        True,
        f"{waiting} hook payloads are waiting for their worktree"
        if waiting
        else "no hook payload is waiting",
        None,
    )


class _Sign(NamedTuple):
    """An event that a hook should have reported before a time, and whether it did."""

    ts_ns: int
    event: HookPhase
    came: bool


def unreported(ws: Workspace) -> tuple[UnreportedRow, ...]:
    """Return which events agents report no more, as their newest turns and calls show.

    An agent may rename or drop an event, and other settings may replace a part of our hooks. One
    call or turn proves nothing, because a person may have cancelled it: the newest ones must all
    lack the event. What still runs does not count.
    """
    since_ns = ws.clock.now_ns() - _RECENT_NS
    by_agent: dict[str, list[Session]] = {}
    for one in sessions.all_sessions(ws.db):
        # A session that was rebuilt from the refs has neither this time nor the ends of its calls.
        is_recent = one.last_seen_ns is not None and one.last_seen_ns >= since_ns
        if one.agent and one.parent is None and is_recent and is_hooked(one):
            by_agent.setdefault(one.agent, []).append(one)
    return tuple(
        UnreportedRow(agent, problem.format(agent))
        for agent, newest in sorted(by_agent.items())
        for problem in _problems(ws.db, agent, newest[:_SESSIONS])
    )


def _problems(db: Db, agent: str, newest: Sequence[Session]) -> Iterator[str]:
    promised = registry.traits(agent)
    signs = [sign for one in newest for sign in _signs(db, one)]
    signs.sort(key=lambda sign: sign.ts_ns, reverse=True)
    for event, (problem, needed) in _LACKS.items():
        of_event = [one.came for one in signs if one.event is event]
        lacking = len(list(takewhile(lambda came: not came, of_event)))
        # The other events are expected only where the real program was seen to send them.
        is_end = event is HookPhase.AFTER and promised.covers_all_tools
        if (promised.reports_turns or is_end) and lacking >= needed:
            yield problem


def _signs(db: Db, session: Session) -> Iterator[_Sign]:
    calls = turns.newest_ended_calls(db, session.id, _CALLS)
    yield from _signs_of_calls(db, session, calls)
    begun = turns.list_turns(db, session.id)[-_CALLS:]
    after = [one.started_ns for one in begun[1:]]
    # When a process is gone, nobody knows whether its last turn had ended.
    killed = begun[-1:] if session.end_reason in lifecycle.EXPIRIES else []
    for turn, next_ns in zip(begun, [*after, session.ended_ns], strict=False):
        mine = [call for call in calls if call.turn == turn.id]
        if mine and turn.started_ns == mine[-1].opened_ns:
            # A call began this turn, so no prompt did.
            yield _Sign(turn.started_ns, HookPhase.PROMPT, came=False)
        elif turn.prompt is not None:
            yield _Sign(turn.started_ns, HookPhase.PROMPT, came=True)
        if turn.ended_ns is None:
            continue
        if next_ns is None or micro(turn.ended_ns) != micro(next_ns):
            yield _Sign(turn.ended_ns, HookPhase.TURN_END, came=True)
        elif turn not in killed and mine and mine[0].outcome not in lifecycle.EXPIRIES:
            # Its newest call ended: a turn that stops in one was cancelled.
            yield _Sign(turn.ended_ns, HookPhase.TURN_END, came=False)


def _signs_of_calls(db: Db, session: Session, calls: Sequence[Call]) -> Iterator[_Sign]:
    """Yield what some calls show, which are the newest first."""
    cancels_unseen = registry.traits(session.agent).cancels_unseen
    went_on: set[str | None] = set()
    counted: set[str | None] = set()
    for call in calls:
        if call.turn is None:
            yield _Sign(call.opened_ns, HookPhase.PROMPT, came=False)
        if call.outcome in lifecycle.EXPIRIES:
            yield _Sign(call.opened_ns, HookPhase.BEFORE, came=True)
            # An agent that reports no cancelling reports no end of a cancelled turn either. Of
            # other agents, calls side by side may have been cancelled together.
            is_over = cancels_unseen and call.outcome == lifecycle.ENDED_BY_TURN
            is_passed = call.turn in went_on and call.turn not in counted
            if (is_over or is_passed) and _wrote(db, call):
                counted.add(call.turn)
                yield _Sign(call.opened_ns, HookPhase.AFTER, came=False)
        elif call.outcome not in (None, OUTCOME_DENIED):
            was_announced = call.began_ns != call.opened_ns
            yield _Sign(call.opened_ns, HookPhase.BEFORE, came=was_announced)
            yield _Sign(call.opened_ns, HookPhase.AFTER, came=True)
        went_on.add(call.turn)


def _wrote(db: Db, call: Call) -> bool:
    """Return whether a call that expired did run: a refused one has written nothing."""
    wanted = events.EventFilter(sessions=(call.session,), call=call.id, limit=1)
    if call.outcome == OUTCOME_UNREPORTED:
        # It was taken for a refused one, so its writes are no longer its own.
        wanted = events.EventFilter(
            paths=call.paths,
            since_ns=call.opened_ns,
            until_ns=call.closed_ns,
            limit=1,
        )
    return bool(events.rows(db, wanted))


def _hook_events(context: RecorderContext) -> Iterator[CheckRow]:
    found = unreported(context.workspace)
    names = " and ".join(dict.fromkeys(one.agent for one in found))
    yield _check(
        "hook events",
        found,
        "; ".join(one.problem for one in found),
        "no agent has stopped reporting an event",
        f"look for settings of {names} that replace some of gitshadow's hooks, and"
        f" restart it; or update gitshadow: the agent may have renamed an event",
    )


def _coverage(context: RecorderContext) -> Iterator[CheckRow]:
    """Files that Git tracks and we do not record: their changes cannot be undone."""
    index = context.workspace.index
    holes = [
        one.path
        for one in context.walker.excluded_now()
        if one.reason == TOO_LARGE and index.contains(one.path)
    ]
    shown = ", ".join(display_path(path) for path in holes[:_SHOWN])
    yield _check(
        "coverage",
        holes,
        f"{counted(len(holes), 'tracked file')} too large to be recorded: {shown}",
        "all tracked files are recorded",
        "git config agent-undo.maxFileSize 100M",
    )


def _remotes(context: RecorderContext) -> Iterator[CheckRow]:
    leaks = remotes.leaks(context.workspace.repo)
    for leak in leaks:
        yield CheckRow("remotes", False, remotes.warning(leak), remotes.remedy(leak))
    if not leaks:
        yield CheckRow("remotes", True, "no remote mirrors all refs", None)


def _gaps(context: RecorderContext) -> Iterator[CheckRow]:
    """A gap is a fault until somebody has seen it; then it is history."""
    db = context.workspace.db
    found = events.list_gaps(db)
    fresh = [one for one in found if one.is_new]
    if not found:
        yield CheckRow("gaps", True, "no gaps", None)
    elif not fresh:
        last = rfc3339(found[-1].ts_ns)
        said = (
            f"{counted(len(found), 'gap')} in the past, all seen; the last was {last}"
        )
        yield CheckRow("gaps", True, said, None)
    else:
        last = rfc3339(fresh[-1].ts_ns)
        said = f"{counted(len(fresh), 'gap')} in the recording, the last {last}"
        notes = dict.fromkeys(one.note for one in reversed(fresh) if one.note)
        said += "".join(f"; {note}" for note in [*notes][:_NOTES])
        look = "git agent-undo log --kind gap"
        yield CheckRow("gaps", False, said, f"{look}; seen: {FIX}")


def _packing(context: RecorderContext) -> Iterator[CheckRow]:
    trouble = meta.get(context.workspace.db, TROUBLE)
    fine = "nothing prevents packing the history"
    yield _check("packing", trouble, trouble or "", fine, "git agent-undo pack")


def _mirror(context: RecorderContext) -> Iterator[CheckRow]:
    ws = context.workspace
    place, trouble = mirror.place_of(ws), meta.get(ws.db, mirror.TROUBLE)
    if place is None:
        yield CheckRow("mirror", True, "none is set", None)
    else:
        said = trouble or f"the history is copied to {place}"
        yield CheckRow("mirror", not trouble, said, _mirror_remedy(trouble))


def _mirror_remedy(trouble: str | None) -> str | None:
    """Return what to type; what the mirror alone has comes first, as it may be all there is."""
    if not trouble:
        return None
    if trouble.startswith(mirror.KEPT):
        return (
            "git agent-undo restore --from-mirror; where what is here counts:"
            " git agent-undo mirror"
        )
    return "git agent-undo mirror"


def _secrets(context: RecorderContext) -> Iterator[CheckRow]:
    found = secret_names(context.workspace.states.all())
    shown = ", ".join(display_path(path) for path in found[:_SHOWN])
    yield CheckRow(
        "secrets",
        True,
        f"{len(found)} recorded files look secret: {shown}"
        if found
        else "no recorded file looks secret",
        None,
    )
