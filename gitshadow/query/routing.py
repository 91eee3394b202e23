"""Whose history an id belongs to: ours, or that of a machine of which something was fetched.

Invariant: what is known here is ours, whatever others call the same.
"""

from gitshadow.errors import UnknownIdError, UsageError
from gitshadow.model import Session
from gitshadow.query.commit_ids import events_of_commit, recorded_commit
from gitshadow.query.resolve import session_of, things
from gitshadow.recording.context import RecorderContext
from gitshadow.store.journal import sessions


def routed(context: RecorderContext, typed: str) -> tuple[str | None, str]:
    """Return the machine whose history knows an id, None for ours, and the id as it has it.

    Raises:
        UsageError: several machines fit.
    """
    numbered = context.others.numbered(typed)
    if numbered is not None:
        return numbered
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
    return bool(things(context.workspace.db, typed))
