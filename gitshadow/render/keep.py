"""Upkeep as text: what was done, and what to type next.

Invariant: the first line answers the command; nothing from a repository is printed raw.
"""

from collections.abc import Iterator, Mapping

from gitshadow.render.document import flag, inner, number, rows, text, texts
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


def du_lines(document: Mapping[str, object], view: View) -> Iterator[str]:
    """Yield what the history costs, the dearest sessions first."""
    total, packs = inner(document, "total"), inner(document, "packs")
    yield (
        f"{size(number(total, 'bytes'))} in {counted(number(total, 'objects'), 'object')}"
        " of the history,"
        f" {size(number(document, 'bytes'))} in the journal and other files"
    )
    yield (
        f"{counted(number(packs, 'count'), 'pack')} of its own,"
        f" {size(number(packs, 'bytes'))};"
        f" {counted(number(document, 'loose'), 'loose object')} and"
        f" {counted(number(document, 'packed'), 'pack')} in the whole repository"
    )
    dearest = rows(document, "sessions")
    for one in (*dearest[:_DEAREST], *rows(document, "other")):
        kind = text(one, "kind")
        name = text(one, "id") or _KINDS.get(kind, kind)
        yield f"  {size(number(one, 'bytes')):>10}  {printable(name)}"
    if len(dearest) > _DEAREST:
        yield f"  and {counted(len(dearest) - _DEAREST, 'session')} more: --json lists them all"


def pack_lines(document: Mapping[str, object], view: View) -> Iterator[str]:
    """Yield what was packed and what there is now."""
    found, merged = number(document, "packed"), number(document, "merged")
    yield f"{counted(found, 'object')} packed" if found else "nothing new to pack"
    if merged:
        yield f"{counted(merged, 'pack')} merged into one"
    count = number(document, "packs")
    yield (
        f"the history has {counted(count, 'pack')}, {size(number(document, 'bytes'))}"
    )


def prune_lines(document: Mapping[str, object], view: View) -> Iterator[str]:
    """Yield the sessions that went, or would go."""
    dropped = rows(document, "dropped")
    count = counted(len(dropped), "session")
    if not dropped:
        yield f"nothing to delete{_staying(document)}"
        return
    would = flag(document, "dry_run")
    yield f"would delete {count} permanently" if would else f"deleted {count}"
    for one in dropped:
        began = local_time(text(one, "started"))
        yield f"  {printable(text(one, 'id'))}, started {began}"
    if not would:
        yield "the space is freed by the next: git gc"
    yield from mirror_warning(document, view)


def _staying(document: Mapping[str, object]) -> str:
    """Say why there is nothing: what is at work stays."""
    at_work, kept = number(document, "open"), number(document, "kept")
    needed = number(document, "needed")
    said = [f"{at_work} in open agent sessions"] if at_work else []
    said += [f"{kept} with a pin, or your own from today"] if kept else []
    said += [f"{needed} that these sessions need"] if needed else []
    return f"; sessions kept: {', '.join(said)}" if said else ""


def mirror_warning(document: Mapping[str, object], view: View) -> Iterator[str]:
    """Yield what keeps a mirror from forgetting what was dropped, if anything does."""
    warning = view.paint("warning:", "warn")
    for one in rows(document, "mirrors"):
        place = printable(text(one, "place"))
        for ref in texts(one, "dropped"):
            yield f"deleted from the mirror, which had the only copy: {printable(ref)}"
        for ref in texts(one, "held"):
            yield f"{warning} the mirror {place} still holds it: {printable(ref)}"
        if trouble := text(one, "trouble"):
            yield f"{warning} the mirror {place} still holds it: {printable(trouble)}"


def reindex_lines(document: Mapping[str, object], view: View) -> Iterator[str]:
    """Yield what the refs gave back, and where the old journal lies."""
    yield (
        f"journal rebuilt: {counted(number(document, 'events'), 'event')} of "
        f"{counted(number(document, 'sessions'), 'session')} from the refs, "
        f"{counted(number(document, 'salvaged'), 'other row')} from the old journal"
    )
    for table in texts(document, "damaged"):
        yield f"{view.paint('warning:', 'warn')} could not read all of {printable(table)}"
    for ref in texts(document, "unreadable"):
        yield f"{view.paint('warning:', 'warn')} could not read {printable(ref)}"
    aside = printable(text(document, "set_aside"))
    if aside:
        yield f"the old journal was kept: {aside}"
