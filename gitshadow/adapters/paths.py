"""Whether the paths of a payload are in this worktree.

Invariant: pure arithmetic on bytes; callers follow links before.
"""

import posixpath

from gitshadow.model import RepoPath


def absolute(path: bytes, cwd: bytes | None, root: bytes) -> bytes:
    """Return an absolute normal path; a relative one starts at the cwd, else at the root."""
    base = cwd if cwd is not None and cwd.startswith(b"/") else root
    joined = posixpath.normpath(posixpath.join(base, path))
    # POSIX lets a system treat two leading slashes differently from one; Linux does not.
    return b"/" + joined.lstrip(b"/")


def inside(path: bytes, root: bytes) -> RepoPath | None:
    """Return the repo-relative form of an absolute normal path; None outside and for the root.

    Paths below `.git` are outside too.
    """
    prefix = root.rstrip(b"/") + b"/"
    if not path.startswith(prefix):
        return None
    relative = path[len(prefix) :]
    if not relative or relative.split(b"/", 1)[0] == b".git":
        return None
    return RepoPath(relative)


def covers(named: RepoPath, path: RepoPath) -> bool:
    """Return whether a named path is the path itself, or a directory above it."""
    return path == named or path.startswith(named + b"/")
