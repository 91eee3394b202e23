"""The stored manual page is that of the program; run as a module, this writes it."""

import shutil
import subprocess
from pathlib import Path

import pytest

from gitshadow import __version__
from gitshadow.cli import group
from gitshadow.commands import GROUPS, PROGRAM, names
from gitshadow.render.man import page

STORED = Path(__file__).parents[2] / "docs" / "man" / "git-agent-undo.1"


def made() -> str:
    titles = {title: list(verbs) for title, verbs in GROUPS.items()}
    return page(group, titles, PROGRAM, __version__)


def test_stored_page_is_the_programs() -> None:
    stored = STORED.read_text(encoding="utf-8")
    assert stored == made(), "run `python -m tests.render.test_man`"


def test_page_has_every_verb() -> None:
    lines = [line.replace("\\-", "-") for line in made().splitlines()]
    missing = [
        name
        for name in names()
        if not any(line.startswith(f".SS {PROGRAM} {name} ") for line in lines)
    ]
    assert missing == []


@pytest.mark.skipif(shutil.which("man") is None, reason="man(1) is not installed")
def test_page_is_formatted_without_a_warning() -> None:
    done = subprocess.run(
        ["man", "--warnings", "-l", str(STORED)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "GIT-AGENT-UNDO(1)" in done.stdout


if __name__ == "__main__":
    STORED.write_text(made(), encoding="utf-8")
