"""What a session store is asked, as tests to be inherited: rows, locks, and turns that run on it.

Invariant: both stores of ours pass every rule, and each rule is failed by one that breaks it.
"""

from gitshadow.errors import LockedError
from gitshadow.sdk.testing.history_kit import BlobStoreKit, HistoryStoreKit
from gitshadow.sdk.testing.outbox_kit import OutboxStoreKit
from gitshadow.sdk.testing.saga_kit import SagaStoreKit
from gitshadow.sdk.testing.store_factory import OpenStore
from gitshadow.sdk.turns.protocols import SessionLock
from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.session import AgentUndo
from gitshadow.sdk.turns.values import Inverse, Reversibility


class SessionStoreKit(SagaStoreKit, OutboxStoreKit, HistoryStoreKit, BlobStoreKit):
    """Check a `SessionStore`.

    Inherit from it, and override the fixture `open_store`: it gives a function that opens the
    store under test, the same place every time it is called in one test, an empty one in the next:

        class TestMyStore(SessionStoreKit):
            @pytest.fixture
            def open_store(self, tmp_path):
                return lambda: MyStore(tmp_path / "sessions")
    """

    def test_a_session_has_one_holder(self, open_store: OpenStore) -> None:
        """Whoever comes second is told at once, in this opening or another."""
        store = open_store()
        held = store.lock("s")
        held.take()
        assert _is_locked(store.lock("s"))
        assert _is_locked(open_store().lock("s"))
        held.release()
        other = open_store().lock("s")
        other.take()
        assert _is_locked(held)
        other.release()

    def test_a_holder_cannot_take_it_twice(self, open_store: OpenStore) -> None:
        """Two turns in one program are two turns; the first one keeps the lock."""
        store = open_store()
        held = store.lock("s")
        held.take()
        assert _is_locked(held)
        assert _is_locked(store.lock("s"))
        held.release()

    def test_only_the_holder_gives_it_back(self, open_store: OpenStore) -> None:
        """To release what one has not is nothing, and what one has, once is enough."""
        store = open_store()
        held, other = store.lock("s"), store.lock("s")
        held.take()
        other.release()
        assert _is_locked(other)
        held.release()
        other.take()
        held.release()
        assert _is_locked(held)
        other.release()

    def test_locks_of_two_sessions_are_two(self, open_store: OpenStore) -> None:
        """Whatever they are called."""
        store = open_store()
        names = ("s", "z", "a/b", "..", "ü\n", "")
        locks = [store.lock(name) for name in names]
        for lock in locks:
            lock.take()
        for lock in locks:
            lock.release()

    def test_a_turn_is_taken_back_from_another_opening(
        self, open_store: OpenStore
    ) -> None:
        """All that an undo needs is in the store."""
        drafts: dict[str, str] = {}
        tools = _tools(drafts)
        first = AgentUndo.over(open_store(), session="s", tools=tools)
        with first, first.turn("first") as turn:
            turn.call("draft.put", name="a", text="x")
        with AgentUndo.over(open_store(), session="s", tools=tools) as au:
            assert au.undo("t-1").status == "reversed"
            assert (drafts, au.undo("t-1").already_undone) == ({}, True)

    def test_a_failed_turn_gives_everything_back(self, open_store: OpenStore) -> None:
        """Effects, state and artifacts; the conversation stays."""
        drafts: dict[str, str] = {}
        with AgentUndo.over(open_store(), session="s", tools=_tools(drafts)) as au:
            try:
                with au.turn("failing") as turn:
                    turn.say("user", "hello", kind="user")
                    turn.set_state({"k": 1})
                    turn.save_artifact("f", b"x")
                    turn.call("draft.put", name="a", text="x")
                    raise LookupError
            except LookupError:
                pass
            assert (drafts, au.state, au.artifacts.list()) == ({}, {}, [])
            assert [message.text for message in au.messages()] == ["hello"]

    def test_a_rewind_goes_back_and_hides(self, open_store: OpenStore) -> None:
        """State and artifacts as before, and every event still there."""
        with AgentUndo.over(open_store(), session="s", tools=ToolRegistry()) as au:
            for number in (1, 2):
                with au.turn(f"turn {number}") as turn:
                    turn.set_state({"k": number})
                    turn.save_artifact("f", b"%d" % number)
            before = au.events()
            au.rewind("t-2")
            assert (au.state, au.artifacts.load("f")) == ({"k": 1}, b"1")
            assert au.events()[: len(before)] == before
            assert {event.invocation for event in au.live_events()} == {
                "created",
                "t-1",
            }


def _is_locked(lock: SessionLock) -> bool:
    try:
        lock.take()
    except LockedError:
        return True
    lock.release()
    return False


def _tools(drafts: dict[str, str]) -> ToolRegistry:
    """Return a tool that puts a draft into a dict, and its inverse."""
    tools = ToolRegistry()

    @tools.tool(
        "draft.put",
        reversibility=Reversibility.REVERSIBLE,
        inverse=lambda a, c, r: Inverse.tool("draft.drop", name=a["name"]),
    )
    def put(name: str, text: str) -> None:
        drafts[name] = text

    @tools.compensator("draft.drop", idempotent=True)
    def drop(name: str) -> None:
        drafts.pop(name, None)

    return tools
