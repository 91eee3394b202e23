"""The report of an undo: one shape for a plan, a finished op and the journal.

Invariant: status, counts and exit code are derived from the items, so that they cannot disagree
with them; the field names are those of the command line's contract, added to, never renamed.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field, fields
from enum import Enum, StrEnum
from typing import NamedTuple, TypeVar

from gitshadow.errors import ExitCode
from gitshadow.messages.codec import M
from gitshadow.messages.undo import EXITS, FileItem, FileUndoAnswer, Hunk, Uncovered
from gitshadow.model import Oid, OpKind
from gitshadow.undo.about import About

T = TypeVar("T", bound="BaseItem | BaseReport")


class Action(StrEnum):
    """What an undo does, or would do, to one path."""

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
    """What became of one item."""

    REVERSED = "reversed"
    COMPENSATED = "compensated"
    NOT_REVERSED = "not_reversed"
    NO_EFFECT = "no_effect"


class Reason(StrEnum):
    """Why an item was not reversed."""

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
    """How an undo as a whole ended."""

    REVERSED = "reversed"
    COMPENSATED = "compensated"
    PARTIAL = "partial"
    NOTHING_TO_DO = "nothing_to_do"
    PLANNED = "planned"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseItem:
    """What an undo does, or did, with one thing of any kind.

    `detail` is one sentence for people; `residue` what stays although the item was reversed.
    `old_path` is display text, as the path of an item is (lossless, relative to the worktree): a
    rename goes from it, where the file is now, to the path. `overwrites` marks an item that
    replaces later work because that was asked for. `added` and `removed` count lines; None where
    lines mean nothing.
    """

    session: str | None = None
    action: Action
    state: State
    reason: Reason | None = None
    detail: str | None = None
    residue: str | None = None
    old_path: str | None = None
    overwrites: bool = False
    added: int | None = None
    removed: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Item(BaseItem):
    """What an undo does, or did, with one file of the unit.

    `by_timing` marks an item of which only the time says that the unit wrote it. `erased` counts
    the files that are deleted for good, as nobody stored them. `hunks` are given where a plan is to
    be chosen from.
    """

    path: str
    by_timing: bool = False
    erased: int = 0
    domain: str = "files"
    hunks: tuple[Hunk, ...] = ()

    def row(self) -> FileItem:
        """Return the item as verbs answer with it."""
        return copied(self, FileItem)


def copied(source: object, kind: type[M], **renamed: object) -> M:
    """Return a message with the fields of a value; an enumeration becomes its value.

    Args:
        source: Has an attribute for each field of the message that is not renamed.
        kind: The type of the message.
        renamed: The fields that have another name in the value.
    """
    values = (
        renamed[name] if name in renamed else getattr(source, name)
        for name in kind._fields
    )
    return kind._make(one.value if isinstance(one, Enum) else one for one in values)


def made(message: NamedTuple, kind: type[T], /, **others: object) -> T:
    """Return a value with the fields of a message of the same name, and others as given."""
    names = {one.name for one in fields(kind)}.intersection(message._fields)
    own = {name: getattr(message, name) for name in names - others.keys()}
    make: Callable[..., T] = kind
    return make(**own, **others)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseReport:
    """One undo, planned or done, of files or of effects.

    `op_id` and `commit` are None where nothing was changed. `not_covered` names what the unit did
    that no item is about; it never changes the status.
    """

    kind: StrEnum
    target: str
    items: tuple[BaseItem, ...]
    token: str
    op_id: str | None = None
    commit: Oid | None = None
    planned: bool = False
    not_covered: tuple[Uncovered, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def counts(self) -> Mapping[str, int]:
        """Return how many items are in each state; they sum to the items."""
        found = Counter(item.state for item in self.items)
        return {state.value: found[state] for state in State}

    @property
    def status(self) -> Status:
        """Return how the undo as a whole ended."""
        return overall({item.state for item in self.items}, planned=self.planned)

    @property
    def exit_code(self) -> ExitCode:
        """Return the exit code of the verb that gives this report."""
        return EXITS[self.status]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report(BaseReport):
    """One undo of files, planned or done.

    `maybe` are the paths that may be the agent's too and were left alone, `unclear` those of them
    that may be another session's as well; `head_moved` says in sentences how HEAD moved since.
    `about` is what the report is about; it is not stored, because prompts are forgotten with their
    sessions.
    """

    kind: OpKind
    items: tuple[Item, ...]
    headline: str = ""
    maybe: tuple[str, ...] = ()
    unclear: tuple[str, ...] = ()
    head_moved: tuple[str, ...] = ()
    about: tuple[About, ...] = field(default=(), compare=False)

    def answer(self) -> FileUndoAnswer:
        """Return the report as the journal stores it, and as verbs answer with it."""
        items = tuple(item.row() for item in self.items)
        later = FileUndoAnswer._field_defaults
        return copied(self, FileUndoAnswer, items=items, **later)
