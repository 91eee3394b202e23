"""The conversation and the state of agent programs' sessions: events, values, versions.

Invariant: nothing is deleted or changed; a value that is None says that the key is absent, a
version without a blob that the artifact is.
"""

from gitshadow.store.journal.db import Db
from gitshadow.store.journal.saga_rows import (
    MARKER,
    Marker,
    NewEvent,
    SessionEvent,
    Version,
)
from gitshadow.store.journal.table import Table

_EVENTS = Table("saga_events", SessionEvent)
_LAST = "SELECT max(seq) FROM saga_events WHERE session = ?"


def append(db: Db, event: NewEvent) -> None:
    """Add an event and the values it sets; call it inside `db.write()`."""
    seq = last_seq(db, event.session) + 1
    db.run(
        "INSERT INTO saga_events VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *(event.session, seq, event.invocation, event.author, event.kind),
            *(event.ts_ns, event.text, event.body),
        ),
    )
    rows = [(event.session, key, seq, value) for key, value in event.delta.items()]
    db.run_many("INSERT INTO saga_state VALUES (?, ?, ?, ?)", rows)
    for name, oid in event.artifacts.items():
        version = next_version(db, event.session, name)
        db.run(
            "INSERT INTO saga_artifacts VALUES (?, ?, ?, ?, ?)",
            (event.session, name, version, seq, oid),
        )


def last_seq(db: Db, session: str) -> int:
    """Return the number of a session's newest event; -1 for a session without one."""
    row = db.row(_LAST, (session,))
    return -1 if row is None or row[0] is None else int(row[0])


def events(db: Db, session: str) -> list[SessionEvent]:
    """Return all events of a session, oldest first."""
    return _EVENTS.rows(db, "WHERE session = ? ORDER BY seq", session)


def first_of(db: Db, session: str, invocation: str) -> int | None:
    """Return the number of an invocation's first event, or None where it has none."""
    sql = "SELECT min(seq) FROM saga_events WHERE session = ? AND invocation = ?"
    row = db.row(sql, (session, invocation))
    return None if row is None or row[0] is None else int(row[0])


def invocations_since(db: Db, session: str, seq: int) -> list[str]:
    """Return the invocations that have events from a number on, oldest first."""
    sql = (
        "SELECT invocation FROM saga_events WHERE session = ? AND seq >= ?"
        " GROUP BY invocation ORDER BY min(seq)"
    )
    return [row[0] for row in db.rows(sql, (session, seq))]


def markers(db: Db, session: str) -> list[Marker]:
    """Return the rewinds of a session, newest first."""
    sql = (
        "SELECT seq, json_extract(body, '$.hidden_from'),"
        " json_extract(body, '$.hidden_to') FROM saga_events"
        " WHERE session = ? AND kind = ? ORDER BY seq DESC"
    )
    return [Marker(*row) for row in db.rows(sql, (session, MARKER))]


def state_before(db: Db, session: str, seq: int) -> dict[str, str]:
    """Return the values as they stood before an event, as JSON texts by key."""
    sql = (
        "SELECT key, value, max(seq) FROM saga_state WHERE session = ? AND seq < ?"
        " GROUP BY key ORDER BY key"
    )
    rows = db.rows(sql, (session, seq))
    return {key: value for key, value, _ in rows if value is not None}


def state_delta(db: Db, session: str, seq: int) -> dict[str, str | None]:
    """Return what must be set for the state to be what it was before an event.

    Its cost is that of what was set since, whatever the session holds.
    """
    sql = "SELECT DISTINCT key FROM saga_state WHERE session = ? AND seq >= ? ORDER BY key"
    keys = [row[0] for row in db.rows(sql, (session, seq))]
    found = {}
    for key in keys:
        now, then = _value(db, session, key, None), _value(db, session, key, seq)
        if now != then:
            found[key] = then
    return found


def next_version(db: Db, session: str, name: str) -> int:
    """Return the number that the next version of an artifact gets, from 0."""
    sql = "SELECT max(version) FROM saga_artifacts WHERE session = ? AND name = ?"
    row = db.row(sql, (session, name))
    return 0 if row is None or row[0] is None else int(row[0]) + 1


def versions(db: Db, session: str, name: str) -> list[Version]:
    """Return the versions of an artifact, oldest first."""
    sql = (
        "SELECT version, oid FROM saga_artifacts WHERE session = ? AND name = ?"
        " ORDER BY version"
    )
    return [Version(row[0], row[1]) for row in db.rows(sql, (session, name))]


def artifacts(db: Db, session: str) -> dict[str, Version]:
    """Return the newest version of each artifact that there is, by name."""
    sql = (
        "SELECT name, max(version), oid FROM saga_artifacts WHERE session = ?"
        " GROUP BY name ORDER BY name"
    )
    rows = db.rows(sql, (session,))
    return {name: Version(number, oid) for name, number, oid in rows if oid is not None}


def artifact_names(db: Db, session: str) -> list[str]:
    """Return the names of all artifacts that there ever were, sorted."""
    sql = "SELECT DISTINCT name FROM saga_artifacts WHERE session = ? ORDER BY name"
    return [str(name) for (name,) in db.rows(sql, (session,))]


def artifact_delta(db: Db, session: str, seq: int) -> dict[str, Version | None]:
    """Return which version each artifact saved since an event had before it; None: it had none."""
    sql = (
        "SELECT DISTINCT name FROM saga_artifacts WHERE session = ? AND seq >= ?"
        " ORDER BY name"
    )
    found: dict[str, Version | None] = {}
    for (name,) in db.rows(sql, (session, seq)):
        then = _version(db, session, name, seq)
        now = _version(db, session, name, None)
        if (then and then.oid) != (now and now.oid):
            found[name] = then if then is not None and then.oid is not None else None
    return found


def _version(db: Db, session: str, name: str, seq: int | None) -> Version | None:
    sql = (
        "SELECT version, oid FROM saga_artifacts WHERE session = ?1 AND name = ?2"
        " AND (?3 IS NULL OR seq < ?3) ORDER BY version DESC LIMIT 1"
    )
    row = db.row(sql, (session, name, seq))
    return None if row is None else Version(row[0], row[1])


def _value(db: Db, session: str, key: str, seq: int | None) -> str | None:
    """Return a key's value before an event (None: now)."""
    sql = (
        "SELECT value FROM saga_state WHERE session = ?1 AND key = ?2"
        " AND (?3 IS NULL OR seq < ?3) ORDER BY seq DESC LIMIT 1"
    )
    row = db.row(sql, (session, key, seq))
    return None if row is None else row[0]
