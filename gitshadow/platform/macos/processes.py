"""Processes as psutil shows them on macOS, and their ends by kqueue(2)."""

import os
import selectors
import time

from gitshadow.platform.macos.machine import end_descriptor
from gitshadow.platform.port import EndMoment
from gitshadow.platform.portable.processes import (
    COARSE_NS as COARSE_NS,
)
from gitshadow.platform.portable.processes import (
    activity as activity,
)
from gitshadow.platform.portable.processes import (
    adopts_orphans as adopts_orphans,
)
from gitshadow.platform.portable.processes import (
    children as children,
)
from gitshadow.platform.portable.processes import (
    command_line as command_line,
)
from gitshadow.platform.portable.processes import (
    counters as counters,
)
from gitshadow.platform.portable.processes import (
    directory as directory,
)
from gitshadow.platform.portable.processes import (
    environment as environment,
)
from gitshadow.platform.portable.processes import (
    executable as executable,
)
from gitshadow.platform.portable.processes import (
    holders as holders,
)
from gitshadow.platform.portable.processes import (
    own as own,
)
from gitshadow.platform.portable.processes import (
    pids as pids,
)
from gitshadow.platform.portable.processes import (
    place as place,
)
from gitshadow.platform.portable.processes import (
    started_ns as started_ns,
)
from gitshadow.platform.portable.processes import (
    stat as stat,
)
from gitshadow.platform.portable.processes import (
    table as table,
)
from gitshadow.platform.portable.processes import (
    terminals as terminals,
)
from gitshadow.platform.portable.processes import (
    work as work,
)
from gitshadow.platform.portable.processes import (
    written_files as written_files,
)


def end_of(pid: int) -> "KqueueEnd | None":
    """Return what waits for the end of a process, None where it has ended already."""
    try:
        return KqueueEnd(end_descriptor(pid))
    except OSError:
        return None


class KqueueEnd:
    """The end of a process, by a kqueue that can be read then."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def has_come(self) -> bool:
        """Return whether it has ended."""
        return self._is_readable(0)

    def wait(self) -> EndMoment:
        """Wait for it, in a thread of one's own."""
        self._is_readable(None)
        # How long this thread waited for a processor is not known, so the moment is no proof.
        return EndMoment(time.monotonic_ns(), is_late=True)

    def close(self) -> None:
        """Wait no more."""
        os.close(self._descriptor)

    def _is_readable(self, timeout_s: float | None) -> bool:
        # Not select(2): it takes no descriptor above 1023, and a daemon has more.
        with selectors.DefaultSelector() as ready:
            ready.register(self._descriptor, selectors.EVENT_READ)
            return bool(ready.select(timeout_s))
