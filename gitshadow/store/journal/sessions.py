"""Sessions, their chains, and the models that their hooks named.

The id of a session never changes. A model has a row only where it changed.
"""

from functools import partial

from gitshadow.model import Actor, Chain, Session
from gitshadow.store.journal import meta
from gitshadow.store.journal.db import Db, Table

_SESSIONS = Table("sessions", Session, micro_ns="started_ns")
put, get = _SESSIONS.put, _SESSIONS.finder("id")
by_prefix = partial(
    _SESSIONS.by_prefix, order="ORDER BY started_ns DESC", ids=("id", "native_id")
)
# A chain's row is written after its ref has moved. A crash in between leaves a ref that is ahead,
# which the next start replays; a row that is ahead would name commits that no ref keeps alive.
_CHAINS = Table("chains", Chain)
put_chain, get_chain = _CHAINS.put, _CHAINS.finder("session", "worktree")
# An Agent Trace record (0.1.0) takes no longer name of a model (`model_id`).
_MOST_MODEL_CHARACTERS = 250
TRANSCRIPT = "transcript:"
"""Before the id of a session, the key of the path of its conversation."""


def note_transcript(db: Db, session: str, path: str) -> None:
    """Store where the agent keeps the conversation; call it inside `db.write()`."""
    meta.put(db, f"{TRANSCRIPT}{session}", path)


def transcript(db: Db, session: str) -> str | None:
    """Return where the agent keeps the conversation of a session, None if it is not known."""
    return meta.get(db, f"{TRANSCRIPT}{session}")


def find_native(db: Db, agent: str | None, native_id: str) -> Session | None:
    """Return the newest session that an agent calls by this id of its own, or None."""
    return _SESSIONS.get(
        db,
        "WHERE native_id = ? AND agent IS ? ORDER BY started_ns DESC",
        native_id,
        agent,
    )


def all_sessions(db: Db) -> list[Session]:
    """Return every session, newest first."""
    return _SESSIONS.rows(db, "ORDER BY started_ns DESC, id")


def live(db: Db) -> list[Session]:
    """Return the sessions that have not ended, oldest first."""
    return _SESSIONS.rows(db, "WHERE ended_ns IS NULL ORDER BY started_ns, id")


def of_process(db: Db, pid: int, pid_started: int) -> list[Session]:
    """Return the sessions of one process, ended or not, oldest first."""
    where = "WHERE pid = ? AND pid_started = ? ORDER BY started_ns, id"
    return _SESSIONS.rows(db, where, pid, pid_started)


def children(db: Db, parent: str) -> list[Session]:
    """Return the child sessions of a session, oldest first."""
    return _SESSIONS.rows(db, "WHERE parent = ? ORDER BY started_ns, id", parent)


def newest_of(db: Db, actor: Actor) -> Session | None:
    """Return the newest session of a class of actor, or None."""
    return _SESSIONS.get(
        db, "WHERE actor = ? ORDER BY started_ns DESC, id DESC LIMIT 1", actor.value
    )


def close(db: Db, session: str, ended_ns: int, reason: str) -> None:
    """End a session that has not ended; call it inside `db.write()`."""
    db.run(
        "UPDATE sessions SET ended_ns = ?, end_reason = ?"
        " WHERE id = ? AND ended_ns IS NULL",
        (ended_ns, reason, session),
    )


def forget_processes(db: Db) -> None:
    """Forget which processes living sessions and open calls have; call it inside `db.write()`."""
    db.run("UPDATE sessions SET pid = NULL, pid_started = NULL WHERE ended_ns IS NULL")
    db.run("UPDATE calls SET pid = NULL, pid_started = NULL WHERE closed_ns IS NULL")


def close_rebuilt(db: Db, reason: str) -> None:
    """End every open session at its last event: nothing shows that it still runs."""
    db.run(
        "UPDATE sessions SET end_reason = ?, ended_ns = COALESCE((SELECT MAX(ts_ns)"
        " FROM events WHERE events.session = sessions.id), started_ns)"
        " WHERE ended_ns IS NULL",
        (reason,),
    )


def chains(db: Db, worktree: str | None = None) -> list[Chain]:
    """Return all chains (of one worktree), newest first."""
    return _CHAINS.rows(
        db, "WHERE ?1 IS NULL OR worktree = ?1 ORDER BY tip_seq DESC", worktree
    )


def newest_chain(db: Db, worktree: str) -> Chain | None:
    """Return the chain of a worktree that was written to last, or None."""
    return _CHAINS.get(db, "WHERE worktree = ? ORDER BY tip_seq DESC LIMIT 1", worktree)


def chains_of(db: Db, session: str) -> list[Chain]:
    """Return the chains of a session, one for each worktree, by worktree."""
    return _CHAINS.rows(db, "WHERE session = ? ORDER BY worktree", session)


def drop_chain(db: Db, ref: str) -> None:
    """Forget a chain whose ref is gone; call it inside `db.write()`."""
    db.run("DELETE FROM chains WHERE ref = ?", (ref,))


def note_model(db: Db, session: str, at_ns: int, model: str) -> None:
    """Store the model that a hook names, if it changed; call it inside `db.write()`."""
    name = model[:_MOST_MODEL_CHARACTERS]
    if model_at(db, session, at_ns) != name:
        db.run(
            "INSERT OR IGNORE INTO models VALUES (?, ?, ?)",
            (session, at_ns, name),
        )


def model_at(db: Db, session: str, at_ns: int) -> str | None:
    """Return the model that a session named last before a time, None for none."""
    row = db.row(
        "SELECT model FROM models WHERE session = ? AND since_ns <= ?"
        " ORDER BY since_ns DESC LIMIT 1",
        (session, at_ns),
    )
    return None if row is None else str(row[0])


def models_of(db: Db, session: str) -> list[tuple[int, str]]:
    """Return the models of a session and since when, oldest first."""
    rows = db.rows(
        "SELECT since_ns, model FROM models WHERE session = ? ORDER BY since_ns",
        (session,),
    )
    return [(int(since_ns), str(model)) for since_ns, model in rows]
