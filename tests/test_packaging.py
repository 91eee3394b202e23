"""The wheel carries what an installation needs without a clone, the sdist what a wheel needs."""

import re
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

from gitshadow import __version__

ROOT = Path(__file__).parent.parent
# Installed below the environment, where other programs look for them.
_SCRIPTS = "gitshadow/commands/scripts"
SHARED = {
    "share/man/man1/git-agent-undo.1": "docs/man/git-agent-undo.1",
    "share/bash-completion/completions/git-agent-undo": f"{_SCRIPTS}/git-agent-undo.bash",
    "share/zsh/site-functions/_git-agent-undo": f"{_SCRIPTS}/_git-agent-undo",
    "share/fish/vendor_completions.d/git-agent-undo.fish": (
        f"{_SCRIPTS}/git-agent-undo.fish"
    ),
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("wheel")
    builder = WheelBuilder(str(ROOT))
    (made,) = builder.build(directory=str(target), versions=["standard"])
    return Path(made)


@pytest.fixture(scope="module")
def wheel_files(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with what `python -m build` makes: an sdist, and a wheel from it."""
    target = tmp_path_factory.mktemp("released")
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(target)]
    done = subprocess.run(
        [*build, str(ROOT)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return target


def _metadata(files: dict[str, bytes]) -> tuple[Message, bytes]:
    """Return the fields and the description."""
    (name,) = [name for name in files if name.endswith(".dist-info/METADATA")]
    fields, _, description = files[name].partition(b"\n\n")
    return message_from_bytes(fields), description


def test_wheel_carries_every_hook_file(wheel_files: dict[str, bytes]) -> None:
    hooks = ROOT / "hooks"
    expected = {
        f"gitshadow/_hooks/{path.relative_to(hooks).as_posix()}"
        for path in hooks.rglob("*")
        if path.is_file()
    }
    assert "gitshadow/_hooks/README.md" in expected
    assert expected <= wheel_files.keys()


def test_wheel_is_typed_and_licensed(wheel_files: dict[str, bytes]) -> None:
    assert "gitshadow/py.typed" in wheel_files
    assert any(name.endswith("/licenses/LICENSE") for name in wheel_files)


def test_wheel_carries_the_package_alone(wheel_files: dict[str, bytes]) -> None:
    stem = f"gitshadow-{__version__}"
    tops = {name.split("/", 1)[0] for name in wheel_files}
    assert tops == {"gitshadow", f"{stem}.dist-info", f"{stem}.data"}


def test_wheel_carries_the_templates_of_the_page(wheel_files: dict[str, bytes]) -> None:
    templates = ROOT / "gitshadow" / "render" / "templates"
    expected = {
        f"gitshadow/render/templates/{path.name}" for path in templates.iterdir()
    }
    assert len(expected) == 5
    assert expected <= wheel_files.keys()


def test_wheel_installs_what_other_programs_look_for(
    wheel_files: dict[str, bytes],
) -> None:
    prefix = f"gitshadow-{__version__}.data/data/"
    shared = {
        name.removeprefix(prefix): data
        for name, data in wheel_files.items()
        if name.startswith(prefix)
    }
    expected = {to: (ROOT / source).read_bytes() for to, source in SHARED.items()}
    assert shared == expected


@pytest.mark.release
def test_release_made_from_the_sdist_is_the_one_of_the_tree(
    released: Path, wheel: Path
) -> None:
    """So no file is missing in the sdist, and nothing of the building machine is in a wheel."""
    (again,) = released.glob("*.whl")
    assert again.name == wheel.name
    assert again.read_bytes() == wheel.read_bytes()


@pytest.mark.release
def test_sdist_has_what_the_test_command_needs(released: Path) -> None:
    (made,) = released.glob("*.tar.gz")
    with tarfile.open(made) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames()}
    wanted = {"Makefile", "pyproject.toml", ".ci/run", "tests/test_packaging.py"}
    assert wanted <= names
    tops = {name.split("/", 1)[0] for name in names}
    assert {".venv", ".git", "dist"} & tops == set()


@pytest.mark.release
def test_version_is_one_wherever_it_stands(
    released: Path, wheel_files: dict[str, bytes]
) -> None:
    page = (ROOT / SHARED["share/man/man1/git-agent-undo.1"]).read_text("utf-8")
    manifests = [
        found.group(1)
        for path in (ROOT / "hooks").rglob("*.json")
        if (found := re.search(r'"version": "(\d[^"]*)"', path.read_text("utf-8")))
    ]
    assert len(manifests) == 4
    said = {_metadata(wheel_files)[0]["Version"], *manifests}
    said |= set(re.findall(r'"gitshadow (\d\S*)"', page))
    assert said == {__version__}
    names = sorted(path.name for path in released.iterdir())
    # With a compiler, the wheel is one for this platform.
    wheel = (
        rf"gitshadow-{re.escape(__version__)}-py3-none-(any|[a-z]*linux_[\w.]+)\.whl"
    )
    assert re.fullmatch(wheel, names[0])
    assert names[1:] == [f"gitshadow-{__version__}.tar.gz"]


def test_metadata_is_complete_and_shows_the_readme(
    wheel_files: dict[str, bytes],
) -> None:
    about, description = _metadata(wheel_files)
    assert about["Name"] == "gitshadow"
    assert about["Requires-Python"] == ">=3.11"
    assert about["License-Expression"] == "Apache-2.0"
    assert about["Description-Content-Type"] == "text/markdown"
    assert description == (ROOT / "README.md").read_bytes()


def test_plain_installation_asks_for_few_packages(
    wheel_files: dict[str, bytes],
) -> None:
    """What engines, frameworks and tests need is an extra: nobody pays for it unasked."""
    wanted = _metadata(wheel_files)[0].get_all("Requires-Dist") or []
    plain = {re.split(r"[<>=]", one)[0] for one in wanted if ";" not in one}
    few = ("blake3", "click", "jinja2", "merge3", "pygit2", "tomlkit", "watchfiles")
    assert plain == {*few}
