"""Hook deliveries: what an agent reports, in the order that keeps the evidence straight.

Before a tool: what stands on its paths is recorded first, then its window opens. After it: the
window closes at the hook's time, then its paths are recorded; the time of the write decides.
Invariant: nothing here makes a hook fail; what is wrong becomes a gap row.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress

from gitshadow.adapters import registry
from gitshadow.adapters.base import BadPayload, HookEvent, Phase
from gitshadow.attribution import intake, liveness, reach
from gitshadow.attribution.delivery import HookDelivery, parse_body, parse_spool
from gitshadow.attribution.intake import Intake, Place
from gitshadow.config import PromptPolicy
from gitshadow.engine.desk import Desk
from gitshadow.engine.forward import forward
from gitshadow.model import RepoPath, ToolClass
from gitshadow.store.layout import discover

_PATHLESS = (ToolClass.SHELL, ToolClass.OTHER)
_ENDS = (Phase.TURN_END, Phase.SUBAGENT_END, Phase.SESSION_END)


def take_body(desk: Desk, body: bytes) -> bytes:
    """Take one request of the hook program; return what the agent is to read (nothing)."""
    delivery = parse_body(body)
    if delivery is not None:
        take(desk, delivery)
    return b""


def drain_spool(desk: Desk) -> int:
    """Take every payload that waits in the spool, oldest first; return how many."""
    taken = 0
    for path in take_spool(desk):
        discard(path)
        taken += 1
    return taken


def discard(path: str) -> None:
    """Remove a payload that was taken; another worktree's process may have been quicker."""
    with suppress(FileNotFoundError):
        os.unlink(path)


def take_spool(desk: Desk) -> Iterator[str]:
    """Take every payload that waits in the spool, oldest first, and yield its file.

    The caller unlinks it: that is what a hook waits for.
    """
    _tell_missed(desk)
    directory = desk.workspace.layout.spool_dir
    waiting: list[tuple[int, str, HookDelivery | None]] = []
    for name in sorted(os.listdir(directory)):
        if not name.endswith(".json"):
            continue
        path = os.path.join(directory, name)
        delivery = parse_spool(path)
        at_ns = delivery.at_ns if delivery is not None and delivery.at_ns else 0
        waiting.append((at_ns, path, delivery))
    for _, path, delivery in sorted(waiting, key=lambda one: (one[0], one[1])):
        if not os.path.exists(path):  # another worktree's process took it
            continue
        if delivery is None:
            desk.pipeline.gap("could not read a spooled hook payload")
        elif not _is_ours(desk, delivery):
            continue
        else:
            take(desk, delivery)
        yield path


def _tell_missed(desk: Desk) -> None:
    """Journal a gap where a hook could neither be taken nor spooled."""
    marker = desk.workspace.layout.missed
    if os.path.exists(marker) and os.stat(marker).st_mtime_ns:
        desk.pipeline.gap("an agent's hook could not be recorded; see the log")
        os.utime(marker, (0, 0))


def take(desk: Desk, delivery: HookDelivery) -> Intake | None:
    """Take one delivery, late or live.

    Returns:
        What it did to the journal; None where it does not concern this worktree.
    """
    ws = desk.workspace
    if not ws.config.enabled:
        return None
    event = registry.parse(delivery.agent, delivery.payload, delivery.env)
    if isinstance(event, BadPayload):
        desk.pipeline.gap(f"could not read a hook payload: {event.reason}")
        return None
    if event is None:
        return None
    around = reach.reach(event, ws.layout.root)
    if around.other_paths and delivery.at_ns is None:
        try:
            forward(ws.layout, delivery, around.other_paths)
        except OSError as error:
            desk.pipeline.gap(f"could not tell another repository of a hook: {error}")
    if not _concerns(desk, event, around.paths):
        return None
    if event.phase is Phase.BEFORE and delivery.at_ns is None:
        _capture_before(desk, around.paths, pathless=around.needs_barrier)
    elif event.phase is Phase.PROMPT and delivery.at_ns is None:
        desk.observer.settle()
    at_ns = delivery.at_ns or ws.clock.now_ns()
    liveness.close_gone(ws.db, at_ns)
    done = intake.apply(ws.db, event, at_ns, _place(desk, delivery))
    if ws.config.prompts is PromptPolicy.OFF:
        _forget_prompt(desk, done)
    if delivery.at_ns is None:
        _capture_after(desk, event, done)
    return done


def _concerns(desk: Desk, event: HookEvent, inside: tuple[RepoPath, ...]) -> bool:
    """Tell whether an event is about this worktree: by its paths, else by its directory."""
    if inside:
        return True
    places = reach.places_of(event)
    if not places:
        return True
    found = discover(os.fsdecode(places[0]))
    return found is not None and found.root == desk.workspace.layout.root


def _is_ours(desk: Desk, delivery: HookDelivery) -> bool:
    """Tell whether a spooled payload is for this worktree and not for a linked one."""
    event = registry.parse(delivery.agent, delivery.payload, delivery.env)
    if not isinstance(event, HookEvent):
        return True
    inside = reach.reach(event, desk.workspace.layout.root).paths
    return _concerns(desk, event, inside)


def _place(desk: Desk, delivery: HookDelivery) -> Place:
    layout = desk.workspace.layout
    return Place(layout.root, layout.worktree, delivery.pids, delivery.env)


def _capture_before(desk: Desk, paths: Iterable[RepoPath], *, pathless: bool) -> None:
    if pathless:
        desk.observer.settle()
    else:
        desk.observer.store(list(paths))


def _capture_after(desk: Desk, event: HookEvent, done: Intake) -> None:
    """Record what a call or turn left; without a watcher nobody else will see it in time."""
    if event.phase in _ENDS:
        desk.observer.settle()
    elif event.phase in (Phase.AFTER, Phase.FAILED):
        if done.paths:
            desk.observer.store(done.paths)
        elif event.tool_class in _PATHLESS:
            _after_shell(desk)


def _after_shell(desk: Desk) -> None:
    """Record what a tool wrote that names no path: now, or with a watcher right after the hook."""
    if desk.observer.watching:
        desk.observer.settle_soon()
    else:
        desk.observer.settle()


def _forget_prompt(desk: Desk, done: Intake) -> None:
    if done.turn is None:
        return
    with desk.workspace.db.write():
        desk.workspace.db.run(
            "UPDATE turns SET prompt = NULL WHERE session = ? AND id = ?",
            (done.session, done.turn),
        )
