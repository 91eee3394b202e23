"""The one way to ask a worktree: the daemon if one answers, else this process.

Invariant: the engine (and pygit2, sqlite3 with it) is imported only when no daemon answers.
"""

import time

from gitshadow.errors import LockedError, UnreachableError
from gitshadow.messages.codec import JsonObject, Params
from gitshadow.store.layout import Layout

_LOCK_S = 20.0
_LOCK_TURN_S = 0.25


def answer(layout: Layout, verb: str, params: Params) -> JsonObject:
    """Ask the daemon, else do it here; who has the lock may be a daemon about to answer.

    Returns:
        The verb's document; a daemon gives an error as one (`error`, `hint`, `exit`).

    Raises:
        LockedError: another process is at work for too long; nothing was done.
        ShadowError: what the verb raised in this process.
    """
    from gitshadow.ipc import client

    deadline = time.monotonic() + _LOCK_S
    while True:
        try:
            return client.request(layout, verb, params)
        except UnreachableError:
            from gitshadow.service import in_process
        try:
            return in_process.run(layout, verb, params, lock_timeout_s=_LOCK_TURN_S)
        except LockedError:
            if time.monotonic() > deadline:
                raise
