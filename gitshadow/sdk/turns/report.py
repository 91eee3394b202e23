"""The report of an undo of effects: per call, and never better than the truth.

Invariant: status, counts and exit code are derived from the items; the JSON is the report of an
undo of files with fields added.
"""

from collections import Counter
from dataclasses import dataclass, field, replace
from enum import StrEnum

from gitshadow.errors import ExitCode, JournalError, ShadowError
from gitshadow.messages.codec import decode, encode
from gitshadow.messages.undo import EffectItem, EffectUndoAnswer, FileItem
from gitshadow.model import Oid
from gitshadow.sdk.turns.values import JsonObject
from gitshadow.undo.report import (
    Action,
    BaseItem,
    BaseReport,
    Reason,
    State,
    Status,
    copied,
    made,
    overall,
)
from gitshadow.words import printable

_SHOWN = {
    State.REVERSED: "reversed",
    State.COMPENSATED: "compensated",
    State.NOT_REVERSED: "not reversed",
}


class UndoKind(StrEnum):
    """The kind of an undo: what asked for it."""

    ROLLBACK = "rollback"
    UNDO = "undo"
    REWIND = "rewind"
    REDO = "redo"


class Domain(StrEnum):
    """The part of the world that an item of a report is about."""

    EFFECTS = "effects"
    FILES = "files"
    STATE = "state"
    ARTIFACTS = "artifacts"
    OUTBOX = "outbox"

    @property
    def noun(self) -> str:
        """Return what one thing of it is called."""
        return self.value.removesuffix("s")


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoItem(BaseItem):
    """What an undo did, or would do, with one call.

    `follow_up` is what a person can still do. `already` marks a call that an earlier undo had
    undone. An item of another domain than effects has a `path` instead of a call: a file, the
    key of a state, the name of an artifact.
    """

    call_id: str = ""
    tool: str = ""
    klass: str = ""
    action: Action = Action.NONE
    domain: Domain = Domain.EFFECTS
    follow_up: str | None = None
    attempts: int = 0
    error: str | None = None
    already: bool = False
    path: str | None = None

    @classmethod
    def of_row(cls, row: EffectItem | FileItem) -> "UndoItem":
        """Return the item that `row` gave, or that of a file undo as one of a turn's undo.

        An item of an older version may lack domain and action.

        Raises:
            ValueError: it has an unknown domain, action, state or reason.
        """
        item = made(
            row,
            cls,
            domain=Domain.FILES,
            action=Action(row.action or Action.NONE),
            state=State(row.state),
            reason=Reason(row.reason) if row.reason else None,
        )
        if isinstance(row, FileItem):
            return item
        domain = Domain(row.domain or Domain.EFFECTS)
        return replace(
            item, domain=domain, klass=row.class_, already=row.already_undone
        )

    def row(self) -> EffectItem:
        """Return the item as it is stored and printed."""
        return copied(self, EffectItem, class_=self.klass, already_undone=self.already)

    def to_json(self) -> JsonObject:
        """Return the item as a JSON object."""
        return encode(self.row())

    def line(self) -> str:
        """Return the item as one line for people."""
        why = f" ({self.reason.value.replace('_', ' ')})" if self.reason else ""
        state = self.state.value.replace("_", " ")
        residue = f"remains: {self.residue}" if self.residue else None
        earlier = "already undone" if self.already else None
        words = (earlier, self.detail, residue, self.error, self.follow_up)
        said = "; ".join(part for part in words if part)
        name = f"{self.domain.noun} {self.path}"
        if self.path is None:
            name = f"{self.tool} {self.call_id}"
        return f"{state:<12} {name}{why}" + (f": {said}" if said else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoReport(BaseReport):
    """One undo of turns, planned or done; items are in the order in which they are undone.

    A rewind has what it set in the state (None: the key is absent), which invocations it hid, and
    the number of the event that records it.
    """

    kind: UndoKind
    items: tuple[UndoItem, ...]
    state_delta: JsonObject = field(default_factory=dict)
    artifact_delta: JsonObject = field(default_factory=dict)
    hidden_invocations: tuple[str, ...] = ()
    marker_event: int | None = None

    @property
    def status(self) -> Status:
        """Return how the undo as a whole ended."""
        if not self.planned and self.already_undone:
            return Status.NOTHING_TO_DO
        return overall({item.state for item in self.items}, planned=self.planned)

    @property
    def already_undone(self) -> bool:
        """Return whether earlier undos had left nothing to do."""
        mutating = [item for item in self.items if item.state is not State.NO_EFFECT]
        return bool(mutating) and all(item.already for item in mutating)

    @staticmethod
    def of(error: BaseException) -> "UndoReport | None":
        """Return the report of the rollback that an exception caused, None where it has none."""
        found = getattr(error, "undo_report", None)
        return found if isinstance(found, UndoReport) else None

    @property
    def ok(self) -> bool:
        """Return whether everything that should be undone was undone."""
        return self.status is not Status.PARTIAL

    @property
    def headline(self) -> str:
        """Return the three counts as words; a partial undo is never called one word."""
        found = Counter(item.state for item in self.items)
        said = ", ".join(f"{found[state]} {word}" for state, word in _SHOWN.items())
        if self.planned:
            return f"would be: {said}"
        return f"already undone: {said}" if self.already_undone else said

    def raise_for_partial(self) -> None:
        """Do nothing if everything was undone.

        Raises:
            PartialUndo: something was not; it carries this report.
        """
        if not self.ok:
            raise PartialUndo(self)

    def with_trouble(
        self, what: str, why: str, domain: Domain = Domain.EFFECTS
    ) -> "UndoReport":
        """Return the report with one more thing that was not undone."""
        item = UndoItem(
            tool=what,
            state=State.NOT_REVERSED,
            reason=Reason.FAILED,
            domain=domain,
            error=why,
        )
        return replace(self, items=(*self.items, item))

    def to_json(self) -> JsonObject:
        """Return the report as one JSON object."""
        rows = tuple(item.row() for item in self.items)
        return encode(copied(self, EffectUndoAnswer, items=rows))

    def render(self) -> str:
        """Return the report for people: the counts, then a line per item, then what is not covered.

        What a terminal could take for a command is escaped, so each of these is one line.
        """
        lines = [f"{self.target}: {self.headline}"]
        lines += [f"  {item.line()}" for item in self.items]
        lines += [f"  note: {note}" for note in self.notes]
        lines += [
            f"  not undone: {one.what}: {one.in_words()}" for one in self.not_covered
        ]
        return "\n".join(map(printable, lines))


class TurnError(ShadowError):
    """Report a turn, an undo or a rewind that could not go on."""

    undo_report: UndoReport | None = None


class PartialUndo(TurnError):
    """Report an undo that did not reverse everything; `report` says what is left."""

    exit_code = ExitCode.PARTIAL

    def __init__(self, report: UndoReport) -> None:
        super().__init__(f"cannot undo all of {report.target}: {report.headline}")
        self.report = report


def from_json(row: JsonObject) -> UndoReport:
    """Return the report that `to_json` gave.

    Raises:
        JournalError: it is not one.
    """
    stored = decode(EffectUndoAnswer, row)
    try:
        return made(
            stored,
            UndoReport,
            kind=UndoKind(stored.kind),
            items=tuple(map(UndoItem.of_row, stored.items)),
            commit=Oid(stored.commit) if stored.commit is not None else None,
            planned=Status(stored.status) is Status.PLANNED,
            # Without its path, so that the same entry of two parts becomes one.
            not_covered=tuple(one._replace(path=None) for one in stored.not_covered),
        )
    except ValueError as error:
        raise JournalError(f"could not read a stored report: {error}") from error


def item_from_json(row: object) -> UndoItem:
    """Return the item that `to_json` gave.

    Raises:
        JournalError: it is not one.
    """
    if not isinstance(row, dict):
        raise JournalError("could not read a stored item: it is not an object")
    try:
        return UndoItem.of_row(decode(EffectItem, row))
    except ValueError as error:
        raise JournalError(f"could not read a stored item: {error}") from error
