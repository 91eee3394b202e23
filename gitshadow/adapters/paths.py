"""Where the paths of a payload lie: in this worktree, or somewhere else.

Invariant: pure arithmetic on bytes; whoever follows links does it before.
"""

import posixpath

from gitshadow.model import RepoPath


def absolute(path: bytes, cwd: bytes | None, root: bytes) -> bytes:
    """Return a path made absolute and normal: relative to the payload's cwd, else to the root."""
    base = cwd if cwd is not None and cwd.startswith(b"/") else root
    joined = posixpath.normpath(posixpath.join(base, path))
    # POSIX keeps two leading slashes apart from one; no system of ours does.
    return b"/" + joined.lstrip(b"/")


def inside(path: bytes, root: bytes) -> RepoPath | None:
    """Return the repo-relative form of an absolute normal path; None outside and for the root.

    What lies below `.git` is outside too.
    """
    prefix = root.rstrip(b"/") + b"/"
    if not path.startswith(prefix):
        return None
    relative = path[len(prefix) :]
    if not relative or relative.split(b"/", 1)[0] == b".git":
        return None
    return RepoPath(relative)


def covers(named: RepoPath, path: RepoPath) -> bool:
    """Tell whether a named path is a path, or a directory above it."""
    return path == named or path.startswith(named + b"/")
