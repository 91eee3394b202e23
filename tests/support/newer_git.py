"""A git that runs configured hooks and packs geometrically by itself: 2.54 or newer.

`make newer-git` builds one; GITSHADOW_NEWER_GIT names the directory of any other.
"""

import os
import subprocess
from pathlib import Path

import pytest

SINCE = (2, 54)
_BUILT = Path(__file__).parents[2] / ".newer-git" / "bin"
# Read now: a running test's environment is sealed.
_NAMED = os.environ.get("GITSHADOW_NEWER_GIT")


def need_newer_git(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this test, and all that it starts, use a newer git; skip it if there is none."""
    for place in (_NAMED, str(_BUILT), None):
        path = os.environ["PATH"]
        beginning = path if place is None else f"{place}{os.pathsep}{path}"
        if (place is None or Path(place, "git").exists()) and _version(
            beginning
        ) >= SINCE:
            monkeypatch.setenv("PATH", beginning)
            return
    pytest.skip(
        "git is older than 2.54 here: make newer-git, or GITSHADOW_NEWER_GIT=DIR"
    )


def _version(path: str) -> tuple[int, ...]:
    found = subprocess.run(
        ["git", "version"],
        env={"PATH": path},
        capture_output=True,
        check=True,
        text=True,
    )
    return tuple(int(part) for part in found.stdout.split()[2].split(".")[:2])
