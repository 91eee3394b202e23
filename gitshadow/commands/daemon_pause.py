"""Standstill: what replaces the journal runs while no daemon has it open.

Invariant: a daemon that ran before runs again afterwards, however that ended.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from gitshadow.commands.client import find_layout
from gitshadow.store.layout import recorded


@contextmanager
def standstill() -> Iterator[None]:
    """Stop the daemons of this repository for a block."""
    from gitshadow.ipc import launch

    stopped = [one for one in recorded(find_layout()) if launch.stop(one)]
    try:
        yield
    finally:
        for layout in stopped:
            launch.start(layout)
