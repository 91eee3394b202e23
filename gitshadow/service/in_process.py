"""Verbs without a daemon: open the worktree, catch up, answer, close.

Invariant: the same verbs and documents as in the daemon, under the same lock.
"""

import os
from collections.abc import Callable

from gitshadow.api import run as run_verb
from gitshadow.maintenance import setup
from gitshadow.maintenance.startup_repair import mend
from gitshadow.messages.codec import JsonObject, Params, encode, parse
from gitshadow.messages.sharing import BringBackRequest
from gitshadow.messages.status import InitRequest
from gitshadow.recording.context import RecorderContext, open_context
from gitshadow.service import hook_intake, settings
from gitshadow.store.layout import Layout

LOCK_S = 20.0
# These verbs can be answered without a journal if shadow refs were fetched: in CI, for example.
_ON_REFS = frozenset({"check", "review", "reviews", "unreview"})
# A person who runs `git commit` or a wrapped command did not ask for packing, and waits for these.
_WAITED_FOR = frozenset({"git_hook", "exec_begin"})
HOOK_LOCK_S = 1.0
JOURNAL_S = 5.0


def run(
    layout: Layout, verb: str, params: Params, *, lock_timeout_s: float = LOCK_S
) -> JsonObject:
    """Run one verb in this process.

    Raises:
        LockedError: another process is at work; nothing was done.
        ShadowError: what the verb raises, or the worktree could not be opened.
    """
    if verb == "init":
        return _init(layout, params)
    if verb == "reindex":
        return _reindex(layout)
    if verb == "bring_back":
        return _bring_back(layout, params)
    if verb in _ON_REFS and not layout.initialised:
        return _on_refs(layout, verb, params)
    context = _open(layout, lock_timeout_s)
    tidy: Callable[[], None] | None = None
    try:
        document = run_verb(context, verb, params)
        if verb not in _WAITED_FOR:
            tidy = _tidying(context)
    finally:
        context.close()
    if tidy is not None:
        tidy()
    return document


def _tidying(context: RecorderContext) -> Callable[[], None] | None:
    """Return what is to be done when the worktree is closed, usually nothing."""
    # Git itself guesses the number of loose objects from this directory (gc.auto). Most commands
    # find none there, and do not pay for the import of the packer.
    if not os.path.isdir(os.path.join(context.workspace.layout.objects_dir, "17")):
        return None
    from gitshadow.maintenance.upkeep import at_end

    return at_end(context.workspace)


def deliver(layout: Layout, body: bytes) -> bytes:
    """Process one hook delivery in this process.

    Raises:
        LockedError: another process is at work; the caller spools.
        ShadowError: the worktree could not be opened.
    """
    context = _open(layout, HOOK_LOCK_S)
    try:
        return hook_intake.take_body(context, body)
    finally:
        context.close()


def git_hook(layout: Layout, params: Params) -> None:
    """Process the call of a git hook in this process, and give up soon if that must wait.

    Raises:
        LockedError: another process is at work.
        ShadowError: the worktree could not be opened.
    """
    run(layout, "git_hook", params, lock_timeout_s=HOOK_LOCK_S)


def _open(layout: Layout, timeout_s: float) -> RecorderContext:
    context = open_context(layout, os.environ, lock_timeout_s=timeout_s)
    hook_intake.listen(context)
    try:
        context.workspace.db.be_patient(min(timeout_s, JOURNAL_S))
        mend(context)
        settings.follow(context)
        hook_intake.drain_spool(context)
    except BaseException:
        context.close()
        raise
    return context


def _on_refs(layout: Layout, verb: str, params: Params) -> JsonObject:
    """Run a verb on the history in the refs; nothing is recorded."""
    from gitshadow.maintenance.reindex import context_from_refs

    with context_from_refs(layout, os.environ) as context:
        return run_verb(context, verb, {**params, "borrowed": True})


def _reindex(layout: Layout) -> JsonObject:
    """Rebuild the journal, then record what differs on the disk."""
    from gitshadow.maintenance.reindex import refuse_unrecorded, reindex

    refuse_unrecorded(layout)
    answer, unreadable = reindex(layout)
    context = _open(layout, LOCK_S)
    try:
        setup.forget_carried(context.workspace)
        for ref, why in unreadable:
            context.pipeline.gap(f"could not read {ref}: {why}")
        context.observer.settle()
    finally:
        context.close()
    return encode(answer)


def _bring_back(layout: Layout, params: Params) -> JsonObject:
    """Restore the history from a mirror, then record what differs on the disk."""
    from gitshadow.maintenance.reindex import bring_back

    done = bring_back(layout, os.environ, parse(BringBackRequest, params).mirror)
    context = _open(layout, LOCK_S)
    try:
        setup.forget_carried(context.workspace)
        context.observer.settle()
    finally:
        context.close()
    return encode(done)


def _init(layout: Layout, params: Params) -> JsonObject:
    from gitshadow.api.status import init_answer

    force = parse(InitRequest, params).force
    done = setup.initialise(layout, os.environ, force=force)
    return encode(init_answer(layout, done))
