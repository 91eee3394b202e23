"""The report of an undo: one shape for a plan, a finished op and the journal.

Invariant: status, counts and exit code are derived from the items, so that they cannot disagree
with them; the field names are those of the command line's contract, added to, never renamed.
"""

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from gitshadow.errors import ExitCode, JournalError
from gitshadow.model import Oid, OpKind
from gitshadow.undo.about import About
from gitshadow.undo.hunk_selection import Hunk

_STATES_SHOWN = ("reversed", "compensated", "not_reversed", "no_effect")


class Action(StrEnum):
    """Say what an undo does, or would do, to one path."""

    WRITE = "write"
    CREATE = "create"
    DELETE = "delete"
    CHMOD = "chmod"
    LINK = "link"
    RENAME = "rename"
    MERGE = "merge"
    COMPENSATE = "compensate"
    NONE = "none"


class State(StrEnum):
    """Say what became of one item."""

    REVERSED = "reversed"
    COMPENSATED = "compensated"
    NOT_REVERSED = "not_reversed"
    NO_EFFECT = "no_effect"


class Reason(StrEnum):
    """Say why an item was not reversed."""

    CONFLICT = "conflict"
    BINARY = "binary"
    TYPE_CLASH = "type_clash"
    NO_BASELINE = "no_baseline"
    NOT_CREATED_BY_UNIT = "not_created_by_unit"
    AMBIGUOUS = "ambiguous"
    HEAD_MOVED = "head_moved"
    EXCLUDED = "excluded"
    OTHER_REPOSITORY = "other_repository"
    PURGED = "purged"
    UNSAFE_PATH = "unsafe_path"
    IO_ERROR = "io_error"
    DECLINED = "declined"
    NON_REVERSIBLE = "non_reversible"
    UNDECLARED = "undeclared"
    NO_INVERSE = "no_inverse"
    FAILED = "failed"
    IN_DOUBT = "in_doubt"
    DRIFTED = "drifted"
    EXPIRED = "expired"
    HANDLER_MISSING = "handler_missing"
    OUT_OF_SCOPE = "out_of_scope"


class Status(StrEnum):
    """Say how an undo as a whole ended."""

    REVERSED = "reversed"
    COMPENSATED = "compensated"
    PARTIAL = "partial"
    NOTHING_TO_DO = "nothing_to_do"
    PLANNED = "planned"
    REFUSED = "refused"


