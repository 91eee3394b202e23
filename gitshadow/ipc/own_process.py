"""The process that a person or an agent started: this one, or the one that it stands in for."""

import os
from contextvars import ContextVar

from gitshadow.platform import current

_CLIENT: ContextVar[int | None] = ContextVar("client", default=None)


def pid() -> int:
    """Return the pid of the command, as its parent and its descendants know it."""
    return _CLIENT.get() or os.getpid()


def parent() -> int | None:
    """Return the pid of what started the command; None where it has just ended."""
    client = _CLIENT.get()
    if client is None:
        return os.getppid()
    found = current().process_facts().stat(client)
    return None if found is None else found.parent


def stand_in_for(client: int) -> None:
    """Note that this process runs a command for another one, until it ends."""
    _CLIENT.set(client)
