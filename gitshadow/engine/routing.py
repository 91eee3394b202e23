"""Whose history an id belongs to: ours, or that of a machine of which something was fetched.

Invariant: what is known here is ours, whatever others call the same.
"""

from gitshadow.engine.commit_ids import events_of_commit, recorded_commit
from gitshadow.engine.desk import Desk
from gitshadow.engine.resolve import things


def routed(desk: Desk, typed: str) -> tuple[str | None, str]:
    """Return the machine whose history knows an id, None for ours, and the id as it has it.

    Raises:
        UsageError: several machines fit.
    """
    numbered = desk.others.numbered(typed)
    if numbered is not None:
        return numbered
    if _knows(desk, typed):
        return None, typed
    for machine, other in desk.others.desks():
        if _knows(other, typed):
            return machine, typed
    return None, typed


def _knows(desk: Desk, typed: str) -> bool:
    commit = recorded_commit(desk.workspace, typed)
    if commit is not None:
        return bool(events_of_commit(desk.workspace, commit))
    return bool(things(desk.workspace.db, typed))
