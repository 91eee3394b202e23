"""What several verbs share: typed paths and the question."""

import io
import json
import os
import sys
from pathlib import Path

import pytest

from gitshadow.cli import main
from gitshadow.commands.client import spelled
from gitshadow.commands.options import ask_yes
from tests.support.repo import Repo


def test_pipe_that_is_named_is_written_to(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As root, `-o /dev/null` made a file of it, for every program of the machine."""
    monkeypatch.setenv("GITSHADOW_DAEMON", "off")
    monkeypatch.chdir(repo.root)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert main(["init"]) == 0
        assert main(["export", "-o", str(pipe)]) == 0
        assert pipe.is_fifo()
        header = os.read(reader, 1 << 16).splitlines()[0]
    finally:
        os.close(reader)
    assert json.loads(header)["format"] == "agent-undo-events"


@pytest.mark.parametrize(
    ("answer", "default", "expected"),
    [
        ("\n", True, True),
        ("\n", False, False),
        ("y\n", False, True),
        ("No\n", True, False),
        ("what?\nyes\n", False, True),
        ("", True, False),
    ],
)
def test_ask_yes_takes_enter_as_the_default_and_the_end_as_no(
    monkeypatch: pytest.MonkeyPatch, answer: str, default: bool, expected: bool
) -> None:
    """UX-04: Enter means what the brackets say."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(answer))
    assert ask_yes("apply this?", default=default) is expected


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("../a b", "../a b"),
        ("größe", "größe"),
        (os.fsdecode(b"a\xff"), r'"a\377"'),
        (r'"a\377"', r'"a\377"'),
        ('"unbalanced', r'"\"unbalanced"'),
    ],
)
def test_spelled_takes_back_what_our_own_output_prints(
    typed: str, expected: str
) -> None:
    """FID-05: a name from the JSON is a valid argument, any other name too."""
    assert spelled(typed) == expected
