"""Tests of a session store, for inheritance: rows, history, artifacts, locks, and turns on it.

Invariant: both stores of gitshadow pass every rule, and a broken store fails each rule.
"""

from dataclasses import replace

from gitshadow.errors import LockedError, StoreError
from gitshadow.model import Oid
from gitshadow.sdk.testing.saga_kit import OpenStore, OutboxStoreKit, SagaStoreKit
from gitshadow.sdk.testing.sample_rows import EVENT
from gitshadow.sdk.turns.protocols import SessionLock, SessionStore
from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.session import AgentUndo
from gitshadow.sdk.turns.values import Inverse, Reversibility
from gitshadow.store.journal.saga_rows import Marker, SessionEvent, Version
from gitshadow.store.object_format import SHA1, format_of

_A, _B = SHA1.blob(b"a"), SHA1.blob(b"b")
_ODD_NAMES = ("a/b", "..", ".git", "ü\n", "%2E", " ")


def _state(store: SessionStore, *deltas: dict[str, str | None]) -> None:
    """Add one event per delta."""
    store.save(replace(EVENT, delta=delta) for delta in deltas)


def _files(store: SessionStore, *changes: dict[str, Oid | None]) -> None:
    """Add one event per change of artifacts."""
    store.save(replace(EVENT, artifacts=change) for change in changes)


class HistoryStoreKit:
    """Rules for events, values and versions; see `SessionStoreKit`."""

    def test_events_are_numbered_in_their_order(self, open_store: OpenStore) -> None:
        """The numbers of each session begin with 0, and events are read as saved."""
        store = open_store()
        said = replace(EVENT, text="ü\n", body='{"a":"\\n"}', kind="note", ts_ns=0)
        store.save([EVENT, replace(EVENT, session="z")])
        store.save([said])
        found = [
            SessionEvent(
                session="s",
                seq=seq,
                invocation="t-1",
                author="user",
                kind=event.kind,
                ts_ns=event.ts_ns,
                text=event.text,
                body=event.body,
            )
            for seq, event in enumerate((EVENT, said))
        ]
        assert store.events("s") == found
        assert [event.seq for event in store.events("z")] == [0]

    def test_the_last_number_is_that_of_the_newest_event(
        self, open_store: OpenStore
    ) -> None:
        """It is -1 without events."""
        store = open_store()
        assert (store.last_seq("s"), store.events("s")) == (-1, [])
        store.save([EVENT, EVENT])
        assert (store.last_seq("s"), store.last_seq("z")) == (1, -1)

    def test_an_invocation_begins_with_its_first_event(
        self, open_store: OpenStore
    ) -> None:
        """An unknown invocation has None."""
        store = open_store()
        store.save(replace(EVENT, invocation=name) for name in ("i", "j", "i"))
        assert (store.first_of("s", "j"), store.first_of("s", "i")) == (1, 0)
        assert (store.first_of("s", "k"), store.first_of("z", "i")) == (None, None)

    def test_invocations_come_by_their_first_event_since(
        self, open_store: OpenStore
    ) -> None:
        """An invocation with earlier events is listed at its next event."""
        store = open_store()
        store.save(replace(EVENT, invocation=name) for name in ("b", "c", "a", "b"))
        assert store.invocations_since("s", 2) == ["a", "b"]
        assert store.invocations_since("s", 0) == ["b", "c", "a"]
        assert store.invocations_since("s", 4) == []

    def test_markers_come_newest_first(self, open_store: OpenStore) -> None:
        """Each has the first and last event that it hides; other kinds are no markers."""
        store = open_store()
        marker = replace(EVENT, kind="rewind", body='{"hidden_from":1}')
        bounded = replace(marker, body='{"hidden_from":0,"hidden_to":1}')
        store.save([EVENT, EVENT, marker, bounded])
        assert store.markers("s") == [Marker(3, 0, 1), Marker(2, 1)]
        assert store.markers("z") == []

    def test_the_state_is_what_was_set_last(self, open_store: OpenStore) -> None:
        """This holds before any event, as sorted texts; a removed key is absent."""
        store = open_store()
        _state(store, {"b": "1", "a": '"ü"'}, {"b": None}, {"b": "2", "c": "null"})
        assert list(store.state_before("s", 1).items()) == [("a", '"ü"'), ("b", "1")]
        assert store.state_before("s", 2) == {"a": '"ü"'}
        assert store.state_before("s", 3) == {"a": '"ü"', "b": "2", "c": "null"}
        assert (store.state_before("s", 0), store.state_before("z", 9)) == ({}, {})

    def test_a_state_delta_brings_back_what_was(self, open_store: OpenStore) -> None:
        """It removes new keys and restores old ones; unchanged keys are left out."""
        store = open_store()
        _state(store, {"old": "1", "gone": "1", "same": "1", "back": "1"})
        _state(store, {"old": "2", "gone": None, "new": "1", "back": "2"})
        _state(store, {"back": "1"})
        assert store.state_delta("s", 1) == {"old": "1", "gone": "1", "new": None}
        assert store.state_delta("s", 3) == {}
        assert store.state_delta("z", 0) == {}

    def test_versions_are_numbered_from_0(self, open_store: OpenStore) -> None:
        """Each artifact counts its own; a deletion is a version too."""
        store = open_store()
        assert (store.next_version("s", "f"), store.versions("s", "f")) == (0, [])
        _files(store, {"f": _A, "g": _B}, {"f": None}, {"f": _B})
        found = [Version(0, _A), Version(1, None), Version(2, _B)]
        assert store.versions("s", "f") == found
        assert (store.next_version("s", "f"), store.next_version("s", "g")) == (3, 1)
        assert (store.next_version("z", "f"), store.versions("z", "f")) == (0, [])

    def test_the_newest_version_is_what_there_is(self, open_store: OpenStore) -> None:
        """A deleted artifact is not listed."""
        store = open_store()
        _files(store, {"g": _A, "f": _A}, {"g": None, "f": _B}, {"e": _A})
        assert store.artifacts("s") == {"e": Version(0, _A), "f": Version(1, _B)}
        assert store.artifacts("z") == {}

    def test_an_artifact_delta_names_the_version_before(
        self, open_store: OpenStore
    ) -> None:
        """None for a new artifact; an artifact with the same bytes is left out."""
        store = open_store()
        _files(store, {"old": _A, "gone": _A, "same": _A, "was": _A, "back": _A})
        _files(store, {"old": _B, "was": None, "back": _B})
        _files(store, {"old": _A, "new": _A, "gone": None, "was": _A, "back": _A})
        assert store.artifact_delta("s", 2) == {
            "old": Version(1, _B),
            "new": None,
            "gone": Version(0, _A),
            "was": None,
            "back": Version(1, _B),
        }
        assert store.artifact_delta("s", 1) == {"new": None, "gone": Version(0, _A)}
        assert store.artifact_delta("z", 0) == {}


