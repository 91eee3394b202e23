"""Requests to the daemon.

Invariant: a missing daemon is no failure: on `UnreachableError` the caller does the work itself.
"""

import json
from collections.abc import Mapping

from gitshadow.errors import ShadowError, UnreachableError
from gitshadow.ipc import wire
from gitshadow.store.layout import Layout

CONNECT_S = 1.0
ANSWER_S = 600.0


def request(
    layout: Layout,
    verb: str,
    params: Mapping[str, object],
    timeout_s: float = ANSWER_S,
) -> dict[str, object]:
    """Run a verb in the daemon of a worktree.

    Args:
        layout: The worktree.
        verb: The engine's name of the verb.
        params: JSON values.
        timeout_s: How long to wait for the answer, seconds.

    Returns:
        The engine's document; an error is a document with `error`, `hint` and `exit`.

    Raises:
        UnreachableError: no daemon answers, or one that is about to end, because it is of
            another version or was asked to.
        ShadowError: the request is too large to be sent.
    """
    body = json.dumps(dict(params)).encode()
    try:
        sock = wire.connect(layout.wt_dir, CONNECT_S)
    except OSError as error:
        raise UnreachableError(f"no daemon answers: {error.strerror}") from error
    try:
        sock.settimeout(timeout_s)
        status, answer = wire.call(sock, verb.encode(), body)
    except wire.TooLargeError as error:
        raise ShadowError(f"could not send the request: {error}") from error
    except (OSError, wire.WireError) as error:
        raise UnreachableError(f"the daemon did not answer: {error}") from error
    finally:
        sock.close()
    if status == wire.OTHER_VERSION:
        raise UnreachableError("the daemon is from another version and is stopping")
    if status == wire.ENDING:
        raise UnreachableError("the daemon is stopping")
    try:
        document = json.loads(answer)
    except ValueError as error:
        raise UnreachableError("invalid response from the daemon") from error
    if not isinstance(document, dict):
        raise UnreachableError("invalid response from the daemon")
    return document


def ping(layout: Layout) -> int | None:
    """Return the pid of the daemon of a worktree, None if none answers.

    A daemon also answers during its first walk.
    """
    return _pid(_pong(layout))


def ready(layout: Layout) -> int | None:
    """Return the pid of the daemon of a worktree once it has done its first walk."""
    pong = _pong(layout)
    return _pid(pong) if pong.get("ready") is True else None


def _pong(layout: Layout) -> Mapping[str, object]:
    try:
        return request(layout, "ping", {}, CONNECT_S)
    except UnreachableError:
        return {}


def _pid(pong: Mapping[str, object]) -> int | None:
    pid = pong.get("pid")
    return pid if isinstance(pid, int) else None
