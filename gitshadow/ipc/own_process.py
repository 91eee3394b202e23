"""The process that a person or an agent started: this one, or the one that it stands in for."""

import os

from gitshadow.platform import current

_CLIENT: list[int] = []
"""The process that this one stands in for, if there is one."""


def pid() -> int:
    """Return the pid of the command, as its parent and its descendants know it."""
    return _CLIENT[0] if _CLIENT else os.getpid()


def parent() -> int | None:
    """Return the pid of what started the command; None where it has just ended."""
    if not _CLIENT:
        return os.getppid()
    found = current().process_facts().stat(_CLIENT[0])
    return None if found is None else found.parent


def stand_in_for(client: int) -> None:
    """Note that this process runs a command for another one, until it ends."""
    _CLIENT[:] = [client]
