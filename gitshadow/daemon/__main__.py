"""`python -m gitshadow.daemon ROOT STOPS`: go into the background and serve one worktree.

`STOPS` is what `launch.stops` was when it was asked for. With `--init` (and `--force`, if `init`
had it) the repository may be one of which nothing is recorded yet.

Invariant: nothing heavy is imported before it is known that no other daemon is there.
"""

import os
import sys
import time

from gitshadow.errors import LockedError
from gitshadow.ipc import launch, wire
from gitshadow.store.layout import Layout, discover
from gitshadow.store.lock import WriterLock

_TURN_S = 20.0
_PAUSE_S = 0.05


def main() -> int:
    """Fork, so that the process that started this one need not wait, and serve."""
    root, stops, *options = sys.argv[1:]
    layout = discover(root)
    if layout is None or not (layout.initialised or options):
        return 1
    if os.fork() > 0:
        os._exit(0)
    if not _is_wanted(layout):
        return 0
    if options:
        from gitshadow.maintenance import setup

        # The command that waits for us does it itself where we end, and says why it cannot.
        if not setup.prepare(layout, os.environ, force="--force" in options):
            return 0
        log = launch.open_log(layout)
        os.dup2(log, sys.stderr.fileno())
        os.close(log)
    from gitshadow.daemon import server

    return server.run(layout, stops)


def _is_wanted(layout: Layout) -> bool:
    """Wait while a command records; False where a daemon has the lock already."""
    deadline = time.monotonic() + _TURN_S
    while not _is_free(layout):
        try:
            wire.connect(layout.wt_dir, _PAUSE_S).close()
        except OSError:
            if time.monotonic() > deadline:
                return False
            time.sleep(_PAUSE_S)
        else:
            return False
    return True


def _is_free(layout: Layout) -> bool:
    if not os.path.isdir(layout.wt_dir):
        return True
    lock = WriterLock(layout.lock)
    try:
        lock.acquire(0)
    except LockedError:
        return False
    lock.release()
    return True


if __name__ == "__main__":
    sys.exit(main())
