"""Findings and review marks as text: what, where, whose, and the command that resolves it."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from gitshadow.messages.check import CheckAnswer, FindingRow, MarkRow
from gitshadow.render.style import View, printable
from gitshadow.render.text import local_time
from gitshadow.words import counted

_STYLES = {"refuse": ("refused", "bad"), "warn": ("warning", "warn")}
_PROMPT_CHARS = 70
# A finding may be about hundreds of lines: the first few are enough to find the place.
_SPANS = 6


def check_lines(answer: CheckAnswer, view: View, *, quiet: bool) -> Iterator[str]:
    """Yield the findings, what was to be said of the policies, and the sum."""
    for note in (*answer.warnings, *answer.notes):
        yield f"{view.paint('note', 'warn')}: {printable(note)}"
    # If one command resolves several findings in a row, it is printed once, after the last of them.
    for remedy, alike in groupby(answer.findings, lambda one: one.remedy):
        for one in alike:
            yield from _finding(one, view)
        yield f"  fix: {printable(remedy)}"
    if answer.findings or not quiet:
        yield _sum(answer)


def _finding(one: FindingRow, view: View) -> Iterator[str]:
    word, style = _STYLES.get(one.level, ("warning", "warn"))
    place = f"{view.path(one.path)}{_lines(one)}: " if one.path else ""
    rule = view.paint(f"[{printable(one.rule)}]", "faint")
    yield f"{view.paint(word, style)}: {place}{printable(one.reason)} {rule}"
    if one.session:
        prompt = (one.prompt or "").partition("\n")[0]
        cut = "…" if len(prompt) > _PROMPT_CHARS else ""
        said = f', prompt: "{printable(prompt[:_PROMPT_CHARS])}{cut}"' if prompt else ""
        yield f"  session {printable(one.session)}{said}"
    if one.about and one.rule == "protected":
        yield f"  matches the pattern {printable(one.about)} from {printable(one.source)}"


def _lines(one: FindingRow) -> str:
    """Return the line numbers behind a path, `:3-9,12`."""
    shown = [
        f"{first}" if first == last else f"{first}-{last}" for first, last in one.lines
    ]
    more = ",…" if len(shown) > _SPANS else ""
    return f":{','.join(shown[:_SPANS])}{more}" if shown else ""


def _sum(answer: CheckAnswer) -> str:
    change = answer.change
    what = f"{counted(change.files, 'file')}, {counted(change.lines, 'line')} added"
    if not answer.findings:
        return f"check passed: {what}"
    refused = sum(one.level == "refuse" for one in answer.findings)
    warned = len(answer.findings) - refused
    counts = [f"{refused} refused"] * bool(refused)
    counts += [counted(warned, "warning")] * bool(warned)
    return f"{', '.join(counts)} in {what}"


def review_lines(answer: MarkRow, view: View) -> Iterator[str]:
    """Yield what was marked, and the command that removes the mark."""
    if not answer.id:
        yield "nothing to review: no lines by agents or unknown authors"
        return
    id = printable(answer.id)
    yield f"reviewed {_size(answer)}: {id}"
    for path in answer.paths:
        yield f"  {view.path(path)}"
    yield f"undo this with: git agent-undo review --undo {id}"


def unreview_lines(answer: MarkRow, view: View) -> Iterator[str]:
    """Yield which mark is gone."""
    yield f"removed {printable(answer.id)}; its lines need review again"


def reviews_lines(found: Sequence[MarkRow], view: View) -> Iterator[str]:
    """Yield one line per mark."""
    for row in found:
        yield (
            f"{printable(row.id)}  {local_time(row.ts or '')}  {printable(row.who)}"
            f"  {_size(row)}  ({printable(row.target)})"
        )


def _size(row: MarkRow) -> str:
    return f"{counted(row.lines, 'line')} in {counted(row.files, 'file')}"
