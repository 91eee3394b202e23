"""Repositories to measure on, made the same way every time.

Invariant: everything lies in one temporary directory, with a home of its own.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_FILES_PER_DIR = 20
_BYTES = 1_500


@dataclass(frozen=True, slots=True)
class Place:
    """Hold one repository and how to run things in it."""

    root: Path
    env: dict[str, str]

    def git(self, *args: str) -> str:
        """Run git; return its output."""
        return self._run(["git", *args])

    def shadow(self, *args: str) -> str:
        """Run the installed command; return its output."""
        return self._run([program(), *args])

    def hook(self, payload: str) -> None:
        """Deliver one payload through the hook program; what it tells the agent is dropped."""
        subprocess.run(
            [program(), "hook", "claude-code"],
            input=payload.encode(),
            stdout=subprocess.DEVNULL,
            cwd=self.root,
            env=self.env,
            check=True,
        )

    @property
    def journal(self) -> Path:
        """Return the journal's path."""
        return self.root / ".git" / "agent-undo" / "journal.db"

    def _run(self, args: list[str]) -> str:
        done = subprocess.run(
            args, cwd=self.root, env=self.env, check=True, capture_output=True
        )
        return done.stdout.decode()


def program() -> str:
    """Return the console script of the interpreter that runs the benchmarks."""
    return str(Path(sys.executable).parent / "git-agent-undo")


@contextmanager
def repository(files: int) -> Iterator[Place]:
    """Make a repository with so many committed files, 20 in a directory."""
    with empty() as place:
        fill(place.root, files)
        place.git("add", "-A")
        place.git("commit", "-q", "-m", "files")
        yield place


@contextmanager
def empty() -> Iterator[Place]:
    """Make a repository without a commit; its parent directory is there for anything else."""
    top = Path(tempfile.mkdtemp(prefix="gitshadow-bench-"))
    place = Place(top / "repo", _environment(top))
    try:
        (top / "home").mkdir()
        place.root.mkdir()
        place.git("init", "-q", "-b", "main")
        yield place
    finally:
        subprocess.run(
            [program(), "stop"],
            cwd=place.root,
            env=place.env,
            check=False,
            capture_output=True,
        )
        shutil.rmtree(top, ignore_errors=True)


def fill(root: Path, files: int, salt: str = "") -> None:
    """Write files of about 1.5 KB, each with its own content."""
    for number in range(files):
        directory = (
            root
            / f"d{number // (_FILES_PER_DIR * 20):03}"
            / f"e{number // _FILES_PER_DIR:05}"
        )
        if number % _FILES_PER_DIR == 0:
            directory.mkdir(parents=True, exist_ok=True)
        line = f"{salt}{number}: the quick brown fox jumps over the lazy dog\n"
        path = directory / f"f{number:06}.txt"
        path.write_text(line * (_BYTES // len(line)), encoding="ascii")


def _environment(top: Path) -> dict[str, str]:
    kept = {
        k: v for k, v in os.environ.items() if not k.startswith(("GIT_", "GITSHADOW_"))
    }
    return kept | {
        "HOME": str(top / "home"),
        "GIT_AUTHOR_NAME": "bench",
        "GIT_AUTHOR_EMAIL": "bench@example.invalid",
        "GIT_COMMITTER_NAME": "bench",
        "GIT_COMMITTER_EMAIL": "bench@example.invalid",
    }
