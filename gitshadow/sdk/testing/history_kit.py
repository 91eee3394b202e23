"""What `HistoryStore` and `BlobStore` ask of a store, rule by rule.

Invariant: as in `saga_kit`.
"""

from dataclasses import replace
from hashlib import sha1

from gitshadow.errors import StoreError
from gitshadow.model import Oid
from gitshadow.sdk.testing.sample_rows import EVENT
from gitshadow.sdk.testing.store_factory import OpenStore
from gitshadow.sdk.turns.protocols import SessionStore
from gitshadow.store.journal.saga_rows import Marker, SessionEvent, Version

_A, _B = Oid("a" * 40), Oid("b" * 40)
_ODD_NAMES = ("a/b", "..", ".git", "ü\n", "%2E", " ")


def _state(store: SessionStore, *deltas: dict[str, str | None]) -> None:
    """Add one event per delta."""
    store.save(replace(EVENT, delta=delta) for delta in deltas)


def _files(store: SessionStore, *changes: dict[str, Oid | None]) -> None:
    """Add one event per change of artifacts."""
    store.save(replace(EVENT, artifacts=change) for change in changes)


class HistoryStoreKit:
    """Check how a store keeps events, values and versions; see `SessionStoreKit`."""

    def test_events_are_numbered_in_their_order(self, open_store: OpenStore) -> None:
        """From 0 in each session, and they come back as they were."""
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
        """It is -1 where there is none."""
        store = open_store()
        assert (store.last_seq("s"), store.events("s")) == (-1, [])
        store.save([EVENT, EVENT])
        assert (store.last_seq("s"), store.last_seq("z")) == (1, -1)

    def test_an_invocation_begins_with_its_first_event(
        self, open_store: OpenStore
    ) -> None:
        """None where it has none."""
        store = open_store()
        store.save(replace(EVENT, invocation=name) for name in ("i", "j", "i"))
        assert (store.first_of("s", "j"), store.first_of("s", "i")) == (1, 0)
        assert (store.first_of("s", "k"), store.first_of("z", "i")) == (None, None)

    def test_invocations_come_by_their_first_event_since(
        self, open_store: OpenStore
    ) -> None:
        """One that had events before counts where it goes on."""
        store = open_store()
        store.save(replace(EVENT, invocation=name) for name in ("b", "c", "a", "b"))
        assert store.invocations_since("s", 2) == ["a", "b"]
        assert store.invocations_since("s", 0) == ["b", "c", "a"]
        assert store.invocations_since("s", 4) == []

    def test_markers_come_newest_first(self, open_store: OpenStore) -> None:
        """Each says from where on it hides, and up to where; other kinds are no markers."""
        store = open_store()
        marker = replace(EVENT, kind="rewind", body='{"hidden_from":1}')
        bounded = replace(marker, body='{"hidden_from":0,"hidden_to":1}')
        store.save([EVENT, EVENT, marker, bounded])
        assert store.markers("s") == [Marker(3, 0, 1), Marker(2, 1)]
        assert store.markers("z") == []

    def test_the_state_is_what_was_set_last(self, open_store: OpenStore) -> None:
        """Before any event, as texts, sorted; a key that was taken out is absent."""
        store = open_store()
        _state(store, {"b": "1", "a": '"ü"'}, {"b": None}, {"b": "2", "c": "null"})
        assert list(store.state_before("s", 1).items()) == [("a", '"ü"'), ("b", "1")]
        assert store.state_before("s", 2) == {"a": '"ü"'}
        assert store.state_before("s", 3) == {"a": '"ü"', "b": "2", "c": "null"}
        assert (store.state_before("s", 0), store.state_before("z", 9)) == ({}, {})

    def test_a_state_delta_brings_back_what_was(self, open_store: OpenStore) -> None:
        """New keys go, old values and deleted keys come; what is as it was is left out."""
        store = open_store()
        _state(store, {"old": "1", "gone": "1", "same": "1", "back": "1"})
        _state(store, {"old": "2", "gone": None, "new": "1", "back": "2"})
        _state(store, {"back": "1"})
        assert store.state_delta("s", 1) == {"old": "1", "gone": "1", "new": None}
        assert store.state_delta("s", 3) == {}
        assert store.state_delta("z", 0) == {}

    def test_versions_are_numbered_from_0(self, open_store: OpenStore) -> None:
        """By artifact; one that says that the artifact is absent is a version too."""
        store = open_store()
        assert (store.next_version("s", "f"), store.versions("s", "f")) == (0, [])
        _files(store, {"f": _A, "g": _B}, {"f": None}, {"f": _B})
        found = [Version(0, _A), Version(1, None), Version(2, _B)]
        assert store.versions("s", "f") == found
        assert (store.next_version("s", "f"), store.next_version("s", "g")) == (3, 1)
        assert (store.next_version("z", "f"), store.versions("z", "f")) == (0, [])

    def test_the_newest_version_is_what_there_is(self, open_store: OpenStore) -> None:
        """An artifact that is absent now is not there."""
        store = open_store()
        _files(store, {"g": _A, "f": _A}, {"g": None, "f": _B}, {"e": _A})
        assert store.artifacts("s") == {"e": Version(0, _A), "f": Version(1, _B)}
        assert store.artifacts("z") == {}

    def test_an_artifact_delta_names_the_version_before(
        self, open_store: OpenStore
    ) -> None:
        """None where it was not there; what has the same bytes again is left out."""
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
    """Check how a store keeps the bytes of artifacts; see `SessionStoreKit`."""

    def test_bytes_come_back_exactly(self, open_store: OpenStore) -> None:
        """Also from another opening; an empty artifact is one."""
        store = open_store()
        for version, data in enumerate((b"", b"\r\n\0\xff", b"x" * 100_000)):
            oid = store.keep("s", "f", version, data, 1)
            assert (store.has(oid), store.read(oid)) == (True, data)
            assert open_store().read(oid) == data

    def test_bytes_have_the_id_of_their_blob(self, open_store: OpenStore) -> None:
        """As Git gives it, so the same bytes have one id under every name."""
        data, store = b"hello\n", open_store()
        oid = sha1(b"blob 6\0" + data).hexdigest()
        assert store.keep("s", "f", 0, data, 1) == oid
        assert store.keep("z", "g", 7, data, 2) == oid
        assert store.read(Oid(oid)) == data

    def test_an_artifact_may_have_any_name(self, open_store: OpenStore) -> None:
        """Each keeps its own bytes."""
        store = open_store()
        kept = [store.keep("s", name, 0, name.encode(), 1) for name in _ODD_NAMES]
        assert [store.read(oid).decode() for oid in kept] == list(_ODD_NAMES)

    def test_bytes_that_are_gone_are_not_made_up(self, open_store: OpenStore) -> None:
        """A rewind names them; nothing is silently emptied."""
        store = open_store()
        assert not store.has(_A)
        try:
            found = store.read(_A)
        except StoreError:
            return
        raise AssertionError(f"read a value that was never stored: {found!r}")
