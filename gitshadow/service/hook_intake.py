"""Process hook deliveries, in the order that the evidence needs.

Before a tool: what is at its paths is recorded first, then its window opens. After it: the
window closes at the hook's time, then its paths are recorded; the time of the write decides.
Invariant: nothing here makes a hook fail; what is wrong becomes a gap row.
"""

import os
from collections.abc import Sequence
from dataclasses import replace

from gitshadow.adapters import registry
from gitshadow.adapters.base import (
    END_PHASES,
    BadPayload,
    FileEdit,
    HookEvent,
    HookPhase,
)
from gitshadow.attribution import intake
from gitshadow.attribution.delivery import (
    HookDelivery,
    Reach,
    at_our_place,
    parse_body,
    places_of,
    reach,
    timed,
)
from gitshadow.attribution.intake import Doubt, EventSource, Intake
from gitshadow.config import Config, PromptPolicy, stores_prompts
from gitshadow.errors import ShadowError, described, raise_shortage
from gitshadow.guards.watch import Guard
from gitshadow.ipc.spool import without_prompt
from gitshadow.model import PATHLESS_WRITERS, Call, RepoPath
from gitshadow.recording.context import RecorderContext
from gitshadow.recording.host_evidence import HostEvidence
from gitshadow.recording.spool import LateEnd, SpooledFile, forward
from gitshadow.reporting import notices
from gitshadow.store.journal import turns
from gitshadow.store.layout import Layout, discover

_CALL_ENDS = (HookPhase.AFTER, HookPhase.FAILED)
# What code fails with on a payload that nobody foresaw.
_FAULTS = (
    ShadowError,
    OSError,
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)


def take_body(
    context: RecorderContext, body: bytes, guard: Guard | None = None
) -> bytes:
    """Process one request of the hook program; return what the agent is to read.

    That is nothing, unless a prompt comes after work of its session was undone, or after an alert.
    """
    delivery = parse_body(body)
    if delivery is None:
        return b""
    try:
        taken = take(context, delivery)
    except (ShadowError, OSError):
        raise
    except _FAULTS as error:
        # Logs and reports have its message, which may quote the payload.
        why = RuntimeError(described(error)).with_traceback(error.__traceback__)
        raise why from None
    if taken is not None and guard is not None:
        guard.saw(taken[0], taken[1].session, taken[1].turn)
    if taken is None or not registry.takes_context(taken[0]):
        return b""
    event, done = taken
    text = notices.take(context, done.session)
    return registry.added_context(text, event) if text else b""


def told(context: RecorderContext, body: bytes) -> bytes:
    """Return what the agent is to read after a payload that came through the spool."""
    delivery = parse_body(body)
    if delivery is None or not context.workspace.config.enabled:
        return b""
    event = registry.parse(delivery.agent, delivery.payload, delivery.env)
    if not isinstance(event, HookEvent) or not registry.takes_context(event):
        return b""
    text = notices.tell(context, event.agent, event.native_session)
    return registry.added_context(text, event) if text else b""


def listen(context: RecorderContext) -> None:
    """Read the spool before the authors of writes are found, however late a write is seen."""
    # Recording is below this package, so it cannot import what it calls here.
    context.pipeline.before_claims = lambda: process_spool(context)


def drain_spool(context: RecorderContext) -> int:
    """Process every payload that waits in the spool and remove it; return how many."""
    process_spool(context)
    # A capture can find more of them. One that fails leaves them for the next time.
    while late := tuple(context.spool.ended):
        _end_late(context, late)
        del context.spool.ended[: len(late)]
    return context.spool.clear()


def _end_late(context: RecorderContext, late: Sequence[LateEnd]) -> None:
    """Record and compare what calls wrote whose ends came through the spool."""
    for event, _, done in late:
        try:
            _capture_named(context, event, done)
        except _FAULTS as error:
            _refuse(context, error)
    # Once for all: without a watcher, this is a walk.
    if any(_needs_barrier(event, done) for event, _, done in late):
        context.observer.settle_call()
    for event, around, done in late:
        try:
            _judge_end(context, event, around, done)
        except _FAULTS as error:
            _refuse(context, error)


def _refuse(context: RecorderContext, error: Exception) -> None:
    """Journal a gap for a payload that cannot be processed, unless the machine is at fault."""
    raise_shortage(error)
    context.pipeline.gap(f"could not process a hook payload: {described(error)}")


