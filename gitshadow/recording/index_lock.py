"""Whether a git command is rewriting the working tree at this moment.

A checkout writes its files first and moves HEAD last; recording in between would blame the switch
on somebody. Git holds `index.lock` open all that time.
Invariant: a lock file that nobody holds open is stale and holds nobody up.
"""

import os

_LOCK = "index.lock"


def lock_exists(git_dir: str) -> bool:
    """Tell whether the worktree's index is locked, by a living process or not."""
    return os.path.exists(os.path.join(git_dir, _LOCK))


def lock_is_held(git_dir: str) -> bool:
    """Tell whether a process that we may look at holds the index lock open."""
    path = os.path.join(git_dir, _LOCK)
    return any(pid.isdigit() and _holds(pid, path) for pid in os.listdir("/proc"))


def _holds(pid: str, path: str) -> bool:
    directory = f"/proc/{pid}/fd"
    try:
        fds = os.listdir(directory)
    except OSError:
        return False
    for fd in fds:
        try:
            if os.readlink(f"{directory}/{fd}") == path:
                return True
        except OSError:
            continue
    return False
