"""The report of an undo of effects: per call, and never better than the truth.

Invariant: status, counts and exit code are derived from the items; the JSON is the report of
DESIGN section 7 with fields added.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from gitshadow.errors import ExitCode, JournalError, ShadowError
from gitshadow.undo.report import EXITS, Action, Reason, State, Status, Uncovered
from gitshadow.undo.report import overall as overall_status
from gitshadow.words import printable

_SHOWN = {
    State.REVERSED: "reversed",
    State.COMPENSATED: "compensated",
    State.NOT_REVERSED: "not reversed",
}


class UndoKind(StrEnum):
    """Say what asked for an undo."""

    ROLLBACK = "rollback"
    UNDO = "undo"
    REWIND = "rewind"
    REDO = "redo"


class Domain(StrEnum):
    """Say which part of the world an item lies in."""

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
class UndoItem:
    """Hold what became, or would become, of one call.

    `residue` is what stays although the inverse ran; `follow_up` what a person can still do;
    `detail` one sentence. `already` marks a call that an earlier undo had taken back. An item of
    another domain than effects has a `path` instead of a call: a file, the key of a state, the
    name of an artifact. The last four are those of `undo.report.Item`.
    """

    call_id: str
    tool: str
    klass: str
    state: State
    action: Action = Action.NONE
    reason: Reason | None = None
    domain: Domain = Domain.EFFECTS
    session: str | None = None
    detail: str | None = None
    residue: str | None = None
    follow_up: str | None = None
    attempts: int = 0
    error: str | None = None
    already: bool = False
    path: str | None = None
    old_path: str | None = None
    overwrites: bool = False
    added: int | None = None
    removed: int | None = None

    def to_json(self) -> dict[str, object]:
        """Return the item as a JSON object."""
        row: dict[str, object] = {
            "domain": self.domain.value,
            "call_id": self.call_id,
            "tool": self.tool,
            "class": self.klass,
            "session": self.session,
            "action": self.action.value,
            "state": self.state.value,
            "reason": self.reason.value if self.reason else None,
            "residue": self.residue,
            "follow_up": self.follow_up,
            "detail": self.detail,
            "attempts": self.attempts,
            "error": self.error,
            "already_undone": self.already,
        }
        if self.path is not None:
            row["path"] = self.path
        return row | self._of_file()

    def _of_file(self) -> dict[str, object]:
        row: dict[str, object] = {}
        if self.old_path is not None:
            row["old_path"] = self.old_path
        if self.overwrites:
            row["overwrites"] = True
        if self.added is not None and self.removed is not None:
            row |= {"added": self.added, "removed": self.removed}
        return row

    def line(self) -> str:
        """Return the item as one line for people."""
        why = f" ({self.reason.value.replace('_', ' ')})" if self.reason else ""
        state = self.state.value.replace("_", " ")
        said = "; ".join(part for part in self._words() if part)
        name = f"{self.domain.noun} {self.path}"
        if self.path is None:
            name = f"{self.tool} {self.call_id}"
        return f"{state:<12} {name}{why}" + (f": {said}" if said else "")

    def _words(self) -> tuple[str | None, ...]:
        residue = f"remains: {self.residue}" if self.residue else None
        earlier = "already undone" if self.already else None
        return earlier, self.detail, residue, self.error, self.follow_up


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoReport:
    """Hold one undo, planned or done; items stand in the order in which they are taken back.

    `not_covered` names what the turn did beside its recorded calls; it never changes the status.
    A rewind tells what it set in the state (None: the key is absent), which invocations it hid, and
    the number of the event that says so.
    """

    op_id: str | None
    kind: UndoKind
    target: str
    items: tuple[UndoItem, ...]
    token: str
    planned: bool = False
    commit: str | None = None
    not_covered: tuple[Uncovered, ...] = ()
    notes: tuple[str, ...] = ()
    state_delta: Mapping[str, object] = field(default_factory=dict)
    artifact_delta: Mapping[str, object] = field(default_factory=dict)
    hidden_invocations: tuple[str, ...] = ()
    marker_event: int | None = None

    @property
    def counts(self) -> Mapping[str, int]:
        """Return how many items are in each state; they sum to the items."""
        found = Counter(item.state for item in self.items)
        return {state.value: found[state] for state in State}

    @property
    def status(self) -> Status:
        """Return how the undo as a whole ended."""
        if not self.planned and self.already_undone:
            return Status.NOTHING_TO_DO
        return overall_status({item.state for item in self.items}, planned=self.planned)

    @property
    def already_undone(self) -> bool:
        """Tell whether earlier undos had left nothing to do."""
        mutating = [item for item in self.items if item.state is not State.NO_EFFECT]
        return bool(mutating) and all(item.already for item in mutating)

    @property
    def exit_code(self) -> ExitCode:
        """Return the exit code of a verb that gives this report."""
        return EXITS[self.status]

    @property
    def ok(self) -> bool:
        """Tell whether nothing is left standing that was to be taken back."""
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
        """Do nothing if all was taken back.

        Raises:
            PartialUndo: something was not; it carries this report.
        """
        if not self.ok:
            raise PartialUndo(self)

    def with_trouble(
        self, what: str, why: str, domain: Domain = Domain.EFFECTS
    ) -> "UndoReport":
        """Return the report with one more thing that was not taken back."""
        item = UndoItem(
            call_id="",
            tool=what,
            klass="",
            state=State.NOT_REVERSED,
            reason=Reason.FAILED,
            domain=domain,
            error=why,
        )
        return replace(self, items=(*self.items, item))

    def to_json(self) -> dict[str, object]:
        """Return the report as one JSON object."""
        return {
            "op_id": self.op_id,
            "kind": self.kind.value,
            "target": self.target,
            "status": self.status.value,
            "token": self.token,
            "items": [item.to_json() for item in self.items],
            "counts": dict(self.counts),
            "commit": self.commit,
            "not_covered": [entry.to_json() for entry in self.not_covered],
            "headline": self.headline,
            "notes": list(self.notes),
            "already_undone": self.already_undone,
            "state_delta": dict(self.state_delta),
            "artifact_delta": dict(self.artifact_delta),
            "hidden_invocations": list(self.hidden_invocations),
            "marker_event": self.marker_event,
        }

    def render(self) -> str:
        """Return the report for people: the counts, then a line per item, then what is not covered.

        What a terminal could take for a command is escaped, so each of these is one line.
        """
        lines = [f"{self.target}: {self.headline}"]
        lines += [f"  {item.line()}" for item in self.items]
        lines += [f"  note: {note}" for note in self.notes]
        lines += [f"  not undone: {one.what}: {one.why}" for one in self.not_covered]
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


def from_json(row: Mapping[str, object]) -> UndoReport:
    """Return the report that `to_json` gave.

    Raises:
        JournalError: it is not one.
    """
    try:
        return UndoReport(
            op_id=_text(row, "op_id"),
            kind=UndoKind(str(row["kind"])),
            target=str(row["target"]),
            items=tuple(item_from_json(each) for each in _rows(row, "items")),
            token=str(row["token"]),
            planned=row["status"] == Status.PLANNED,
            commit=_text(row, "commit"),
            not_covered=tuple(
                Uncovered(str(each["what"]), str(each["why"]))
                for each in _rows(row, "not_covered")
            ),
            notes=tuple(str(each) for each in _list(row, "notes")),
            state_delta=_mapping(row, "state_delta"),
            artifact_delta=_mapping(row, "artifact_delta"),
            hidden_invocations=tuple(map(str, _list(row, "hidden_invocations"))),
            marker_event=_number(row, "marker_event"),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise JournalError(f"could not read a stored report: {error}") from error


def item_from_json(value: object) -> UndoItem:
    """Return the item that `to_json` gave.

    Raises:
        JournalError: it is not one.
    """
    if not isinstance(value, Mapping):
        raise JournalError("could not read a stored item: it is not an object")
    try:
        return _item(value)
    except (KeyError, TypeError, ValueError) as error:
        raise JournalError(f"could not read a stored item: {error}") from error


def _item(row: Mapping[str, object]) -> UndoItem:
    reason = _text(row, "reason")
    path = row.get("path")
    return UndoItem(
        call_id=str(row["call_id"]),
        tool=str(row["tool"]),
        klass=str(row["class"]),
        state=State(str(row["state"])),
        action=Action(str(row["action"])),
        reason=Reason(reason) if reason else None,
        domain=Domain(str(row["domain"])),
        session=_text(row, "session"),
        detail=_text(row, "detail"),
        residue=_text(row, "residue"),
        follow_up=_text(row, "follow_up"),
        attempts=_number(row, "attempts") or 0,
        path=None if path is None else str(path),
        old_path=None if row.get("old_path") is None else _text(row, "old_path"),
        overwrites=row.get("overwrites") is True,
        added=_number(row, "added") if "added" in row else None,
        removed=_number(row, "removed") if "removed" in row else None,
        error=_text(row, "error"),
        already=row["already_undone"] is True,
    )


def _text(row: Mapping[str, object], key: str) -> str | None:
    value = row[key]
    return None if value is None else str(value)


def _number(row: Mapping[str, object], key: str) -> int | None:
    value = row[key]
    return value if isinstance(value, int) else None


def _mapping(row: Mapping[str, object], key: str) -> Mapping[str, object]:
    value = row[key]
    if not isinstance(value, Mapping):
        raise TypeError(f"{key} is not an object")
    return value


def _list(row: Mapping[str, object], key: str) -> Sequence[object]:
    value = row[key]
    if not isinstance(value, list):
        raise TypeError(f"{key} is not a list")
    return value


def _rows(row: Mapping[str, object], key: str) -> Sequence[Mapping[str, object]]:
    value = _list(row, key)
    return [each for each in value if isinstance(each, Mapping)]
