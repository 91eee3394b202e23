"""The file in which a hook payload waits that no process could take when it came.

Invariant: a file is whole when it gets its name; `attribution.delivery.parse_spool` reads it. It
has what was read of the payload and nothing else, so no prompt where these are not stored.
"""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import replace

from gitshadow.adapters import event_json, registry
from gitshadow.adapters.base import BadPayload, HookEvent
from gitshadow.platform import current
from gitshadow.store.digests import keyed_digest
from gitshadow.store.git_settings import read_settings
from gitshadow.store.layout import Layout
from gitshadow.store.safe_files import check_dir

# Every repository has the second one: without it, git has given no answer.
_SETTING, _ALWAYS = "agent-undo.prompts", "core.repositoryformatversion"


def write(layout: Layout, body: bytes, name: Callable[[int], str]) -> str:
    """Write a delivery into the spool; return its path, empty if it reports nothing of interest.

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
    env = {key: value for key, _, value in markers}
    event = registry.parse(named.get("agent", "generic"), payload, env)
    if event is None:
        return ""
    is_prompt = isinstance(event, HookEvent) and event.prompt is not None
    if is_prompt and not stores_prompts(layout, {**os.environ, **env}):
        event = without_prompt(layout, event)
    document = {
        "agent": event_json.NAME,
        "cwd": named.get("cwd", "/"),
        "payload": event_json.document(event),
        "pids": named["ppids"].split(),
        "own": named.get("own", ""),
        "root": named.get("root", ""),
        "worktree": named.get("worktree", ""),
        "pid_namespace": current().machine_facts().pid_namespace(),
        "env": env,
    }
    return put(layout, document, name)


def put(
    layout: Layout, document: Mapping[str, object], name: Callable[[int], str]
) -> str:
    """Write the document of a file of the spool; return its path. As `write`."""
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


def without_prompt(
    layout: Layout, event: HookEvent | BadPayload
) -> HookEvent | BadPayload:
    """Return what was read of a payload with a digest in place of what a person asked.

    Raises:
        OSError: the key of the digest can neither be read nor made.
    """
    if isinstance(event, BadPayload) or event.prompt is None:
        return event
    digest = keyed_digest(layout, event.prompt)
    return replace(event, prompt=None, prompt_digest=digest)


def stores_prompts(layout: Layout, environ: Mapping[str, str]) -> bool:
    """Return whether prompts may be stored; not if the setting cannot be read."""
    # Only prompts pay for the import and for git.
    from gitshadow import config

    found = read_settings(layout, os.environ, (_SETTING, _ALWAYS))
    return _ALWAYS in found and config.stores_prompts(found.get(_SETTING), environ)
