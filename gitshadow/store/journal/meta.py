"""Small named values of the journal.

Invariant: a value is text; its writer knows its form.
"""

from gitshadow.store.journal.db import Db


def get(db: Db, key: str) -> str | None:
    """Return a value, or None."""
    row = db.row("SELECT value FROM meta WHERE key = ?", (key,))
    return None if row is None else str(row[0])


def put(db: Db, key: str, value: str) -> None:
    """Store a value; call it inside `db.write()`."""
    db.run("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))
