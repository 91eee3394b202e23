"""What can be undone at a selection, the plan of it in words, and what becomes of open buffers.

A file that is open with changes that are not saved is never written: its part of the plan becomes
an edit of the buffer, which the editor applies, or nothing if the person changed the same lines.
Invariant: what is written to the disk is a plan that was shown, by its token.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from gitshadow.errors import RefusedError
from gitshadow.lsp.authors import AuthorRun, title
from gitshadow.lsp.buffers import LineMap, edits_of
from gitshadow.messages.backend import HistoryBackend
from gitshadow.messages.undo import (
    FileItem,
    FileUndoAnswer,
    FileUndoRequest,
    Hunk,
    HunkChoice,
    UndoTarget,
)
from gitshadow.render.report import plan_lines, report_lines
from gitshadow.render.style import View
from gitshadow.undo.merge import MergeEdit
from gitshadow.undo.report import Action

_PLAIN = View()
_LOW = "in a shell: --include-low"


class UndoAction(NamedTuple):
    """One entry of the editor's menu.

    `targets`, `only` and `paths` are those of the request; `lines`, of the file and counted from 1,
    limit it to the hunks that touch them.
    """

    title: str
    verb: str
    targets: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    lines: tuple[int, ...] = ()

    def request(self) -> FileUndoRequest:
        """Return the request, without a choice of hunks."""
        named = [UndoTarget(one) for one in self.targets]
        named += [UndoTarget(one, path_only=True) for one in self.paths]
        return FileUndoRequest(self.verb, tuple(named), self.only)


class BufferEdit(NamedTuple):
    """Lines of a buffer, from and before, and what comes in their place."""

    start: int
    end: int
    lines: tuple[bytes, ...]


class UndoPlan(NamedTuple):
    """What is shown and then applied: a plan of files, and edits of buffers by path."""

    request: FileUndoRequest | None
    token: str
    edits: Mapping[str, tuple[BufferEdit, ...]]
    words: str

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to do, which the words say."""
        return self.request is None and not self.edits


def actions_at(
    path: str, runs: Sequence[AuthorRun], *, redo: str
) -> Iterator[UndoAction]:
    """Yield what the menu offers at a selection.

    Args:
        path: The file, as documents spell it.
        runs: The runs that the selection touches, limited to it.
        redo: What a redo would bring back, empty if nothing was undone.
    """
    only, seen = (path,), set[str]()
    for run in runs:
        owner = run.owner
        if not run.is_agents or owner.seq is None:
            continue
        unit = f"{owner.session}:{owner.turn}" if owner.turn else str(owner.seq)
        who = title(owner)
        if unit in seen:
            continue
        seen.add(unit)
        same = (one for one in runs if one.owner.turn == owner.turn)
        lines = tuple(line.number for one in same for line in one.lines)
        yield UndoAction(f"Undo these lines of {who}", "undo", (unit,), only, (), lines)
        yield UndoAction(f"Undo in this file: {who}", "undo", (unit,), only)
        if owner.turn:
            yield UndoAction(f"Undo everywhere: {who}", "undo", (unit,))
    if seen:
        before = "Restore this file to before an agent's latest change"
        yield UndoAction(before, "restore", paths=only)
    if redo:
        yield UndoAction(f"Redo {redo}", "redo")


