"""A session store made of dicts: the kit is tested with it, and with its broken variants.

It shares no code with the stores of the package, so the kit's rules do not depend on SQLite.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from hashlib import sha1
from os import urandom
from threading import Lock

from gitshadow.errors import LockedError, StoreError
from gitshadow.model import Oid
from gitshadow.sdk.turns import json_values
from gitshadow.sdk.turns.call_outcome import RAISED
from gitshadow.sdk.turns.protocols import SessionLock
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

_UNSETTLED = ("running", "failed", "in_doubt")
_WAITING = ("held", "due", "sending", "failed")
_SETTLED = ("done", "skipped", "resolved")


@dataclass(slots=True)
class _ValueHistory:
    """The values of one key or artifact with their event numbers, oldest first."""

    seqs: list[int] = field(default_factory=list)
    values: list[str | None] = field(default_factory=list)

    def before(self, seq: int | None) -> str | None:
        """Return the value before an event (None: now)."""
        found = self.number_before(seq)
        return None if found is None else self.values[found]

    def number_before(self, seq: int | None) -> int | None:
        """Return the index of that value; None if there was none."""
        known = [n for n, at in enumerate(self.seqs) if seq is None or at < seq]
        return known[-1] if known else None

    def since(self, seq: int) -> bool:
        """Whether a value was set in an event or after it."""
        return bool(self.seqs) and self.seqs[-1] >= seq


@dataclass(slots=True)
class _SessionEvents:
    """The events of one session, and their values by key and artifact; nothing is removed."""

    events: list[SessionEvent] = field(default_factory=list)
    state: dict[str, _ValueHistory] = field(
        default_factory=lambda: defaultdict(_ValueHistory)
    )
    files: dict[str, _ValueHistory] = field(
        default_factory=lambda: defaultdict(_ValueHistory)
    )

    def add(self, event: NewEvent) -> None:
        """Add an event with its number, values and versions."""
        seq = len(self.events)
        self.events.append(
            SessionEvent(
                session=event.session,
                seq=seq,
                invocation=event.invocation,
                author=event.author,
                kind=event.kind,
                ts_ns=event.ts_ns,
                text=event.text,
                body=event.body,
            )
        )
        for changes, values in (
            (self.state, event.delta),
            (self.files, event.artifacts),
        ):
            for name, value in values.items():
                changes[name].seqs.append(seq)
                changes[name].values.append(value)


class DictStore:
    """Keep sessions in memory; `SessionStore` describes each method.

    Any number of sessions may use one store, one after the other or in several threads. It ends
    with the process: nothing can be recovered from it.
    """

    def __init__(self) -> None:
        self._turns: dict[tuple[str, str], SagaTurn] = {}
        self._calls: dict[tuple[str, str, str], SagaCall] = {}
        self._ops: dict[str, SagaOp] = {}
        self._log: list[SagaLogRow] = []
        self._histories: dict[str, _SessionEvents] = defaultdict(_SessionEvents)
        self._blobs: dict[Oid, bytes] = {}
        self._held: dict[tuple[str, str, str], Held] = {}
        self._effects: dict[tuple[str, str], list[tuple[int, Effect]]] = {}
        self._taken: set[str] = set()
        self._mutex = Lock()
        self._id = urandom(8).hex()

    def store_id(self) -> str:
        return self._id

    def lock(self, session: str) -> SessionLock:
        """Return the lock of a session; it is valid for this store only."""
        return _MemoryLock(self._taken, self._mutex, session)

    def close(self) -> None:
        """Do nothing: another session may use the store."""

    def save(self, rows: Iterable[SagaRow]) -> None:
        found = tuple(rows)  # an exception here leaves no rows
        with self._mutex:
            for row in found:
                self._put(row)

    def _put(self, row: SagaRow) -> None:
        if isinstance(row, SagaTurn):
            self._turns[row.session, row.id] = row
        elif isinstance(row, SagaCall):
            self._calls[row.session, row.turn, row.id] = row
        elif isinstance(row, SagaOp):
            self._ops[row.id] = row
        elif isinstance(row, SagaEntry):
            self._note(row)
        elif isinstance(row, Held):
            self._held[row.session, row.turn, row.call] = row
        elif isinstance(row, Effect):
            found = self._effects.setdefault((row.session, row.digest), [])
            found.append((self.last_seq(row.session), row))
        else:
            self._histories[row.session].add(row)

    def _note(self, note: SagaEntry) -> None:
        seq, before = len(self._log) + 1, self._log[-1].digest if self._log else ""
        self._log.append(
            SagaLogRow(
                seq=seq,
                session=note.session,
                turn=note.turn,
                call=note.call,
                kind=note.kind,
                ts_ns=note.ts_ns,
                body=note.body,
                digest=digest_of(before, seq, note),
            )
        )

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
        key = (call.session, call.turn, call.id)
        first, after = tuple(rows), tuple(then)  # what raises here leaves nothing
        with self._mutex:
            for one in first:
                self._put(one)
            row = self._calls.get(key)
            if row is None or not _is_free(row, owner, now_ns):
                return False
            attempts = row.attempts + 1
            row = replace(row, undo="running", attempts=attempts, owner=owner)
            self._calls[key] = replace(row, lease_ns=until_ns)
            for one in after:
                self._put(one)
            return True

    def free_leases(self, session: str) -> None:
        for key, row in self._calls.items():
            if row.session == session and row.undo == "running":
                self._calls[key] = replace(row, lease_ns=0)
        for key, held in self._held.items():
            if held.session == session and held.state == "sending":
                self._held[key] = replace(held, lease_ns=0)

    def due(self, session: str, now_ns: int) -> list[Held]:
        return [
            row
            for row in self.waiting(session)
            if (row.state == "due" and (row.due_ns or 0) <= now_ns)
            or (row.state == "sending" and (row.lease_ns or 0) <= now_ns)
        ]

    def waiting(self, session: str) -> list[Held]:
        return [
            row
            for key, row in self._held.items()
            if row.session == session
            and (row.state in _WAITING or _is_open_doubt(row, self._calls[key]))
        ]

    def take_out(self, call: CallName, owner: str, now_ns: int, until_ns: int) -> bool:
        key = (call.session, call.turn, call.id)
        with self._mutex:
            row = self._held.get(key)
            if row is None:
                return False
            is_ours = row.owner == owner or (row.lease_ns or 0) <= now_ns
            if row.state != "due" and not (row.state == "sending" and is_ours):
                return False
            row = replace(row, state="sending", attempts=row.attempts + 1, owner=owner)
            self._held[key] = replace(row, lease_ns=until_ns)
            return True

    def withdraw(self, call: CallName) -> bool:
        key = (call.session, call.turn, call.id)
        with self._mutex:
            row = self._held.get(key)
            if row is None or row.state not in ("held", "due", "sending", "dropped"):
                return False
            state = "in_doubt" if row.state == "sending" else "dropped"
            self._held[key] = replace(row, state=state)
            return state == "dropped"

    def turn(self, session: str, turn: str) -> SagaTurn | None:
        return self._turns.get((session, turn))

    def last_turn(self, session: str) -> SagaTurn | None:
        found = self.turns(session)
        return max(found, key=lambda row: row.ordinal) if found else None

    def turns(self, session: str) -> list[SagaTurn]:
        found = [row for row in self._turns.values() if row.session == session]
        return sorted(found, key=lambda row: row.ordinal)

    def calls(self, session: str, turn: str) -> list[SagaCall]:
        found = [row for key, row in self._calls.items() if key[:2] == (session, turn)]
        return sorted(found, key=lambda row: row.ordinal)

    def standing(
        self, session: str, digest: str, first: int, last: int
    ) -> SagaCall | None:
        for seq, effect in reversed(self._effects.get((session, digest), [])):
            call = self._calls.get((session, effect.turn, effect.call))
            if call is None or not first <= seq <= last or call.undo in _SETTLED:
                continue
            if call.outcome in (None, "success", "held", RAISED):
                return call
        return None

    def unsettled(self, session: str) -> list[SagaCall]:
        found = [
            row
            for row in self._calls.values()
            if row.session == session
            and (row.undo in _UNSETTLED or self._is_doubtful(row) or _is_damaged(row))
        ]
        return sorted(found, key=lambda row: (row.turn, row.ordinal))

    def _is_doubtful(self, row: SagaCall) -> bool:
        """Whether a call of an ended turn has an unknown end."""
        turn = self._turns.get((row.session, row.turn))
        is_over = turn is None or turn.status != "open"
        begun = row.outcome in (None, RAISED) and row.undo == "none"
        return begun and is_over and row.klass != "read_only"

    def op(self, op: str) -> SagaOp | None:
        return self._ops.get(op)

    def ops(self, session: str) -> list[SagaOp]:
        return [row for row in self._ops.values() if row.session == session]

    def log(self, session: str, turn: str | None = None) -> Iterator[SagaLogRow]:
        return iter(
            [
                row
                for row in self._log
                if row.session == session and turn in (None, row.turn)
            ]
        )

    def broken_at(self) -> int | None:
        return first_broken(self._log)

    def last_seq(self, session: str) -> int:
        return len(self.events(session)) - 1

    def events(self, session: str) -> list[SessionEvent]:
        return list(self._history(session).events)

    def first_of(self, session: str, invocation: str) -> int | None:
        events = self._history(session).events
        return next((one.seq for one in events if one.invocation == invocation), None)

    def invocations_since(self, session: str, seq: int) -> list[str]:
        events = self._history(session).events
        return list(dict.fromkeys(one.invocation for one in events[max(seq, 0) :]))

    def markers(self, session: str) -> list[Marker]:
        found = [one for one in self._history(session).events if one.kind == MARKER]
        return [_marker(one) for one in reversed(found)]

    def state_before(self, session: str, seq: int) -> dict[str, str]:
        state = self._history(session).state
        found = {key: state[key].before(seq) for key in sorted(state)}
        return {key: value for key, value in found.items() if value is not None}

    def state_delta(self, session: str, seq: int) -> dict[str, str | None]:
        state = self._history(session).state
        return {
            key: state[key].before(seq)
            for key in sorted(state)
            if state[key].since(seq)
            and state[key].before(seq) != state[key].before(None)
        }

    def versions(self, session: str, name: str) -> list[Version]:
        files = self._history(session).files
        values = files[name].values if name in files else []
        return [Version(number, _oid(value)) for number, value in enumerate(values)]

    def artifacts(self, session: str) -> dict[str, Version]:
        newest = {
            name: self.versions(session, name)[-1]
            for name in sorted(self._history(session).files)
        }
        return {name: one for name, one in newest.items() if one.oid is not None}

    def artifact_delta(self, session: str, seq: int) -> dict[str, Version | None]:
        found: dict[str, Version | None] = {}
        for name, changes in sorted(self._history(session).files.items()):
            then = changes.before(seq)
            if changes.since(seq) and then != changes.before(None):
                number = changes.number_before(seq)
                if number is None or then is None:
                    found[name] = None
                else:
                    found[name] = Version(number, Oid(then))
        return found

    def next_version(self, session: str, name: str) -> int:
        return len(self.versions(session, name))

    def keep(
        self, session: str, name: str, version: int, data: bytes, now_ns: int
    ) -> Oid:
        oid = Oid(sha1(b"blob %d\0" % len(data) + data).hexdigest())
        self._blobs[oid] = bytes(data)
        return oid

    def read(self, oid: Oid) -> bytes:
        if oid not in self._blobs:
            raise StoreError(f"could not read blob {oid}")
        return self._blobs[oid]

    def has(self, oid: Oid) -> bool:
        return oid in self._blobs

    def _history(self, session: str) -> _SessionEvents:
        """Return a session's history; reading a missing one creates none."""
        return self._histories.get(session) or _SessionEvents()


