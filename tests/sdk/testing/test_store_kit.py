"""AN-32: three stores pass one suite, and no rule of it is one that cannot fail."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from os import urandom
from pathlib import Path
from typing import Any

import pytest

from gitshadow.errors import LockedError
from gitshadow.model import Oid
from gitshadow.sdk.testing import MemoryStore, SessionStoreKit
from gitshadow.sdk.testing.saga_kit import OpenStore
from gitshadow.sdk.turns.journal_store import JournalStore
from gitshadow.sdk.turns.protocols import SessionLock
from gitshadow.store.journal.saga_rows import (
    CallName,
    Held,
    NewEvent,
    SagaCall,
    SagaEntry,
    SagaLogRow,
    SagaOp,
    SagaRow,
    SagaTurn,
    Version,
)
from tests.sdk.testing.broken import failures, rules_of
from tests.sdk.testing.dict_store import DictStore
from tests.support.places import recorded
from tests.support.repo import Repo
from tests.support.studio import layout_of


class TestMemoryStore(SessionStoreKit):
    @pytest.fixture
    def open_store(self) -> OpenStore:
        store = MemoryStore()
        return lambda: store


class TestDictStore(SessionStoreKit):
    @pytest.fixture
    def open_store(self) -> OpenStore:
        store = DictStore()
        return lambda: store


class TestJournalStore(SessionStoreKit):
    @pytest.fixture
    def open_store(self, tmp_path: Path) -> Iterator[OpenStore]:
        opened: list[JournalStore] = []
        layout = layout_of(Repo(recorded(tmp_path / "place")))

        def opening() -> JournalStore:
            opened.append(JournalStore(layout))
            return opened[-1]

        yield opening
        for store in opened:
            store.close()


def giving(method: str, change: Callable[[Any], object]) -> Callable[[], DictStore]:
    """Return a store of which one method gives something else than is right."""

    def made() -> DictStore:
        store = DictStore()
        right = getattr(store, method)
        setattr(store, method, lambda *args: change(right(*args)))
        return store

    return made


def losing(column: str) -> Callable[[], DictStore]:
    """Return a store that loses one column of calls."""

    class Losing(DictStore):
        def _put(self, row: SagaRow) -> None:
            lost: dict[str, Any] = {column: None}
            super()._put(replace(row, **lost) if isinstance(row, SagaCall) else row)

    return Losing


class Piling(DictStore):
    """Keeps the first version of a row."""

    def _put(self, row: SagaRow) -> None:
        if isinstance(row, SagaOp) and self.op(row.id):
            return
        super()._put(row)


class Eager(DictStore):
    """Keeps rows one by one."""

    def save(self, rows: Iterable[SagaRow]) -> None:
        for row in rows:
            super().save([row])


class Sloppy(DictStore):
    """Takes all sessions for one."""

    def turns(self, session: str) -> list[SagaTurn]:
        return [row for (_, _), row in self._turns.items()]


class Demanding(DictStore):
    """Raises where nothing is."""

    def op(self, op: str) -> SagaOp | None:
        assert op in self._ops, "no such op"
        return self._ops[op]


class ByClock(DictStore):
    """Takes the turn that started last for the last one."""

    def last_turn(self, session: str) -> SagaTurn | None:
        return max(self.turns(session), key=lambda row: row.started_ns, default=None)


class Newest(DictStore):
    """Puts an op that is saved again last."""

    def _put(self, row: SagaRow) -> None:
        if isinstance(row, SagaOp):
            self._ops.pop(row.id, None)
        super()._put(row)


class Unchained(DictStore):
    """Begins a chain per session."""

    def _note(self, note: SagaEntry) -> None:
        whole = self._log
        self._log = [row for row in whole if row.session == note.session]
        super()._note(note)
        self._log = [*whole, self._log[-1]]


class Talkative(DictStore):
    """Gives the whole log of the session for a turn."""

    def log(self, session: str, turn: str | None = None) -> Iterator[SagaLogRow]:
        return super().log(session)


def claiming(
    change: Callable[[DictStore, CallName], None],
) -> Callable[[], DictStore]:
    """Return a store that does something to a call before it is claimed."""

    class Claiming(DictStore):
        def claim(
            self, call: CallName, owner: str, now_ns: int, until_ns: int, **along: Any
        ) -> bool:
            change(self, call)
            return super().claim(call, owner, now_ns, until_ns, **along)

    return Claiming


def set_call(store: DictStore, call: CallName, **changes: object) -> None:
    key = (call.session, call.turn, call.id)
    if key in store._calls:
        store._calls[key] = replace(store._calls[key], **changes)  # type: ignore[arg-type]


def unless_running(store: DictStore, call: CallName) -> None:
    found = store._calls.get((call.session, call.turn, call.id))
    if found is not None and found.undo != "running":
        set_call(store, call, undo="planned")


class Nameless(DictStore):
    """Does not write an attempt down."""

    def claim(
        self, call: CallName, owner: str, now_ns: int, until_ns: int, **along: Any
    ) -> bool:
        taken = super().claim(call, owner, now_ns, until_ns, **along)
        set_call(self, call, attempts=0)
        return taken


class Hasty(DictStore):
    """Writes what follows a claim down whoever has it."""

    def claim(
        self, call: CallName, owner: str, now_ns: int, until_ns: int, **along: Any
    ) -> bool:
        self.save([*along.get("rows", ()), *along.get("then", ())])
        return super().claim(call, owner, now_ns, until_ns)


class Generous(DictStore):
    """Claims what is not there."""

    def claim(
        self, call: CallName, owner: str, now_ns: int, until_ns: int, **along: Any
    ) -> bool:
        there = (call.session, call.turn, call.id) in self._calls
        return super().claim(call, owner, now_ns, until_ns, **along) if there else True


class Sweeping(DictStore):
    """Frees the leases of every session."""

    def free_leases(self, session: str) -> None:
        for one in {key[0] for key in self._calls}:
            super().free_leases(one)


class Oldest(DictStore):
    """Finds the oldest standing effect."""

    def standing(
        self, session: str, digest: str, first: int, last: int
    ) -> SagaCall | None:
        for found in self._effects.values():
            found.reverse()
        return super().standing(session, digest, first, last)


class Strict(DictStore):
    """Takes what was taken back for standing."""

    def standing(
        self, session: str, digest: str, first: int, last: int
    ) -> SagaCall | None:
        for _, effect in self._effects.get((session, digest), []):
            return self._calls[session, effect.turn, effect.call]
        return None


class Worried(DictStore):
    """Holds on to doubts that were settled."""

    def waiting(self, session: str) -> list[Held]:
        return [row for row in self._held.values() if row.state != "sent"]


class Early(DictStore):
    """Sends what is due later."""

    def due(self, session: str, now_ns: int) -> list[Held]:
        return super().due(session, now_ns + 1)


class Racing(DictStore):
    """Lets everybody send."""

    def take_out(self, call: CallName, owner: str, now_ns: int, until_ns: int) -> bool:
        return super().take_out(call, owner, 1_000, until_ns)


class Pushing(DictStore):
    """Sends what a turn still holds."""

    def take_out(self, call: CallName, owner: str, now_ns: int, until_ns: int) -> bool:
        held = self._held.get((call.session, call.turn, call.id))
        if held is not None and held.state == "held":
            self.save([replace(held, state="due")])
        return super().take_out(call, owner, now_ns, until_ns)


class Clinging(DictStore):
    """Frees no sender's lease."""

    def free_leases(self, session: str) -> None:
        kept = dict(self._held)
        super().free_leases(session)
        self._held = kept


