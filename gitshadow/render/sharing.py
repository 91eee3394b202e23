"""push, fetch, mirror, export and import as text: what went where, what came, and what did not.

Invariant: nothing from a repository or a file is printed raw.
"""

from collections.abc import Iterable, Iterator, Sequence

from gitshadow.messages.exchange import (
    ExportNotesAnswer,
    ExportRemoveAnswer,
    ImportAnswer,
    UnnamedFile,
)
from gitshadow.messages.sharing import (
    BringBackAnswer,
    ExposeAnswer,
    FetchAnswer,
    MirrorAnswer,
    PushAnswer,
    UnexposeAnswer,
)
from gitshadow.render.style import View, printable, printable_line
from gitshadow.render.text import short
from gitshadow.words import counted

_SHOWN = 10


def push_lines(answer: PushAnswer, view: View) -> Iterator[str]:
    """Yield what is at the remote now, and whether anything of it is new there."""
    remote = printable(answer.remote)
    parcel = _parcel(answer.sessions, answer.marks)
    if not answer.changed:
        yield f"already up to date: {remote} has {parcel}"
        return
    branches = printable(answer.as_ or "").removeprefix("refs/heads/")
    where = f", as branches below {branches}" if branches else ""
    yield f"{parcel} sent to {remote}{where}"
    yield from (f"  {printable(name)}" for name in [*answer.sessions, *answer.marks])


def fetch_lines(answer: FetchAnswer, view: View) -> Iterator[str]:
    """Yield the sessions and review marks that came."""
    sessions, marks = answer.sessions, answer.marks
    remote = printable(answer.remote)
    if not sessions and not marks:
        yield f"nothing new in {remote}"
    else:
        yield f"{_parcel(sessions, marks)} from {remote}"
    yield from (f"  {printable(name)}" for name in sessions)
    for mark in marks:
        who, target = printable(mark.who), printable(mark.target)
        yield f"  {printable(mark.id)}: review of {target} by {who}"
    for one in answer.broken:
        ref, why = printable(one.ref), printable(one.why)
        yield f"{view.paint('skipped:', 'warn')} {ref}: {why}"
    if sessions:
        yield f"to see one: git agent-undo log --session {printable(sessions[0])}"


def mirror_lines(answer: MirrorAnswer, view: View) -> Iterator[str]:
    """Yield where the mirror is, and what it is for."""
    place = printable(answer.mirror)
    yield f"{place} has the whole history, your branches and tags"
    yield f"to restore from it: git agent-undo restore --from-mirror {place}"


def returned_lines(answer: BringBackAnswer, view: View) -> Iterator[str]:
    """Yield what was restored from a mirror."""
    place = printable(answer.mirror)
    if answer.refs:
        yield f"{counted(answer.refs, 'ref')} restored from {place}"
    else:
        yield f"nothing to restore: all history in {place} is already here"
    for ref in answer.branches:
        yield f"  your branch: {printable(ref.removeprefix('refs/remotes/'))}"


def expose_lines(answer: ExposeAnswer, view: View) -> Iterator[str]:
    """Yield the refs that Git programs list now."""
    for ref in answer.exposed:
        yield f"visible to Git tools as {printable(ref)}"
    if answer.exposed:
        yield "a snapshot: run expose again to update it, expose --off to remove it"
    else:
        yield "nothing to show: the session changed nothing"


def unexpose_lines(answer: UnexposeAnswer, view: View) -> Iterator[str]:
    """Yield the refs that were deleted."""
    for ref in answer.unexposed:
        yield f"hidden again: {printable(ref)}"
    for ref in answer.left:
        yield f"skipped, not created by gitshadow: {printable(ref)}"
    if not answer.unexposed:
        yield "nothing to hide: it was not shown"


def _parcel(sessions: Sequence[object], marks: Sequence[object]) -> str:
    """Return how many of each there are; what there is none of is not named."""
    named = ((len(sessions), "session"), (len(marks), "review mark"))
    return " and ".join(counted(amount, noun) for amount, noun in named if amount)


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


def left_out_lines(files: Iterable[UnnamedFile], view: View) -> Iterator[str]:
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
