"""Paths that may be written below a worktree: no way out of it, and none into Git's directory.

Invariant: pure; what other file systems read as `.git` counts as `.git` too.
"""

from collections.abc import Iterator

from gitshadow.errors import StoreError
from gitshadow.model import RepoPath

_IGNORABLE = tuple(
    chr(code).encode()
    for code in (
        *range(0x200C, 0x2010),
        *range(0x202A, 0x202F),
        *range(0x206A, 0x2070),
        0xFEFF,
    )
)


class UnsafePathError(StoreError):
    """Report a path that leaves the worktree, meets a link, or names Git's own directory."""


def safe_path(path: RepoPath) -> bool:
    """Tell whether a path may be written: relative, inside, and no spelling of `.git`.

    The spellings are those of git's `verify_path` and `is_ntfs_dotgit`/`is_hfs_dotgit`
    (CVE-2014-9390, CVE-2019-1352): any case, trailing dots and spaces, `git~1`, a stream suffix,
    ignorable code points.
    """
    if not path or path.startswith(b"/") or path.find(b"\0") >= 0:
        return False
    return all(_safe_component(part) for part in path.split(b"/"))


def _safe_component(part: bytes) -> bool:
    if part in (b"", b".", b".."):
        return False
    if part.isascii() and b"git" not in part.lower():
        return True
    if b"git" not in part.lower() and not any(part.find(c) >= 0 for c in _IGNORABLE):
        return True
    for ignorable in _IGNORABLE:
        part = part.replace(ignorable, b"")
    name = part.lower().split(b":", 1)[0].split(b"\\", 1)[0].rstrip(b". ")
    return name not in (b".git", b"git~1")


def check_path(path: RepoPath) -> None:
    """Raise UnsafePathError for a path that must never be written."""
    if not safe_path(path):
        raise UnsafePathError(f"cannot use path {path!r}: it is not a safe name")


def parents(path: RepoPath) -> Iterator[RepoPath]:
    """Yield the directories above a path, outermost first."""
    at = path.find(b"/")
    while at >= 0:
        yield RepoPath(path[:at])
        at = path.find(b"/", at + 1)
