"""Going back: the state as it was before an invocation, what followed hidden, nothing deleted.

A rewind adds one event, a marker: its delta restores the state, its range says what is out.
Invariant: its cost is that of what changed since the target; outside effects are undone only when
asked for, and named otherwise.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from gitshadow.model import Oid
from gitshadow.store.journal.saga_rows import (
    MARKER,
    NewEvent,
    SagaCall,
    SagaOp,
    Version,
)
from gitshadow.turns import events, judging, records
from gitshadow.turns.errors import InvocationNotFound, NothingToUndo, SessionNotFound
from gitshadow.turns.protocols import SessionStore
from gitshadow.turns.report import Domain, UndoItem, UndoKind, UndoReport
from gitshadow.turns.saga import Unwind
from gitshadow.turns.steps import Part, Procedure, Save, now
from gitshadow.turns.values import Reversibility
from gitshadow.undo.report import Action, Reason, State, Uncovered

OTHER_SCOPES = ("app:", "user:", "temp:")
"""Keys of other scopes than the session's: a rewind leaves them alone."""


@dataclass(frozen=True, slots=True)
class Target:
    """Hold what a rewind goes back to, read before anything is changed.

    `first` is the first event to be hidden, `delta` what restores the state (JSON texts),
    `artifacts` the versions that become current again, None for what was not there. `missing` are
    those of them whose bytes are gone.
    """

    invocation: str
    first: int
    marker: int
    delta: Mapping[str, str | None]
    hides: tuple[str, ...]
    artifacts: Mapping[str, Version | None] = field(default_factory=dict)
    missing: frozenset[str] = frozenset()

    @property
    def blobs(self) -> dict[str, Oid | None]:
        """Return what is to be made current again, and can be."""
        return {
            name: version.oid if version else None
            for name, version in self.artifacts.items()
            if name not in self.missing
        }


def find(store: SessionStore, session: str, before: str) -> Target:
    """Return the target of a rewind.

    Raises:
        SessionNotFound: the session has no history.
        InvocationNotFound: it has no such invocation.
    """
    last = store.last_seq(session)
    first = found(session, before, last, store.first_of(session, before))
    delta = {
        key: value
        for key, value in store.state_delta(session, first).items()
        if not key.startswith(OTHER_SCOPES)
    }
    hides = tuple(store.invocations_since(session, first))
    versions = {
        name: version
        for name, version in store.artifact_delta(session, first).items()
        if not name.startswith(OTHER_SCOPES)
    }
    return Target(before, first, last + 1, delta, hides, versions)


def found(session: str, before: str, last: int, first: int | None) -> int:
    """Return an invocation's first event, given the session's last; the creation is none.

    Raises:
        SessionNotFound: the session has no history.
        InvocationNotFound: it has no such invocation.
    """
    if last < 0:
        raise SessionNotFound(f"could not find session {session}")
    if not first:
        raise InvocationNotFound(f"could not find invocation {before} in {session}")
    return first


def last_live(store: SessionStore, session: str) -> str:
    """Return the newest invocation that is in the conversation.

    Raises:
        NothingToUndo: there is none.
    """
    out = events.hidden(store.markers(session))
    for event in reversed(store.events(session)):
        if event.seq > 0 and events.is_live(event.seq, out):
            return event.invocation
    raise NothingToUndo(f"could not undo in {session}: there is nothing left")


def standing(store: SessionStore, session: str, target: Target) -> list[SagaCall]:
    """Return the calls of the turns that a rewind hides."""
    return [call for turn in target.hides for call in store.calls(session, turn)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewind:
    """Go back to a target; `unwinds` take back effects, newest turn first, when asked for."""

    op: SagaOp
    target: Target
    calls: tuple[SagaCall, ...]
    unwinds: tuple[Unwind, ...] | None = None

    def run(self) -> Procedure[UndoReport]:
        """Take effects back if they are in scope, then add the marker and end the op."""
        items: list[UndoItem] = []
        if self.unwinds is not None:
            yield Save((self.op,))
            for unwind in self.unwinds:
                items += yield from unwind.take_back()
        report = self._report((*items, *_restored(self.target)))
        yield Part("end", self._end(report))
        return report

    def _end(self, report: UndoReport) -> Procedure[None]:
        moment = yield from now()
        text = records.lenient(report.to_json())
        op = replace(
            self.op, status="done", token=report.token, ended_ns=moment, report=text
        )
        yield Save((self._marker(moment), op))

    def _marker(self, moment_ns: int) -> NewEvent:
        body = {
            "rewind_before_invocation_id": self.target.invocation,
            "state_delta": values(self.target.delta),
            "artifact_delta": _numbers(self.target),
            "hidden_from": self.target.first,
            "op": self.op.id,
        }
        return NewEvent(
            session=self.op.session,
            invocation=f"r-{self.target.marker}",
            author="system",
            kind=MARKER,
            ts_ns=moment_ns,
            text="Session rewound",
            body=records.canonical(body),
            delta=self.target.delta,
            artifacts=self.target.blobs,
        )

    def _report(self, items: Iterable[UndoItem]) -> UndoReport:
        delta = values(self.target.delta)
        outstanding = _outstanding(self.calls) if self.unwinds is None else ()
        return UndoReport(
            op_id=self.op.id,
            kind=UndoKind.REWIND,
            target=self.op.target,
            items=tuple(items),
            token=records.token([self.op.target, self.target.first, delta]),
            not_covered=tuple(outstanding),
            state_delta=delta,
            artifact_delta=_numbers(self.target),
            hidden_invocations=self.target.hides,
            marker_event=self.target.marker,
        )


def values(texts: Mapping[str, str | None]) -> dict[str, object]:
    """Return stored values as values; None stands for an absent key."""
    return {
        key: None if text is None else json.loads(text) for key, text in texts.items()
    }


def _numbers(target: Target) -> dict[str, int | None]:
    """Return the number of the version that each artifact has again; None for none."""
    return {
        name: version.number if version else None
        for name, version in target.artifacts.items()
        if name not in target.missing
    }


def _restored(target: Target) -> Iterator[UndoItem]:
    for key, value in target.delta.items():
        yield _item(Domain.STATE, key, gone=value is None)
    for name, version in target.artifacts.items():
        item = _item(Domain.ARTIFACTS, name, gone=version is None)
        if version is not None and name in target.missing:
            item = replace(
                item,
                state=State.NOT_REVERSED,
                action=Action.NONE,
                reason=Reason.NO_INVERSE,
                detail=f"the bytes of version {version.number} are gone",
            )
        yield item


def _item(domain: Domain, name: str, *, gone: bool) -> UndoItem:
    return UndoItem(
        call_id="",
        tool="",
        klass="",
        path=name,
        domain=domain,
        action=Action.DELETE if gone else Action.WRITE,
        state=State.REVERSED,
    )


def _outstanding(calls: Iterable[SagaCall]) -> Iterator[Uncovered]:
    """Name the effects that a rewind without effects leaves as they are."""
    for call in judging.mutating(calls):
        settled = call.undo in ("done", "skipped", "resolved")
        if call.klass != Reversibility.READ_ONLY and not settled:
            why = "outstanding: a plain rewind takes no outside effect back"
            if call.outcome == "held":
                why = "held: a plain rewind does not keep it from being sent"
            yield Uncovered(f"{call.tool} {call.id}", why)
