"""A person's evening at a shell, twice: the screens are the same with and without the server."""

import re
import sys
from pathlib import Path

import pytest

from tests.support.panes import Terminal, terminal
from tests.support.probe import PROGRAM, Probe
from tests.support.tools import need

_SHELLS = {
    "bash": ["--norc", "--noprofile"],
    "zsh": ["-f"],
    "fish": ["--no-config", "--features", "no-query-term"],
}


@pytest.mark.parametrize("name", _SHELLS)
def test_screens_are_the_same(probe: Probe, name: str, tmp_path: Path) -> None:
    need("less")
    command = [need(name), *_SHELLS[name]]
    program = tmp_path / "probe"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {PROGRAM} "$@"\n')
    program.chmod(0o755)
    seen = []
    for served in (False, True):
        scratch = tmp_path / f"{served}"
        scratch.mkdir()
        env = {
            **probe.environment(served=served),
            "PATH": f"{tmp_path}:{probe.environ['PATH']}",
            "PS1": "$ ",
        }
        with terminal(scratch, command, tmp_path, env=env, lines=40) as shown:
            seen.append(_evening(shown, "$status" if name == "fish" else "$?"))
    assert seen[0] == seen[1]


def _evening(shown: Terminal, code: str) -> list[str]:
    """Type what a person types; return the screens in between."""
    screens = []

    def typed(line: str, *sees: str, without: str = "") -> None:
        shown.press("-l", line)
        shown.press("Enter")
        shown.sees(*sees, without=without)

    def seen() -> None:
        # fish shows pids.
        screens.append(
            re.sub(r"^1 +\d+ ", "1 PID ", shown.shown().rstrip(), flags=re.M)
        )

    typed("clear; probe ask", "[y/N]")
    shown.press("C-c")
    shown.sees("interrupted")
    typed(f"echo code {code}", "code 130")
    seen()
    typed("clear; probe ask", "[y/N]", without="code")
    shown.press("C-z")
    typed("echo back at the shell; jobs", "back at the shell\n")
    seen()
    typed("clear; fg", "probe ask", without="jobs")
    typed("y", "answer: True")
    seen()
    typed("clear; probe page 500 'less -X'", "line 0", ":", without="answer")
    shown.press("G")
    shown.sees("line 499", "(END)")
    shown.press("C-z")
    typed("echo stopped the pager", "stopped the pager\n")
    typed("fg", "(END)", without="stopped")
    shown.resize(100, 20)
    shown.sees("line 479", ":", without="(END)")
    shown.press("q")
    shown.sees("after the pager")
    typed("clear; probe page 9000 cat | head -n 2; echo done", "line 1\n", "done\n")
    seen()
    return screens
