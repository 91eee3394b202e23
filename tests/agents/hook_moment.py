"""Writes down the moment at which an agent calls a hook: `hook_moment.py DIRECTORY REPO PID`.

It runs before the hook itself, so the files that it finds are those that the agent has written
until then. Only the standard library: it must start fast, on any interpreter.
"""

import json
import os
import sys


def main(directory: str, repo: str, pid: str) -> None:
    """Write environment, ancestors and working tree to `moment.json`."""
    moment = {
        "environment": dict(os.environ),
        "ancestors": list(_ancestors(int(pid))),
        "files": files(repo),
    }
    with open(os.path.join(directory, "moment.json"), "w", encoding="utf-8") as stream:
        json.dump(moment, stream)


def files(repo: str) -> dict[str, tuple[int, str]]:
    """Return inode and text of each file of a working tree by its path."""
    found = {}
    for top, directories, names in os.walk(repo):
        if ".git" in directories:
            directories.remove(".git")
        for name in names:
            path = os.path.join(top, name)
            try:
                with open(path, encoding="utf-8", errors="surrogateescape") as stream:
                    inode = os.fstat(stream.fileno()).st_ino
                    found[os.path.relpath(path, repo)] = (inode, stream.read())
            except OSError:
                continue  # it was renamed at this moment
    return found


def _ancestors(pid: int):  # type: ignore[no-untyped-def]
    """Yield name and arguments of a process and of those above it; proc(5)."""
    while pid > 1:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stream:
            head, _, tail = stream.read().rpartition(")")
        with open(f"/proc/{pid}/cmdline", encoding="utf-8") as stream:
            arguments = stream.read().split("\0")[:-1]
        yield {
            "pid": pid,
            "name": head.partition("(")[2],
            "arguments": arguments,
        }
        pid = int(tail.split()[1])


if __name__ == "__main__":
    main(*sys.argv[1:])