class _MemoryLock:
    """The lock of one session among the users of one store."""

    def __init__(self, taken: set[str], mutex: Lock, session: str) -> None:
        self._taken = taken
        self._mutex = mutex
        self._session = session
        self._held = False

    def take(self) -> None:
        with self._mutex:
            if self._session in self._taken:
                raise LockedError(
                    f"could not lock session {self._session}: it is taken"
                )
            self._taken.add(self._session)
        self._held = True

    def release(self) -> None:
        if self._held:
            self._held = False
            self._taken.remove(self._session)


def _is_free(row: SagaCall, owner: str, now_ns: int) -> bool:
    """Whether an inverse can be claimed."""
    if row.undo != "running":
        return row.undo in ("planned", "failed")
    return row.owner == owner or (row.lease_ns is not None and row.lease_ns <= now_ns)


def _oid(value: str | None) -> Oid | None:
    return None if value is None else Oid(value)


def _marker(event: SessionEvent) -> Marker:
    body = json_values.parse(event.body)
    first, last = body["hidden_from"], body.get("hidden_to")
    assert isinstance(first, int)
    assert last is None or isinstance(last, int)
    return Marker(event.seq, first, last)


def _is_open_doubt(row: Held, call: SagaCall) -> bool:
    """Whether the end of a held call is still unknown."""
    is_open = call.outcome in (None, RAISED) and call.undo == "none"
    return row.state == "in_doubt" and is_open


def _is_damaged(row: SagaCall) -> bool:
    """Whether a call that may have had an effect cannot be read."""
    if row.klass == "read_only" or row.undo not in ("none", "planned"):
        return False
    if row.outcome not in (None, "success", "held", RAISED):
        return False
    try:
        inverse = json.loads(row.inverse or '{"handler": ""}')
        is_intent = isinstance(json.loads(row.intent), dict)
        return not (is_intent and isinstance(inverse["handler"], str))
    except (ValueError, LookupError, TypeError):
        return True
