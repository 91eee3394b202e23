"""The shadow refs that a push by Git would send, and the message that stops it.

The hook's script looks for our ref names in the shell, so this runs only if there is one.
Source: githooks(5), pre-push, git 2.39: a line `<local ref> <local oid> <remote ref> <remote
oid>` for each ref, `(delete)` for the local ref of a deletion.
Invariant: a push without a shadow ref is never stopped.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from gitshadow.store.layout import Layout

REFUSED = 5
"""The exit code that stops a push; no other one does."""
NAMESPACES = ("refs/agent-undo/", "refs/remotes/agent-undo/")
_DELETED = "(delete)"
_SHOWN = 3


def guard(layout: "Layout | None", remote: str, told: bytes) -> int:
    """Refuse a push that would send shadow refs, unless the settings allow it.

    Args:
        layout: The repository; None if it is not known.
        remote: The name or the URL of the target.
        told: What git writes to the hook.

    Returns:
        `REFUSED`, or 0.
    """
    refs = shadow_refs(told)
    if not refs or not _is_on(layout):
        return 0
    print(refusal(refs, remote), file=sys.stderr)  # noqa: T201
    return REFUSED


def shadow_refs(told: bytes) -> list[str]:
    """Return the shadow refs that a push would send, as named here or there; sorted.

    Deleting a remote ref sends nothing.
    """
    found = set()
    for line in told.decode("utf-8", "backslashreplace").split("\n"):
        words = line.split(" ")
        if len(words) == 4 and words[0] != _DELETED:
            found |= {ref for ref in words[::2] if ref.startswith(NAMESPACES)}
    return sorted(found)


def refusal(refs: "Sequence[str]", remote: str) -> str:
    """Return the message: what was stopped, why, and every way to go on."""
    from gitshadow import config

    where = _said(remote)
    shown = ", ".join(map(_said, refs[:_SHOWN])) + (", …" if len(refs) > _SHOWN else "")
    what = f"{len(refs)} ref{'' if len(refs) == 1 else 's'} of the recorded history"
    return "\n".join(
        (
            f"git-agent-undo: stopped, this push would send {what} to {where}:",
            f"  {shown}",
            "They contain every recorded state of your files, including uncommitted changes.",
            f"  only your branches:    git push {where} --all",
            f"  only the sessions:     git agent-undo push {where}",
            "  to exclude them from a mirror remote: git agent-undo doctor",
            f"  this push anyway:      {config.PUSH_GUARD.env_name}=false git push …",
        )
    )


def _is_on(layout: "Layout | None") -> bool:
    """Return whether the guard is on; it is if a setting cannot be read."""
    from gitshadow import config
    from gitshadow.errors import ShadowError
    from gitshadow.store.git import Git

    values: dict[str, list[str]] = {}
    key = config.PUSH_GUARD
    try:
        if layout is not None:
            git = Git(layout, dict(os.environ))
            out = git.run("config", "-z", "--get-all", key.git_name, ok=(0, 1))
            values[key.name] = [os.fsdecode(one) for one in out.split(b"\0")[:-1]]
        environ = {n: os.environ[n] for n in key.env_names if n in os.environ}
        return config.load(values, environ).push_guard
    except ShadowError:
        return True


def _said(name: str) -> str:
    return name if name.isprintable() else ascii(name)
