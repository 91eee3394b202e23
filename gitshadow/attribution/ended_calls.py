"""Windows that end with their write: of agents that never say when a tool has ended.

Such an agent edits a file once and then sits idle with the window open, while a person goes on
editing that file. So the window lasts until the file it names was written, and a moment longer.
Invariant: only a call of a named file ends so; a shell's window ends with the next event.
"""

from collections.abc import Iterable

from gitshadow.adapters import registry
from gitshadow.attribution import lifecycle
from gitshadow.model import Attribution, Call
from gitshadow.store.journal import turns
from gitshadow.store.journal.db import Db

GRACE_NS = 50_000_000
"""How long an editor that empties a file first may take to fill it; no person saves within it."""


def close_written(db: Db, writes: Iterable[tuple[int, Attribution]]) -> int:
    """Close the windows whose write has been seen.

    Args:
        db: The journal.
        writes: When each write happened, and whose it is.

    Returns:
        How many windows were closed.

    Raises:
        JournalError: the journal could not be written.
    """
    spent = [(at_ns, call) for at_ns, who in writes for call in _spent(db, who)]
    if not spent:
        return 0
    with db.write():
        for at_ns, call in spent:
            turns.close_call(
                db, call.session, call.id, at_ns + GRACE_NS, lifecycle.ENDED_BY_WRITE
            )
    return len(spent)


def _spent(db: Db, who: Attribution) -> list[Call]:
    if who.call is None or not registry.traits(who.agent).never_ends:
        return []
    call = turns.get_call(db, who.session, who.call)
    if call is None or call.closed_ns is not None or len(call.paths) != 1:
        return []
    return [call]
