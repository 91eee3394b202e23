"""push, fetch and mirrors as text: what went where, what came, and what to type next.

Invariant: the first line answers the command; nothing from a repository is printed raw.
"""

from collections.abc import Iterator, Sequence

from gitshadow.messages.sharing import (
    BringBackAnswer,
    ExposeAnswer,
    FetchAnswer,
    MirrorAnswer,
    PushAnswer,
    UnexposeAnswer,
)
from gitshadow.render.style import View, printable
from gitshadow.words import counted


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
        yield "a snapshot: run expose again to update it, unexpose to remove it"
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
