"""undo: oops, undo, redo and restore of files, as one request; its plan and its report."""

from collections.abc import Mapping
from typing import Literal, NamedTuple, TypeAlias

from gitshadow.errors import ExitCode
from gitshadow.messages.codec import JsonObject, Verb
from gitshadow.messages.rows import AboutRow

Processes: TypeAlias = tuple[tuple[int, int], ...]
"""Each process as its pid and its start, in clock ticks since the boot."""

CLOSE_FIRST = "close it first"
"""The end of why a database stays that a program has open; no option forces its undo."""
CREATED_SINCE = (
    "it was created and later edited",
    "it was created and later moved",
    "it was created, then moved and edited",
)
"""Why a file stays that the undone unit created; no option forces its deletion."""

EXITS: Mapping[str, ExitCode] = {
    "done": ExitCode.DONE,
    "reversed": ExitCode.DONE,
    "nothing_to_do": ExitCode.DONE,
    "planned": ExitCode.DONE,
    "compensated": ExitCode.RESIDUE,
    "partial": ExitCode.PARTIAL,
    "refused": ExitCode.REFUSED,
}
"""The exit code for each status of an answer, in a command and in the SDK's reports alike."""


class UndoTarget(NamedTuple):
    """One word as typed: any id or a path; with `path_only` it is always a path."""

    text: str
    path_only: bool = False


class HunkChoice(NamedTuple):
    """The chosen parts of the items of a plan; an item that is not named is skipped.

    `of` is the token of the plan that was shown, `taken` the numbers of the parts by the number
    of their item.
    """

    of: str
    taken: Mapping[str, tuple[int, ...]]


class ProgramTurn(NamedTuple):
    """A turn of an agent program, by the program's own id, and when it began."""

    id: str
    since_ns: int
    agent: str | None = None


class ProgramCall(NamedTuple):
    """A tool call of an agent program, with its turn and when that turn began."""

    id: str
    turn: str
    since_ns: int
    agent: str | None = None


class ProgramUndo(NamedTuple):
    """The files of an agent program: of turns or of calls, or earlier ops to redo.

    Files that a turn wrote since `loose_since_ns` outside its calls are listed in the answer.
    """

    session: str
    turns: tuple[ProgramTurn, ...] = ()
    calls: tuple[ProgramCall, ...] = ()
    loose_since_ns: int | None = None
    ops: tuple[str, ...] = ()


class FileUndoRequest(NamedTuple):
    """One `oops`, `undo`, `redo` or `restore`; it is only planned unless `apply` is true.

    `targets` are what `undo` reverts and the paths that `restore` restores; `only` and `except_`
    are paths that limit both. `at` is a time in nanoseconds, a pin or any id. With a `token` only
    the plan of that token is applied. `offer` asks for the hunks of each item, `choice` is the
    answer. `op` is the id that the op gets; an op of that id that is done is not repeated, its
    report is the answer. `include_unstored` also deletes what the units made and nobody stored.

    `runner` is the session of the agent that asks, `hand_over` asks for the session of a program
    if more than files is to be undone. `confirm` and `hook_settings` are what the environment of
    the process that asks says; with `announce` an undo whose hook command has to run first is
    only planned. `program` names the work of an agent program, which asks itself if `by_program`
    is set. `ancestors` are the processes above the caller, nearest first: with them an `oops`
    reverts only work of the agent that started the caller.
    """

    verb: str = "undo"
    targets: tuple[UndoTarget, ...] = ()
    only: tuple[str, ...] = ()
    except_: tuple[str, ...] = ()
    include_low: bool = False
    include_unstored: bool = False
    on_conflict: str = "skip"
    at: object = None
    pin: str | None = None
    yes: bool = False
    dry_run: bool = False
    token: str | None = None
    offer: bool = False
    choice: HunkChoice | None = None
    op: str | None = None
    runner: str | None = None
    hand_over: bool = False
    confirm: str | None = None
    hook_settings: Mapping[str, str] | None = None
    announce: bool = False
    program: ProgramUndo | None = None
    by_program: bool = False
    cwd: str | None = None
    ancestors: Processes = ()

    @property
    def apply(self) -> bool:
        """Return whether the plan is to be applied."""
        return self.yes and not self.dry_run


class Hunk(NamedTuple):
    """What is included or skipped with one answer.

    `kind` is what it is a part of. `parts` are its numbers within the item, `lines` how it is
    shown, `split` the smaller hunks that it can be split into.
    """

    kind: Literal["lines", "mode", "file"]
    parts: tuple[int, ...]
    lines: tuple[str, ...]
    split: tuple["Hunk", ...]


