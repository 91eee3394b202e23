"""What `make release` made installs on each Python that is here, and does its main jobs there."""

import io
import os
import shlex
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import console, extension, routes
from tests.support.repo import Repo
from tests.support.routes import ROUTES, Machine, Route
from tests.support.shadow import Shadow
from tests.test_install import first_minute

ROOT = Path(__file__).parent.parent
machine = routes.machine
_MADE = os.environ.get("GITSHADOW_RELEASE")
pytestmark = [
    pytest.mark.uncounted,
    pytest.mark.release,
    pytest.mark.skipif(
        _MADE is None, reason="only `make release` makes what they install"
    ),
    pytest.mark.timeout(1800),
]


def pythons() -> Iterator[str]:
    """Yield one Python of each minor version from 3.11 that is here."""
    found: dict[int, str] = {}
    places = [*map(Path, routes.system_path().split(os.pathsep))]
    places += Path.home().glob(".pyenv/versions/*/bin")
    for path in sorted(one for place in places for one in place.glob("python3.*")):
        minor = path.name.removeprefix("python3.")
        if minor.isdigit() and int(minor) >= 11 and _runs(path):
            found.setdefault(int(minor), str(path))
    yield from found.values()


def _runs(python: Path) -> bool:
    """Return whether a Python is there and makes environments: one of pyenv may be a stand-in."""
    done = subprocess.run(
        [python, "-c", "import venv"], capture_output=True, check=False
    )
    return done.returncode == 0


MADE = sorted(Path(_MADE).iterdir()) if _MADE else []
HERE = list(pythons()) if _MADE else []


@pytest.fixture
def fresh(
    tmp_path: Path, sealed: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str, Path], Machine]:
    """Return what makes a fresh machine for a Python and a file of the release."""
    shared = routes.shared_directory(tmp_path_factory)
    return lambda python, ours: Machine(
        routes.fresh_home(tmp_path, sealed),
        routes.wheelhouse(shared, ours, python),
        python,
    )


@pytest.mark.parametrize(
    "wheel", [one for one in MADE if one.suffix == ".whl"], ids=lambda path: path.name
)
def test_wheel_carries_the_extension_for_vs_code(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as files:
        built = files.read(f"gitshadow/_hooks/vscode/{extension.NAME}")
    with zipfile.ZipFile(io.BytesIO(built)) as files:
        source = (ROOT / "hooks/vscode/extension.js").read_bytes()
        assert files.read("extension/extension.js") == source
        assert "extension/node_modules/vscode-languageclient/package.json" in {
            *files.namelist()
        }


@pytest.mark.parametrize("python", HERE, ids=lambda path: Path(path).name)
@pytest.mark.parametrize("ours", MADE, ids=lambda path: path.name)
def test_demo_and_questions_run_from_the_installed_copy(
    python: str,
    ours: Path,
    repo: Repo,
    make_shadow: Callable[..., Shadow],
    fresh: Callable[[str, Path], Machine],
) -> None:
    machine = fresh(python, ours)
    routes.pip(machine)
    said = machine.run("sh", str(ROOT / "demo/run.sh"))
    assert "every byte is back" in said
    env = {**machine.environment(), "SHADOW_TEST_MARK": make_shadow(repo).mark}
    page = (ROOT / "docs/questions.md").read_text(encoding="utf-8")
    steps = [step for block in console.parse(page) for step in block]
    assert console.run(steps, repo.root, env, inherit=False) == []


def test_one_file_made_of_it_runs_the_first_minute(
    machine: Machine, repo: Repo, make_shadow: Callable[..., Shadow], tmp_path: Path
) -> None:
    (ours,) = (path for path in MADE if path.name.endswith("-any.whl"))
    page = (ROOT / "docs/start.md").read_text(encoding="utf-8")
    (told,) = (line for line in page.splitlines() if line.startswith("shiv "))
    words = shlex.split(told.replace("GITSHADOW.whl", str(ours)))
    words[words.index("/usr/bin/env python3")] = routes.base_python()
    program = machine.home / ".local/bin/git-agent-undo"
    program.parent.mkdir(parents=True)
    assert words[-2:] == ["-o", "git-agent-undo"]
    machine.run(sys.executable, "-m", *words[:-1], str(program))
    env = {**machine.environment(), "SHADOW_TEST_MARK": make_shadow(repo).mark}
    assert console.run(first_minute(), repo.root, env, inherit=False) == []


@pytest.mark.parametrize("python", HERE, ids=lambda path: Path(path).name)
@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_each_program_that_installs_takes_the_native_wheel(
    python: str, route: Route, fresh: Callable[[str, Path], Machine]
) -> None:
    (ours,) = (path for path in MADE if "manylinux" in path.name)
    machine = fresh(python, ours)
    route.install(machine)
    program = machine.home / ".local/bin/git-agent-undo"
    assert program.read_bytes()[:4] == b"\x7fELF"
    assert "\n  oops " in machine.run("git", "agent-undo", "-h")
    route.remove(machine)
