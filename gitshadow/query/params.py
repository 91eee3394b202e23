"""Typed reading of a verb's parameters, and of paths typed relative to where the user stands.

Invariant: a parameter of the wrong type is a UsageError that names it.
"""

import os
from collections.abc import Iterable, Mapping

from gitshadow.errors import UsageError
from gitshadow.model import RepoPath
from gitshadow.store.layout import Layout
from gitshadow.store.refs import parse_path

Params = Mapping[str, object]


def text(params: Params, name: str) -> str | None:
    """Return a string parameter, None where it is absent or null."""
    value = params.get(name)
    if value is None or isinstance(value, str):
        return value
    raise UsageError(f"cannot use {name}: expected a string")


def needed(params: Params, name: str) -> str:
    """Return a string parameter that must be there."""
    value = text(params, name)
    if value is None:
        raise UsageError(f"missing required argument: {name}")
    return value


def number(params: Params, name: str) -> int | None:
    """Return an integer parameter, None where it is absent or null."""
    value = params.get(name)
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise UsageError(f"cannot use {name}: expected a whole number")


def flag(params: Params, name: str) -> bool:
    """Return a boolean parameter, False where it is absent."""
    value = params.get(name)
    if value is None or isinstance(value, bool):
        return bool(value)
    raise UsageError(f"cannot use {name}: expected true or false")


def strings(params: Params, name: str) -> list[str]:
    """Return a list of strings, empty where it is absent."""
    value = params.get(name)
    if value is None:
        return []
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return list(value)
    raise UsageError(f"cannot use {name}: expected a list of strings")


def repo_path(layout: Layout, params: Params, typed: str) -> RepoPath:
    """Return `typed_path` of a path, from the parameter `cwd`."""
    return typed_path(layout, text(params, "cwd"), typed)


def repo_paths(layout: Layout, params: Params, name: str) -> list[RepoPath]:
    """Return a list parameter of paths as repo-relative ones."""
    return [repo_path(layout, params, typed) for typed in strings(params, name)]


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
    full = os.path.normpath(os.path.join(_real(here), parse_path(typed)))
    if full == root:
        return RepoPath(b"")
    if not full.startswith(root + b"/"):
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
    """Resolve links of a directory that need not exist any more."""
    return os.path.realpath(directory)
