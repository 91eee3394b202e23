"""The ways to install us on a fresh machine, from wheels that are made once per run and Python.

Invariant: an installation sees none of this machine's settings, and no package index.
"""

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.waiting import HANGS_S

_ROOT = Path(__file__).parent.parent.parent
_SCRIPTS = Path(sys.executable).parent
# Read now: a running test's environment is sealed, and the package index needs this one.
_AMBIENT = dict(os.environ)


@dataclass(frozen=True, slots=True)
class Machine:
    """A home directory, the wheels to install from, and the Python to install for."""

    home: Path
    house: Path
    python: str

    def environment(self) -> dict[str, str]:
        """Return what a login gives, and where the wheels are."""
        return {
            "HOME": str(self.home),
            "PATH": os.pathsep.join([str(self.home / ".local" / "bin"), system_path()]),
            "LC_ALL": "C.UTF-8",
            "GIT_CONFIG_NOSYSTEM": "1",
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(self.house),
            "UV_PYTHON_DOWNLOADS": "never",
            "UV_PYTHON": self.python,
            "PIPX_DEFAULT_PYTHON": self.python,
        }

    def run(self, *words: str, env: Mapping[str, str] | None = None) -> str:
        """Run a command there and return what it prints.

        Raises:
            AssertionError: it failed.
        """
        done = subprocess.run(
            words,
            env={**self.environment(), **(env or {})},
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=HANGS_S,
            check=False,
        )
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    def traces(self) -> list[str]:
        """Return what names us below the home directory, the caches of installers apart."""
        return sorted(
            str(path.relative_to(self.home))
            for path in self.home.rglob("*")
            if ("agent-undo" in path.name or "gitshadow" in path.name)
            and ".cache" not in path.parts
            and path.suffix != ".lock"  # pipx keeps one
        )


@dataclass(frozen=True, slots=True)
class Route:
    """One way to install, and to uninstall."""

    name: str
    install: Callable[[Machine], object]
    remove: Callable[[Machine], object]


def system_path() -> str:
    """Return `PATH` without the environment of the tests."""
    parts = _AMBIENT.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(part for part in parts if Path(part) != _SCRIPTS)


def base_python() -> str:
    """Return the Python that the environment of the tests was made with."""
    return os.path.realpath(sys.executable)


def wheelhouse(shared: Path, ours: Path = _ROOT, python: str | None = None) -> Path:
    """Return a directory with our wheel and all it needs; whoever comes first makes it.

    Args:
        shared: A directory that all processes of a test run have in common.
        ours: The tree, the sdist or the wheel that we are installed from.
        python: For which Python; for that of the tests, which has the build backend, if None.
    """
    name = f"{ours.name}-{Path(python).name}" if python else "wheelhouse"
    house = shared / name
    with (shared / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not house.exists():
            making = shared / f"{name}.part"
            shutil.rmtree(making, ignore_errors=True)
            pip = [sys.executable, "-m", "pip"]
            wheel = (
                [*pip, "--python", python, "wheel", "-q"]
                if python
                else [*pip, "wheel", "-q", "--no-build-isolation"]
            )
            done = subprocess.run(
                [*wheel, "--wheel-dir", str(making), str(ours)],
                env=_AMBIENT,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stderr
            making.rename(house)
    return house


def in_a_container(machine: Machine, writable: Path) -> list[str]:
    """Return what runs a script as root where all but one directory is read-only.

    Args:
        machine: Whose home is to be below that directory.
        writable: The directory; an empty one beside it becomes the root.
    """
    assert machine.home.is_relative_to(writable)
    top = writable.parent / f"{writable.name}.root"
    top.mkdir()
    script = (
        'mount --rbind / "$1" && mount --bind "$2" "$1/$2" && '
        'mount -o remount,bind,ro "$1" && exec chroot "$1" '
        'sh -c \'cd "$1" && exec bash -c "$2"\' sh "$PWD" "$3"'
    )
    return ["unshare", "--mount", "sh", "-c", script, "sh", str(top), str(writable)]


def pip(machine: Machine) -> None:
    """Install as the page says it for plain pip."""
    place = str(machine.home / ".local" / "gitshadow")
    # Its own pip would take longer to put there than everything else.
    machine.run(machine.python, "-m", "venv", "--without-pip", place)
    pip = [sys.executable, "-m", "pip", "--python", f"{place}/bin/python"]
    machine.run(*pip, "install", "-q", "gitshadow")
    for kind, name in (
        ("bin", "git-agent-undo"),
        ("share/man/man1", "git-agent-undo.1"),
    ):
        (machine.home / ".local" / kind).mkdir(parents=True)
        link = machine.home / ".local" / kind / name
        link.symlink_to(f"{place}/{kind}/{name}")


def _no_pip(machine: Machine) -> None:
    shutil.rmtree(machine.home / ".local" / "gitshadow")
    for name in ("bin/git-agent-undo", "share/man/man1/git-agent-undo.1"):
        (machine.home / ".local" / name).unlink()


def _pipx(machine: Machine) -> None:
    # It hands on only some of the variables.
    wheels = f"--no-index --find-links {machine.house}"
    pipx = str(_SCRIPTS / "pipx")
    machine.run(pipx, "install", "--pip-args", wheels, "gitshadow")


def _uv(machine: Machine) -> None:
    uv = [str(_SCRIPTS / "uv"), "tool"]
    wheels = ["--no-index", "--find-links", str(machine.house)]
    machine.run(*uv, "install", "-q", *wheels, "gitshadow")
    pages = machine.home / ".local/share/man/man1"
    pages.mkdir(parents=True)
    tools = machine.run(*uv, "dir").strip()
    page = f"{tools}/gitshadow/share/man/man1/git-agent-undo.1"
    (pages / "git-agent-undo.1").symlink_to(page)


def _no_uv(machine: Machine) -> None:
    machine.run(str(_SCRIPTS / "uv"), "tool", "uninstall", "-q", "gitshadow")
    (machine.home / ".local/share/man/man1/git-agent-undo.1").unlink()


ROUTES = (
    Route("pip", pip, _no_pip),
    Route(
        "pipx",
        _pipx,
        lambda machine: machine.run(str(_SCRIPTS / "pipx"), "uninstall", "gitshadow"),
    ),
    Route("uv", _uv, _no_uv),
)


def shared_directory(factory: pytest.TempPathFactory) -> Path:
    """Return a directory that all processes of this test run have in common."""
    base = factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


def fresh_home(below: Path, sealed: Path) -> Path:
    """Return a home that has a name for Git and nothing else."""
    home = below / "home"
    home.mkdir()
    shutil.copy(sealed / ".gitconfig", home)
    return home


@pytest.fixture
def machine(
    tmp_path: Path, sealed: Path, tmp_path_factory: pytest.TempPathFactory
) -> Machine:
    """Return a fresh machine: a home with a name for Git, and nothing else."""
    house = wheelhouse(shared_directory(tmp_path_factory))
    return Machine(fresh_home(tmp_path, sealed), house, base_python())