class BlobStoreKit:
    """Rules for the bytes of artifacts; see `SessionStoreKit`."""

    def test_bytes_come_back_exactly(self, open_store: OpenStore) -> None:
        """Another opening reads them too; an artifact may be empty."""
        store = open_store()
        for version, data in enumerate((b"", b"\r\n\0\xff", b"x" * 100_000)):
            oid = store.keep("s", "f", version, data, 1)
            assert (store.has(oid), store.read(oid)) == (True, data)
            assert open_store().read(oid) == data

    def test_bytes_have_the_id_of_their_blob(self, open_store: OpenStore) -> None:
        """The id is Git's, so the same bytes have one id under every name."""
        data, store = b"hello\n", open_store()
        oid = store.keep("s", "f", 0, data, 1)
        assert oid == format_of(oid).blob(data)
        assert store.keep("z", "g", 7, data, 2) == oid
        assert store.read(oid) == data

    def test_an_artifact_may_have_any_name(self, open_store: OpenStore) -> None:
        """Each keeps its own bytes."""
        store = open_store()
        kept = [store.keep("s", name, 0, name.encode(), 1) for name in _ODD_NAMES]
        assert [store.read(oid).decode() for oid in kept] == list(_ODD_NAMES)

    def test_bytes_that_are_gone_are_not_made_up(self, open_store: OpenStore) -> None:
        """A rewind reports them instead of restoring an empty artifact."""
        store = open_store()
        assert not store.has(_A)
        try:
            found = store.read(_A)
        except StoreError:
            return
        raise AssertionError(f"read a value that was never stored: {found!r}")


class SessionStoreKit(SagaStoreKit, OutboxStoreKit, HistoryStoreKit, BlobStoreKit):
    """Rules for a `SessionStore`.

    Inherit from it, and override the fixture `open_store`. It returns a function that opens the
    store under test: the same store in one test, an empty one in the next:

        class TestMyStore(SessionStoreKit):
            @pytest.fixture
            def open_store(self, tmp_path):
                return lambda: MyStore(tmp_path / "sessions")
    """

    def test_a_session_has_one_holder(self, open_store: OpenStore) -> None:
        """The second holder fails at once, in this opening or another."""
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
        """Two turns of one program exclude each other; the first one keeps the lock."""
        store = open_store()
        held = store.lock("s")
        held.take()
        assert _is_locked(held)
        assert _is_locked(store.lock("s"))
        held.release()

    def test_only_the_holder_gives_it_back(self, open_store: OpenStore) -> None:
        """A release without the lock does nothing; one release is enough."""
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

    def test_a_store_keeps_its_name(self, open_store: OpenStore) -> None:
        """Every opening has it; it is random, so no two stores share one."""
        found = open_store().store_id()
        assert (open_store().store_id(), len(found) >= 16) == (found, True)

    def test_locks_of_two_sessions_are_two(self, open_store: OpenStore) -> None:
        """This holds for any names."""
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
        """The store has all data for an undo."""
        drafts: dict[str, str] = {}
        tools = _tools(drafts)
        first = AgentUndo.with_store(open_store(), session="s", tools=tools)
        with first, first.turn("first") as turn:
            turn.call("draft.put", name="a", text="x")
        with AgentUndo.with_store(open_store(), session="s", tools=tools) as au:
            assert au.undo("t-1").status == "reversed"
            assert (drafts, au.undo("t-1").already_undone) == ({}, True)

    def test_a_failed_turn_gives_everything_back(self, open_store: OpenStore) -> None:
        """It undoes effects, state and artifacts; the conversation stays."""
        drafts: dict[str, str] = {}
        with AgentUndo.with_store(
            open_store(), session="s", tools=_tools(drafts)
        ) as au:
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
        """State and artifacts are restored, and no event is deleted."""
        with AgentUndo.with_store(
            open_store(), session="s", tools=ToolRegistry()
        ) as au:
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

    @tools.handler("draft.drop", idempotent=True)
    def drop(name: str) -> None:
        drafts.pop(name, None)

    return tools
