"""What `SagaStore` asks of a store about calls that wait to be sent, rule by rule.

Invariant: as in `saga_kit`.
"""

from dataclasses import replace

from gitshadow.sdk.testing.sample_rows import CALL
from gitshadow.sdk.testing.store_factory import OpenStore
from gitshadow.sdk.turns.protocols import SessionStore
from gitshadow.store.journal.saga_rows import CallName, Held

_NAME = CallName("s", "t-1", "c1")
_HELD = Held(session="s", turn="t-1", call="c1", state="held")
_STATES = ["sent", "due", "in_doubt", "held", "failed", "dropped", "sending"]


def _all_states(store: SessionStore) -> None:
    """Hold a call in each state, named after it; the one in doubt has no outcome."""
    for number, state in enumerate(_STATES):
        outcome = None if state == "in_doubt" else "held"
        call = replace(CALL, id=state, ordinal=-number, outcome=outcome)
        held = replace(_HELD, call=state, state=state, due_ns=5, lease_ns=5, owner="a")
        store.save([call, held])


class OutboxStoreKit:
    """Check how a store keeps calls that wait to be sent; see `SessionStoreKit`."""

    def test_what_waits_comes_in_the_order_of_its_holding(
        self, open_store: OpenStore
    ) -> None:
        """Not what was sent or dropped; from another opening too, and as it was saved."""
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
        """It waits while its call has no outcome and nothing was said about it."""
        store = open_store()
        for changes in ({"outcome": "success"}, {"undo": "resolved"}):
            store.save([replace(CALL, **changes), replace(_HELD, state="in_doubt")])  # type: ignore[arg-type]
            assert store.waiting("s") == []
        store.save([CALL])
        assert [row.call for row in store.waiting("s")] == ["c1"]

    def test_what_is_due_can_be_sent(self, open_store: OpenStore) -> None:
        """When its time has come, or when whoever was sending it has gone."""
        store = open_store()
        _all_states(store)
        assert [row.call for row in store.due("s", 5)] == ["due", "sending"]
        assert (store.due("s", 4), store.due("z", 9)) == ([], [])

    def test_a_call_is_sent_by_one(self, open_store: OpenStore) -> None:
        """Another opening does not get it before the lease has run out; its sender does."""
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
        """What a turn still holds is not sent, nor is anything twice."""
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
        """Those of one session."""
        store = open_store()
        sending = replace(_HELD, state="sending", owner="a", lease_ns=99)
        store.save([CALL, sending, replace(CALL, session="z")])
        store.save([replace(sending, session="z")])
        store.free_leases("s")
        assert store.take_out(_NAME, "b", 1, 9)
        assert not store.take_out(replace(_NAME, session="z"), "b", 1, 9)

    def test_what_nobody_sends_can_be_withdrawn(self, open_store: OpenStore) -> None:
        """Once it is being sent, nobody knows; what is over stays as it is."""
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
