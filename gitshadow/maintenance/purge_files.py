"""Texts taken out of our files beside the objects: the journal, its copies, the spool, pages, logs.

Invariant: nothing outside our state directory is written; what holds a text afterwards is named.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from gitshadow.attribution.delivery import parse_spool
from gitshadow.errors import RefusedError
from gitshadow.store.journal import scrub
from gitshadow.store.journal.db import Db
from gitshadow.store.journal.scrub import TextCounts
from gitshadow.store.layout import Layout
from gitshadow.store.purged import holds, without

_SIDES = ("-wal", "-shm")
_JOURNAL = "journal.db"
_MOST_BYTES = 64 * 1024 * 1024


class Scrubbing(NamedTuple):
    """Say what holds the texts: columns of the journal, and files below our directory."""

    found: TextCounts = TextCounts()
    files: tuple[str, ...] = ()


def look(layout: Layout, db: Db, forms: Sequence[bytes]) -> Scrubbing:
    """Find what holds any form of some texts; nothing is changed."""
    if not forms:
        return Scrubbing()
    files = (os.path.relpath(path, layout.state_dir) for path in _files(layout, forms))
    return Scrubbing(scrub.find(db, forms), tuple(sorted(files)))


def refuse_unsent(db: Db, forms: Sequence[bytes]) -> None:
    """Refuse while a call that would be sent later holds a text: it would go out with the mark.

    Raises:
        RefusedError: there is such a call.
    """
    found = scrub.unsent(db, forms) if forms else []
    if found:
        session, call = found[0]
        raise RefusedError(
            f"cannot purge: call {call} of {session} contains it and is waiting to be sent",
            hint=f"undo its turn first: git agent-undo saga show {call}",
        )


def clear_files(layout: Layout, forms: Sequence[bytes]) -> None:
    """Have none of our files but the journal hold a text.

    Copies of the journal, pages and payloads that wait go as a whole; of others the text alone.
    """
    for path in _files(layout, forms):
        top = os.path.relpath(path, layout.state_dir).split(os.sep)[0]
        if top in ("spool", "pages") or top.startswith(_JOURNAL + "."):
            for side in ("", *_SIDES):
                with suppress(FileNotFoundError):
                    os.unlink(path + side)
        else:
            _clear_file(path, forms)


def still_there(layout: Layout, forms: Sequence[bytes]) -> list[str]:
    """Return the files of the journal whose bytes hold a text, used pages or free ones."""
    names = (layout.journal + side for side in ("", *_SIDES))
    return [os.path.basename(path) for path in names if scrub.in_bytes(path, forms)]


def _files(layout: Layout, forms: Sequence[bytes]) -> Iterator[str]:
    own = {layout.journal + side for side in ("", *_SIDES)}
    for directory, inner, names in os.walk(layout.state_dir):
        if directory == layout.state_dir and "fetched" in inner:
            inner.remove("fetched")  # follows from refs, which are named
        for name in names:
            path = os.path.join(directory, name)
            if path not in own and os.path.isfile(path) and _is_held(path, forms):
                yield path


def _is_held(path: str, forms: Sequence[bytes]) -> bool:
    name = os.path.basename(path)
    if name.startswith(_JOURNAL + ".") and not name.endswith(_SIDES):
        return scrub.in_copy(path, forms)
    if os.path.basename(os.path.dirname(path)) == "spool":
        delivery = parse_spool(path)
        if delivery is not None and holds(delivery.payload, forms):
            return True
    return scrub.in_bytes(path, forms)


def _clear_file(path: str, forms: Sequence[bytes]) -> None:
    with open(path, "r+b") as handle:
        data = handle.read(_MOST_BYTES)
        handle.seek(0)
        handle.write(without(data, forms))
        handle.truncate()
        os.fsync(handle.fileno())
