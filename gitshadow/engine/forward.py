"""Hook deliveries that are about another repository too: left in its spool.

Invariant: only a repository that was initialised gets anything; the payload goes on unchanged.
"""

import json
import os
import time
from collections.abc import Iterable

from gitshadow.attribution.delivery import HookDelivery
from gitshadow.store.layout import Layout, discover


def forward(here: Layout, delivery: HookDelivery, paths: Iterable[bytes]) -> None:
    """Leave a delivery in the spool of every other initialised worktree that it names."""
    found = (discover(os.fsdecode(os.path.dirname(path))) for path in paths)
    others = {one.root: one for one in found if one is not None and one.initialised}
    for root, layout in others.items():
        if root != here.root:
            _spool(layout, delivery)


def _spool(layout: Layout, delivery: HookDelivery) -> None:
    """Write a spool file; the rename gives it a ctime of this moment."""
    stamp = f"{time.time_ns()}-{os.getpid()}"
    path = os.path.join(layout.spool_dir, f"{stamp}.json")
    document = {
        "agent": delivery.agent,
        "cwd": delivery.cwd,
        "payload": delivery.payload.decode("utf-8", "surrogateescape"),
        "pids": [f"{one.pid}/{one.started}" for one in delivery.pids],
        "env": dict(delivery.env),
    }
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    fd = os.open(path + ".part", flags, 0o600)
    try:
        os.write(fd, json.dumps(document).encode("ascii"))
        os.fstat(fd)
    finally:
        os.close(fd)
    os.rename(path + ".part", path)
