"""The report of an undo, and its plan, as text: what was restored, what was skipped and why.

Invariant: the first line gives the counts; it never reports a part as the whole.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from gitshadow.messages.rows import AboutRow
from gitshadow.messages.staging import StagingItem
from gitshadow.messages.undo import CLOSE_FIRST, CREATED_SINCE, FileItem, FileUndoAnswer
from gitshadow.render.diffstat import graphed, stat_sum
from gitshadow.render.style import View, patch_style, printable, printable_line
from gitshadow.words import ago, counted, shortened

_SHOWN_ON_TERMINAL = 40
_LINES_SHOWN = 400

_REASONS: Mapping[str, str] = {
    "conflict": "edited later",
    "binary": "binary file, edited later",
    "type_clash": "a different type of file is there now",
    "no_baseline": "its earlier content was never recorded",
    "not_created_by_unit": "not created by the undone changes",
    "ambiguous": "its author is ambiguous",
    "head_moved": "changed by a checkout since",
    "excluded": "no longer recorded",
    "other_repository": "in another repository",
    "purged": "its earlier content was purged",
    "unsafe_path": "unsafe path",
    "io_error": "could not be read or written",
    "drifted": "changed since",
    "declined": "skipped by you",
}
_EXPLAINED = frozenset({"conflict", "ambiguous"})
"""The reasons whose detail says all that the reason says."""
_VERBS: Mapping[str, tuple[str, str]] = {
    "write": ("revert", "reverted"),
    "create": ("restore", "restored"),
    "delete": ("delete", "deleted"),
    "chmod": ("revert", "reverted"),
    "link": ("revert", "reverted"),
    "rename": ("rename", "renamed"),
    "merge": ("merge", "merged"),
    "compensate": ("compensate", "compensated"),
}
_REDO_VERBS: Mapping[str, tuple[str, str]] = {
    "create": ("create", "created"),
    "delete": ("delete", "deleted"),
    "rename": ("rename", "renamed"),
    "merge": ("merge", "merged"),
}
_NOTES: Mapping[str, str] = {
    "chmod": "mode",
    "link": "link",
    "merge": "later edits kept",
}
_MARK_WIDTH = len("restored")
# For these the answer that Enter gives is no.
_CONFLICTS = frozenset({"conflict", "binary", "type_clash"})
_NAMED = frozenset({"oops", "undo"})
ACTORS: Mapping[str, str] = {"human": "you", "unknown": "you?"}
_ABOUT_SHOWN = 3
_PROMPT_SHOWN = 60
_STATES = ("reversed", "compensated", "not_reversed", "no_effect")


def report_lines(
    report: FileUndoAnswer, view: View, *, is_stored: bool = False
) -> Iterator[str]:
    """Yield a report or a plan line by line.

    The order is fixed: in a plan whose work it is about, headline, notes, what is skipped, what
    is restored, what is uncertain, the next commands, and last what is not undone. A stored one
    has no next commands: since then something else may have been undone or redone.
    """
    items, planned = report.items, report.status == "planned"
    if planned:
        yield from about_lines(report, view)
    yield from _body(report, view, "--include-low includes them", planned=planned)
    if not is_stored:
        yield from _onward(report, items)
    yield from _not_covered(report, view)


def plan_lines(plan: FileUndoAnswer, view: View, *, low: str) -> Iterator[str]:
    """Yield a plan as `report_lines` does, but not how to go on.

    Args:
        plan: The plan.
        view: How to show it.
        low: The hint how to undo uncertain changes, too.
    """
    yield from about_lines(plan, view)
    yield from _body(plan, view, low, planned=True)
    yield from _not_covered(plan, view)


def _body(
    report: FileUndoAnswer, view: View, low: str, *, planned: bool
) -> Iterator[str]:
    yield view.paint(headline(report), _headline_style(report))
    # They have what matters of `head_moved`.
    yield from (f"note: {printable(note)}" for note in report.notes)
    yield from left_lines(report.items, view, planned=planned)
    yield from _moved(report, report.items, view)
    yield from _maybe(report, view, low)


def about_lines(report: FileUndoAnswer, view: View) -> Iterator[str]:
    """Yield whose work a plan is about, a line for each turn."""
    found = report.about or ()
    for row in found[:_ABOUT_SHOWN]:
        yield view.paint(about_line(row), "bold")
    if len(found) > _ABOUT_SHOWN:
        yield f"… and {counted(len(found) - _ABOUT_SHOWN, 'more turn')}"


def about_line(row: AboutRow) -> str:
    """Return whose work something is: agent, age, prompt, turn and number of files."""
    kind, actor = row.kind, row.actor
    name = printable(row.agent or "") or ACTORS.get(actor, actor)
    prompt = printable(shortened(row.prompt, _PROMPT_SHOWN))
    files = counted(row.files, "file")
    where = [f"{kind} by {name}" if kind else name, _age(row.ts or "")]
    head = ", ".join(word for word in where if word) + (
        f': "{prompt}"' if prompt else ""
    )
    if not row.turn_short:
        return f"{head}  ({files})"
    return f"{head}  (turn {row.turn_short}, {files})"


def _age(stamp: str) -> str:
    try:
        return ago((datetime.now(UTC) - datetime.fromisoformat(stamp)).total_seconds())
    except (ValueError, TypeError):
        return ""


def headline(report: FileUndoAnswer) -> str:
    """Return the first line: the engine's own where it sends one, else the counts."""
    given = report.headline
    if given:
        return printable(given)
    status = report.status
    if status == "nothing_to_do":
        return "nothing to do"
    said = ", ".join(_counted(report))
    if not said:
        return "no file affected"
    if status == "planned":
        return f"will {said}"
    if status == "refused":
        return f"nothing was changed (would {said})"
    return said


