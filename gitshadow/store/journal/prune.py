"""Dropping sessions from the journal.

Invariant: a tombstone stands before the ref goes, because a deleted ref of ours has no reflog.
"""

import json
from collections.abc import Sequence

from gitshadow.model import Chain
from gitshadow.store.journal import meta
from gitshadow.store.journal.db import Db


def bury(db: Db, session: str, now_ns: int, chains: Sequence[Chain]) -> None:
    """Write down what is about to be dropped; call it inside `db.write()`."""
    tips = {chain.ref: chain.tip for chain in chains}
    text = json.dumps({"dropped_ns": now_ns, "tips": tips})
    meta.put(db, f"tombstone:{session}", text)


def drop_session(db: Db, session: str) -> None:
    """Forget a session with all its rows; call it inside `db.write()`."""
    for table in (
        "events",
        "bursts",
        "turns",
        "calls",
        "call_paths",
        "chains",
        "models",
    ):
        db.run(f"DELETE FROM {table} WHERE session = ?", (session,))
    db.run("DELETE FROM ops WHERE session = ?", (session,))
    db.run("DELETE FROM touches WHERE session = ?", (session,))
    db.run("DELETE FROM sessions WHERE id = ?", (session,))
