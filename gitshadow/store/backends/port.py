"""What the object and ref store asks of the library or program that reads a repository.

Loose objects, packs that are made, trees and commits are `store`'s own business. A backend does
what depends on the format of a repository: it reads packs, reads and moves refs, and answers what
only Git's own rules say (revisions, configuration). Invariant: what cannot be read
is an error here, and never "absent".
"""

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol

from gitshadow.errors import StoreError, raise_shortage
from gitshadow.model import Oid
from gitshadow.store.object_format import ObjectFormat
from gitshadow.store.paths import unquote
from gitshadow.store.shared_modes import SharedModes

FILES = "files"
REFTABLE = "reftable"
"""The ways to store refs, by the names that `extensions.refStorage` has for them."""
STORE_HINT = "check free space and permissions of the git directory"


_NAMED_LOCK = re.compile(r"(?:create|file) '(.*?\.lock)'", re.DOTALL)
"""The lock in the words of Git (lockfile.c) and of libgit2 (filebuf.c)."""


class RefLockedError(StoreError):
    """A ref cannot be written: another process holds a lock file, or left it behind.

    Attributes:
        lock: Its path.
    """

    def __init__(self, message: str, usual: str, common_dir: str) -> None:
        """Take the lock from the message, else the usual one below the common directory."""
        named = _NAMED_LOCK.search(message)
        self.lock = named[1] if named else os.path.join(common_dir, usual)
        shown = os.path.relpath(self.lock, common_dir)
        super().__init__(
            message,
            hint=f"if no git process runs, remove the file {shown} in the git directory",
        )


class ConfigEntry(NamedTuple):
    """One line of the configuration; `value` is None for a key without one.

    Section and key are in lower case, the subsection between them as it was written.
    """

    name: str
    value: str | None


def is_true(value: str | None) -> bool:
    """Return what the value of a key says that is true or false; git-config(1), "boolean"."""
    if value is None or value.lower() in ("true", "yes", "on"):
        return True
    # A number that is not zero is true, too. What is neither is an error in Git's own commands.
    return re.fullmatch(r"[+-]?0*[1-9][0-9]*[kmg]?", value.lower()) is not None


class ReflogEntry(NamedTuple):
    """One entry of HEAD's log: the commits before and after it (None: unborn), and Git's words.

    `at_s` is when Git wrote it, in whole seconds; `mark` how far the log is read with it.
    """

    old: Oid | None
    new: Oid | None
    words: str
    at_s: int
    mark: str


class HeadLog(Protocol):
    """The reflog of a worktree's HEAD; empty where `core.logAllRefUpdates` is off."""

    def size(self) -> int:
        """Return a number that grows with each entry, 0 where there is none."""
        ...

    def since(self, size: int) -> Sequence[ReflogEntry]:
        """Return at least the entries made since the log had a size, oldest first.

        The one that was the last then is among them, if it still exists, and some before it.
        """
        ...

    def newest(self, most: int) -> Sequence[ReflogEntry]:
        """Return the newest entries, oldest first.

        Raises:
            StoreError: the log cannot be read.
        """
        ...

    def changed_ns(self) -> int | None:
        """Return when the log changed last, or a little later; None where there is none."""
        ...


