"""Models: which one a session's hooks named, from when on.

Invariant: a row stands only where the model changed; a session without a row never named one.
"""

from gitshadow.store.journal.db import Db

_MOST_CHARACTERS = 250
"""So long a model's name may be in an Agent Trace record (0.1.0, `model_id`)."""


def note(db: Db, session: str, at_ns: int, model: str) -> None:
    """Note what a hook names; call it inside `db.write()`."""
    name = model[:_MOST_CHARACTERS]
    if at(db, session, at_ns) != name:
        db.run(
            "INSERT OR IGNORE INTO models VALUES (?, ?, ?)",
            (session, at_ns, name),
        )


def at(db: Db, session: str, at_ns: int) -> str | None:
    """Return the model that a session named last before a time, None for none."""
    row = db.row(
        "SELECT model FROM models WHERE session = ? AND since_ns <= ?"
        " ORDER BY since_ns DESC LIMIT 1",
        (session, at_ns),
    )
    return None if row is None else str(row[0])


def of_session(db: Db, session: str) -> list[tuple[int, str]]:
    """Return the models of a session and since when, oldest first."""
    rows = db.rows(
        "SELECT since_ns, model FROM models WHERE session = ? ORDER BY since_ns",
        (session,),
    )
    return [(int(since_ns), str(model)) for since_ns, model in rows]
