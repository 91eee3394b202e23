"""The demo does its job, and would say so if it did not."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.support.repo import Repo
from tests.support.waiting import HANGS_S

pytestmark = [pytest.mark.uncounted, pytest.mark.release]

DEMO = Path(__file__).parent.parent / "demo"
COMMAND = Path(sys.executable).parent / "git-agent-undo"
NAMES = ("a.txt", "b.txt", "c.txt", "d.txt", "e.txt")


@pytest.fixture
def project(make_repo: Callable[..., Repo]) -> Repo:
    made = make_repo("project", files=())
    for name in NAMES:
        made.write(name, "".join(f"{name}: line {n} of thirty\n" for n in range(30)))
    return made


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    made = tmp_path / "scratch"
    made.mkdir()
    return made


def run_demo(
    source: Path, scratch: Path, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [DEMO / "run.sh"],
        cwd=source,
        env={**os.environ, "REPO": str(source), "TMPDIR": str(scratch), **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=HANGS_S,
        check=False,
    )


def everything(root: Path) -> dict[str, tuple[int, int, bytes]]:
    """Return mode, mtime and bytes of all below a directory, the Git directory included."""
    found = {}
    for path in root.rglob("*"):
        stat = path.lstat()
        data = path.read_bytes() if path.is_file() else b""
        found[str(path)] = (stat.st_mode, stat.st_mtime_ns, data)
    return found


def test_demo_brings_every_byte_back_and_leaves_the_original_alone(
    project: Repo, scratch: Path
) -> None:
    project.commit("first")
    before = everything(project.root)
    done = run_demo(project.root, scratch)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("\nevery byte is back\n")
    assert (done.stdout.count("  ok  "), done.stdout.count("BAD")) == (4, 0)
    assert done.stderr == ""
    assert everything(project.root) == before
    assert list(scratch.iterdir()) == []


def test_demo_shows_what_the_agent_did(project: Repo, scratch: Path) -> None:
    project.commit("first")
    lines = run_demo(project.root, scratch).stdout.splitlines()
    log = lines.index("$ git agent-undo log")
    (turn,) = [line for line in lines[log + 1 : log + 4] if "claude-code" in line]
    assert "6 files" in turn
    assert '"Tidy this project up"' in turn
    log = lines.index("$ git agent-undo log --events")
    rows = [line.split() for line in lines[log + 1 : lines.index("", log)]]
    found = [tuple(row[4:6]) for row in rows if row[3] == "claude-code"]
    assert sorted(found) == [
        ("create", "certain"),
        ("create", "medium"),
        ("delete", "medium"),
        ("mode", "medium"),
        ("modify", "certain"),
        ("rename", "medium"),
    ]


def test_demo_shows_whose_lines_there_are(project: Repo, scratch: Path) -> None:
    project.commit("first")
    lines = run_demo(project.root, scratch).stdout.splitlines()
    at = lines.index("$ git agent-undo blame --prompt -L 1,2 -L 31,+1 a.txt")
    prompt, agents, older, yours = lines[at + 1 : at + 5]
    assert prompt == "# Tidy this project up"
    assert agents.split()[1] == "claude-code"
    assert agents.endswith(" 1) a.txt: line 0 of thirty (tidied up)")
    assert older.endswith(" 2) a.txt: line 1 of thirty")
    assert yours.split()[1] != "claude-code"
    assert yours.endswith(") A line that you wrote while the agent was at work.")


def test_demo_works_on_files_without_a_commit(project: Repo, scratch: Path) -> None:
    before = everything(project.root)
    done = run_demo(project.root, scratch)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("\nevery byte is back\n")
    assert everything(project.root) == before


def test_demo_fails_where_a_byte_is_not_as_it_was(
    project: Repo, scratch: Path, tmp_path: Path
) -> None:
    project.commit("first")
    broken = tmp_path / "broken"
    broken.mkdir()
    command = broken / "git-agent-undo"
    command.write_text(
        f'#!/bin/sh\n"{COMMAND}" "$@" || exit\n[ "$1" != oops ] || echo x >>e.txt\n'
    )
    command.chmod(0o755)
    path = f"{broken}{os.pathsep}{os.environ['PATH']}"
    done = run_demo(project.root, scratch, {"PATH": path})
    assert done.returncode == 1, done.stdout + done.stderr
    assert "BAD   after oops: as before, and your line" in done.stdout
    assert done.stdout.endswith("\nsomething is not as it was\n")


def test_demo_says_so_where_there_are_too_few_files(
    make_repo: Callable[..., Repo], scratch: Path
) -> None:
    done = run_demo(make_repo("small", files=("a",)).root, scratch)
    assert done.returncode == 1
    assert done.stderr == (
        "error: the demo needs a repository with four text files of ten lines\n"
    )
    assert list(scratch.iterdir()) == []


def drawn(scene: str, picture: Path) -> list[str]:
    """Return the lines of a picture that the script makes anew."""
    command = [sys.executable, str(DEMO / "record.py"), scene, str(picture)]
    subprocess.run(command, timeout=HANGS_S, check=True)
    rows = ElementTree.parse(picture).iter("{http://www.w3.org/2000/svg}text")
    assert shutil.which("git-agent-undo") == str(COMMAND)
    return ["".join(row.itertext()).replace("\u00a0", " ") for row in rows]


def test_picture_shows_what_the_terminal_showed(tmp_path: Path) -> None:
    lines = drawn("oops", tmp_path / "oops.svg")
    assert lines[0] == "$ git agent-undo log"
    assert "apply this? [Y/n] " in lines
    assert lines[-1] == " M README.md"


def test_picture_shows_a_commit_per_turn(tmp_path: Path) -> None:
    lines = drawn("split", tmp_path / "split.svg")
    assert "$ git agent-undo split" in lines
    assert "apply this? [Y/n] " in lines
    assert "made 2 commits" in lines
    assert lines[-4:] == [" green, two minutes", " black", " white", "+oolong"]