def process_spool(context: RecorderContext) -> None:
    """Process every payload that waits in the spool, oldest first."""
    # A hook waits until its file is gone. So the files stay until `context.spool.clear()`, when all
    # that was written before the hook is recorded.
    _journal_missed(context)
    for one in context.spool.waiting():
        # The process of another worktree may have processed it.
        if not os.path.exists(one.path):
            continue
        if one.delivery is None:
            context.pipeline.gap("could not read a spooled hook payload")
            context.spool.taken[one.path] = None
        else:
            _take_spooled(context, one, one.delivery)


def _take_spooled(
    context: RecorderContext, one: SpooledFile, delivery: HookDelivery
) -> None:
    """Process one spooled payload; one that always fails is set aside, with a gap."""
    # A payload that stays in the spool is read by every verb, and would make each of them fail. It
    # must stay all the same if the journal or the disk is what failed: an empty transaction, and
    # `raise_shortage`, find that out before the second try.
    try:
        _try_spooled(context, one, delivery)
    except _FAULTS as fault:
        raise_shortage(fault)
        with context.workspace.db.write():
            pass
        try:
            _try_spooled(context, one, delivery)
        except _FAULTS as error:
            _refuse(context, error)
            context.spool.set_aside(one)


def _try_spooled(
    context: RecorderContext, one: SpooledFile, delivery: HookDelivery
) -> None:
    event = registry.parse(delivery.agent, delivery.payload, delivery.env)
    owner = None
    if isinstance(event, HookEvent) and not one.is_addressed:
        owner = _owner(context, event)
    if owner is None:
        take(context, delivery, addressed=one.is_addressed)
        context.spool.taken[one.path] = None
    else:
        context.spool.pass_on(one, owner, context.workspace.clock.now_ns())


def _journal_missed(context: RecorderContext) -> None:
    """Journal a gap where a hook could neither be taken nor spooled."""
    marker = context.workspace.layout.missed
    try:
        is_new = os.lstat(marker).st_mtime_ns != 0
    except OSError:
        is_new = False
    if is_new:
        context.pipeline.gap("a hook of an agent could not be recorded; see the log")
        os.utime(marker, (0, 0), follow_symlinks=False)


def take(
    context: RecorderContext, delivery: HookDelivery, *, addressed: bool = False
) -> tuple[HookEvent, Intake] | None:
    """Process one delivery, late or live, unless it was processed before.

    Args:
        context: The worktree.
        delivery: What the hook program sent.
        addressed: Whether another worktree passed it on to this one, and to no other.

    Returns:
        The event and what it did to the journal; None if it does not concern this worktree.
    """
    ws = context.workspace
    event = registry.parse(delivery.agent, delivery.payload, delivery.env)
    if event is None or not ws.config.enabled:
        return None
    if not _stores_prompts(ws.config, delivery):
        event = without_prompt(ws.layout, event)
    if context.spool.is_second(delivery.own, event) and not _gave_up(delivery, event):
        return None
    taken = None
    if isinstance(event, BadPayload):
        context.pipeline.gap(f"could not read a hook payload: {event.reason}")
    else:
        here = at_our_place(event, delivery, ws.layout)
        taken = _take(context, delivery, here, addressed=addressed)
    context.spool.note(delivery.own, event)
    return taken


def _gave_up(delivery: HookDelivery, event: HookEvent | BadPayload) -> bool:
    """Return whether a delivery has the time at which the hook before a tool gave up."""
    # The tool may have begun then, before a busy daemon came to open its window.
    if delivery.at_ns is None or isinstance(event, BadPayload):
        return False
    return event.phase is HookPhase.BEFORE and not event.call_derived


def _stores_prompts(settings: Config, delivery: HookDelivery) -> bool:
    """Return whether the settings and the environment of the hook allow it to store prompts."""
    kept = settings.prompts is not PromptPolicy.OFF
    return kept and stores_prompts(None, delivery.env)


