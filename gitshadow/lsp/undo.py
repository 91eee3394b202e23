"""What can be undone at a selection, the plan of it in words, and what becomes of open buffers.

A file that is open with changes that are not saved is never written: its part of the plan becomes
an edit of the buffer, which the editor applies, or nothing if the person changed the same lines.
Invariant: what is written to the disk is a plan that was shown, by its token.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from gitshadow.errors import RefusedError
from gitshadow.lsp.documents import AuthorRun, LineMap
from gitshadow.messages.backend import HistoryBackend
from gitshadow.messages.check import REVIEW
from gitshadow.messages.undo import (
    FileItem,
    FileUndoAnswer,
    FileUndoRequest,
    Hunk,
    HunkChoice,
    UndoTarget,
)
from gitshadow.render.hunks import PatchHunk, read_hunks
from gitshadow.render.owner import title
from gitshadow.render.report import about_lines, plan_lines, report_lines
from gitshadow.render.style import View, printable
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


class UndoPlan(NamedTuple):
    """What is shown and then applied: a plan of files, and edits of buffers by path.

    `words` and `diff` are for people.
    """

    request: FileUndoRequest | None
    token: str
    edits: Mapping[str, tuple[MergeEdit, ...]]
    words: str
    diff: str


def actions_at(
    path: str, runs: Sequence[AuthorRun], *, redo: str, is_saved: bool
) -> Iterator[UndoAction]:
    """Yield what the menu offers at a selection.

    Args:
        path: The file, as documents spell it.
        runs: The runs that the selection touches, limited to it.
        redo: What a redo would bring back, empty if nothing was undone.
        is_saved: Whether the editor shows what the file has.
    """
    only, seen = (path,), set[str]()
    for run in runs:
        owner = run.owner
        unit = f"{owner.session}:{owner.turn}" if owner.turn else str(owner.seq)
        who = title(owner)
        if owner.actor != "agent" or owner.seq is None or unit in seen:
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
    if seen and is_saved:
        yield UndoAction("Mark this file as reviewed", REVIEW.name, only)
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
    named = [UndoTarget(one) for one in action.targets]
    named += [UndoTarget(one, path_only=True) for one in action.paths]
    request = FileUndoRequest(action.verb, tuple(named), action.only)
    shown = backend.plan(request._replace(offer=True))
    if action.lines:
        request = request._replace(choice=_choice(shown, set(action.lines)))
        shown = backend.plan(request._replace(offer=True))
    hunks = {
        item: list(_hunks(item, number, request.choice))
        for number, item in enumerate(shown.items)
    }
    diff = "".join(f"{line}\n" for item in hunks for line in _diff(item, hunks[item]))
    held = [one for one in hunks if _moves(one) and _paths(one) & buffers.keys()]
    edits = {one.path: _edits(one, hunks[one], buffers) for one in held}
    others = any(_moves(item) for item in hunks if item not in held)
    written = request if others and not (held and action.lines) else None
    if held and written is not None:
        # What the buffers get is left out of what is written, and of the words for it.
        names = set[str]().union(*map(_paths, held))
        written = request._replace(except_=tuple(sorted(names)))
        rest = backend.plan(written)
        notes = tuple(one for one in rest.notes if "--except" not in one)
        shown = rest._replace(notes=notes)
    if written is not None or not held:
        said = list(plan_lines(shown, _PLAIN, low=_LOW))
    else:
        said = list(about_lines(shown, _PLAIN))
    if held:
        here = ", ".join(sorted(edits))
        said.append(f"will change in the editor, not saved: {here}")
    return UndoPlan(written, shown.token, edits, "\n".join(said), diff)


def _diff(item: FileItem, hunks: Sequence[Hunk]) -> Iterator[str]:
    if hunks:
        yield f"--- a/{printable(item.old_path or item.path)}"
        yield f"+++ b/{printable(item.path)}"
    for hunk in hunks:
        yield from hunk.lines


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


def _choice(plan: FileUndoAnswer, lines: set[int]) -> HunkChoice:
    """Return the choice of the smallest hunks that touch some lines of the present file.

    Raises:
        RefusedError: none does.
    """
    taken: dict[str, tuple[int, ...]] = {}
    for number, item in enumerate(plan.items):
        touched = (one.parts for one in _hunks(item, number) if _touches(one, lines))
        if parts := sorted({part for hunk in touched for part in hunk}):
            taken[str(number)] = tuple(parts)
    if not taken:
        raise RefusedError(
            "cannot undo these lines alone: later edits changed them",
            hint="undo what the turn did in this file",
        )
    return HunkChoice(plan.token, taken)


def _hunks(
    item: FileItem, number: int, choice: HunkChoice | None = None
) -> Iterator[Hunk]:
    """Yield the chosen hunks of an item of a plan, each split as far as it can be."""
    chosen = None if choice is None else choice.taken.get(str(number), ())
    for hunk in item.hunks:
        for one in hunk.split or (hunk,):
            if chosen is None or set(chosen).intersection(one.parts):
                yield one


def _line_edits(hunk: Hunk) -> Iterator[MergeEdit]:
    """Yield the edits of lines of the present file; the mode and the whole file have none."""
    for one in read_hunks(hunk.lines) if hunk.kind == "lines" else ():
        if isinstance(one, PatchHunk):
            yield from (edit for edit, _ in one.edits())


def _touches(hunk: Hunk, lines: set[int]) -> bool:
    # Lines that were removed are between two of now.
    return hunk.kind == "file" or any(
        lines & {*(range(one.start + 1, one.end + 1) or (one.start, one.start + 1))}
        for one in _line_edits(hunk)
    )


def _edits(
    item: FileItem, hunks: Iterable[Hunk], buffers: Mapping[str, LineMap]
) -> tuple[MergeEdit, ...]:
    """Return what one item does, as edits of the buffer of its file.

    Raises:
        RefusedError: the person changed the same lines, or the file itself is to go.
    """
    lines = buffers.get(item.path)
    edits = [edit for hunk in hunks for edit in _line_edits(hunk)]
    carried = [None if lines is None else lines.carried(edit) for edit in edits]
    found = tuple(edit for edit in carried if edit is not None)
    if not found or len(found) < len(edits):
        raise RefusedError(
            f"cannot undo {item.path}: it has changes that are not saved there",
            hint="save it, or drop them, and try again",
        )
    return found


def _moves(item: FileItem) -> bool:
    # Of an item that is undone in part, the state is that of the rest.
    return item.action != Action.NONE


def _paths(item: FileItem) -> set[str]:
    return {item.path, *([item.old_path] if item.old_path else [])}
