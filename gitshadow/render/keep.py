"""Pins and upkeep as text: what was done, and what to type next.

Invariant: the first line answers the command; nothing from a repository is printed raw.
"""

from collections.abc import Iterator, Mapping

from gitshadow.render.document import flag, inner, number, rows, text, texts
from gitshadow.render.status import size
from gitshadow.render.style import View, printable
from gitshadow.render.text import local_time
from gitshadow.words import counted


def pin_lines(document: Mapping[str, object], view: View) -> Iterator[str]:
    """Yield what `pin` named."""
    name = printable(text(document, "name"))
    yield f"pinned {name}: the working tree as it is now"
    yield f"to bring it back: git agent-undo restore --pin {name}"


def unpin_lines(document: Mapping[str, object], view: View) -> Iterator[str]:
    """Yield what `unpin` deleted."""
    yield f"pin {printable(text(document, 'name'))} is deleted; no file changed"


_DEAREST = 10
_KINDS: Mapping[str, str] = {
    "reviews": "review marks",
    "artifacts": "artifacts of agent programs",
    "other": "sessions of other machines, and refs that no session here has",
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
        f"the history has {counted(count, 'pack')} of its own,"
        f" {size(number(document, 'bytes'))}"
    )


def prune_lines(document: Mapping[str, object], view: View) -> Iterator[str]:
    """Yield the sessions that went, or would go."""
    dropped = rows(document, "dropped")
    count = counted(len(dropped), "session")
    if not dropped:
        yield f"nothing to drop{_staying(document)}"
        return
    would = flag(document, "dry_run")
    yield f"{count} would go, for good" if would else f"{count} dropped"
    for one in dropped:
        began = local_time(text(one, "started"))
        yield f"  {printable(text(one, 'id'))}, begun {began}"
    if not would:
        yield "the space comes back with Git's next gc: git gc"
    yield from mirror_warning(document, view)


def _staying(document: Mapping[str, object]) -> str:
    """Say why there is nothing: what is at work stays."""
    at_work, kept = number(document, "open"), number(document, "kept")
    needed = number(document, "needed")
    said = [f"{at_work} open in an agent"] if at_work else []
    said += [f"{kept} with a pin in it or your own of today"] if kept else []
    said += [f"{needed} that these need"] if needed else []
    return f"; sessions that stay: {', '.join(said)}" if said else ""


def mirror_warning(document: Mapping[str, object], view: View) -> Iterator[str]:
    """Yield what keeps a mirror from forgetting what was dropped, if anything does."""
    warning = view.paint("warning:", "warn")
    for one in rows(document, "mirrors"):
        place = printable(text(one, "place"))
        for ref in texts(one, "dropped"):
            yield f"dropped in the mirror, which alone had it: {printable(ref)}"
        for ref in texts(one, "held"):
            yield f"{warning} the mirror {place} still has it: {printable(ref)}"
        if trouble := text(one, "trouble"):
            yield f"{warning} the mirror {place} still has it: {printable(trouble)}"


def expose_lines(document: Mapping[str, object], view: View) -> Iterator[str]:
    """Yield the refs that Git programs list now."""
    for ref in texts(document, "exposed"):
        yield f"shown to Git programs as {printable(ref)}"
    if texts(document, "exposed"):
        yield "as it is now: expose moves it on, unexpose takes it back"
    else:
        yield "nothing to show: the session wrote nothing"


def unexpose_lines(document: Mapping[str, object], view: View) -> Iterator[str]:
    """Yield the refs that are gone again."""
    gone = texts(document, "unexposed")
    for ref in gone:
        yield f"no longer shown: {printable(ref)}"
    for ref in texts(document, "left"):
        yield f"left alone, it is not ours: {printable(ref)}"
    if not gone:
        yield "it was not shown"


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
        yield f"the old journal is kept: {aside}"
