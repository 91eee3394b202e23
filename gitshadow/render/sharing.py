"""push, fetch and mirrors as text: what went where, what came, and what to type next.

Invariant: the first line answers the command; nothing from a repository is printed raw.
"""

from collections.abc import Iterator, Mapping, Sequence

from gitshadow.render.document import number, rows, text, texts
from gitshadow.render.style import View, printable
from gitshadow.words import counted


def push_lines(document: Mapping[str, object], view: View) -> Iterator[str]:
    """Yield what is at the remote now, and whether anything of it is new there."""
    sessions, marks = texts(document, "sessions"), texts(document, "marks")
    remote = printable(text(document, "remote"))
    if not texts(document, "changed"):
        yield f"already up to date: {remote} has {_parcel(sessions, marks)}"
        return
    branches = printable(text(document, "as")).removeprefix("refs/heads/")
    where = f", as branches below {branches}" if branches else ""
    yield f"{_parcel(sessions, marks)} sent to {remote}{where}"
    yield from (f"  {printable(name)}" for name in [*sessions, *marks])


def fetch_lines(document: Mapping[str, object], view: View) -> Iterator[str]:
    """Yield the sessions and review marks that came."""
    sessions, marks = texts(document, "sessions"), rows(document, "marks")
    remote = printable(text(document, "remote"))
    if not sessions and not marks:
        yield f"nothing new in {remote}"
    else:
        yield f"{_parcel(sessions, marks)} from {remote}"
    yield from (f"  {printable(name)}" for name in sessions)
    for mark in marks:
        who, target = printable(text(mark, "who")), printable(text(mark, "target"))
        yield f"  {printable(text(mark, 'id'))}: review of {target} by {who}"
    for row in rows(document, "broken"):
        ref, why = printable(text(row, "ref")), printable(text(row, "why"))
        yield f"{view.paint('skipped:', 'warn')} {ref}: {why}"
    if sessions:
        yield f"to see one: git agent-undo log --session {printable(sessions[0])}"


def mirror_lines(document: Mapping[str, object], view: View) -> Iterator[str]:
    """Yield where the mirror is, and what it is for."""
    place = printable(text(document, "mirror"))
    yield f"{place} has the whole history, your branches and tags"
    yield f"to restore from it: git agent-undo restore --from-mirror {place}"


def returned_lines(document: Mapping[str, object], view: View) -> Iterator[str]:
    """Yield what came back from a mirror."""
    place = printable(text(document, "mirror"))
    count = number(document, "refs")
    if count:
        yield f"{counted(count, 'ref')} restored from {place}"
    else:
        yield f"nothing to restore: all history in {place} is already here"
    for ref in texts(document, "branches"):
        yield f"  your branch: {printable(ref.removeprefix('refs/remotes/'))}"


def _parcel(sessions: Sequence[object], marks: Sequence[object]) -> str:
    """Return how many of each there are; what there is none of is not named."""
    named = ((len(sessions), "session"), (len(marks), "review mark"))
    return " and ".join(counted(amount, noun) for amount, noun in named if amount)