def item_line(item: FileItem, view: View, *, redo: bool) -> str:
    """Return the line that announces an item whose hunks follow."""
    how = _how(item, view, planned=True)
    return view.paint(
        f"{_verb(item, planned=True, redo=redo)} {name_of(item, view)}{how}", "bold"
    )


def hunk_lines(lines: Sequence[str], view: View) -> Iterator[str]:
    """Yield a hunk in the words of git-diff(1), cut where it is very long."""
    for line in lines[:_LINES_SHOWN]:
        yield view.paint(printable_line(line), patch_style(line))
    if len(lines) > _LINES_SHOWN:
        yield f"… and {len(lines) - _LINES_SHOWN} more lines"


def counts(report: FileUndoAnswer) -> Mapping[str, int]:
    """Return how many items are in each state, from the items if there are any."""
    if not report.items:
        return {state: report.counts.get(state, 0) for state in _STATES}
    found = Counter(item.state for item in report.items)
    return {state: found[state] for state in _STATES}


def _counted(report: FileUndoAnswer) -> Iterator[str]:
    """Yield the counts with their verbs, and a noun with the first."""
    count, erased = counts(report), sum(item.erased for item in report.items)
    gone = Counter(item.state for item in report.items if item.erased)
    parts = _in_part(report) - gone["not_reversed"]
    restore = ("restored", "restore")
    if report.kind == "redo":
        restore = ("redid changes to", "redo changes to")
    found = (
        (count["reversed"] - gone["reversed"], *restore),
        (count["compensated"], "compensated", "compensate"),
        (parts, "partly restored", "partly restore"),
        (count["not_reversed"] - gone["not_reversed"] - parts, "skipped", "skip"),
    )
    is_done = report.status not in ("planned", "refused")
    in_files = all(item.domain in ("", "files") for item in report.items)
    noun = "file" if in_files else "item"
    for number_of, past, future in found:
        if number_of:
            things = counted(number_of, noun) if noun else str(number_of)
            yield f"{past if is_done else future} {things}"
            noun = ""
    if erased:
        yield f"{'deleted' if is_done else 'delete'} {counted(erased, 'file')} for good"
    if count["no_effect"]:
        yield f"{count['no_effect']} unchanged"


def _in_part(report: FileUndoAnswer) -> int:
    """Count what is not as before the unit and not as it was left: chosen hunks, markers."""
    items = report.items
    left = [item for item in items if item.state == "not_reversed"]
    return sum(item.action not in ("", "none") for item in left)


def _headline_style(report: FileUndoAnswer) -> str:
    status = report.status
    if status in ("partial", "compensated", "refused"):
        return "warn"
    return "good" if status == "reversed" else "bold"


def left_lines(
    items: Sequence[FileItem], view: View, *, planned: bool = True
) -> Iterator[str]:
    """Yield what is skipped, in whole or in part, and why."""
    for item in items:
        if item.state == "not_reversed":
            mark = "partly" if item.action not in ("", "none") else "skip"
            if mark == "skip" and not planned:
                mark = "skipped"
            shown = view.paint(f"{mark:<{_MARK_WIDTH}}", "warn")
            yield f"  {shown}  {name_of(item, view)}: {reason_text(item)}"


def reason_text(item: FileItem) -> str:
    """Return in plain words why an item is skipped, with the system's own words if any."""
    reason = item.reason or ""
    plain = _REASONS.get(reason) or printable(reason.replace("_", " "))
    detail = printable(item.detail or "")
    if detail and (reason in _EXPLAINED or not plain):
        return detail
    return f"{plain} ({detail})" if detail else plain or "no reason given"


def _moved(
    report: FileUndoAnswer, items: Sequence[FileItem], view: View
) -> Iterator[str]:
    moved = [item for item in items if item.state in ("reversed", "compensated")]
    # A pipe gets every line, because a script must not miss one.
    shown = moved[:_SHOWN_ON_TERMINAL] if view.terminal else moved
    redo = report.kind == "redo"
    planned = report.status == "planned"
    drawn = planned and view.terminal
    graphs = _graphs(shown, view) if drawn else [""] * len(shown)
    for item, graph in zip(shown, graphs, strict=True):
        verb = f"{_verb(item, planned=planned, redo=redo):<{_MARK_WIDTH}}"
        how = _how(item, view, planned=planned)
        yield f"  {view.paint(verb, 'good')}  {name_of(item, view)}{how}{graph}"
    rest = len(moved) - len(shown)
    if rest:
        yield f"  … and {rest} more"
    if drawn and moved:
        yield stat_sum(moved)