def planned(
    backend: HistoryBackend, action: UndoAction, buffers: Mapping[str, LineMap]
) -> UndoPlan:
    """Plan an action.

    Args:
        backend: The worktree.
        action: What was chosen.
        buffers: The open files that are not saved, as documents spell their paths.

    Raises:
        RefusedError: an unsaved change is in the way.
        ShadowError: it cannot be planned.
    """
    request = action.request()
    shown = backend.plan(request._replace(offer=True))
    choice: HunkChoice | None = None
    if action.lines:
        choice = _choice(shown, set(action.lines))
        request = request._replace(choice=choice)
        shown = backend.plan(request._replace(offer=True))
    held = [item for item in shown.items if _paths(item) & buffers.keys()]
    if not held:
        does = any(map(_moves, shown.items))
        return UndoPlan(request if does else None, shown.token, {}, _words(shown))
    edits = {item.path: _edits(item, shown, choice, buffers) for item in held}
    names = ", ".join(sorted(edits))
    said = f"{_words(shown)}\nin the editor, not saved: {names}"
    # What the buffers get is left out of what is written.
    rest = request._replace(except_=tuple(sorted(edits)), choice=None)
    others = [item for item in shown.items if item not in held and _moves(item)]
    if not others:
        return UndoPlan(None, "", edits, said)
    if choice is not None:
        raise RefusedError(
            "cannot undo these lines: they are in several files, one of which is not saved",
            hint="save it first",
        )
    return UndoPlan(rest, backend.plan(rest).token, edits, said)


def applied(backend: HistoryBackend, plan: UndoPlan) -> str:
    """Write what is to be written; return what was done, in one line.

    Raises:
        RefusedError: files changed since the plan; nothing was written.
        ShadowError: it failed.
    """
    if plan.request is None:
        return "undone in the editor: save to keep it"
    report = backend.apply(plan.request, plan.token)
    return next(iter(report_lines(report, _PLAIN)), report.headline)


def _choice(plan: FileUndoAnswer, lines: Collection[int]) -> HunkChoice:
    """Return the choice of the smallest hunks that touch some lines of the present file.

    Raises:
        RefusedError: none does.
    """
    taken: dict[str, tuple[int, ...]] = {}
    for number, item in enumerate(plan.items):
        parts: set[int] = set()
        for one in _smallest(item):
            if one.kind == "file" or _touches(one, lines):
                parts.update(one.parts)
        if parts:
            taken[str(number)] = tuple(sorted(parts))
    if not taken:
        raise RefusedError(
            "cannot undo these lines alone: later edits changed them",
            hint="undo what the turn did in this file",
        )
    return HunkChoice(plan.token, taken)


def _smallest(item: FileItem) -> Iterator[Hunk]:
    """Yield the hunks of an item, each split as far as it can be."""
    for hunk in item.hunks:
        yield from hunk.split or (hunk,)


def _touches(hunk: Hunk, lines: Collection[int]) -> bool:
    # Lines that were removed stand between two of now.
    return any(
        bool(set(range(one.start + 1, one.end + 1)).intersection(lines))
        or (
            one.start == one.end
            and bool({one.start, one.start + 1}.intersection(lines))
        )
        for one in edits_of([hunk])
    )


def _edits(
    item: FileItem,
    plan: FileUndoAnswer,
    choice: HunkChoice | None,
    buffers: Mapping[str, LineMap],
) -> tuple[BufferEdit, ...]:
    """Return what one item does, as edits of the buffer of its file.

    Raises:
        RefusedError: the person changed the same lines, or the file itself is to go.
    """
    wanted = None
    if choice is not None:
        wanted = set(choice.taken.get(str(plan.items.index(item)), ()))
    hunks = [
        one
        for one in _smallest(item)
        if wanted is None or wanted.intersection(one.parts)
    ]
    lines = buffers.get(item.path)
    found = [] if lines is None else [_carried(lines, one) for one in edits_of(hunks)]
    if not found or None in found:
        raise RefusedError(
            f"cannot undo {item.path}: it has changes that are not saved there",
            hint="save it, or drop them, and try again",
        )
    return tuple(one for one in found if one is not None)


def _carried(lines: LineMap, edit: MergeEdit) -> BufferEdit | None:
    place = lines.carried(edit)
    return None if place is None else BufferEdit(*place, edit.lines)


def _moves(item: FileItem) -> bool:
    # Of an item that is undone in part, the state is that of the rest.
    return item.action != Action.NONE


def _paths(item: FileItem) -> set[str]:
    return {item.path, *([item.old_path] if item.old_path else [])}


def _words(plan: FileUndoAnswer) -> str:
    return "\n".join(plan_lines(plan, _PLAIN, low=_LOW))
