"""Repositories to measure on, made the same way every time.

Invariant: everything lies in one temporary directory, with a home of its own.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_WAIT_S = 60.0
_FILES_PER_DIR = 20
_BYTES = 1_500
_BUILT = (
    "a",
    "bin",
    "bz2",
    "cover",
    "dtb",
    "elf",
    "gz",
    "i",
    "ko",
    "o",
    "order",
    "s",
    "so",
)


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

    @property
    def server(self) -> int | None:
        """Return the process of the command server, None where none runs."""
        run = Path(self.env["XDG_RUNTIME_DIR"])
        found = list(run.glob("gitshadow/*/sock"))
        return int((found[0].parent / "lock").read_text()) if found else None

    def start_server(self) -> None:
        """Start the command server, where something is recorded; return when it is at rest."""
        self.shadow("status")
        end = time.monotonic() + _WAIT_S
        while self.server is None:
            if time.monotonic() > end:
                raise RuntimeError("no command server was started")
            time.sleep(0.01)
        time.sleep(0.5)

    def end_server(self) -> None:
        """End the command server, and everything that it keeps ready; daemons go on."""
        pid = self.server
        if pid is None:
            return
        os.kill(pid, signal.SIGKILL)
        while Path(f"/proc/{pid}").exists():
            time.sleep(0.01)
        for socket in Path(self.env["XDG_RUNTIME_DIR"]).glob("gitshadow/*/sock"):
            socket.unlink()

    def forget(self) -> None:
        """Stop to record, and forget all that was recorded."""
        self.shadow("stop")
        refs = self.git("for-each-ref", "--format=%(refname)", "refs/agent-undo")
        for ref in refs.split():
            self.git("update-ref", "-d", ref)
        shutil.rmtree(self.root / ".git" / "agent-undo")

    def _run(self, args: list[str]) -> str:
        done = subprocess.run(
            args, cwd=self.root, env=self.env, check=True, capture_output=True
        )
        return done.stdout.decode()


def program() -> str:
    """Return the console script of the interpreter that runs the benchmarks."""
    return str(Path(sys.executable).parent / "git-agent-undo")


@contextmanager
def repository(files: int, made: Mapping[str, str] | None = None) -> Iterator[Place]:
    """Make a repository with so many committed files, 20 in a directory.

    `made` is what else is in the environment of each program that runs in it.
    """
    with empty(made) as place:
        fill(place.root, files)
        place.git("add", "-A")
        place.git("commit", "-q", "-m", "files")
        yield place


@contextmanager
def empty(made: Mapping[str, str] | None = None) -> Iterator[Place]:
    """Make a repository without a commit; its parent directory is there for anything else.

    Commands run as they do for a person: the command server is up.
    """
    top = Path(tempfile.mkdtemp(prefix="gitshadow-bench-"))
    place = Place(top / "repo", _environment(top) | dict(made or {}))
    try:
        (top / "home").mkdir()
        place.root.mkdir()
        place.git("init", "-q", "-b", "main")
        # What Git tidies up after a commit is over before anything is timed.
        place.git("config", "gc.autoDetach", "false")
        if place.env.get("GITSHADOW_SERVER") != "off":
            place.shadow("init")
            place.start_server()
            place.forget()
        yield place
    finally:
        subprocess.run(
            [program(), "stop"],
            cwd=place.root,
            env=place.env,
            check=False,
            capture_output=True,
        )
        place.end_server()
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


def fill_like_linux(root: Path, scale: float) -> int:
    """Write 85,000 files into 5,600 directories, with rules as the kernel has; return how many."""
    chance = random.Random(6)
    (root / ".gitignore").write_text(
        "".join(f"*.{one}\n" for one in _BUILT) + "/vmlinux\n/tags\n!.gitignore\n.*\n"
    )
    (root / ".gitattributes").write_text("*.c diff=cpp\n*.h diff=cpp\n*.dts diff=dts\n")
    text = "".join(f"\tline {at} of a source file;\n" for at in range(2_000)).encode()
    directories = [root]
    for number in range(int(5_600 * scale) or 1):
        above = directories[chance.randrange(len(directories))]
        directories.append(above / f"dir{number}")
        directories[-1].mkdir()
    files = int(85_000 * scale) or 10
    for number in range(files):
        where = directories[min(int(chance.paretovariate(0.9)), len(directories)) - 1]
        if number < len(directories):
            where = directories[number]
        size = min(int(chance.lognormvariate(8.9, 1.2)), 400_000)
        ending = chance.choice("ccccchhhdS")
        head = b"/* %d */\n" % number
        data = head + (text * (size // len(text) + 1))[:size]
        (where / f"file{number}.{ending}").write_bytes(data)
    return files + 2


def _environment(top: Path) -> dict[str, str]:
    kept = {
        k: v for k, v in os.environ.items() if not k.startswith(("GIT_", "GITSHADOW_"))
    }
    return kept | {
        "HOME": str(top / "home"),
        "XDG_RUNTIME_DIR": str(top / "run"),
        "GIT_AUTHOR_NAME": "bench",
        "GIT_AUTHOR_EMAIL": "bench@example.invalid",
        "GIT_COMMITTER_NAME": "bench",
        "GIT_COMMITTER_EMAIL": "bench@example.invalid",
    }
