"""Digests of the files that a call names, from before it, to judge a call that was cut short.

Only a file that is exactly as it was before the call proves that the call changed nothing.
"""

import os
import stat
from collections.abc import Iterable, Mapping, Sequence

from gitshadow.sdk.turns import json_values
from gitshadow.sdk.turns.commands import Invoke, Procedure, Returned, ask, demand
from gitshadow.store import sqlite_files
from gitshadow.store.digests import digest
from gitshadow.store.journal.saga_rows import SagaCall

# Reading more before each call would cost more than the answer is worth.
_MOST_BYTES = 16 << 20
_ABSENT = "absent"


def images(root: str, paths: Iterable[str]) -> dict[str, str | None]:
    """Return what files are like, by path below `root`: a digest, `absent`, or None for unknown."""
    return {path: _image(os.path.join(root, path)) for path in paths}


def taken(root: str, paths: Sequence[str]) -> Procedure[Mapping[str, str | None]]:
    """Return the images of what a tool says that it writes, by path relative to the root."""
    names = [os.path.relpath(_real(path), root) for path in paths]
    return (yield from demand(Invoke(images, (root, names))))


def restored(
    call: SagaCall, before: Sequence[SagaCall], root: str
) -> Procedure[str | None]:
    """Return in words that the files of a call are as they were before it; None: not for sure.

    What they were before an earlier call of the same turn counts too: an undo of both has
    restored that.
    """
    own = _before(call)
    if not own:
        return None
    earlier = [_before(one) for one in before if one.ordinal < call.ordinal]
    event = yield from ask(Invoke(images, (root, tuple(own))))
    if not isinstance(event, Returned):
        return None
    for path, image in event.value.items():
        known = [one.get(path) for one in (own, *earlier)]
        if image is None or image not in known:
            return None
    return "its files are as they were before it"


def named(call: SagaCall) -> str:
    """Return the files of a call for people; an empty text where none is named."""
    return ", ".join(_before(call))


def outside(call: SagaCall) -> list[str]:
    """Return the files of a call that are not below the root, where nothing is recorded."""
    return [path for path in _before(call) if path.split(os.sep)[0] == os.pardir]


def _real(path: str) -> str:
    # A link is another file's name only if a directory is one.
    directory, name = os.path.split(os.path.abspath(path))
    return os.path.join(os.path.realpath(directory), name)


def _before(call: SagaCall) -> Mapping[str, str | None]:
    found = json_values.readable(call.intent).get("files")
    return found if isinstance(found, dict) else {}


def _image(path: str) -> str | None:
    try:
        found = os.lstat(path)
        if stat.S_ISLNK(found.st_mode):
            return f"link {os.readlink(path)!r}"
        if not stat.S_ISREG(found.st_mode) or found.st_size > _MOST_BYTES:
            return None
        fd = sqlite_files.kept(found)
        if fd is None:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        data = None
        try:
            data = os.pread(fd, _MOST_BYTES, 0)
        finally:
            sqlite_files.close(fd, os.fsencode(path), data)
        return f"{found.st_mode & 0o111:o} {digest(data)}"
    except FileNotFoundError:
        return _ABSENT
    except (OSError, ValueError):
        return None
