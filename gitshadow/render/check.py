"""Findings and review marks as text: what, where, whose, and the command that settles it.

Invariant: one finding begins with one line; nothing from a repository is printed raw.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from gitshadow.render.document import inner, number, rows, text, texts
from gitshadow.render.style import View, printable
from gitshadow.render.text import local_time
from gitshadow.words import counted

_STYLES = {"refuse": ("refused", "bad"), "warn": ("warning", "warn")}
_PROMPT_CHARS = 70
_SPANS = 6


def check_lines(
    document: Mapping[str, object], view: View, *, quiet: bool
) -> Iterator[str]:
    """Yield the findings, what was to be said of the policies, and the sum."""
    for note in texts(document, "warnings") + texts(document, "notes"):
        yield f"{view.paint('note', 'warn')}: {printable(note)}"
    found = rows(document, "findings")
    # What settles several findings in a row is said once, after the last of them.
    for remedy, alike in groupby(found, lambda one: text(one, "remedy")):
        for one in alike:
            yield from _finding(one, view)
        yield f"  fix: {printable(remedy)}"
    if found or not quiet:
        yield _sum(document, found)


def _finding(one: Mapping[str, object], view: View) -> Iterator[str]:
    word, style = _STYLES.get(text(one, "level"), ("warning", "warn"))
    place = (
        f"{view.path(text(one, 'path'))}{_lines(one)}: " if text(one, "path") else ""
    )
    rule = view.paint(f"[{printable(text(one, 'rule'))}]", "faint")
    yield f"{view.paint(word, style)}: {place}{printable(text(one, 'reason'))} {rule}"
    session = text(one, "session")
    if session:
        prompt = text(one, "prompt").partition("\n")[0]
        cut = "…" if len(prompt) > _PROMPT_CHARS else ""
        said = f', prompt: "{printable(prompt[:_PROMPT_CHARS])}{cut}"' if prompt else ""
        yield f"  session {printable(session)}{said}"
    about = text(one, "about")
    if about and text(one, "rule") == "protected":
        yield f"  matches the pattern {printable(about)} from {printable(text(one, 'source'))}"


def _lines(one: Mapping[str, object]) -> str:
    """Return the line numbers behind a path, `:3-9,12`."""
    spans = one.get("lines")
    shown: list[str] = []
    for span in spans if isinstance(spans, list) else []:
        first, last = span
        shown.append(f"{first}" if first == last else f"{first}-{last}")
    more = ",…" if len(shown) > _SPANS else ""
    return f":{','.join(shown[:_SPANS])}{more}" if shown else ""


def _sum(document: Mapping[str, object], found: Sequence[Mapping[str, object]]) -> str:
    change = inner(document, "change")
    files, lines = number(change, "files"), number(change, "lines")
    what = f"{counted(files, 'file')}, {counted(lines, 'line')} added"
    refused = sum(text(one, "level") == "refuse" for one in found)
    if not found:
        return f"check passed: {what}"
    warned = len(found) - refused
    counts = [f"{refused} refused"] * bool(refused)
    counts += [counted(warned, "warning")] * bool(warned)
    return f"{', '.join(counts)} in {what}"


def review_lines(document: Mapping[str, object], view: View) -> Iterator[str]:
    """Yield what was marked, and how to take it back."""
    if not text(document, "id"):
        yield "nothing to review: no lines by agents or unknown authors"
        return
    lines, files = number(document, "lines"), number(document, "files")
    yield f"reviewed {counted(lines, 'line')} in {counted(files, 'file')}: {_id(document)}"
    for path in texts(document, "paths"):
        yield f"  {view.path(path)}"
    yield f"undo this with: git agent-undo review --undo {_id(document)}"


def unreview_lines(document: Mapping[str, object], view: View) -> Iterator[str]:
    """Yield which mark is gone."""
    yield f"removed {_id(document)}; its lines need review again"


def reviews_lines(found: Sequence[Mapping[str, object]], view: View) -> Iterator[str]:
    """Yield one line per mark."""
    for row in found:
        lines, files = number(row, "lines"), number(row, "files")
        what = f"{counted(lines, 'line')} in {counted(files, 'file')}"
        yield (
            f"{_id(row)}  {local_time(text(row, 'ts'))}  {printable(text(row, 'who'))}"
            f"  {what}  ({printable(text(row, 'target'))})"
        )


def _id(row: Mapping[str, object]) -> str:
    return printable(text(row, "id"))
