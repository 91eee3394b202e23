"""Turns of agent programs: calls, inverses, undos, conversation, state, and the log of it all.

`saga_turns`, `saga_calls` and `saga_ops` have the present. `saga_log`, `saga_events` and the values
and versions that events set have the past: rows are only added. Each row of the log has a digest
over itself and the row before.
"""

from collections.abc import Iterable, Iterator
from os import urandom

from gitshadow.errors import JournalError
from gitshadow.store.journal import meta
from gitshadow.store.journal.db import Db, Row, Table, Value
from gitshadow.store.journal.saga_rows import (
    MARKER,
    CallName,
    Effect,
    Held,
    Marker,
    NewEvent,
    SagaCall,
    SagaEntry,
    SagaLogRow,
    SagaOp,
    SagaRow,
    SagaTurn,
    SessionEvent,
    Version,
    digest_of,
    first_broken,
)

_ID = "saga_store"
_ID_BYTES = 16
_TURNS = Table("saga_turns", SagaTurn, key="session, id")
_CALLS = Table(
    "saga_calls", SagaCall, renamed={"klass": "class"}, key="session, turn, id"
)
_OPS = Table("saga_ops", SagaOp, key="id")
_LOG = Table("saga_log", SagaLogRow)
_EVENTS = Table("saga_events", SessionEvent)
_OUTBOX = Table("saga_outbox", Held, key="session, turn, call")
_LARGE = 1 << 20
_CLASS = _CALLS.columns.index("class")
# The newest event's number goes with the digest, so that a search for repeated effects reads only
# the ranges that rewinds hid, by the key.
_BEGUN = (
    "INSERT OR IGNORE INTO saga_effects SELECT ?1, ?2, COALESCE(MAX(seq), -1), ?3, ?4"
    " FROM saga_events WHERE session = ?1"
)
_STANDING = (
    f"SELECT {', '.join(f'c.{name}' for name in _CALLS.columns)} FROM saga_effects e"
    " JOIN saga_calls c ON (c.session, c.turn, c.id) = (e.session, e.turn, e.call)"
    " WHERE e.session = ? AND e.digest = ? AND e.seq BETWEEN ? AND ?"
    " AND (c.outcome IS NULL OR c.outcome IN ('success', 'held', 'raised'))"
    " AND c.undo NOT IN ('done', 'skipped', 'resolved') ORDER BY e.seq DESC LIMIT 1"
)
# Compare-and-set in one statement: of two processes that read the same row, one changes it, and the
# other sees that no row was changed. An expired lease belongs to nobody any more.
_CLAIM = (
    "UPDATE saga_calls SET undo = 'running', attempts = attempts + 1, owner = ?,"
    " lease_ns = ? WHERE session = ? AND turn = ? AND id = ? AND (undo IN ('planned', 'failed')"
    " OR (undo = 'running' AND (owner = ? OR lease_ns <= ?)))"
)

_IN_DOUBT = (
    "(COALESCE(outcome, 'raised') = 'raised' AND undo = 'none' AND class <> 'read_only'"
    " AND NOT EXISTS (SELECT 1 FROM saga_turns t WHERE"
    " t.session = saga_calls.session AND t.id = turn AND t.status = 'open'))"
)
# Such a row is of no call that an undo could undo, so nothing else would name it.
_DAMAGED = (
    "(class <> 'read_only' AND undo IN ('none', 'planned')"
    " AND COALESCE(outcome, 'raised') IN ('success', 'held', 'raised')"
    " AND NOT (CASE WHEN json_valid(intent) THEN json_type(intent) = 'object' ELSE 0 END"
    " AND (inverse IS NULL OR CASE WHEN json_valid(inverse)"
    " THEN COALESCE(json_type(inverse, '$.handler'), '') = 'text' ELSE 0 END)))"
)
# A call in doubt is settled by a probe or by a person, and with it what waits.
_WAITING = (
    f"SELECT {', '.join(f'o.{name}' for name in _OUTBOX.columns)} FROM saga_outbox o"
    " JOIN saga_calls c ON (c.session, c.turn, c.id) = (o.session, o.turn, o.call)"
    " WHERE (?1 IS NULL OR o.session = ?1) AND (o.state IN ('held', 'due', 'sending', 'failed')"
    " OR o.state = 'in_doubt' AND COALESCE(c.outcome, 'raised') = 'raised' AND c.undo = 'none')"
    " ORDER BY o.rowid"
)
_TAKE = (
    "UPDATE saga_outbox SET state = 'sending', attempts = attempts + 1, owner = ?,"
    " lease_ns = ? WHERE session = ? AND turn = ? AND call = ?"
    " AND (state = 'due' OR state = 'sending' AND (owner = ? OR lease_ns <= ?))"
)
_WITHDRAW = (
    "UPDATE saga_outbox SET state = CASE state WHEN 'sending' THEN 'in_doubt' ELSE 'dropped' END"
    " WHERE session = ? AND turn = ? AND call = ?"
    " AND state IN ('held', 'due', 'sending', 'dropped') RETURNING state"
)


