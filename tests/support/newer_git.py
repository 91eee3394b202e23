"""A git that runs configured hooks and packs geometrically by itself: 2.54 or newer.

Where it is built with Rust, it also keeps a second id of each object.
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


def need_two_formats(monkeypatch: pytest.MonkeyPatch, top: Path) -> None:
    """As `need_newer_git`, for one that knows `extensions.compatObjectFormat`; uses a directory."""
    own = os.environ["PATH"]
    tried = top / "two-formats"
    subprocess.run(
        ["git", "init", "-q", "--object-format=sha256", tried],
        env=os.environ,
        check=True,
    )
    with (tried / ".git" / "config").open("a") as config:
        config.write("[extensions]\n\tcompatObjectFormat = sha1\n")
    for path in (own, *(f"{place}{os.pathsep}{own}" for place in places())):
        done = subprocess.run(
            ["git", "status"],
            cwd=tried,
            env={**os.environ, "PATH": path},
            capture_output=True,
            check=False,
        )
        if done.returncode == 0:
            monkeypatch.setenv("PATH", path)
            return
    pytest.skip(
        "no git here is built with Rust: make newer-git where cargo is,"
        " or GITSHADOW_NEWER_GIT=DIR"
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