class Backend(Protocol):
    """One opened repository; used by one thread at a time."""

    form: ObjectFormat
    ref_format: str
    head_log: HeadLog
    modes: SharedModes
    has_second_ids: bool
    """Whether Git keeps a second id of each object: packs of new ones are not made then."""

    def close(self) -> None:
        """Close all that is open; nothing is asked afterwards."""
        ...

    def let_go(self) -> None:
        """Close open packs, and forget which there are."""
        ...

    def read(self, oid: Oid) -> tuple[str, bytes]:
        """Return kind and content of an object that is not loose in this repository.

        Raises:
            StoreError: it is missing or broken.
        """
        ...

    def read_packed(self, oid: Oid) -> tuple[str, bytes]:
        """Return kind and content of an object from a pack, whatever its loose file is like.

        Raises:
            StoreError: no pack has it.
        """
        ...

    def packed_blobs(self) -> Callable[[Oid], bytes | None]:
        """Return a reader of blobs in packs that does not hash them again, None for others."""
        ...

    def exists(self, oid: Oid) -> bool:
        """Return whether an object is in the store, in any file of it."""
        ...

    def is_packed(self, oid: Oid) -> bool:
        """Return whether a pack of this repository has an object now."""
        ...

    def may_be_packed(self, oid: Oid) -> bool:
        """Return whether a pack has an object; one made since `let_go` may have it all the same."""
        ...

    def write(self, kind: str, data: bytes) -> Oid:
        """Store an object that may exist, which keeps Git from pruning it for a while.

        Where `core.fsyncObjectFiles` is on, it is on the disk afterwards.

        Raises:
            OSError: the system refused.
            StoreError: it could not be written for another reason.
        """
        ...

    def write_all(self, objects: Mapping[Oid, tuple[str, bytes]]) -> None:
        """Store new objects, each with its kind and content; what one refers to comes before it.

        Raises:
            OSError: the system refused.
            StoreError: they could not be written for another reason.
        """
        ...

    def head(self) -> tuple[str | None, Oid | None]:
        """Return the branch that HEAD names (None: detached) and its commit (None: unborn).

        Raises:
            StoreError: HEAD or its branch cannot be read.
        """
        ...

    def ref(self, name: str) -> Oid | None:
        """Return what a ref points at, through symbolic refs; None where there is no such ref.

        Raises:
            StoreError: the ref exists but cannot be read.
        """
        ...

    def refs(self, prefix: str) -> dict[str, Oid]:
        """Return all refs below a prefix that point at something, by name.

        Raises:
            StoreError: they cannot be read.
        """
        ...

    def create_ref(self, name: str, oid: Oid) -> None:
        """Create a ref, without a reflog.

        Raises:
            StaleTipError: it exists already.
            RefLockedError: its lock file exists.
            StoreError: it cannot be written.
        """
        ...

    def move_ref(self, name: str, old: Oid, new: Oid) -> None:
        """Move a ref by compare-and-swap, without a reflog; errors as `create_ref`."""
        ...

    def force_ref(self, name: str, oid: Oid) -> None:
        """Set a ref whose present value does not count, without a reflog."""
        ...

    def delete_ref(self, name: str) -> None:
        """Delete a ref and its reflog; one that is absent is fine."""
        ...

    def broken_refs(self) -> list[str]:
        """Return our refs that cannot be read, sorted."""
        ...

    def resolve(self, name: str) -> Oid | None:
        """Return the commit that a revision names (gitrevisions(7)), None for none."""
        ...

    def unpushed(self, tip: Oid, most: int) -> Mapping[Oid, Iterable[Oid]]:
        """Return the parents of the newest commits that no remote-tracking ref reaches.

        Of a commit and its ancestors, at most so many; nothing where that cannot be found.
        """
        ...

    def config(self) -> Sequence[ConfigEntry]:
        """Return the configuration in the order in which later entries count.

        Raises:
            StoreError: it cannot be read.
        """
        ...


def alternates_file(objects: str) -> str:
    """Return the path of the list of object directories that one borrows from."""
    return os.path.join(objects, "info", "alternates")


def alternates(objects: str) -> list[str]:
    """Return the object directories that a repository borrows from (gitrepository-layout(5)).

    Those that they borrow from in turn are among them.

    Raises:
        StoreError: their list cannot be read.
    """
    found: list[str] = []
    waiting = [objects]
    while waiting:
        for other in _borrowed(waiting.pop()):
            if other not in found and other != objects:
                found.append(other)
                waiting.append(other)
    return found


def _borrowed(objects: str) -> list[str]:
    path = alternates_file(objects)
    try:
        with open(path, "rb") as handle:
            lines = handle.read().split(b"\n")
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise_shortage(error)
        raise StoreError(f"could not read {path}: {error.strerror or error}") from error
    # As Git reads it (object-file.c or odb.c, link_alt_odb_entries): what begins like a quoted path
    # and is none is a path all the same. A relative one begins where links lead to.
    named = (_unquoted(line) for line in lines if line and not line.startswith(b"#"))
    top = os.path.realpath(objects)
    return [os.path.normpath(os.path.join(top, os.fsdecode(name))) for name in named]


def _unquoted(line: bytes) -> bytes:
    with suppress(StoreError):
        return unquote(os.fsdecode(line))
    return line
