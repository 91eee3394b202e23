"""What is asked of a kernel that reports who wrote, and what it answers.

Root's service on Linux runs with this module and those beside it alone, so it imports nothing else.
"""

import contextlib
import os
from collections.abc import Iterator, Sequence
from enum import IntFlag
from typing import NamedTuple

ProcessKey = tuple[int, int]
"""A pid, and the start of that process; in the unit of `ProcessId.started`."""


class FileAction(IntFlag):
    """What a process did; the values are those that Linux reports."""

    MODIFIED = 0x2
    ATTRIBUTES = 0x4
    CLOSED_AFTER_WRITING = 0x8
    CREATED = 0x100
    DELETED = 0x200
    RENAMED = 0x1000_0000
    DIRECTORY = 0x4000_0000


_CONTENT = (
    FileAction.MODIFIED
    | FileAction.CLOSED_AFTER_WRITING
    | FileAction.CREATED
    | FileAction.DELETED
    | FileAction.RENAMED
)


class WitnessGoneError(Exception):
    """Nothing more is reported: nobody reads the kernel's reports any more."""


class WriterQuery(NamedTuple):
    """What is asked: who changed a path since a moment.

    `places` are open directories with names in them, from the top of the worktree down; the last
    one is the path. `agents` are the processes that writers may have been started by. `has_moved`
    is set if another file, or none, is at the path by now: then all files are meant that had this
    name since that moment.
    """

    places: Sequence[tuple[int, bytes]]
    agents: Sequence[ProcessKey]
    since_ns: int
    has_moved: bool = False


class WriterReport(NamedTuple):
    """One process that changed a path.

    `agent` is the index of the nearest asked agent above it, or that it is itself; None where it
    is below none. `tool_ns` is when the process right below the agent started, None where the
    agent itself wrote. `is_sure` is False where its ancestors are not known well enough.
    """

    pid: int
    name: str
    change: FileAction
    agent: int | None
    tool_ns: int | None
    is_sure: bool

    @property
    def has_content(self) -> bool:
        """Return whether it may have changed what the file contains, or where it is."""
        return bool(self.change & _CONTENT)


class WriterAnswer(NamedTuple):
    """The processes that changed a path, if the time since `covered_since_ns` is enough."""

    covered_since_ns: int
    reports: tuple[WriterReport, ...]


@contextlib.contextmanager
def opened(top: int, path: bytes) -> Iterator[tuple[tuple[int, bytes], ...]]:
    """Open the directories above a path, following no link, to ask about it.

    Raises:
        OSError: one of them is gone, or is a link.
    """
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    places, here = list[tuple[int, bytes]](), top
    with contextlib.ExitStack() as stack:
        *above, name = path.split(b"/")
        for part in above:
            places.append((here, part))
            here = os.open(part, flags, dir_fd=here)
            stack.callback(os.close, here)
        yield (*places, (here, name))
