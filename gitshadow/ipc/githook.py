"""The program of Git's own hooks: it reports to the daemon, or does the work itself.

A commit runs several of them, and a person waits for each: no third-party package is imported.
Invariant: it exits 0 and never waits long. Git must go on after any error, and a commit must not
fail because of us. Only a push of shadow refs is refused, with a message.
"""

import os
import sys

from gitshadow.ipc import own_process
from gitshadow.store.layout import Layout, discover

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Params = Mapping[str, object]
    Tell = Callable[[Layout, Params], object]

MANAGED = "--from-pre-commit"
CHAINED = "--chained"
BESIDE = "--beside"
_ANSWER_S = 10.0
_FALSE = ("false", "no", "off", "0", "")
"""The values that mean false to Git (git-config(1))."""
_PUSH = "pre-push"
_MESSAGES = ("prepare-commit-msg", "commit-msg")
_WITH_INPUT = ("post-rewrite", _PUSH, "reference-transaction")
_MANAGED_EVENTS = (
    ("PRE_COMMIT_CHECKOUT_TYPE", "post-checkout"),
    ("PRE_COMMIT_IS_SQUASH_MERGE", "post-merge"),
    ("PRE_COMMIT_REWRITE_COMMAND", "post-rewrite"),
)
"""Variables that pre-commit sets for one stage alone (pre_commit/commands/run.py, 4.7)."""


def main(arguments: list[str], in_process: "Tell") -> int:
    """Report one call of a Git hook.

    Args:
        arguments: The hook's name and what Git gave it; or `--from-pre-commit`, where the
            name may be missing: the pre-commit framework passes variables, no arguments.
            `--chained`: the caller runs another hook after us, then reports `hooks-done`.
            `--beside`: Git may run other hooks of this event after us.
        in_process: Does the work in this process if no daemon answers.

    Returns:
        0, whatever is wrong; `pushguard.REFUSED` for a push that would send shadow refs.
    """
    managed = MANAGED in arguments
    flags = {"managed": MANAGED, "chained": CHAINED, "beside": BESIDE}
    told = {name: flag in arguments for name, flag in flags.items()}
    words = [word for word in arguments if word not in flags.values()]
    event = words[0] if words else _managed_event()
    try:
        read = event in _WITH_INPUT and not managed
        given = _read_all() if read else b""
        if event == _PUSH:
            return _guard(words[1:2], given)
        if _is_of_interest(event, words):
            _tell({"event": event, **told, **_message(event, words)}, in_process)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - never stop git
        # A terminal shows this: no control characters.
        print(f"git-agent-undo: {str(error)!a}", file=sys.stderr)  # noqa: T201
    return 0


def _managed_event() -> str:
    for name, event in _MANAGED_EVENTS:
        if name in os.environ:
            return event
    return "post-commit"


def _is_of_interest(event: str, words: list[str]) -> bool:
    """Return whether a call matters: calls by our own git or of unfinished updates do not."""
    if os.environ.get("GITSHADOW_INTERNAL") or _is_off():
        return False
    if os.environ.get("_PRE_COMMIT_SKIP_POST_CHECKOUT"):
        # pre-commit hides uncommitted changes while its hooks run; its own window is open.
        return False
    return event != "reference-transaction" or words[1:2] == ["committed"]


def _message(event: str, words: list[str]) -> "Params":
    """Return which message is being written, why, and from which index the commit is made."""
    if event not in _MESSAGES or len(words) < 2:
        return {}
    index = os.environ.get("GIT_INDEX_FILE")
    return {
        "message": os.path.abspath(words[1]),
        "source": words[2] if len(words) > 2 else "",
        "index": None if index is None else os.path.abspath(index),
    }


def _is_off() -> bool:
    """Return whether the environment switches recording off."""
    return os.environ.get("GITSHADOW_ENABLED", "true").lower() in _FALSE


def _tell(params: "Params", in_process: "Tell") -> None:
    """Report a call if the repository was initialised."""
    # Git gives its hooks GIT_DIR and GIT_INDEX_FILE, which may be of another worktree, or of an
    # index that only this commit uses.
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        del os.environ[name]
    layout = discover(os.getcwd())
    if layout is None or not layout.initialised:
        return
    if params["event"] == _MESSAGES[1] and not os.path.exists(layout.trailers):
        # Trailers are off, or there are none: a commit pays for this check only.
        return
    full = {**params, "pid": own_process.parent()}
    from gitshadow.errors import LockedError, ShadowError, UnreachableError
    from gitshadow.ipc import client

    try:
        document = client.request(layout, "git_hook", full, _ANSWER_S)
    except UnreachableError:
        try:
            in_process(layout, full)
        except LockedError:
            # The process that has the lock records what there is.
            return
    else:
        if "error" in document:
            raise ShadowError(str(document["error"]))


def _guard(remote: list[str], given: bytes) -> int:
    """Return the exit code for a push; one by our own git was checked before."""
    if os.environ.get("GITSHADOW_INTERNAL"):
        return 0
    from gitshadow.ipc import pushguard

    where = remote[0] if remote else "the remote"
    return pushguard.guard(discover(os.getcwd()), where, given)


def _read_all() -> bytes:
    """Read standard input to its end: for git, a broken pipe is a failed hook."""
    parts = []
    while part := os.read(0, 1 << 16):
        parts.append(part)
    return b"".join(parts)