class SagaTables:
    """The sessions of agent programs in a journal; `sdk.turns.protocols` describes a store of them.

    Attributes:
        db: The journal.
    """

    def __init__(self, db: Db) -> None:
        self.db = db

    def store_id(self) -> str:
        """Return the random name of this journal; a salvage copies it.

        Raises:
            JournalError: it has none yet and cannot be written.
        """
        found = meta.get(self.db, _ID)
        if found is None:
            # Of two processes, the second one takes the name of the first.
            values = (_ID, urandom(_ID_BYTES).hex())
            with self.db.write():
                self.db.run("INSERT OR IGNORE INTO meta VALUES (?, ?)", values)
            found = meta.get(self.db, _ID)
        return found or ""

    def save(self, rows: Iterable[SagaRow]) -> None:
        """Write rows, new or changed, and add to the log, in one transaction.

        Raises:
            JournalError: nothing of it was written.
        """
        # An outcome and its inverse must not be apart: with the first alone an undo would leave the
        # effect, with the second alone it would reverse what never happened.
        with self.db.write():
            for row in rows:
                if isinstance(row, SagaEntry):
                    self._add_entry(row)
                elif isinstance(row, NewEvent):
                    self._add_event(row)
                elif isinstance(row, Effect):
                    self.db.run(_BEGUN, (row.session, row.digest, row.turn, row.call))
                elif isinstance(row, SagaTurn):
                    _TURNS.put(self.db, row)
                elif isinstance(row, SagaCall):
                    if len(row.intent) > _LARGE:
                        self.db.cut_log()
                    _CALLS.put(self.db, row)
                elif isinstance(row, SagaOp):
                    _OPS.put(self.db, row)
                else:
                    _OUTBOX.put(self.db, row)

    def claim(
        self,
        call: CallName,
        owner: str,
        now_ns: int,
        until_ns: int,
        *,
        rows: Iterable[SagaRow] = (),
        then: Iterable[SagaRow] = (),
    ) -> bool:
        """Claim a compensation for one attempt, by compare-and-set; return whether it is ours.

        A claim of another owner ends with its lease. `rows` are saved first, `then` if it is ours,
        in the same transaction.
        """
        values: tuple[Value, ...] = (
            *(owner, until_ns, call.session, call.turn, call.id),
            *(owner, now_ns),
        )
        with self.db.write():
            self.save(rows)
            is_ours = self.db.run(_CLAIM, values) == 1
            if is_ours:
                self.save(then)
            return is_ours

    def free_leases(self, session: str) -> None:
        """Release the claims of dead processes; the caller holds the session's lock."""
        # The lock is exclusive, so the maker of these claims is gone. Without this an undo would
        # wait for leases to run out.
        with self.db.write():
            self.db.run(
                "UPDATE saga_calls SET lease_ns = 0 WHERE session = ? AND undo = 'running'",
                (session,),
            )
            self.db.run(
                "UPDATE saga_outbox SET lease_ns = 0 WHERE session = ? AND state = 'sending'",
                (session,),
            )

    def due(self, session: str, now_ns: int) -> list[Held]:
        """Return the calls to send now, and those whose sender died; the first held comes first."""
        return _OUTBOX.rows(
            self.db,
            "WHERE session = ? AND (state = 'due' AND due_ns <= ?"
            " OR state = 'sending' AND lease_ns <= ?) ORDER BY rowid",
            session,
            now_ns,
            now_ns,
        )

    def waiting(self, session: str | None = None) -> list[Held]:
        """Return the calls that were neither sent nor dropped, in the order of their holding."""
        return [_OUTBOX.load(row) for row in self.db.rows(_WAITING, (session,))]

    def take_out(self, call: CallName, owner: str, now_ns: int, until_ns: int) -> bool:
        """Claim a call for one attempt to send it; return whether it is ours."""
        name = (call.session, call.turn, call.id)
        with self.db.write():
            return self.db.run(_TAKE, (owner, until_ns, *name, owner, now_ns)) == 1

    def withdraw(self, call: CallName) -> bool:
        """Prevent that a call is sent; return whether it is dropped: nobody had begun that."""
        with self.db.write():
            rows = self.db.rows(_WITHDRAW, (call.session, call.turn, call.id))
        return [state for (state,) in rows] == ["dropped"]

    def turn(self, session: str, turn: str) -> SagaTurn | None:
        """Return a turn, or None."""
        return _TURNS.get(self.db, "WHERE session = ? AND id = ?", session, turn)

    def last_turn(self, session: str) -> SagaTurn | None:
        """Return the newest turn of a session, or None."""
        return _TURNS.get(
            self.db, "WHERE session = ? ORDER BY ordinal DESC LIMIT 1", session
        )

    def turns(self, session: str | None = None) -> list[SagaTurn]:
        """Return the turns: of one session by number, of all of them by start."""
        return _TURNS.rows(
            self.db,
            "WHERE ?1 IS NULL OR session = ?1"
            " ORDER BY CASE WHEN ?1 IS NULL THEN started_ns END, ordinal",
            session,
        )

    def calls(self, session: str, turn: str) -> list[SagaCall]:
        """Return the calls of a turn, in the order in which they started."""
        return self._calls(
            "WHERE session = ? AND turn = ? ORDER BY ordinal", session, turn
        )

    def calls_named(self, call: str, session: str | None = None) -> list[SagaCall]:
        """Return the calls of an id, which several turns may have."""
        return self._calls(
            "WHERE id = ?1 AND (?2 IS NULL OR session = ?2)", call, session
        )

    def standing(
        self, session: str, digest: str, first: int, last: int
    ) -> SagaCall | None:
        """Return the newest call of a digest begun between two events that is not undone."""
        row = self.db.row(_STANDING, (session, digest, first, last))
        return None if row is None else _call(row)

    def unsettled(self, session: str | None = None) -> list[SagaCall]:
        """Return the calls that somebody must look at: in doubt, not undone, or damaged."""
        return self._calls(
            "WHERE (?1 IS NULL OR session = ?1)"
            f" AND (undo IN ('running', 'failed', 'in_doubt') OR {_IN_DOUBT} OR {_DAMAGED})"
            " ORDER BY session, turn, ordinal",
            session,
        )

    def next_to_close(self, now_ns: int, session: str | None = None) -> SagaCall | None:
        """Return the call that will be the next to be past undoing, or None."""
        found = self._calls(
            "WHERE expires_ns IS NOT NULL AND undo IN ('planned', 'failed')"
            " AND expires_ns >= ?1 AND (?2 IS NULL OR session = ?2)"
            " ORDER BY expires_ns LIMIT 1",
            now_ns,
            session,
        )
        return found[0] if found else None

    def op(self, op: str) -> SagaOp | None:
        """Return an undo, or None."""
        return _OPS.get(self.db, "WHERE id = ?", op)

    def ops(self, session: str) -> list[SagaOp]:
        """Return the undos of a session, oldest first."""
        return _OPS.rows(self.db, "WHERE session = ? ORDER BY rowid", session)

    def knows(self, session: str) -> bool:
        """Return whether there is anything of a session, of a program or of an agent."""
        programs = ("saga_turns", "saga_events", "saga_artifacts", "saga_log")
        places = [f"SELECT session FROM {one}" for one in programs]
        found = " UNION ALL ".join([*places, "SELECT id FROM sessions"])
        sql = f"SELECT 1 FROM ({found}) WHERE session = ? LIMIT 1"
        return self.db.row(sql, (session,)) is not None

    def sessions_with_work(self) -> list[str]:
        """Return the sessions with an undo that has no report."""
        sql = "SELECT DISTINCT session FROM saga_ops WHERE status != 'done' ORDER BY session"
        return [str(row[0]) for row in self.db.rows(sql)]

    def unfinished(self, session: str) -> bool:
        """Return whether an undo of a session has not ended."""
        sql = "SELECT 1 FROM saga_ops WHERE session = ? AND status <> 'done' LIMIT 1"
        return self.db.row(sql, (session,)) is not None

    def log(
        self, session: str | None = None, turn: str | None = None
    ) -> Iterator[SagaLogRow]:
        """Return the log (of one session, of one turn), oldest first."""
        return iter(
            _LOG.rows(
                self.db,
                "WHERE (?1 IS NULL OR session = ?1) AND (?2 IS NULL OR turn = ?2) ORDER BY seq",
                session,
                turn,
            )
        )

    def broken_at(self) -> int | None:
        """Return the first row of the log whose digest does not fit, or None where all do.

        A row that is missing shows at the one after it; the newest rows can be cut off unseen.
        """
        return first_broken(self.log())

    def _add_entry(self, note: SagaEntry) -> None:
        # Each digest covers the one before it, so a row that is changed or removed later breaks the
        # chain at the next row. The write lock is held: nobody adds a row in between.
        row = self.db.row("SELECT seq, digest FROM saga_log ORDER BY seq DESC LIMIT 1")
        seq, before = (row[0] + 1, row[1]) if row is not None else (1, "")
        self.db.run(
            "INSERT INTO saga_log VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(seq, note.session, note.turn, note.call, note.kind, note.ts_ns),
                *(note.body, digest_of(before, seq, note)),
            ),
        )

    def _calls(self, rest: str, *values: Value) -> list[SagaCall]:
        return [_call(row) for row in self.db.rows(f"{_CALLS.select} {rest}", values)]

    def _add_event(self, event: NewEvent) -> None:
        seq = self.last_seq(event.session) + 1
        self.db.run(
            "INSERT INTO saga_events VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(event.session, seq, event.invocation, event.author, event.kind),
                *(event.ts_ns, event.text, event.body),
            ),
        )
        rows = [(event.session, key, seq, value) for key, value in event.delta.items()]
        self.db.run_many("INSERT INTO saga_state VALUES (?, ?, ?, ?)", rows)
        for name, oid in event.artifacts.items():
            version = self.next_version(event.session, name)
            self.db.run(
                "INSERT INTO saga_artifacts VALUES (?, ?, ?, ?, ?)",
                (event.session, name, version, seq, oid),
            )

    def last_seq(self, session: str) -> int:
        """Return the number of a session's newest event; -1 for a session without one."""
        sql = "SELECT COALESCE(max(seq), -1) FROM saga_events WHERE session = ?"
        return self.db.number(sql, (session,))

    def events(self, session: str) -> list[SessionEvent]:
        """Return all events of a session, oldest first."""
        return _EVENTS.rows(self.db, "WHERE session = ? ORDER BY seq", session)

    def first_of(self, session: str, invocation: str) -> int | None:
        """Return the number of an invocation's first event, or None where it has none."""
        sql = "SELECT min(seq) FROM saga_events WHERE session = ? AND invocation = ?"
        row = self.db.row(sql, (session, invocation))
        return None if row is None or row[0] is None else int(row[0])

    def invocations_since(self, session: str, seq: int) -> list[str]:
        """Return the invocations that have events from a number on, oldest first."""
        sql = (
            "SELECT invocation FROM saga_events WHERE session = ? AND seq >= ?"
            " GROUP BY invocation ORDER BY min(seq)"
        )
        return [row[0] for row in self.db.rows(sql, (session, seq))]

    def markers(self, session: str) -> list[Marker]:
        """Return the rewinds of a session, newest first."""
        sql = (
            "SELECT seq, json_extract(body, '$.hidden_from'),"
            " json_extract(body, '$.hidden_to') FROM saga_events"
            " WHERE session = ? AND kind = ? ORDER BY seq DESC"
        )
        return [Marker(*row) for row in self.db.rows(sql, (session, MARKER))]

    def state_before(self, session: str, seq: int) -> dict[str, str]:
        """Return the values as they stood before an event, as JSON texts by key."""
        sql = (
            "SELECT key, value, max(seq) FROM saga_state WHERE session = ? AND seq < ?"
            " GROUP BY key ORDER BY key"
        )
        rows = self.db.rows(sql, (session, seq))
        return {key: value for key, value, _ in rows if value is not None}

    def state_delta(self, session: str, seq: int) -> dict[str, str | None]:
        """Return what must be set for the state to be what it was before an event.

        Its cost is that of what was set since, whatever the session holds.
        """
        sql = "SELECT DISTINCT key FROM saga_state WHERE session = ? AND seq >= ? ORDER BY key"
        # Only keys that were set since then can differ, and the index `saga_state_seq` finds them:
        # a rewind of a long session costs what changed, not what the session holds.
        keys = [row[0] for row in self.db.rows(sql, (session, seq))]
        found = {}
        for key in keys:
            now, then = self._value(session, key, None), self._value(session, key, seq)
            if now != then:
                found[key] = then
        return found

    def next_version(self, session: str, name: str) -> int:
        """Return the number that the next version of an artifact gets, from 0."""
        sql = (
            "SELECT max(version) + 1 FROM saga_artifacts WHERE session = ? AND name = ?"
        )
        return self.db.number(sql, (session, name))

    def versions(self, session: str, name: str) -> list[Version]:
        """Return the versions of an artifact, oldest first."""
        sql = (
            "SELECT version, oid FROM saga_artifacts WHERE session = ? AND name = ?"
            " ORDER BY version"
        )
        return [Version(row[0], row[1]) for row in self.db.rows(sql, (session, name))]

    def artifacts(self, session: str) -> dict[str, Version]:
        """Return the newest version of each artifact that there is, by name."""
        sql = (
            "SELECT name, max(version), oid FROM saga_artifacts WHERE session = ?"
            " GROUP BY name ORDER BY name"
        )
        rows = self.db.rows(sql, (session,))
        return {
            name: Version(number, oid) for name, number, oid in rows if oid is not None
        }

    def artifact_names(self, session: str) -> list[str]:
        """Return the names of all artifacts that there ever were, sorted."""
        sql = "SELECT DISTINCT name FROM saga_artifacts WHERE session = ? ORDER BY name"
        return [str(name) for (name,) in self.db.rows(sql, (session,))]

    def artifact_delta(self, session: str, seq: int) -> dict[str, Version | None]:
        """Return which version each artifact saved since an event had before it; None: none."""
        sql = (
            "SELECT DISTINCT name FROM saga_artifacts WHERE session = ? AND seq >= ?"
            " ORDER BY name"
        )
        found: dict[str, Version | None] = {}
        for (name,) in self.db.rows(sql, (session, seq)):
            then = self._version(session, name, seq)
            now = self._version(session, name, None)
            if (then and then.oid) != (now and now.oid):
                found[name] = (
                    then if then is not None and then.oid is not None else None
                )
        return found

    def _version(self, session: str, name: str, seq: int | None) -> Version | None:
        sql = (
            "SELECT version, oid FROM saga_artifacts WHERE session = ?1 AND name = ?2"
            " AND (?3 IS NULL OR seq < ?3) ORDER BY version DESC LIMIT 1"
        )
        row = self.db.row(sql, (session, name, seq))
        return None if row is None else Version(row[0], row[1])

    def _value(self, session: str, key: str, seq: int | None) -> str | None:
        """Return a key's value before an event (None: now)."""
        sql = (
            "SELECT value FROM saga_state WHERE session = ?1 AND key = ?2"
            " AND (?3 IS NULL OR seq < ?3) ORDER BY seq DESC LIMIT 1"
        )
        row = self.db.row(sql, (session, key, seq))
        return None if row is None else row[0]


def _call(row: Row) -> SagaCall:
    # A damaged cell must not look like a call of some class: the class decides what an undo does.
    if not isinstance(row[_CLASS], str):
        raise JournalError("could not read a call: its class is not a string")
    return _CALLS.load(row)