EXITS: Mapping[Status, ExitCode] = {
    Status.REVERSED: ExitCode.DONE,
    Status.NOTHING_TO_DO: ExitCode.DONE,
    Status.PLANNED: ExitCode.DONE,
    Status.COMPENSATED: ExitCode.RESIDUE,
    Status.PARTIAL: ExitCode.PARTIAL,
    Status.REFUSED: ExitCode.REFUSED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """Hold what happens, or happened, to one thing of the unit.

    `path` and `old_path` are display text (lossless, relative to the worktree); a rename goes
    from `old_path`, where the file stands now, to `path`. `detail` is one sentence for people.
    `overwrites` marks an item that replaces later work because it was asked to, `by_timing` one
    of which only the time says that the unit wrote it. `added` and
    `removed` count lines; None where lines mean nothing. `hunks` are there where a plan is to
    be chosen from.
    """

    path: str
    session: str | None
    action: Action
    state: State
    reason: Reason | None = None
    detail: str | None = None
    residue: str | None = None
    old_path: str | None = None
    overwrites: bool = False
    by_timing: bool = False
    added: int | None = None
    removed: int | None = None
    domain: str = "files"
    hunks: tuple[Hunk, ...] = ()

    def to_json(self) -> dict[str, object]:
        """Return the item as a JSON object."""
        row: dict[str, object] = {
            "domain": self.domain,
            "path": self.path,
            "session": self.session,
            "action": self.action.value,
            "state": self.state.value,
            "reason": self.reason.value if self.reason else None,
            "residue": self.residue,
            "detail": self.detail,
        }
        if self.old_path is not None:
            row["old_path"] = self.old_path
        if self.overwrites:
            row["overwrites"] = True
        if self.by_timing:
            row["by_timing"] = True
        if self.added is not None and self.removed is not None:
            row |= {"added": self.added, "removed": self.removed}
        if self.hunks:
            row["hunks"] = [hunk.to_json() for hunk in self.hunks]
        return row


def overall(states: Set[State], *, planned: bool) -> Status:
    """Return how an undo as a whole ends whose items end in these states."""
    if not states - {State.NO_EFFECT}:
        return Status.NOTHING_TO_DO
    if planned:
        return Status.PLANNED
    if State.NOT_REVERSED in states:
        return Status.PARTIAL
    if State.COMPENSATED in states:
        return Status.COMPENSATED
    return Status.REVERSED


class Uncovered(NamedTuple):
    """Name something that the unit did and that no undo of files takes back."""

    what: str
    why: str
    path: str | None = None

    def to_json(self) -> dict[str, object]:
        """Return the entry as a JSON object; `path` stands only where it is one."""
        row: dict[str, object] = {"what": self.what, "why": self.why}
        return row | {"path": self.path} if self.path is not None else row


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Hold one undo, planned or done.

    `op_id` and `commit` are None where nothing was changed. `maybe` are the paths that may be
    the agent's too and were left alone, `unclear` those of them that may be another session's as
    well; `head_moved` says in sentences how HEAD moved since. `about` is what the report is about;
    it is not stored, because prompts are forgotten with their sessions.
    """

    kind: OpKind
    target: str
    items: tuple[Item, ...]
    token: str
    op_id: str | None = None
    commit: Oid | None = None
    planned: bool = False
    not_covered: tuple[Uncovered, ...] = ()
    headline: str = ""
    notes: tuple[str, ...] = ()
    maybe: tuple[str, ...] = ()
    unclear: tuple[str, ...] = ()
    head_moved: tuple[str, ...] = ()
    about: tuple[About, ...] = field(default=(), compare=False)

    @property
    def counts(self) -> Mapping[str, int]:
        """Return how many items are in each state; they sum to the items."""
        found = Counter(item.state.value for item in self.items)
        return {state: found[state] for state in _STATES_SHOWN}

    @property
    def status(self) -> Status:
        """Return how the undo as a whole ended."""
        return overall({item.state for item in self.items}, planned=self.planned)

    @property
    def exit_code(self) -> ExitCode:
        """Return the exit code of the verb that gives this report."""
        return EXITS[self.status]

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
            "maybe": list(self.maybe),
            "unclear": list(self.unclear),
            "head_moved": list(self.head_moved),
        }


def from_json(row: Mapping[str, object]) -> Report:
    """Return the report that `to_json` gave.

    Raises:
        JournalError: it is not one.
    """
    try:
        return Report(
            kind=OpKind(_text(row, "kind")),
            target=_text(row, "target"),
            items=tuple(_item(each) for each in _rows(row, "items")),
            token=_text(row, "token"),
            op_id=_maybe_text(row, "op_id"),
            commit=_commit(row),
            planned=_text(row, "status") == Status.PLANNED,
            not_covered=tuple(
                Uncovered(
                    _text(each, "what"), _text(each, "why"), _maybe_text(each, "path")
                )
                for each in _rows(row, "not_covered")
            ),
            headline=_text(row, "headline"),
            notes=_texts(row, "notes"),
            maybe=_texts(row, "maybe"),
            unclear=_texts(row, "unclear") if "unclear" in row else (),
            head_moved=_texts(row, "head_moved"),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise JournalError(f"cannot read a stored report: {error}") from error


def _item(row: Mapping[str, object]) -> Item:
    reason = _maybe_text(row, "reason")
    return Item(
        path=_text(row, "path"),
        session=_maybe_text(row, "session"),
        action=Action(_text(row, "action")),
        state=State(_text(row, "state")),
        reason=Reason(reason) if reason else None,
        detail=_maybe_text(row, "detail"),
        residue=_maybe_text(row, "residue"),
        old_path=_maybe_text(row, "old_path"),
        overwrites=row.get("overwrites") is True,
        by_timing=row.get("by_timing") is True,
        added=_maybe_number(row, "added"),
        removed=_maybe_number(row, "removed"),
        domain=_text(row, "domain"),
    )


def _commit(row: Mapping[str, object]) -> Oid | None:
    commit = _maybe_text(row, "commit")
    return Oid(commit) if commit is not None else None


def _text(row: Mapping[str, object], key: str) -> str:
    value = row[key]
    if not isinstance(value, str):
        raise TypeError(f"{key} is not a string")
    return value


def _maybe_text(row: Mapping[str, object], key: str) -> str | None:
    return _text(row, key) if row.get(key) is not None else None


def _maybe_number(row: Mapping[str, object], key: str) -> int | None:
    value = row.get(key)
    if value is not None and not isinstance(value, int):
        raise TypeError(f"{key} is not a number")
    return value


def _rows(row: Mapping[str, object], key: str) -> Sequence[Mapping[str, object]]:
    value = row[key]
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise TypeError(f"{key} is not a list of objects")
    return value


def _texts(row: Mapping[str, object], key: str) -> tuple[str, ...]:
    value = row.get(key, [])
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise TypeError(f"{key} is not a list of strings")
    return tuple(value)
