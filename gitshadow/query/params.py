"""The paths that a request names, relative to the user's current directory."""

import os
from collections.abc import Iterable

from gitshadow.errors import UsageError
from gitshadow.model import RepoPath
from gitshadow.store.layout import Layout
from gitshadow.store.refs import parse_path


def typed_path(layout: Layout, cwd: str | None, typed: str) -> RepoPath:
    """Return the repo-relative path of a typed path.

    Args:
        layout: The worktree.
        cwd: The user's directory; None: the top of the worktree.
        typed: As typed or as our own output spells it.

    Raises:
        UsageError: the path is outside the worktree.
    """
    here = parse_path(cwd) if cwd else os.fsencode(layout.root)
    root = os.fsencode(layout.root)
    # Only the directory is resolved: a link that is typed is meant itself, not what it points to.
    full = os.path.normpath(os.path.join(_real(here), parse_path(typed)))
    if full == root:
        return RepoPath(b"")
    if not full.startswith(root + b"/"):
        # An absolute path may lead into the worktree through a link.
        real = os.path.join(_real(os.path.dirname(full)), os.path.basename(full))
        if not real.startswith(root + b"/"):
            raise UsageError(f"cannot use {typed}: outside {layout.root}")
        full = real
    return RepoPath(full[len(root) + 1 :])


def typed_paths(
    layout: Layout, cwd: str | None, typed: Iterable[str]
) -> tuple[RepoPath, ...]:
    """Return `typed_path` of each path."""
    return tuple(typed_path(layout, cwd, each) for each in typed)


def _real(directory: bytes) -> bytes:
    """Resolve the links of a directory."""
    # It need not exist any more: a deleted file can be restored from a deleted directory.
    return os.path.realpath(directory)