class Sure(DictStore):
    """Drops what is being sent."""

    def withdraw(self, call: CallName) -> bool:
        held = self._held.get((call.session, call.turn, call.id))
        if held is not None and held.state == "sending":
            self.save([replace(held, state="due")])
        return super().withdraw(call)


class LastOf(DictStore):
    """Says where an invocation ends."""

    def first_of(self, session: str, invocation: str) -> int | None:
        found = [e.seq for e in self.events(session) if e.invocation == invocation]
        return found[-1] if found else None


class Begun(DictStore):
    """Leaves out invocations that began before."""

    def invocations_since(self, session: str, seq: int) -> list[str]:
        found = super().invocations_since(session, seq)
        return [one for one in found if (self.first_of(session, one) or 0) >= seq]


class Deleting(DictStore):
    """Keeps keys that were taken out, as nothing."""

    def state_before(self, session: str, seq: int) -> dict[str, str]:
        state = self._history(session).state
        return {key: state[key].before(seq) or "" for key in sorted(state)}


class Haunted(DictStore):
    """Shows the last bytes of what is absent."""

    def artifacts(self, session: str) -> dict[str, Version]:
        files = self._history(session).files
        found = {name: self.versions(session, name) for name in files}
        return {
            name: [one for one in versions if one.oid is not None][-1]
            for name, versions in found.items()
        }


