"""The paths and targets of a request, relative to the user's current directory."""

import os
from collections.abc import Iterable

from gitshadow.errors import UsageError
from gitshadow.model import RepoPath
from gitshadow.store.directories import Directories
from gitshadow.store.layout import Layout
from gitshadow.store.refs import parse_path
from gitshadow.store.spelling import Spelling, below_root
from gitshadow.undo.plan import PathFilter
from gitshadow.undo.targets import Target, addressed_files


def typed_path(layout: Layout, cwd: str | None, typed: str) -> RepoPath:
    """Return the repo-relative path of a typed path.

    Args:
        layout: The worktree.
        cwd: The user's directory, absolute or below the top; None: the top of the worktree.
        typed: As typed or as our own output spells it.

    Raises:
        UsageError: the path is empty, contains NUL, or is outside the worktree.
    """
    # An unset variable of a script must not mean the whole worktree; Git refuses it, too.
    if not typed:
        raise UsageError("cannot use an empty path or id", hint="for all files: .")
    name = parse_path(typed)
    if b"\0" in name:
        raise UsageError(
            f"cannot use {typed}: no path has a NUL byte in it",
            hint="a path in double quotes is read as Git quotes it",
        )
    root = os.fsencode(layout.root)
    here = os.path.join(root, parse_path(cwd)) if cwd else root
    # Only the directory is resolved: a link that is typed is meant itself, not what it points to.
    full = os.path.normpath(os.path.join(_real(here), name))
    if full == root:
        return RepoPath(b"")
    if not full.startswith(root + b"/"):
        # An absolute path may lead into the worktree through a link, or another spelling of it.
        real = os.path.join(_real(os.path.dirname(full)), os.path.basename(full))
        real = below_root(real, root)
        if not real.startswith(root + b"/"):
            raise UsageError(f"cannot use {typed}: outside {layout.root}")
        full = real
    # Where the file system folds names, a file may be typed in a spelling that is not its own.
    path = RepoPath(full[len(root) + 1 :])
    return Directories(root, Spelling()).spelled(path)


def typed_paths(
    layout: Layout, cwd: str | None, typed: Iterable[str]
) -> tuple[RepoPath, ...]:
    """Return `typed_path` of each path."""
    return tuple(typed_path(layout, cwd, each) for each in typed)


def typed_unit(
    layout: Layout,
    cwd: str | None,
    typed: Iterable[tuple[str, bool]],
    only: Iterable[str],
    except_: Iterable[str],
) -> tuple[tuple[Target, ...], PathFilter]:
    """Return the targets of a request, and the paths to which they are limited.

    Args:
        layout: The worktree.
        cwd: The user's directory; None: the top of the worktree.
        typed: Each word, and whether it is always a path.
        only: Paths as typed; empty: all.
        except_: Paths as typed.

    Raises:
        UsageError: a path is outside the worktree, a word is empty, or `last:FILE` is not alone.
    """
    targets: list[Target] = []
    for text, path_only in typed:
        try:
            path = typed_path(layout, cwd, text)
        except UsageError:
            if not text:
                raise
            path = None
        targets.append(Target(text, path, path_only))
    files = addressed_files([one.text for one in targets if not one.path_only])
    chosen = typed_paths(layout, cwd, only)
    if files and chosen:
        raise UsageError(
            f"cannot combine {targets[0].text} with --only: it means one file"
        )
    return tuple(targets), PathFilter(
        files or chosen, typed_paths(layout, cwd, except_)
    )


def _real(directory: bytes) -> bytes:
    """Resolve the links of a directory."""
    # It need not exist any more: a deleted file can be restored from a deleted directory.
    return os.path.realpath(directory)
