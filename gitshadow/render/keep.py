"""Upkeep as text: what was done, and what to type next.

Invariant: the first line answers the command; nothing from a repository is printed raw.
"""

from collections.abc import Iterable, Iterator, Mapping

from gitshadow.messages.storage import (
    ClearedMirror,
    DuAnswer,
    PackAnswer,
    PruneAnswer,
    ReindexAnswer,
)
from gitshadow.render.status import size
from gitshadow.render.style import View, printable
from gitshadow.render.text import local_time
from gitshadow.words import counted

_DEAREST = 10
_KINDS: Mapping[str, str] = {
    "reviews": "review marks",
    "artifacts": "artifacts of agent programs",
    "other": "sessions from other machines, and refs without a session here",
}


def du_lines(answer: DuAnswer, view: View) -> Iterator[str]:
    """Yield what the history costs, the dearest sessions first."""
    total, packs = answer.total, answer.packs
    yield (
        f"{size(total.bytes)} in {counted(total.objects, 'object')}"
        " of the history,"
        f" {size(answer.bytes)} in the journal and other files"
    )
    yield (
        f"{counted(packs.count_, 'pack')} of its own,"
        f" {size(packs.bytes)};"
        f" {counted(answer.loose, 'loose object')} and"
        f" {counted(answer.packed, 'pack')} in the whole repository"
    )
    dearest = answer.sessions
    for one in dearest[:_DEAREST]:
        yield f"  {size(one.bytes):>10}  {printable(one.id)}"
    for other in answer.other:
        name = _KINDS.get(other.kind, other.kind)
        yield f"  {size(other.bytes):>10}  {printable(name)}"
    if len(dearest) > _DEAREST:
        yield f"  and {counted(len(dearest) - _DEAREST, 'session')} more: --json lists them all"


def pack_lines(answer: PackAnswer, view: View) -> Iterator[str]:
    """Yield what was packed and what there is now."""
    found = answer.packed
    yield f"{counted(found, 'object')} packed" if found else "nothing new to pack"
    if answer.merged:
        yield f"{counted(answer.merged, 'pack')} merged into one"
    yield f"the history has {counted(answer.packs, 'pack')}, {size(answer.bytes)}"


def prune_lines(answer: PruneAnswer, view: View) -> Iterator[str]:
    """Yield the sessions that went, or would go."""
    count = counted(len(answer.dropped), "session")
    if not answer.dropped:
        yield f"nothing to delete{_staying(answer)}"
        return
    would = answer.dry_run
    yield f"would delete {count} permanently" if would else f"deleted {count}"
    for one in answer.dropped:
        yield f"  {printable(one.id)}, started {local_time(one.started or '')}"
    if not would:
        yield "the space is freed by the next: git gc"
    yield from mirror_warning(answer.mirrors, view)


def _staying(answer: PruneAnswer) -> str:
    """Return why nothing goes: which sessions stay."""
    said = [f"{answer.open} in open agent sessions"] if answer.open else []
    said += [f"{answer.kept} with a pin, or your own from today"] if answer.kept else []
    said += [f"{answer.needed} that these sessions need"] if answer.needed else []
    return f"; sessions kept: {', '.join(said)}" if said else ""


def mirror_warning(mirrors: Iterable[ClearedMirror], view: View) -> Iterator[str]:
    """Yield what mirrors dropped, and why they still have something."""
    warning = view.paint("warning:", "warn")
    for one in mirrors:
        place = printable(one.place)
        for ref in one.dropped:
            yield f"deleted from the mirror, which had the only copy: {printable(ref)}"
        for ref in one.held:
            yield f"{warning} the mirror {place} still holds it: {printable(ref)}"
        if one.trouble:
            yield f"{warning} the mirror {place} still holds it: {printable(one.trouble)}"


def reindex_lines(answer: ReindexAnswer, view: View) -> Iterator[str]:
    """Yield what the refs gave back, and where the old journal lies."""
    yield (
        f"journal rebuilt: {counted(answer.events, 'event')} of "
        f"{counted(answer.sessions, 'session')} from the refs, "
        f"{counted(answer.salvaged, 'other row')} from the old journal"
    )
    for table in answer.damaged:
        yield f"{view.paint('warning:', 'warn')} could not read all of {printable(table)}"
    for ref in answer.unreadable:
        yield f"{view.paint('warning:', 'warn')} could not read {printable(ref)}"
    if answer.set_aside:
        yield f"the old journal was kept: {printable(answer.set_aside)}"
