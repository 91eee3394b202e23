"""export and import as text: what was written or taken in, and what was left out.

Invariant: nothing from a repository or a file is printed raw.
"""

from collections.abc import Iterator, Mapping

from gitshadow.render.document import flag, number, rows, text, texts
from gitshadow.render.style import View, printable, printable_line
from gitshadow.render.text import short
from gitshadow.words import counted

_SHOWN = 10


def plan_lines(document: Mapping[str, object], view: View) -> Iterator[str]:
    """Yield which notes would be written."""
    found = rows(document, "notes")
    ref = printable(text(document, "ref"))
    yield f"{counted(len(found), 'note')} on {ref}, in the git-ai format authorship/3.0.0"
    for row in found[:_SHOWN]:
        lines = text(row, "text").split("\n---\n")[0].split("\n")
        files = sum(not line.startswith("  ") for line in lines)
        yield f"  {short(text(row, 'commit'))}: {counted(files, 'file')}"
    yield from _more(len(found))
    yield from left_out_lines(document, view)


def notes_lines(document: Mapping[str, object], view: View) -> Iterator[str]:
    """Yield the notes in full."""
    found = rows(document, "notes")
    if not found:
        yield "nothing to write: no line of a known author was committed"
    for row in found:
        yield view.paint(f"note on {text(row, 'commit')}", "bold")
        yield from (printable_line(line) for line in text(row, "text").splitlines())
    yield from left_out_lines(document, view)


def written_lines(document: Mapping[str, object], view: View) -> Iterator[str]:
    """Yield what was written, and how it goes away again."""
    count = counted(len(rows(document, "notes")), "note")
    yield f"{count} written on {printable(text(document, 'ref'))}"
    yield "undo this with: git agent-undo export --format git-ai --remove"


def removed_lines(document: Mapping[str, object], view: View) -> Iterator[str]:
    """Yield what goes, or went."""
    count = number(document, "removed")
    ref = printable(text(document, "ref"))
    if not count:
        yield f"gitshadow has no notes on {ref}"
    elif flag(document, "dry_run"):
        yield f"{ref} would be deleted, with {counted(count, 'note')}"
    else:
        yield f"{ref} was deleted"


def left_out_lines(document: Mapping[str, object], view: View) -> Iterator[str]:
    """Yield the files that a format cannot name."""
    for row in rows(document, "left_out"):
        name, why = view.path(text(row, "path")), printable(text(row, "reason"))
        yield f"skipped: {name} ({why})"


def import_lines(document: Mapping[str, object], view: View) -> Iterator[str]:
    """Yield what was taken in."""
    if text(document, "from") == "events":
        yield (
            f"{counted(number(document, 'new'), 'line')} imported,"
            f" {number(document, 'known')} already known"
        )
        elsewhere = number(document, "elsewhere")
        if elsewhere:
            yield f"{counted(elsewhere, 'event')} from refs that are missing here"
            yield "hint: git fetch REMOTE 'refs/agent-undo/*:refs/agent-undo/*'"
    else:
        yield (
            f"{counted(number(document, 'claims'), 'claim')} imported from"
            f" {printable(text(document, 'from'))},"
            f" about {counted(number(document, 'commits'), 'commit')}"
            f" and {counted(number(document, 'lines'), 'line')}"
        )
    skipped = texts(document, "skipped")
    for note in skipped[:_SHOWN]:
        yield f"skipped: {printable(note)}"
    yield from _more(len(skipped))


def _more(count: int) -> Iterator[str]:
    if count > _SHOWN:
        yield f"  … and {count - _SHOWN} more (--json has all)"