class Guessing(DictStore):
    """Takes the number of a version for one that it computes."""

    def artifact_delta(self, session: str, seq: int) -> dict[str, Version | None]:
        return {
            name: then and replace(then, number=then.number + 1)
            for name, then in super().artifact_delta(session, seq).items()
        }


class Hollow(DictStore):
    """Has nothing where nothing was to be kept."""

    def has(self, oid: Oid) -> bool:
        return bool(self._blobs.get(oid))


class Counted(DictStore):
    """Gives bytes an id of its own."""

    def keep(
        self, session: str, name: str, version: int, data: bytes, now_ns: int
    ) -> Oid:
        oid = Oid(f"{len(self._blobs):040d}")
        self._blobs[oid] = data
        return oid


class Tidy(DictStore):
    """Reads names as paths, and drops what climbs."""

    def keep(
        self, session: str, name: str, version: int, data: bytes, now_ns: int
    ) -> Oid:
        assert name not in ("..", ".git"), "unsafe"
        return super().keep(session, name, version, data, now_ns)


class Empty(DictStore):
    """Reads what is gone as nothing."""

    def read(self, oid: Oid) -> bytes:
        return self._blobs.get(oid, b"")


class OpenLock:
    """Holds nobody off."""

    def take(self) -> None:
        pass

    def release(self) -> None:
        pass


class Unlocked(DictStore):
    """Has locks that lock nothing."""

    def lock(self, session: str) -> SessionLock:
        return OpenLock()


class Reentrant:
    """Lets its holder in again."""

    def __init__(self, inner: SessionLock) -> None:
        self.inner, self.held = inner, False

    def take(self) -> None:
        if not self.held:
            self.inner.take()
            self.held = True

    def release(self) -> None:
        self.inner.release()
        self.held = False


class Again(DictStore):
    """Has locks that their holder can take twice."""

    def lock(self, session: str) -> SessionLock:
        return Reentrant(super().lock(session))


class Breaker:
    """Releases whoever has it."""

    def __init__(self, taken: set[str], session: str) -> None:
        self.taken, self.session = taken, session

    def take(self) -> None:
        if self.session in self.taken:
            raise LockedError("taken")
        self.taken.add(self.session)

    def release(self) -> None:
        self.taken.discard(self.session)


class Breaking(DictStore):
    """Has locks that anybody releases."""

    def lock(self, session: str) -> SessionLock:
        return Breaker(self._taken, session)


class One(DictStore):
    """Has one lock for all sessions."""

    def lock(self, session: str) -> SessionLock:
        return super().lock("")


class Erasing(DictStore):
    """Deletes what a rewind hides."""

    def _put(self, row: SagaRow) -> None:
        if isinstance(row, NewEvent) and row.kind == "rewind":
            del self._histories[row.session].events[2:]
        super()._put(row)


def alone(store: Callable[[], DictStore]) -> Callable[[], OpenStore]:
    """Return what opens one place again and again, a new one for each rule."""

    def place() -> OpenStore:
        made = store()
        return lambda: made

    return place


def anew() -> OpenStore:
    """Open something else every time."""
    return DictStore


