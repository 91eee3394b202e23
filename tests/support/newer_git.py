"""A git that runs configured hooks and packs geometrically by itself: 2.54 or newer.

`make newer-git` builds one; GITSHADOW_NEWER_GIT names the directory of another one.
"""

import os
import subprocess
from pathlib import Path

import pytest

SINCE = (2, 54)
_BUILT = Path(__file__).parents[2] / ".newer-git" / "bin"
# Read now: a running test's environment is sealed.
_NAMED = os.environ.get("GITSHADOW_NEWER_GIT")


def places() -> list[str]:
    """Return the directory of the newer git, the chosen one or else the one that was built."""
    return [one for one in (_NAMED or str(_BUILT),) if Path(one, "git").exists()]


def need_newer_git(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this test, and all that it starts, use a newer git; skip it if there is none."""
    own = os.environ["PATH"]
    for path in (*(f"{place}{os.pathsep}{own}" for place in places()), own):
        if _version(path) >= SINCE:
            monkeypatch.setenv("PATH", path)
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