class FileItem(NamedTuple):
    """What an undo does, or did, with one file.

    `detail` is one sentence for people, `residue` what remains although the file was restored. A
    rename goes from `old_path`, where the file is now, to `path`. `overwrites` marks an item that
    replaces later work because the request says so, `by_timing` one of which only the time says
    that the unit wrote it. `added` and `removed` count lines; they are None for a file without
    lines. `erased` counts the files below `path` that are deleted for good, as nobody stored them.
    `hunks` are given if the request has `offer`.
    """

    domain: str
    path: str
    session: str | None
    action: str
    state: str
    reason: str | None
    residue: str | None
    detail: str | None
    old_path: str | None = None
    overwrites: bool = False
    by_timing: bool = False
    added: int | None = None
    removed: int | None = None
    hunks: tuple[Hunk, ...] = ()
    erased: int = 0


class Uncovered(NamedTuple):
    """Something that the unit did and that no undo of files reverts; `path` if it is one.

    `hint` says more than the reason: what changed there, and what to type.
    """

    what: str
    why: str
    path: str | None = None
    hint: str | None = None

    def in_words(self) -> str:
        """Return the reason, and the hint if there is one."""
        return f"{self.why}; {self.hint}" if self.hint else self.why


class HandOver(NamedTuple):
    """Whose an undo is that is about more than files: a program's session.

    It is about a turn, about an earlier op, or about the whole session, whose first turn is
    `before`.
    """

    session: str
    turn: str | None = None
    op: str | None = None
    before: str | None = None


class FileUndoAnswer(NamedTuple):
    """The plan or the report of an undo of files.

    `maybe` are paths whose changes may be the agent's too and were skipped, `unclear` those of them
    that may be another session's. `head_moved` says how HEAD moved since. The fields with a default
    are no part of the report that the journal stores: `about` has prompts, which are forgotten with
    their session. `op_short` is the short id of what was done (`u3`). `missing` and `loose` answer
    a program, `announced` and `hooks` the process that runs the hook commands; `hand_over` is set
    in a `HandOverAnswer`.
    """

    op_id: str | None
    kind: str
    target: str
    status: str
    token: str
    items: tuple[FileItem, ...]
    counts: Mapping[str, int]
    commit: str | None
    not_covered: tuple[Uncovered, ...]
    headline: str
    notes: tuple[str, ...]
    maybe: tuple[str, ...]
    unclear: tuple[str, ...]
    head_moved: tuple[str, ...]
    about: tuple[AboutRow, ...] | None = None
    op_short: str = ""
    missing: tuple[str, ...] | None = None
    loose: tuple[str, ...] | None = None
    confirm: bool | None = None
    announced: bool | None = None
    hooks: tuple[str, ...] | None = None
    hand_over: HandOver | None = None


class HandOverAnswer(NamedTuple):
    """The answer if nothing was done because more than files is to be undone."""

    hand_over: HandOver


class EffectItem(NamedTuple):
    """What an undo of an agent program's turn does, or did, with one call.

    An item of another domain than effects has a `path` instead of a call: a file, the key of a
    state, the name of an artifact. The fields of a FileItem mean the same here.
    """

    domain: str
    call_id: str
    tool: str
    class_: str
    session: str | None
    action: str
    state: str
    reason: str | None
    residue: str | None
    follow_up: str | None
    detail: str | None
    attempts: int
    error: str | None
    already_undone: bool
    path: str | None = None
    old_path: str | None = None
    overwrites: bool = False
    added: int | None = None
    removed: int | None = None


class EffectUndoAnswer(NamedTuple):
    """The plan or the report of an undo of an agent program's turns.

    `state_delta` and `artifact_delta` are what a rewind set, `hidden_invocations` what it hid, and
    `marker_event` the event that records it.
    """

    op_id: str | None
    kind: str
    target: str
    status: str
    token: str
    items: tuple[EffectItem, ...]
    counts: Mapping[str, int]
    commit: str | None
    not_covered: tuple[Uncovered, ...]
    headline: str
    notes: tuple[str, ...]
    already_undone: bool
    state_delta: JsonObject
    artifact_delta: JsonObject
    hidden_invocations: tuple[str, ...]
    marker_event: int | None


UNDO = Verb("undo", FileUndoRequest, FileUndoAnswer)