BROKEN: dict[str, Callable[[], OpenStore]] = {
    "test_rows_come_back_as_they_were": alone(losing("error")),
    "test_a_row_replaces_the_one_with_its_ids": alone(Piling),
    "test_rows_are_kept_all_or_none": alone(Eager),
    "test_another_opening_sees_what_was_saved": anew,
    "test_what_is_not_there_is_none": alone(Demanding),
    "test_sessions_are_apart": alone(Sloppy),
    "test_turns_come_by_number": alone(
        giving("turns", lambda rows: sorted(rows, key=lambda row: row.id))
    ),
    "test_the_last_turn_is_that_with_the_highest_number": alone(ByClock),
    "test_calls_come_by_ordinal": alone(
        giving("calls", lambda rows: sorted(rows, key=lambda row: row.id))
    ),
    "test_undos_come_in_the_order_of_their_first_save": alone(Newest),
    "test_inverses_that_hang_are_unsettled": alone(
        giving(
            "unsettled", lambda rows: [one for one in rows if one.undo != "in_doubt"]
        )
    ),
    "test_a_call_that_was_cut_short_is_unsettled": alone(
        giving("unsettled", lambda rows: [one for one in rows if one.undo != "none"])
    ),
    "test_a_damaged_call_is_unsettled": alone(
        giving("unsettled", lambda rows: [one for one in rows if one.undo != "planned"])
    ),
    "test_the_log_is_one_chain": alone(Unchained),
    "test_the_log_of_a_turn_is_its_own": alone(Talkative),
    "test_what_is_planned_or_failed_can_be_claimed": alone(claiming(unless_running)),
    "test_a_claim_is_written_down": alone(Nameless),
    "test_a_claim_is_that_of_one_owner": alone(
        claiming(lambda store, call: set_call(store, call, lease_ns=0))
    ),
    "test_a_claim_without_a_lease_is_not_free": alone(
        claiming(lambda store, call: set_call(store, call, lease_ns=0))
    ),
    "test_rows_are_written_with_a_claim": alone(Hasty),
    "test_nothing_is_claimed_that_is_not_there": alone(Generous),
    "test_freed_leases_can_be_claimed": alone(Sweeping),
    "test_the_newest_standing_effect_is_found": alone(Oldest),
    "test_what_was_taken_back_or_did_nothing_does_not_stand": alone(Strict),
    "test_what_waits_comes_in_the_order_of_its_holding": alone(
        giving("waiting", lambda rows: sorted(rows, key=lambda row: row.call))
    ),
    "test_a_settled_doubt_does_not_wait": alone(Worried),
    "test_what_is_due_can_be_sent": alone(Early),
    "test_a_call_is_sent_by_one": alone(Racing),
    "test_only_what_is_due_is_taken_out": alone(Pushing),
    "test_freed_leases_can_be_sent": alone(Clinging),
    "test_what_nobody_sends_can_be_withdrawn": alone(Sure),
    "test_events_are_numbered_in_their_order": alone(
        giving("events", lambda rows: [replace(one, seq=one.seq + 1) for one in rows])
    ),
    "test_the_last_number_is_that_of_the_newest_event": alone(
        giving("last_seq", lambda seq: seq + 1)
    ),
    "test_an_invocation_begins_with_its_first_event": alone(LastOf),
    "test_invocations_come_by_their_first_event_since": alone(Begun),
    "test_markers_come_newest_first": alone(giving("markers", lambda rows: rows[::-1])),
    "test_the_state_is_what_was_set_last": alone(Deleting),
    "test_a_state_delta_brings_back_what_was": alone(
        giving(
            "state_delta",
            lambda found: {key: one for key, one in found.items() if one is not None},
        )
    ),
    "test_versions_are_numbered_from_0": alone(
        giving("versions", lambda rows: [one for one in rows if one.oid is not None])
    ),
    "test_the_newest_version_is_what_there_is": alone(Haunted),
    "test_an_artifact_delta_names_the_version_before": alone(Guessing),
    "test_bytes_come_back_exactly": alone(Hollow),
    "test_bytes_have_the_id_of_their_blob": alone(Counted),
    "test_an_artifact_may_have_any_name": alone(Tidy),
    "test_bytes_that_are_gone_are_not_made_up": alone(Empty),
    "test_a_session_has_one_holder": alone(Unlocked),
    "test_a_holder_cannot_take_it_twice": alone(Again),
    "test_only_the_holder_gives_it_back": alone(Breaking),
    "test_a_store_keeps_its_name": alone(
        giving("store_id", lambda name: urandom(8).hex())
    ),
    "test_locks_of_two_sessions_are_two": alone(One),
    "test_a_turn_is_taken_back_from_another_opening": alone(losing("inverse")),
    "test_a_failed_turn_gives_everything_back": alone(
        giving("state_delta", lambda found: {})
    ),
    "test_a_rewind_goes_back_and_hides": alone(Erasing),
}


@pytest.mark.parametrize("rule", sorted(rules_of(SessionStoreKit)))
def test_each_rule_is_failed_by_a_store_that_breaks_it(rule: str) -> None:
    assert failures(SessionStoreKit, [rule], BROKEN[rule]) == {rule}
