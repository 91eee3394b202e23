"""The file in which a hook payload waits that no process could take when it came.

Invariant: a file is whole when it gets its name; `attribution.delivery.parse_spool` reads it. It
has no text of a prompt where the settings say that prompts are not stored.
"""

import json
import os

from gitshadow import config
from gitshadow.errors import ShadowError
from gitshadow.platform import current
from gitshadow.store.digests import keyed_digest
from gitshadow.store.git import Git
from gitshadow.store.safe_files import check_dir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from gitshadow.store.layout import Layout

_ASKED = frozenset(
    {
        *("prompt", "user_prompt", "userPrompt", "submitted_prompt", "initialPrompt"),
        *("initial_prompt", "message", "last_assistant_message", "prompt_response"),
        "parts",
    }
)
"""The keys below which agents send what a person asked, or quote it."""
_KEPT = frozenset({"type", "id", "role", "synthetic", "messageID", "sessionID"})
"""Of a prompt in parts, the keys that say what a part is."""
_UNREADABLE = '{"unreadable": true}'


def write(layout: "Layout", body: bytes, name: "Callable[[int], str]") -> str:
    """Write a delivery into the spool; return its path.

    Args:
        layout: The worktree.
        body: The delivery in the form of a request to the daemon.
        name: Returns the name of the file, given the time of its content in the clock of the
            file system. The rename to that name stamps the file with the present time.

    Raises:
        OSError: it could not be written.
        StoreError: the spool is a link.
    """
    head, _, payload = body.partition(b"\n\n")
    lines = [line.partition(": ") for line in os.fsdecode(head).split("\n")]
    named = {key: value for key, _, value in lines}
    markers = [value.partition("=") for key, _, value in lines if key == "env"]
    text = payload.decode("utf-8", "surrogateescape")
    if not _stores_prompts(layout):
        text = _without_prompts(layout, text)
    document = {
        "agent": named.get("agent", "generic"),
        "cwd": named.get("cwd", "/"),
        # Bytes that are not UTF-8 become escapes in the file; the reader restores them.
        "payload": text,
        "pids": named["ppids"].split(),
        "own": named.get("own", ""),
        "root": named.get("root", ""),
        "worktree": named.get("worktree", ""),
        "pid_namespace": current().machine_facts().pid_namespace(),
        "env": {key: value for key, _, value in markers},
    }
    check_dir(layout, "spool")
    part = os.path.join(layout.spool_dir, f"{os.getpid()}-{id(document)}.part")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    fd = os.open(part, flags, 0o600)
    try:
        with open(fd, "wb") as out:
            out.write(json.dumps(document).encode("ascii"))
        path = os.path.join(layout.spool_dir, name(os.stat(part).st_ctime_ns))
        os.rename(part, path)
    except OSError:
        os.unlink(part)
        raise
    return path


def _stores_prompts(layout: "Layout") -> bool:
    """Return whether prompts may be stored; not if a setting cannot be read."""
    try:
        values = Git(layout, dict(os.environ)).settings("agent-undo")
        return config.load(values, os.environ).prompts is not config.PromptPolicy.OFF
    except ShadowError:
        return False


def _without_prompts(layout: "Layout", payload: str) -> str:
    """Return a payload with digests in place of what a person asked."""
    try:
        found = json.loads(payload, strict=False)
    except (ValueError, RecursionError):
        # Nobody can tell where in it a prompt may be.
        return _UNREADABLE
    return json.dumps(_replaced(layout, found, is_asked=False))


def _replaced(layout: "Layout", value: object, *, is_asked: bool) -> object:
    if isinstance(value, str):
        return keyed_digest(layout, value) if is_asked and value else value
    if isinstance(value, list):
        return [_replaced(layout, one, is_asked=is_asked) for one in value]
    if isinstance(value, dict):
        return {
            key: _replaced(
                layout,
                one,
                is_asked=key in _ASKED or (is_asked and key not in _KEPT),
            )
            for key, one in value.items()
        }
    return value
