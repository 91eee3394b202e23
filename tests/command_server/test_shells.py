"""A person's evening at a shell, twice: the screens are the same with and without the server."""

import re
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.panes import Terminal, terminal
from tests.support.probe import Probe
from tests.support.tools import need
from tests.support.waiting import until

_PROMPT = "READY>"
_FISH = f"function fish_prompt; echo '{_PROMPT} '; end"
# Their options, what their last exit code is, and what they say of a stopped job.
_SHELLS = {
    "bash": (["--norc", "--noprofile"], "$?", "Stopped"),
    "zsh": (["-f"], "$?", "suspended"),
    "fish": (["--no-config", "-C", _FISH], "$status", "has stopped"),
}


@pytest.mark.parametrize("name", _SHELLS)
def test_screens_are_the_same(probe: Probe, name: str, tmp_path: Path) -> None:
    need("less")
    options, code, stopped = _SHELLS[name]
    program = tmp_path / "probe"
    program.write_text(f'#!/bin/sh\nexec {" ".join(probe.client)} "$@"\n')
    program.chmod(0o755)
    seen = []
    for served in (False, True):
        scratch = tmp_path / f"{served}"
        scratch.mkdir()
        env = {
            **probe.environment(served=served),
            "PATH": f"{tmp_path}:{probe.environ['PATH']}",
            "PS1": f"{_PROMPT} ",
        }
        with terminal(
            scratch, [need(name), *options], tmp_path, env=env, lines=40
        ) as shown:
            seen.append(_evening(shown, tmp_path, code, stopped))
    assert seen[0] == seen[1]


def _states(program: str, cwd: Path) -> list[str]:
    """Return the states of all processes of a program in a directory; proc(5)."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if process.joinpath("cwd").readlink() == cwd:
                name, _, fields = process.joinpath("stat").read_text().rpartition(")")
                found += [fields.split()[0]] * name.endswith(f"({program}")
    return found


def _evening(shown: Terminal, cwd: Path, code: str, stopped: str) -> list[str]:
    """Type what a person types; return the screens in between."""
    screens = []

    def typed(line: str, *sees: str, without: str = "") -> None:
        shown.press("-l", line)
        shown.press("Enter")
        shown.sees(*sees, without=without)

    def back(*sees: str) -> None:
        """Wait for the shell; what is typed while it is busy would be shown elsewhere."""
        shown.sees(*sees)
        until(lambda: shown.shown().rstrip().endswith(f"\n{_PROMPT}"))

    def seen() -> None:
        # fish shows pids, and what follows is as far to the right as they and the share are wide.
        screens.append(re.sub(r"^1 +\d+ +", "1 PID ", shown.shown(), flags=re.M))

    until(lambda: shown.shown().strip() == _PROMPT)
    typed("clear; probe ask", "[y/N]")
    shown.press("C-c")
    back("interrupted")
    typed(f"echo code {code}", "code 130")
    back()
    seen()
    typed("clear; probe ask", "[y/N]", without="code")
    shown.press("C-z")
    back(stopped)
    typed("echo at the shell; jobs", "at the shell\n")
    back()
    seen()
    typed("clear; fg", "probe ask", without="jobs")
    typed("y", "answer: True")
    back()
    seen()
    typed("clear; probe page 500 'less -X'", "line 0", ":", without="answer")
    shown.press("G")
    shown.sees("line 499", "(END)")
    shown.press("C-z")
    # The shell says so as soon as our process is stopped; less is its child and reads on until it
    # is stopped, too. It may clear the line of the prompt after the shell has written it.
    shown.sees(stopped)
    until(lambda: _states("less", cwd) == ["T"])
    typed("fg", "(END)", without=stopped)
    shown.resize(100, 20)
    shown.sees("line 479", ":", without="(END)")
    shown.press("q")
    back("after the pager")
    typed("clear; probe page 9000 cat | head -n 2; echo done", "line 1\n", "done\n")
    back()
    seen()
    return screens
