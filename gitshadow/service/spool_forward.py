"""Hook deliveries that are about another worktree too: left in its spool.

Invariant: only a repository that was initialised gets anything; the payload goes on unchanged,
with the time at which it came.
"""

import json
import os
from collections.abc import Iterable
from contextlib import suppress

from gitshadow.attribution.delivery import HookDelivery
from gitshadow.recording.spool import name_for
from gitshadow.store.layout import Layout, discover
from gitshadow.store.private import check_dir


def others(here: Layout, paths: Iterable[bytes]) -> tuple[Layout, ...]:
    """Return the other initialised worktrees in which some absolute paths lie."""
    found = (discover(os.fsdecode(os.path.dirname(path))) for path in paths)
    known = {one.root: one for one in found if one is not None and one.initialised}
    return tuple(one for root, one in known.items() if root != here.root)


def forward(layout: Layout, delivery: HookDelivery) -> None:
    """Leave a delivery in the spool of another worktree, for its next barrier or write.

    Raises:
        OSError: it could not be written.
        StoreError: its spool is a link.
    """
    document = {
        "agent": delivery.agent,
        "cwd": delivery.cwd,
        "payload": delivery.payload.decode("utf-8", "surrogateescape"),
        "pids": [f"{one.pid}/{one.started}" for one in delivery.pids],
        "own": "" if delivery.own is None else "/".join(map(str, delivery.own)),
        "env": dict(delivery.env),
    }
    check_dir(layout, "spool")
    part = os.path.join(layout.spool_dir, f"{os.getpid()}-{id(delivery)}.part")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        with open(os.open(part, flags, 0o600), "wb") as out:
            out.write(json.dumps(document).encode("ascii"))
        at_ns = delivery.at_ns or os.stat(part).st_ctime_ns
        os.rename(part, _free_name(layout, at_ns))
    except OSError:
        with suppress(OSError):
            os.unlink(part)
        raise


def _free_name(layout: Layout, at_ns: int) -> str:
    """Return a path in the spool that says whose it is and when it came; the clock is coarse."""
    number = os.getpid()
    while True:
        name = name_for(layout.worktree, at_ns, str(number))
        path = os.path.join(layout.spool_dir, name)
        if not os.path.lexists(path):
            return path
        number += 1
