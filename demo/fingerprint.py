"""What a directory holds, a line for each entry: kind, exact mode, SHA-256 or target, name.

    fingerprint.py ROOT

The Git directory is left out. Two directories are the same, byte for byte and mode for mode,
exactly where their lines are.
"""

import hashlib
import os
import sys


def lines(root: bytes) -> list[str]:
    """Return the sorted lines of a directory and all below it."""
    found: list[str] = []
    for top, directories, names in os.walk(root):
        if top == root and b".git" in directories:
            directories.remove(b".git")
        for name in directories + names:
            path = os.path.join(top, name)
            found.append(f"{os.path.relpath(path, root)!r} {_content(path)}")
    return sorted(found)


def _content(path: bytes) -> str:
    mode = os.lstat(path).st_mode
    if os.path.islink(path):
        return f"link {os.readlink(path)!r}"
    if os.path.isdir(path):
        return "directory"
    if not os.path.isfile(path):
        return f"other {mode:06o}"
    with open(path, "rb") as stream:
        return f"{mode:06o} {hashlib.file_digest(stream, 'sha256').hexdigest()}"


if __name__ == "__main__":
    print("\n".join(lines(os.fsencode(sys.argv[1]))))