def _take(
    context: RecorderContext,
    delivery: HookDelivery,
    event: HookEvent,
    *,
    addressed: bool,
) -> tuple[HookEvent, Intake] | None:
    ws = context.workspace
    around = reach(event, ws.layout.root)
    if around.other_paths and not addressed:
        told = _forward(context, delivery, around.other_paths)
        ours = ws.layout.state_dir
        if told and not around.paths and ours in [one.state_dir for one in told]:
            # A call is one row of a journal: that of the worktree in which it writes.
            return None
    if not _concerns(context, event, around.paths):
        return None
    around = around._replace(
        paths=ws.spellings.trues(around.paths),
        changed=ws.spellings.trues(around.changed),
    )
    if delivery.at_ns is None:
        context.hold_present()
        _capture_before(context, event, around)
    at_ns = delivery.at_ns or ws.clock.now_ns()
    if event.phase is HookPhase.NOTICE:
        with ws.db.write():
            turns.put_checkpoint(ws.db, ws.layout.worktree, around.paths, at_ns)
        return None
    live = context.processes.close_gone(at_ns)
    if event.phase in END_PHASES and context.observer.watching:
        # The agent waits for this hook. After it, it may end and leave orphans.
        context.processes.note_leftovers(live, rescan=True)
    done = _note_window(context, delivery, timed(event), at_ns, around)
    if delivery.at_ns is None:
        _end_call(context, event, around, done)
    else:
        context.pipeline.judge_again(done.doubts)
        if event.phase in _CALL_ENDS:
            # The payload may be read while a batch is recorded, with the write in it.
            late = LateEnd(event, around, replace(done, doubts=()))
            context.spool.ended.append(late)
    return event, done


def _end_call(
    context: RecorderContext, event: HookEvent, around: Reach, done: Intake
) -> None:
    """Record what a call or turn wrote if it has ended, and compare it with the report."""
    _capture_after(context, event, done)
    _judge_end(context, event, around, done)


def _judge_end(
    context: RecorderContext, event: HookEvent, around: Reach, done: Intake
) -> None:
    """Compare what a call wrote with what its end reports."""
    doubts = [*done.doubts, *_begun_at_writes(context, event, done)]
    call = _reported(context, event, around, done)
    if call is not None:
        doubts += _compared(context, event, around, call)
    context.pipeline.judge_again(doubts)
    if call is not None and event.edit is not None and len(call.paths) == 1:
        # Whose these writes are rests on that judgment.
        ws = context.workspace
        context.pipeline.correct(HostEvidence(ws).later_writes(call, event.edit))
    if event.phase in _CALL_ENDS and around.nested:
        # Writes in repositories below this one, which no undo here restores.
        context.observer.store(around.nested)


def _note_window(
    context: RecorderContext,
    delivery: HookDelivery,
    event: HookEvent,
    at_ns: int,
    around: Reach,
) -> Intake:
    """Put an event into the journal, and look at processes that it tells of."""
    ws = context.workspace
    place = EventSource(ws.layout.worktree, delivery.pids, delivery.env, delivery.own)
    done = intake.apply(ws.db, event, at_ns, around, place)
    if delivery.own is not None and delivery.own in delivery.pids[:1]:
        context.processes.marks.name(done.session)
    if event.only_writer is not None:
        context.processes.marks.writes_alone(done.session)
    if done.opened and context.observer.watching:
        is_new = context.processes.watch(done.session, event.tool_class)
        # This is the first event of the session: nobody knew its process at the barrier.
        if is_new and delivery.at_ns is None:
            context.observer.settle()
        elif is_new:
            # It may be read in the middle of a capture, whose writes are not recorded yet.
            context.observer.settle_soon()
    elif event.phase is HookPhase.PROMPT and context.observer.watching:
        is_new = context.processes.count_bytes(done.session)
        if is_new:
            context.observer.settle_soon()
    if done.closed and context.observer.watching:
        if done.background:
            context.processes.note_leftovers(context.processes.live(), rescan=True)
        elif event.tool_class in PATHLESS_WRITERS:
            context.processes.note_leftovers_soon()
    return done


def _forward(
    context: RecorderContext, delivery: HookDelivery, paths: tuple[bytes, ...]
) -> list[Layout]:
    """Pass a call on to the worktrees whose paths it names; return those."""
    told: list[Layout] = []
    for layout in _others(context.workspace.layout, paths):
        try:
            forward(layout, delivery)
            told.append(layout)
        except OSError as error:
            context.pipeline.gap(
                f"could not pass a hook on to another repository: {error}"
            )
    return told


def _others(here: Layout, paths: tuple[bytes, ...]) -> list[Layout]:
    """Return the other initialised worktrees that contain some of these absolute paths."""
    found = (discover(os.fsdecode(os.path.dirname(path))) for path in paths)
    known = {one.root: one for one in found if one is not None and one.initialised}
    return [one for root, one in known.items() if root != here.root]