def _graphs(items: Sequence[FileItem], view: View) -> Iterator[str]:
    """Yield what follows each line of a plan: blanks up to one column, and the graph."""
    # Escape sequences of colours would count as columns.
    plain = view._replace(colour=False)
    widths = [
        len(name_of(item, plain) + _how(item, plain, planned=True)) for item in items
    ]
    widest = max(widths, default=0)
    drawn = graphed(items, view, widest + _MARK_WIDTH + len("      "))
    for width, graph in zip(widths, drawn, strict=True):
        yield f"{'':{widest - width}}  {graph}" if graph else ""


def _verb(item: FileItem, *, planned: bool, redo: bool = False) -> str:
    """Return what is done with an item, or was done."""
    future, past = _VERBS.get(item.action, ("restore", "restored"))
    if redo:
        future, past = _REDO_VERBS.get(item.action, ("redo", "redid"))
    return future if planned else past


def name_of(item: FileItem | StagingItem, view: View) -> str:
    """Return the path of a file, for a renamed one with the old path."""
    shown = view.path(item.path)
    return f"{view.path(item.old_path)} → {shown}" if item.old_path else shown


def _how(item: FileItem, view: View, *, planned: bool) -> str:
    words = [_NOTES.get(item.action, ""), signed(item, view)]
    if planned and item.by_timing:
        words.append("by timing")
    residue = printable(item.residue or "")
    if residue:
        words.append(f"remains: {residue}")
    if not item.domain or item.domain == "files":
        words.append(printable(item.detail or ""))
    said = ", ".join(word for word in words if word)
    return f"  ({said})" if said else ""


def signed(item: FileItem | StagingItem, view: View) -> str:
    """Return how many lines are added and removed."""
    counted_lines = [view.paint(f"+{item.added}", "good")] if item.added else []
    counted_lines += [view.paint(f"-{item.removed}", "bad")] if item.removed else []
    return " ".join(counted_lines)


def _maybe(report: FileUndoAnswer, view: View, how: str) -> Iterator[str]:
    """List the uncertain changes, apart from those that may be another session's."""
    unclear = report.unclear
    low = [path for path in report.maybe if path not in unclear]
    if low:
        yield f"uncertain, skipped ({how}):"
        yield from (f"  {view.path(path)}" for path in low)
    if unclear:
        yield "ambiguous, skipped (git agent-undo show EVENT lists who it could be):"
        yield from (f"  {view.path(path)}" for path in unclear)


def _onward(report: FileUndoAnswer, items: Sequence[FileItem]) -> Iterator[str]:
    # No option replaces a database that a program has open, or deletes later work.
    firm = (CLOSE_FIRST, *CREATED_SINCE)
    forcible = (one for one in items if not (one.detail or "").endswith(firm))
    reasons = {item.reason for item in forcible}
    if "conflict" in reasons and report.status in ("planned", "partial"):
        yield f"to force it: {_again(report)}"
    token = printable(report.token)
    if token and report.status == "planned":
        yield f"apply exactly this plan with: --token {token}"
    op_id = printable(report.op_id or "")
    if not op_id and report.status == "partial":
        yield "nothing was changed, so there is nothing to redo"
    if not op_id or report.status not in (
        "reversed",
        "compensated",
        "partial",
    ):
        return
    if report.kind == "redo":
        name = printable(report.op_short) or op_id
        yield f"undo this with: git agent-undo undo {name}"
    else:
        yield "undo this with: git agent-undo redo"


def _again(report: FileUndoAnswer) -> str:
    """Return how to force what is skipped; for a plan, only the options to add to its verb."""
    target = printable(report.target)
    named = report.status == "partial" and report.kind in _NAMED
    verb = f"git agent-undo undo {target} " if named else ""
    return f"{verb}--on-conflict=overwrite (old lines) or --on-conflict=markers (both)"


def _not_covered(report: FileUndoAnswer, view: View) -> Iterator[str]:
    entries = report.not_covered
    if not entries:
        return
    yield "not undone:"
    shown = entries[:_SHOWN_ON_TERMINAL] if view.terminal else entries
    for entry in shown:
        what = view.path(entry.path) if entry.path else printable(entry.what)
        yield f"  {what}: {printable(entry.in_words())}"
    if len(shown) < len(entries):
        yield f"  … and {len(entries) - len(shown)} more"


def would_overwrite(report: FileUndoAnswer) -> bool:
    """Return whether a plan overwrites later work or leaves a conflict."""
    return any(item.overwrites or item.reason in _CONFLICTS for item in report.items)
