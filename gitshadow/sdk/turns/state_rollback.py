"""The undo of a turn's state, artifacts and conversation: what to set, to hide and to keep.

A value that somebody set again later is kept, unless it is asked for. Nothing is deleted: one event
records it all, and a second such event changes nothing.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from gitshadow.model import Oid
from gitshadow.sdk.turns import json_values
from gitshadow.sdk.turns.commands import Procedure, now
from gitshadow.sdk.turns.protocols import SessionStore
from gitshadow.sdk.turns.report import Domain, UndoItem, UndoReport
from gitshadow.sdk.turns.undo_operation import PhaseResult, blank
from gitshadow.sdk.turns.undo_request import UndoRequest
from gitshadow.sdk.turns.values import JsonObject, OnDrift, Scope
from gitshadow.store.journal.saga_rows import (
    MARKER,
    NewEvent,
    SagaOp,
    SessionEvent,
    Version,
)
from gitshadow.undo.report import Action, Reason, State

_BODIES = (
    (Domain.STATE, "keys"),
    (Domain.STATE, "state_delta"),
    (Domain.ARTIFACTS, "artifact_delta"),
)
OTHER_SCOPES = ("app:", "user:", "temp:")
"""Keys of other scopes than the session's: they are left alone."""


class Stretch(NamedTuple):
    """A closed range of event numbers."""

    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What gives state and artifacts their earlier values again.

    `state` are JSON texts by key, `artifacts` versions by name; None: absent. `moved` are names
    that were set again since, with the words for it; `missing` artifacts whose bytes are gone.
    """

    state: Mapping[str, str | None] = field(default_factory=dict)
    artifacts: Mapping[str, Version | None] = field(default_factory=dict)
    moved: Mapping[tuple[Domain, str], str] = field(default_factory=dict)
    missing: frozenset[str] = frozenset()

    @property
    def blobs(self) -> dict[str, Oid | None]:
        """Return what becomes current again, and can."""
        return {name: _oid(version) for name, version in self._there().items()}

    @property
    def numbers(self) -> dict[str, int | None]:
        """Return the number of the version that each artifact has again; None for none."""
        found = self._there().items()
        return {name: version.number if version else None for name, version in found}

    def _there(self) -> dict[str, Version | None]:
        found = self.artifacts.items()
        return {name: one for name, one in found if name not in self.missing}

    def within(self, request: UndoRequest) -> "Changes":
        """Return what of it a request is about."""
        state, artifacts = Scope.STATE, Scope.ARTIFACTS
        wanted = {
            Domain.STATE: request.covers(state),
            Domain.ARTIFACTS: request.covers(artifacts),
        }
        return Changes(
            state=self.state if wanted[Domain.STATE] else {},
            artifacts=self.artifacts if wanted[Domain.ARTIFACTS] else {},
            moved={name: said for name, said in self.moved.items() if wanted[name[0]]},
            missing=self.missing,
        )

    def items(self) -> Iterator[UndoItem]:
        """Yield what becomes of each key and of each artifact."""
        for key, value in self.state.items():
            yield _item(Domain.STATE, key, gone=value is None)
        for name, version in self.artifacts.items():
            item = _item(Domain.ARTIFACTS, name, gone=version is None)
            if version is not None and name in self.missing:
                said = f"the content of version {version.number} is missing"
                item = _left(item, Reason.NO_INVERSE, said)
            yield item
        for (domain, name), said in self.moved.items():
            yield _left(_item(domain, name, gone=False), Reason.DRIFTED, said)


@dataclass(frozen=True, slots=True, kw_only=True)
class Taking:
    """The phase of an undo that restores state, artifacts and conversation.

    One event records it in the session's history: its text, and what it hides. `seq` is its number.
    """

    op: SagaOp
    changes: Changes
    text: str
    invocation: str
    hides: Stretch | None
    hidden: tuple[str, ...]
    body: JsonObject
    seq: int

    def act(self, planned: bool) -> Procedure[PhaseResult]:
        """Return what is restored, and the event that does it: it is saved with the phase's end."""
        moment = yield from now()
        rows = (self._event(moment),) if self._says_something else ()
        return PhaseResult(self._part(), () if planned else rows)

    @property
    def _says_something(self) -> bool:
        hides = self.hides is not None
        return bool(hides or self.changes.state or self.changes.blobs)

    def _part(self) -> UndoReport:
        items = tuple(self.changes.items())
        rows = [[item.path, item.state, item.reason] for item in items]
        told = self._says_something
        return replace(
            blank(self.op),
            items=items,
            token=json_values.token([rows, dict(self.changes.state), self.hides])
            if told or rows
            else "",
            state_delta=values(self.changes.state),
            artifact_delta=self.changes.numbers,
            hidden_invocations=self.hidden if self.hides else (),
            marker_event=self.seq if told else None,
        )

    def _event(self, moment_ns: int) -> NewEvent:
        hides, changes = self.hides, self.changes
        body: dict[str, object] = {
            **self.body,
            "state_delta": values(changes.state),
            "artifact_delta": changes.numbers,
            "op": self.op.id,
        }
        if hides is not None:
            body |= {"hidden_from": hides.first}
            if hides.last < self.seq:
                body |= {"hidden_to": hides.last}
        # One event restores the values and hides the conversation, so no reader sees one without
        # the other.
        return NewEvent(
            session=self.op.session,
            invocation=self.invocation,
            author="system",
            kind="state" if hides is None else MARKER,
            ts_ns=moment_ns,
            text=self.text,
            body=json_values.canonical(body),
            delta=changes.state,
            artifacts=changes.blobs,
        )


