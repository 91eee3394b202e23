"""export and import as text: what was written or imported, and what was left out.

Invariant: nothing from a repository or a file is printed raw.
"""

from collections.abc import Iterable, Iterator

from gitshadow.messages.exchange import (
    ExportNotesAnswer,
    ExportRemoveAnswer,
    ImportAnswer,
    LeftOut,
)
from gitshadow.render.style import View, printable, printable_line
from gitshadow.render.text import short
from gitshadow.words import counted

_SHOWN = 10


def plan_lines(answer: ExportNotesAnswer, view: View) -> Iterator[str]:
    """Yield which notes would be written."""
    count = counted(len(answer.notes), "note")
    ref = printable(answer.ref)
    yield f"{count} on {ref}, in the git-ai format authorship/3.0.0"
    for note in answer.notes[:_SHOWN]:
        lines = note.text.split("\n---\n")[0].split("\n")
        files = sum(not line.startswith("  ") for line in lines)
        yield f"  {short(note.commit)}: {counted(files, 'file')}"
    yield from _more(len(answer.notes))
    yield from left_out_lines(answer.left_out, view)


def notes_lines(answer: ExportNotesAnswer, view: View) -> Iterator[str]:
    """Yield the notes in full."""
    if not answer.notes:
        yield "nothing to write: no line of a known author was committed"
    for note in answer.notes:
        yield view.paint(f"note on {note.commit}", "bold")
        yield from (printable_line(line) for line in note.text.splitlines())
    yield from left_out_lines(answer.left_out, view)


def written_lines(answer: ExportNotesAnswer, view: View) -> Iterator[str]:
    """Yield what was written, and how to undo it."""
    yield f"{counted(len(answer.notes), 'note')} written on {printable(answer.ref)}"
    yield "undo this with: git agent-undo export --format git-ai --remove"


def removed_lines(answer: ExportRemoveAnswer, view: View) -> Iterator[str]:
    """Yield what would be deleted, or was."""
    ref = printable(answer.ref)
    if not answer.removed:
        yield f"gitshadow has no notes on {ref}"
    elif answer.dry_run:
        yield f"{ref} would be deleted, with {counted(answer.removed, 'note')}"
    else:
        yield f"{ref} was deleted"


def left_out_lines(files: Iterable[LeftOut], view: View) -> Iterator[str]:
    """Yield the files that a format cannot name."""
    for one in files:
        yield f"skipped: {view.path(one.path)} ({printable(one.reason)})"


def import_lines(answer: ImportAnswer, view: View) -> Iterator[str]:
    """Yield what was imported."""
    if answer.from_ == "events":
        yield f"{counted(answer.new or 0, 'line')} imported, {answer.known or 0} already known"
        if answer.elsewhere:
            yield f"{counted(answer.elsewhere, 'event')} from refs that are missing here"
            yield "hint: git fetch REMOTE 'refs/agent-undo/*:refs/agent-undo/*'"
    else:
        yield (
            f"{counted(answer.claims or 0, 'claim')} imported from"
            f" {printable(answer.from_)},"
            f" about {counted(answer.commits or 0, 'commit')}"
            f" and {counted(answer.lines or 0, 'line')}"
        )
    skipped = answer.skipped or ()
    for why in skipped[:_SHOWN]:
        yield f"skipped: {printable(why)}"
    yield from _more(len(skipped))


def _more(count: int) -> Iterator[str]:
    if count > _SHOWN:
        yield f"  … and {count - _SHOWN} more (--json has all)"
