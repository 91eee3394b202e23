"""Find remotes to which a plain push would send the recorded history, and exposed branches.

Invariant: nothing is changed. A remedy is a command that a person runs.
"""

import shlex
from typing import NamedTuple

from gitshadow.errors import StoreError
from gitshadow.model import Oid
from gitshadow.store.backends.ref_files import REF_PREFIX
from gitshadow.store.refs import EXPOSED_PREFIX
from gitshadow.store.remotes import sends
from gitshadow.store.repo import FORMAT_MARK, Repo


class Leak(NamedTuple):
    """One remote; `mirrors` where `remote.<name>.mirror` says so, else its refspecs do."""

    remote: str
    mirrors: bool


def leaks(repo: Repo) -> list[Leak]:
    """Return the remotes that would get our refs, by name."""
    exposed = bool(repo.refs(EXPOSED_PREFIX))
    return [
        Leak(remote, mirrors)
        for remote, (mirrors, specs) in sorted(repo.push_settings().items())
        if mirrors
        or sends(specs, REF_PREFIX)
        or (exposed and sends(specs, EXPOSED_PREFIX))
    ]


def warning(leak: Leak) -> str:
    """Return one sentence."""
    why = "it mirrors all refs" if leak.mirrors else "its push refspecs cover all refs"
    return f"a push to {leak.remote} would send the recorded history: {why}"


def remedy(leak: Leak) -> str:
    """Return what leaves our refs out and sends the others as before.

    A mirror knows no exceptions, so it becomes the refspec that it means.
    """
    key = shlex.quote(f"remote.{leak.remote}.push")
    commands = []
    if leak.mirrors:
        commands = [
            f"git config --unset-all {shlex.quote(f'remote.{leak.remote}.mirror')}",
            f"git config --add {key} '+refs/*:refs/*'",
        ]
    commands += [
        f"git config --add {key} '^{prefix}*'"
        for prefix in (REF_PREFIX, EXPOSED_PREFIX)
    ]
    if leak.mirrors:
        commands.append(
            "then push with --prune to delete from the remote what is deleted here"
        )
    return "; ".join(commands)


def is_ours(repo: Repo, tip: Oid) -> bool:
    """Return whether a commit is a shadow commit; False where it cannot be read."""
    try:
        return FORMAT_MARK in repo.commit(tip).message
    except StoreError:
        return False