def stretch_of(store: SessionStore, session: str, invocation: str) -> Stretch | None:
    """Return the events of an invocation, or None where it has none."""
    first = store.first_of(session, invocation)
    if first is None:
        return None
    # A session has one turn at a time, so its events end where the next invocation begins.
    following = store.invocations_since(session, first)[1:]
    firsts = (store.first_of(session, one) for one in following[:1])
    last = next((one for one in firsts if one is not None and one > first), None)
    end = store.last_seq(session) if last is None else last - 1
    return Stretch(first, end)


def changes_of(
    store: SessionStore,
    session: str,
    part: Stretch,
    on_drift: str = OnDrift.SKIP,
    *,
    every: bool = False,
) -> Changes:
    """Return what restores the values that a range of a session's events has set.

    Args:
        store: Where the session is kept.
        session: Its id.
        part: The events.
        on_drift: What to do where it was set again since.
        every: Whether keys of other scopes than the session's are restored as well.
    """
    before = store.state_delta(session, part.first)
    since = store.state_delta(session, part.last + 1)
    versions = store.artifact_delta(session, part.first)
    later = store.artifact_delta(session, part.last + 1)
    moved: dict[tuple[Domain, str], str] = {}
    state: dict[str, str | None] = {}
    for key, value in before.items():
        if key.startswith(OTHER_SCOPES) and not every:
            continue
        if key not in since or on_drift == OnDrift.OVERWRITE:
            state[key] = value
        elif since[key] != value:
            moved[Domain.STATE, key] = f"the turn left {since[key]}; it was set later"
    artifacts: dict[str, Version | None] = {}
    for name, version in versions.items():
        if name.startswith(OTHER_SCOPES) and not every:
            continue
        if name not in later or on_drift == OnDrift.OVERWRITE:
            artifacts[name] = version
        elif _oid(later[name]) != _oid(version):
            moved[Domain.ARTIFACTS, name] = "it was saved again later"
    found = Changes(state=state, artifacts=artifacts, moved=moved)
    return _with_missing(store, found)


def changes_of_part(
    store: SessionStore,
    session: str,
    turn: Stretch,
    mine: Collection[int],
    undone: Collection[int],
) -> Changes:
    """Return what restores the values that savepoints of a turn have set.

    A value that the rest of the turn set later is kept.

    Args:
        store: Where the session is kept.
        session: Its id.
        turn: The events of the turn.
        mine: The numbers of the savepoints.
        undone: Those of savepoints that were undone before; what they set does not count.
    """
    written: dict[tuple[Domain, str], list[tuple[int, bool]]] = {}
    for event in store.events(session)[turn.first : turn.last + 1]:
        body = json_values.parse(event.body)
        point = body.get("savepoint")
        if point not in undone:
            for one in _names_set(event, body):
                written.setdefault(one, []).append((event.seq, point in mine))
    state: dict[str, str | None] = {}
    artifacts: dict[str, Version | None] = {}
    moved: dict[tuple[Domain, str], str] = {}
    for (domain, name), writes in written.items():
        if not any(is_mine for _, is_mine in writes):
            continue
        if not writes[-1][1]:
            moved[domain, name] = "it was set again outside of the savepoint"
            continue
        others = [seq + 1 for seq, is_mine in writes if not is_mine]
        before = others[-1] if others else turn.first
        if domain is Domain.STATE:
            values_then = store.state_delta(session, before)
            if name in values_then:
                state[name] = values_then[name]
        else:
            versions = store.artifact_delta(session, before)
            if name in versions:
                artifacts[name] = versions[name]
    found = Changes(state=state, artifacts=artifacts, moved=moved)
    return _with_missing(store, found)


def _names_set(event: SessionEvent, body: JsonObject) -> Iterator[tuple[Domain, str]]:
    """Yield the keys and artifacts that an event of a turn has set."""
    if event.kind == "artifact":
        yield Domain.ARTIFACTS, event.text
    for domain, member in _BODIES:
        found = body.get(member)
        for one in found if isinstance(found, list | dict) else ():
            yield domain, str(one)


def _with_missing(store: SessionStore, changes: Changes) -> Changes:
    """Name the artifacts whose bytes are gone, so that none is silently emptied."""
    gone = {
        name
        for name, oid in changes.blobs.items()
        if oid is not None and not store.has(oid)
    }
    return replace(changes, missing=frozenset(gone))


def values(texts: Mapping[str, str | None]) -> dict[str, object]:
    """Return stored values as values; None stands for an absent key."""
    return {
        key: None if text is None else json.loads(text) for key, text in texts.items()
    }


def _oid(version: Version | None) -> Oid | None:
    return None if version is None else version.oid


def _item(domain: Domain, name: str, *, gone: bool) -> UndoItem:
    return UndoItem(
        path=name,
        domain=domain,
        action=Action.DELETE if gone else Action.WRITE,
        state=State.REVERSED,
    )


def _left(item: UndoItem, reason: Reason, said: str) -> UndoItem:
    return replace(
        item,
        state=State.NOT_REVERSED,
        action=Action.NONE,
        reason=reason,
        detail=said,
    )
