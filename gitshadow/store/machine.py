"""Which copy of a repository recorded something: its machine id, and those that it had before.

An id that this copy ever had stays ours: what it recorded then is our own history.
"""

import os
import re
from collections.abc import Iterable

from gitshadow import platform
from gitshadow.errors import StoreError
from gitshadow.store.digests import digest
from gitshadow.store.journal import meta
from gitshadow.store.journal.db import Db
from gitshadow.store.layout import BorrowedLayout, Layout

_BYTES = 6
_PART = 4
_ID = re.compile(r"[0-9a-f]{12}")
_KEY = "machine"


def identify(layout: Layout, db: Db) -> str | None:
    """Store this copy's id in our journal, for `current` and `part`; borrowed ones keep theirs.

    Returns:
        The id that the journal has now.

    Raises:
        StoreError: the file of ids cannot be read or written, or is a link.
    """
    if isinstance(layout, BorrowedLayout):
        return current(db)
    found = _derived(layout.common_dir)
    if meta.get(db, _KEY) != found:
        if found not in _written(layout):
            _add(layout, found)
        with db.write():
            meta.put(db, _KEY, found)
    return found


def adopt(layout: Layout, ids: Iterable[str]) -> None:
    """Add machines to ours: their history was restored from a mirror."""
    known = ours(layout)
    for one in ids:
        if _ID.fullmatch(one) and one not in known:
            _add(layout, one)


def name(db: Db, machine: str) -> None:
    """Store whose journal it is; call it inside `db.write()`."""
    meta.put(db, _KEY, machine)


def current(db: Db) -> str | None:
    """Return the machine of a journal; None if no worktree ever opened it."""
    return meta.get(db, _KEY)


def part(db: Db) -> str:
    """Return what the ids of new sessions end with."""
    return (current(db) or "")[:_PART]


def ours(layout: Layout) -> frozenset[str]:
    """Return every id that this copy, or what it is a copy of, has had."""
    return _written(layout) | {_derived(layout.common_dir)}


def _written(layout: Layout) -> frozenset[str]:
    try:
        with open(layout.machines, encoding="ascii", errors="replace") as lines:
            found = (line.strip() for line in lines)
            return frozenset(one for one in found if _ID.fullmatch(one))
    except (FileNotFoundError, NotADirectoryError):
        return frozenset()
    except OSError as error:
        raise _unusable(layout, "read", error) from error


def _add(layout: Layout, found: str) -> None:
    # Appended, so that two processes that start at once cannot lose each other's id.
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        with open(os.open(layout.machines, flags, 0o600), "ab") as handle:
            handle.write(f"{found}\n".encode("ascii"))
    except OSError as error:
        raise _unusable(layout, "write", error) from error


def _unusable(layout: Layout, what: str, error: OSError) -> StoreError:
    return StoreError(
        f"could not {what} {layout.machines}: {error.strerror}",
        hint="check that it is a file, and free space and permissions",
    )


def _derived(common_dir: str) -> str:
    name = platform.current().machine_facts().machine_id() or os.uname().nodename
    # Derived instead of drawn: a copy of the directory has another inode and becomes another
    # machine, so two copies never give out the same session ids or refs. A state directory that was
    # lost gets the same id again.
    text = f"{name}\0{os.stat(common_dir).st_ino}"
    return digest(text.encode("utf-8", "replace"), _BYTES)
