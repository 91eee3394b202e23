"""Which copy of a repository recorded something: its machine id, and those that it had before.

The id is derived from the machine and the Git directory's inode: a copy of the directory becomes
another one, and a state directory that is lost comes to the same id again.
Invariant: what was ours stays ours; two copies never share an id that either gives out.
"""

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from hashlib import blake2b

from gitshadow.errors import StoreError
from gitshadow.store.journal import meta
from gitshadow.store.journal.db import Db
from gitshadow.store.layout import BorrowedLayout, Layout

_BYTES = 6
_PART = 4
_ID = re.compile(r"[0-9a-f]{12}")
_KEY = "machine"
_MACHINE_ID = "/etc/machine-id"


def identify(layout: Layout, db: Db) -> None:
    """Have our journal know this copy's id, for `current` and `part`; others keep theirs.

    Raises:
        StoreError: the file of ids cannot be read or written, or is a link.
    """
    if isinstance(layout, BorrowedLayout):
        return
    found = _derived(layout.common_dir)
    if meta.get(db, _KEY) != found:
        if found not in _written(layout):
            _add(layout, found)
        with db.write():
            meta.put(db, _KEY, found)


def adopt(layout: Layout, ids: Iterable[str]) -> None:
    """Take machines for ours: what they recorded came back from a mirror."""
    known = ours(layout)
    for one in ids:
        if _ID.fullmatch(one) and one not in known:
            _add(layout, one)


def name(db: Db, machine: str) -> None:
    """Say whose journal it is; call it inside `db.write()`."""
    meta.put(db, _KEY, machine)


def current(db: Db) -> str | None:
    """Return whose journal it is; None for one that no worktree ever opened."""
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
    name = os.uname().nodename  # `platform` alone takes 2 ms
    with suppress(OSError), open(_MACHINE_ID, encoding="ascii", errors="replace") as id:
        name = id.read(64).strip() or name
    text = f"{name}\0{os.stat(common_dir).st_ino}"
    return blake2b(text.encode("utf-8", "replace"), digest_size=_BYTES).hexdigest()
