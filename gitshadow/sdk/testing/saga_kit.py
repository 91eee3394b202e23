"""Rules for a `SagaStore`: turns, calls, undos, the log, and calls that wait to be sent.

Invariant: a rule reads only the answers of a store, never its data.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeAlias

from gitshadow.sdk.testing.sample_rows import CALL, EVENT, NOTE, OP, TURN
from gitshadow.sdk.turns.protocols import SessionStore
from gitshadow.store.journal.saga_rows import (
    CallName,
    Effect,
    Held,
    SagaCall,
    SagaRow,
    digest_of,
)

OpenStore: TypeAlias = Callable[[], SessionStore]
"""Opens the same store again, with all rows that earlier openings saved."""


_NAME = CallName("s", "t-1", "c1")
_ODD = "ü\n'\"\\ %s ?1 \u2028 $.x"
_LATE_NS = 2**62
_HELD = Held(session="s", turn="t-1", call="c1", state="held")
_STATES = ["sent", "due", "in_doubt", "held", "failed", "dropped", "sending"]


class SagaStoreKit:
    """Rules for turns, calls, undos and the log; see `SessionStoreKit`."""

    def test_rows_come_back_as_they_were(self, open_store: OpenStore) -> None:
        """Every column, with any text or number."""
        store = open_store()
        turn = replace(
            TURN, label=_ODD, agent=_ODD, cause=_ODD, ended_ns=_LATE_NS, lease_ns=0
        )
        call = replace(
            CALL,
            description=_ODD,
            ended_ns=_LATE_NS,
            outcome="success",
            content="",
            inverse='{"handler":"x.undo"}',
            expires_ns=_LATE_NS,
            undo="failed",
            attempts=3,
            owner="o",
            lease_ns=0,
            error=_ODD,
            op="op-1",
        )
        op = replace(OP, ended_ns=_LATE_NS, report=_ODD)
        store.save([turn, call, op])
        assert store.turn("s", "t-1") == turn
        assert store.calls("s", "t-1") == [call]
        assert store.op("op-1") == op

    def test_a_row_replaces_the_one_with_its_ids(self, open_store: OpenStore) -> None:
        """A turn, a call or an op exists once, as last saved."""
        store = open_store()
        store.save([TURN, CALL, OP])
        turn, op = replace(TURN, status="committed"), replace(OP, status="done")
        call = replace(CALL, outcome="success")
        store.save([turn, call, op])
        assert store.turns("s") == [turn]
        assert store.calls("s", "t-1") == [call]
        assert store.ops("s") == [op]

    def test_rows_are_kept_all_or_none(self, open_store: OpenStore) -> None:
        """If producing the rows raises, none of them is saved."""
        store = open_store()

        def rows() -> Iterator[SagaRow]:
            yield from (TURN, CALL, OP, NOTE, EVENT)
            raise LookupError

        try:
            store.save(rows())
        except LookupError:
            pass
        else:
            raise AssertionError("what the rows raised went nowhere")
        assert (store.turns("s"), store.calls("s", "t-1")) == ([], [])
        assert (store.op("op-1"), list(store.log("s"))) == (None, [])
        assert store.last_seq("s") == -1

    def test_another_opening_sees_what_was_saved(self, open_store: OpenStore) -> None:
        """A session continues with the rows of another opening."""
        open_store().save([TURN, CALL, OP, NOTE, EVENT])
        again = open_store()
        assert (again.turns("s"), again.calls("s", "t-1")) == ([TURN], [CALL])
        assert (again.op("op-1"), again.last_seq("s")) == (OP, 0)
        assert [row.kind for row in again.log("s")] == ["turn_begun"]

    def test_what_is_not_there_is_none(self, open_store: OpenStore) -> None:
        """An empty store returns nothing and raises nothing."""
        store = open_store()
        assert (store.turn("s", "t-1"), store.last_turn("s")) == (None, None)
        assert (store.op("op-1"), store.ops("s")) == (None, [])
        assert (store.turns("s"), store.calls("s", "t-1")) == ([], [])
        assert (store.unsettled("s"), list(store.log("s"))) == ([], [])
        assert store.broken_at() is None

    def test_sessions_are_apart(self, open_store: OpenStore) -> None:
        """The same ids in two sessions are two turns and two calls."""
        store = open_store()
        other = replace(TURN, session="z", label="other")
        call = replace(CALL, session="z", undo="failed")
        store.save([TURN, CALL, OP, NOTE, other, call])
        assert (store.turns("z"), store.last_turn("s")) == ([other], TURN)
        assert (store.calls("s", "t-1"), store.unsettled("s")) == ([CALL], [])
        assert (store.ops("z"), list(store.log("z"))) == ([], [])

    def test_turns_come_by_number(self, open_store: OpenStore) -> None:
        """The order of saving and the clock do not matter."""
        store = open_store()
        found = [
            replace(TURN, id=f"t-{number}", ordinal=number, started_ns=at)
            for number, at in ((1, 5), (10, 7), (2, 7), (3, 1))
        ]
        store.save(reversed(found))
        assert [row.id for row in store.turns("s")] == ["t-1", "t-2", "t-3", "t-10"]

    def test_the_last_turn_is_that_with_the_highest_number(
        self, open_store: OpenStore
    ) -> None:
        """A clock that was set back does not make an older turn the last one."""
        store = open_store()
        later = replace(TURN, id="t-2", ordinal=2, started_ns=0)
        store.save([later, TURN])
        assert store.last_turn("s") == later

    def test_calls_come_by_ordinal(self, open_store: OpenStore) -> None:
        """The order in which calls started decides the order in which they are undone."""
        store = open_store()
        found = [replace(CALL, id=f"c{n}", ordinal=n, started_ns=-n) for n in (10, 9)]
        store.save(found)
        assert [row.ordinal for row in store.calls("s", "t-1")] == [9, 10]
        assert store.calls("s", "t-2") == []

    def test_undos_come_in_the_order_of_their_first_save(
        self, open_store: OpenStore
    ) -> None:
        """An undo that is saved again keeps its place."""
        store = open_store()
        store.save([replace(OP, id="op-b"), replace(OP, id="op-a")])
        store.save([replace(OP, id="op-b", status="done")])
        assert [row.id for row in store.ops("s")] == ["op-b", "op-a"]

    def test_inverses_that_hang_are_unsettled(self, open_store: OpenStore) -> None:
        """They are running, failed or in doubt, and need a person; sorted by ordinal."""
        store = open_store()
        states = ("skipped", "running", "none", "failed", "planned", "in_doubt", "done")
        store.save(
            replace(CALL, id=state, ordinal=number, undo=state, outcome="success")
            for number, state in enumerate(states)
        )
        found = [row.id for row in store.unsettled("s")]
        assert found == ["running", "failed", "in_doubt"]

    def test_a_call_that_was_cut_short_is_unsettled(
        self, open_store: OpenStore
    ) -> None:
        """After the end of its turn: the call may have had an effect unless it only reads."""
        store = open_store()
        reading = replace(CALL, id="c2", ordinal=2, klass="read_only")
        raised = replace(CALL, id="c3", ordinal=3, outcome="raised")
        settled = replace(raised, id="c4", ordinal=4, undo="skipped")
        failed = replace(CALL, id="c5", ordinal=5, outcome="failed")
        store.save([TURN, CALL, reading, raised, settled, failed])
        assert store.unsettled("s") == []
        store.save([replace(TURN, status="interrupted")])
        assert store.unsettled("s") == [CALL, raised]

    def test_a_damaged_call_is_unsettled(self, open_store: OpenStore) -> None:
        """If it may have had an effect that is not undone."""
        store = open_store()
        done = replace(CALL, outcome="success", undo="planned", inverse="{}")
        rows = {
            "c1": done,
            "c2": replace(done, intent="{", inverse=None),
            "c3": replace(done, inverse='{"handler":1}'),
            "c4": replace(done, inverse='{"handler":"x.undo"}'),
            "c5": replace(done, undo="done"),
            "c6": replace(done, outcome="failed", undo="none"),
            "c7": replace(done, klass="read_only"),
            "c8": replace(done, intent="[]"),
        }
        store.save(replace(TURN, status="open") for _ in rows)
        store.save(
            replace(row, id=name, ordinal=number)
            for number, (name, row) in enumerate(rows.items())
        )
        found = [row.id for row in store.unsettled("s")]
        assert found == ["c1", "c2", "c3", "c8"]

    def test_the_log_is_one_chain(self, open_store: OpenStore) -> None:
        """Rows are numbered from 1, each with a digest over itself and the one before."""
        store = open_store()
        notes = [NOTE, replace(NOTE, session="z", call="c1", body=_ODD), NOTE]
        store.save(notes[:2])
        store.save(notes[2:])
        rows = [*store.log("s"), *store.log("z")]
        rows.sort(key=lambda row: row.seq)
        before = ""
        for seq, (row, note) in enumerate(zip(rows, notes, strict=True), 1):
            assert (row.seq, row.session, row.body) == (seq, note.session, note.body)
            assert row.digest == digest_of(before, seq, note)
            before = row.digest
        assert store.broken_at() is None

    def test_the_log_of_a_turn_is_its_own(self, open_store: OpenStore) -> None:
        """Its rows are in the order of the events."""
        store = open_store()
        kinds = [("t-1", "b"), ("t-2", "x"), ("t-1", "a"), (None, "y")]
        store.save(replace(NOTE, turn=turn, kind=kind) for turn, kind in kinds)
        assert [row.kind for row in store.log("s", "t-1")] == ["b", "a"]
        assert [row.kind for row in store.log("s")] == ["b", "x", "a", "y"]

    def test_what_is_planned_or_failed_can_be_claimed(
        self, open_store: OpenStore
    ) -> None:
        """A call without an inverse, settled or in doubt cannot be claimed."""
        store = open_store()
        free = {}
        for undo in [
            "none",
            "planned",
            "done",
            "failed",
            "in_doubt",
            "skipped",
            "resolved",
        ]:
            store.save([replace(CALL, undo=undo)])
            free[undo] = store.claim(_NAME, "a", 10, 20)
        assert [undo for undo, taken in free.items() if taken] == ["planned", "failed"]

    def test_a_claim_is_written_down(self, open_store: OpenStore) -> None:
        """It sets owner, lease and the number of attempts; the rest stays."""
        store = open_store()
        before = replace(CALL, undo="failed", attempts=2, error="why")
        store.save([before])
        store.claim(_NAME, "a", 10, 20)
        after = replace(before, undo="running", attempts=3, owner="a", lease_ns=20)
        assert store.calls("s", "t-1") == [after]

    def test_a_claim_is_that_of_one_owner(self, open_store: OpenStore) -> None:
        """Another opening gets it only after the lease has expired; the owner gets it again."""
        first, second = open_store(), open_store()
        first.save([replace(CALL, undo="planned")])
        assert first.claim(_NAME, "a", 10, 20)
        assert not second.claim(_NAME, "b", 19, 30)
        assert first.claim(_NAME, "a", 19, 20)
        assert second.claim(_NAME, "b", 20, 30)

    def test_a_claim_without_a_lease_is_not_free(self, open_store: OpenStore) -> None:
        """It has no time at which it expires."""
        store = open_store()
        store.save([replace(CALL, undo="running", owner="a", lease_ns=None)])
        assert not store.claim(_NAME, "b", 10, 20)

    def test_rows_are_written_with_a_claim(self, open_store: OpenStore) -> None:
        """`rows` are saved always, `then` only if the claim succeeds."""
        store = open_store()
        store.save([replace(CALL, undo="planned")])
        begun = replace(NOTE, kind="begun")
        for owner in ("a", "b"):
            store.claim(_NAME, owner, 10, 20, rows=[NOTE], then=[begun])
        assert [row.kind for row in store.log("s")] == [NOTE.kind, "begun", NOTE.kind]

    def test_nothing_is_claimed_that_is_not_there(self, open_store: OpenStore) -> None:
        """The claim creates no call either."""
        store = open_store()
        assert not store.claim(_NAME, "a", 10, 20)
        assert store.calls("s", "t-1") == []

    def test_freed_leases_can_be_claimed(self, open_store: OpenStore) -> None:
        """This frees all leases of one session, and none of another one."""
        store = open_store()
        running = replace(CALL, undo="running", owner="a", lease_ns=_LATE_NS)
        store.save([running, replace(running, session="z")])
        store.free_leases("s")
        assert store.claim(_NAME, "b", 1, 20)
        assert not store.claim(replace(_NAME, session="z"), "b", 1, 20)

    def test_the_newest_standing_effect_is_found(self, open_store: OpenStore) -> None:
        """By session, digest and the event of its start; both bounds are included."""
        store = open_store()
        store.save([CALL, Effect("s", "d", "t-1", "c1"), EVENT])
        later = replace(CALL, id="c2", ordinal=2, outcome="success")
        store.save([later, Effect("s", "d", "t-1", "c2")])
        assert store.standing("s", "d", -1, 0) == later
        assert store.standing("s", "d", -1, -1) == CALL
        assert store.standing("s", "d", 0, 5) == later
        assert store.standing("s", "d", 1, 5) is None
        assert store.standing("z", "d", -1, 5) is None
        assert store.standing("s", "e", -1, 5) is None

    def test_what_was_taken_back_or_did_nothing_does_not_stand(
        self, open_store: OpenStore
    ) -> None:
        """A call that may have had an effect stands."""
        store = open_store()
        store.save([Effect("s", "d", "t-1", "c1")])

        def stands(**changes: str) -> bool:
            call: SagaCall = replace(CALL, outcome="success")
            store.save([replace(call, **changes)])  # type: ignore[arg-type]
            return store.standing("s", "d", -1, -1) is not None

        undone = [stands(undo=undo) for undo in ("done", "skipped", "resolved")]
        undoing = [stands(undo=undo) for undo in ("planned", "failed", "in_doubt")]
        assert (any(undone), all(undoing)) == (False, True)
        assert stands(outcome="raised")
        assert not any(stands(outcome=how) for how in ("denied", "failed"))


def _all_states(store: SessionStore) -> None:
    """Save a held call in each state, named after it; the one in doubt has no outcome."""
    for number, state in enumerate(_STATES):
        outcome = None if state == "in_doubt" else "held"
        call = replace(CALL, id=state, ordinal=-number, outcome=outcome)
        held = replace(_HELD, call=state, state=state, due_ns=5, lease_ns=5, owner="a")
        store.save([call, held])


class OutboxStoreKit:
    """Rules for calls that wait to be sent; see `SessionStoreKit`."""

    def test_what_waits_comes_in_the_order_of_its_holding(
        self, open_store: OpenStore
    ) -> None:
        """Sent and dropped calls are left out; another opening reads the same rows."""
        store = open_store()
        _all_states(store)
        store.save([replace(_HELD, call="due", state="due", due_ns=7, error="ü\n")])
        found = open_store().waiting("s")
        names = [row.call for row in found]
        assert names == ["due", "in_doubt", "held", "failed", "sending"]
        assert found[0] == replace(
            _HELD, call="due", state="due", due_ns=7, error="ü\n"
        )
        assert store.waiting("z") == []

    def test_a_settled_doubt_does_not_wait(self, open_store: OpenStore) -> None:
        """It waits while its call has no outcome and no person has resolved it."""
        store = open_store()
        for changes in ({"outcome": "success"}, {"undo": "resolved"}):
            store.save([replace(CALL, **changes), replace(_HELD, state="in_doubt")])  # type: ignore[arg-type]
            assert store.waiting("s") == []
        store.save([CALL])
        assert [row.call for row in store.waiting("s")] == ["c1"]

    def test_what_is_due_can_be_sent(self, open_store: OpenStore) -> None:
        """A call is due at its time, or if its sender's lease has expired."""
        store = open_store()
        _all_states(store)
        assert [row.call for row in store.due("s", 5)] == ["due", "sending"]
        assert (store.due("s", 4), store.due("z", 9)) == ([], [])

    def test_a_call_is_sent_by_one(self, open_store: OpenStore) -> None:
        """Another opening gets it only after the lease has expired; the sender gets it again."""
        first, second = open_store(), open_store()
        first.save([replace(CALL, outcome="held"), replace(_HELD, state="due")])
        assert first.take_out(_NAME, "a", 10, 20)
        assert not second.take_out(_NAME, "b", 19, 30)
        assert first.take_out(_NAME, "a", 19, 20)
        assert second.take_out(_NAME, "b", 20, 30)
        (held,) = first.waiting("s")
        assert (held.state, held.owner, held.lease_ns) == ("sending", "b", 30)
        assert held.attempts == 3

    def test_only_what_is_due_is_taken_out(self, open_store: OpenStore) -> None:
        """A held call of an open turn is not sent, and no call is sent twice."""
        store = open_store()
        _all_states(store)
        taken = [
            state
            for state in _STATES
            if store.take_out(replace(_NAME, id=state), "b", 5, 9)
        ]
        assert sorted(taken) == ["due", "sending"]
        assert not store.take_out(replace(_NAME, id="nobody"), "b", 5, 9)

    def test_freed_leases_can_be_sent(self, open_store: OpenStore) -> None:
        """This frees the leases of one session only."""
        store = open_store()
        sending = replace(_HELD, state="sending", owner="a", lease_ns=99)
        store.save([CALL, sending, replace(CALL, session="z")])
        store.save([replace(sending, session="z")])
        store.free_leases("s")
        assert store.take_out(_NAME, "b", 1, 9)
        assert not store.take_out(replace(_NAME, session="z"), "b", 1, 9)

    def test_what_nobody_sends_can_be_withdrawn(self, open_store: OpenStore) -> None:
        """A call that is being sent becomes in doubt; ended ones do not change."""
        store = open_store()
        _all_states(store)
        dropped = [
            state for state in _STATES if store.withdraw(replace(_NAME, id=state))
        ]
        assert sorted(dropped) == ["dropped", "due", "held"]
        store.save([replace(CALL, id="sending")])
        left = {row.call: row.state for row in store.waiting("s")}
        assert left == {
            "in_doubt": "in_doubt",
            "failed": "failed",
            "sending": "in_doubt",
        }
        assert not store.withdraw(replace(_NAME, id="nobody"))
