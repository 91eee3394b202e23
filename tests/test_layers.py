"""The architecture is a rule: contracts that can fail, and imports that stay cheap."""

import ast
import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import gitshadow
from tests.support.waiting import HANGS_S

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "gitshadow"
HOOK_MODULES = frozenset({"_socket", "os", "sys", "time"})
HEAVY = frozenset(
    {"pygit2", "sqlite3", "watchfiles", "psutil", "merge3", "tomlkit", "jinja2"}
)


def imported_by(statement: str) -> set[str]:
    """Return the modules that a statement loads in a new interpreter, ours left out."""
    code = (
        "import sys, os, time; before = set(sys.modules)\n"
        f"{statement}\n"
        "print('\\n'.join(set(sys.modules) - before))"
    )
    # Coverage would load half of the standard library first and hide what we load.
    env = {k: v for k, v in os.environ.items() if not k.startswith("COV")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        timeout=HANGS_S,
        check=True,
    )
    names = set(done.stdout.split())
    return {name for name in names if name.split(".", 1)[0] != "gitshadow"}


def lint_imports(root: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=HANGS_S,
        check=False,
    )


@pytest.mark.parametrize("module", ["gitshadow.ipc.hook", "gitshadow.entry"])
def test_hook_program_imports_next_to_nothing(module: str) -> None:
    assert imported_by(f"import {module}") <= HOOK_MODULES


def test_command_line_loads_no_heavy_library() -> None:
    assert imported_by("import gitshadow.cli") & HEAVY == set()


@pytest.mark.parametrize("package", ["gitshadow", "gitshadow.sdk.testing"])
def test_package_import_loads_nothing_else(package: str) -> None:
    assert imported_by(f"import {package}") == set()


def test_sync_programs_load_no_event_loop_and_no_git() -> None:
    """A hook of an agent program starts a process per tool call."""
    home = "gitshadow.sdk.integrations.hooks"
    loaded = imported_by(f"import {home}; from gitshadow import AgentUndo")
    assert loaded & {"asyncio", "pygit2", "click", "random"} == set()


@pytest.mark.parametrize("package", ["gitshadow", "gitshadow.sdk.testing"])
def test_public_names_are_those_of_the_stub(package: str) -> None:
    """What the stub promises is there, and nothing is there that it hides."""
    door = importlib.import_module(package)
    stub = ast.parse(Path(f"{door.__file__}i").read_text(encoding="utf-8"))
    promised = [
        (line.module, name.name)
        for line in stub.body
        if isinstance(line, ast.ImportFrom) and line.module is not None
        for name in line.names
        if name.asname == name.name
    ]
    assert promised
    homes = vars(door)["_HOMES"]
    assert [(home, name) for home in homes for name in homes[home]] == promised
    assert {name for _, name in promised} <= set(dir(door)) & set(door.__all__)
    for home, name in promised:
        assert getattr(door, name) is getattr(importlib.import_module(home), name)


def test_a_program_has_few_names_to_learn() -> None:
    names = dir(gitshadow)
    assert len(set(names) - {"__version__"}) <= 45
    assert names == sorted(vars(gitshadow)["__all__"])


def test_a_name_that_has_moved_is_given_with_a_warning() -> None:
    moved = vars(gitshadow)["_MOVED"]
    assert moved
    for home, names in moved.items():
        for name in names:
            with pytest.warns(DeprecationWarning, match=f"import {name} from {home}"):
                found = getattr(gitshadow, name)
            assert found is getattr(importlib.import_module(home), name)


def test_every_directory_is_seen_by_the_contracts() -> None:
    directories = {path.parent for path in PACKAGE.rglob("*.py")}
    assert len(directories) > 1
    missing = [path for path in directories if not (path / "__init__.py").exists()]
    assert missing == []


@pytest.mark.parametrize(
    ("path", "line", "contract"),
    [
        ("utils.py", "", "Every module has its layer"),
        ("model.py", "import gitshadow.config", "Every module has its layer"),
        ("sdk/turns/utils.py", "", "Every module of sdk.turns has its layer"),
        (
            "sdk/turns/values.py",
            "import gitshadow.sdk.turns.turn",
            "Every module of sdk.turns has its layer",
        ),
        ("model.py", "import pygit2", "Only the backend of libgit2"),
        ("config.py", "import sqlite3", "Only store.journal imports sqlite3"),
        (
            "config.py",
            "import watchfiles",
            "Only the platform imports what is of an operating system",
        ),
        ("config.py", "import merge3", "Only undo.merge imports merge3"),
        ("config.py", "import tomlkit", "Only hookfiles.toml imports tomlkit"),
        ("config.py", "import jinja2", "Only render.page imports jinja2"),
        (
            "config.py",
            "import claude_agent_sdk",
            "Only integrations.claude_agent_sdk imports claude_agent_sdk",
        ),
        (
            "config.py",
            "import agents",
            "Only integrations.openai_agents imports agents",
        ),
        (
            "config.py",
            "import langgraph",
            "Only integrations.langgraph imports langgraph",
        ),
        ("config.py", "import pydantic_ai", "Only integrations.pydantic_ai imports"),
        (
            "platform/linux/__init__.py",
            "import gitshadow.platform.macos",
            "Inside platform, the systems build on what all have",
        ),
        ("config.py", "import click", "Only the command line imports click"),
        ("config.py", "import subprocess", "Only these start child processes"),
    ],
)
def test_contract_breaks_when_a_module_is_out_of_place(
    tmp_path: Path, path: str, line: str, contract: str
) -> None:
    rules = (ROOT / "pyproject.toml").read_text("utf-8")
    direct = "allow_indirect_imports = true\n"
    # Most modules with an allowance are not in this copy.
    absent = 'unmatched_ignore_imports_alerting = "none"\n'
    (tmp_path / "pyproject.toml").write_text(
        rules.replace(direct, direct + absent), "utf-8"
    )
    target = tmp_path / "gitshadow"
    target.mkdir()
    for name in ("__init__", "errors", "model", "config"):
        shutil.copy(PACKAGE / f"{name}.py", target)
    systems = ("platform/linux", "platform/macos", "platform/portable")
    for package in ("sdk", "sdk/turns", "recording", "blame", "platform", *systems):
        (target / package).mkdir()
        (target / package / "__init__.py").touch()
    (target / "sdk" / "turns" / "turn.py").touch()
    with (target / path).open("a", encoding="utf-8") as stream:
        stream.write(f"{line}\n")
    done = lint_imports(tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    broken = [text for text in done.stdout.splitlines() if text.endswith("BROKEN")]
    assert len(broken) == 1, done.stdout
    assert broken[0].startswith(contract)