def _concerns(
    context: RecorderContext, event: HookEvent, inside: tuple[RepoPath, ...]
) -> bool:
    """Return whether an event is about this worktree: by its paths, else by its directory."""
    if inside:
        return True
    places = places_of(event)
    if not places:
        return True
    found = discover(os.fsdecode(places[0]))
    return found is not None and found.root == context.workspace.layout.root


def _owner(context: RecorderContext, event: HookEvent) -> str | None:
    """Return the linked worktree that a spooled event is for; None: ours, or nobody else's."""
    layout = context.workspace.layout
    if _concerns(context, event, reach(event, layout.root).paths):
        return None
    found = discover(os.fsdecode(places_of(event)[0]))
    if found is None or found.state_dir != layout.state_dir:
        return None
    return found.worktree


def _capture_before(context: RecorderContext, event: HookEvent, around: Reach) -> None:
    """Record what is on the disk before something begins, or when it is only announced."""
    opens = event.phase is HookPhase.BEFORE
    if event.phase is HookPhase.PROMPT or (opens and around.needs_barrier):
        context.observer.settle()
    elif opens or event.phase is HookPhase.NOTICE:
        context.observer.store(list(around.paths))


def _capture_after(context: RecorderContext, event: HookEvent, done: Intake) -> None:
    """Record what a call or turn wrote: without a watcher nothing else sees it in time."""
    if event.phase in END_PHASES:
        context.observer.settle()
    elif _needs_barrier(event, done):
        # A deletion may be deferred still, as the beginning of a save. If it were recorded
        # later, a write of somebody else after the call could become a part of it.
        context.observer.settle_call()
    else:
        _capture_named(context, event, done)


def _needs_barrier(event: HookEvent, done: Intake) -> bool:
    """Return whether the end of a call names no path, though its tool can write any."""
    is_end = event.phase in _CALL_ENDS and not done.paths
    return is_end and event.tool_class in PATHLESS_WRITERS


def _capture_named(context: RecorderContext, event: HookEvent, done: Intake) -> None:
    """Record what is at the paths that the end of a call names."""
    if event.phase not in _CALL_ENDS or not done.paths:
        return
    if event.edit is not None and len(done.paths) == 1 and done.call is not None:
        call = turns.get_call(context.workspace.db, done.session, done.call)
        if call is not None and isinstance(event.edit, FileEdit):
            context.pipeline.record_found(done.paths[0], event.edit, call)
    context.observer.store(done.paths)


def _begun_at_writes(
    context: RecorderContext, event: HookEvent, done: Intake
) -> list[Doubt]:
    """Move the begin of a file tool's window to its write, if no hook says how long it ran."""
    # The hook before the tool also comes before the person who is asked for permission. What
    # somebody else wrote while the question was open is not the tool's.
    is_untimed = event.duration_ns is None and event.phase in _CALL_ENDS
    if not is_untimed or not registry.traits(event.agent).waits_unseen:
        return []
    if not (done.closed and done.paths and done.call is not None):
        return []
    doubt = intake.begin_at_writes(context.workspace.db, done.session, done.call)
    return [] if doubt is None else [doubt]


def _reported(
    context: RecorderContext, event: HookEvent, around: Reach, done: Intake
) -> Call | None:
    """Return the call that has ended, if its host reports something about files."""
    if not done.closed or done.call is None:
        return None
    if event.edit is None and not around.changed:
        return None
    call = turns.get_call(context.workspace.db, done.session, done.call)
    return None if call is None or call.closed_ns is None else call


def _compared(
    context: RecorderContext, event: HookEvent, around: Reach, call: Call
) -> list[Doubt]:
    """Correct the window of a call where what was recorded in it differs from the report."""
    ws, host = context.workspace, HostEvidence(context.workspace)
    found: list[Doubt] = []
    end_ns = call.closed_ns or call.opened_ns
    if event.edit is not None and len(call.paths) == 1:
        begun = host.begun_at(call, event.edit)
        if begun is not None:
            with ws.db.write():
                turns.open_call(ws.db, begun)
            found.append(Doubt(begun, call.opened_ns, end_ns))
    is_listed = bool(around.changed) and not call.paths
    # What the call has left running may have written after the list was made.
    if (
        is_listed
        and host.left_out(call, around.changed)
        and not context.processes.has_left_running(call.session)
    ):
        with ws.db.write():
            turns.put_changed(ws.db, call, around.changed)
        found.append(Doubt(call, call.opened_ns, end_ns))
    return found
