"""What a user's own programs see of the terminal is the same with and without the server."""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from gitshadow.ipc import command_client
from tests.support.claude import Claude
from tests.support.shadow import COMMAND, Shadow
from tests.support.shells import shell
from tests.support.terminal import await_sleep, on_a_terminal
from tests.support.tools import need
from tests.support.waiting import until

_LOOK = """\
import json, os, sys
OWN = ("GITSHADOW_SERVER", "GIT_AUTHOR_DATE", "GIT_INDEX_FILE")
def terminal():
    try:
        fd = os.open("/dev/tty", os.O_RDWR)
    except OSError as error:
        return error.strerror
    return os.tcgetpgrp(fd) == os.getpgrp()
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
parent = open(f"/proc/{os.getppid()}/cmdline", "rb").read()
seen = {
    "terminal": terminal(),
    "leader": os.getsid(0) == os.getpid(),
    "streams": [os.isatty(fd) for fd in range(3)],
    # Without those that the C library has for itself; signal(7).
    "signals": [int(status[n], 16) & 0x7FFFFFFF for n in ("SigIgn", "SigBlk")],
    "cwd": os.getcwd(),
    "environ": {k: v for k, v in os.environ.items() if k not in OWN},
}
by_server = b"gitshadow.command_server" in parent
open(os.environ["SEEN"], "w").write(json.dumps([by_server, seen]))
"""


@pytest.fixture
def shadow(shadow_d: Shadow) -> Shadow:
    """Return the executed command."""
    shadow_d.executes = True
    return shadow_d


def _write(shadow: Shadow, text: str) -> None:
    agent = Claude(shadow)
    agent.prompt("go")
    agent.write("a", text)


@pytest.fixture
def alone() -> None:
    """Leave the server of all tests there."""


@pytest.mark.parametrize(
    ("words", "variable", "parents"),
    [
        (("oops", "--yes"), "GITSHADOW_PRE_UNDO", [False, True]),
        # The client runs the pager, and a commit itself: they are at its terminal.
        (("log",), "GIT_PAGER", [False, False]),
        (("commit", "last", "--yes", "--edit"), "GIT_EDITOR", [False, False]),
    ],
    ids=("hook", "pager", "editor"),
)
def test_a_program_sees_the_same(
    shadow: Shadow,
    words: Sequence[str],
    variable: str,
    parents: Sequence[bool],
    tmp_path: Path,
) -> None:
    look, seen = tmp_path / "look", tmp_path / "seen"
    look.write_text(f"#!{sys.executable}\n{_LOOK}")
    look.chmod(0o755)
    found = []
    for switch in ("off", "auto"):
        _write(shadow, f"{switch}\n")
        env = {
            command_client.OFF: switch,
            "SEEN": str(seen),
            variable: str(look),
        }
        on_a_terminal(shadow, *words, env=env)
        found.append(json.loads(seen.read_text()))
        seen.unlink()
    assert [one[0] for one in found] == parents
    assert found[0][1] == found[1][1]
    # A hook is to end by itself in its time, and its group with it: it has a session of its own.
    assert found[0][1]["terminal"] == (
        "No such device or address" if words[0] == "oops" else True
    )


def test_ctrl_c_ends_a_hook_and_not_the_undo(shadow: Shadow, tmp_path: Path) -> None:
    hook, began = tmp_path / "hook", tmp_path / "began"
    hook.write_text(f"#!/bin/sh\necho $$ > {began}\nexec sleep 1000\n")
    hook.chmod(0o755)
    shadow.repo.git("config", "agent-undo.postUndo", str(hook))
    words = [need("bash"), "--norc", "--noprofile", "-i"]
    for switch in ("off", "auto"):
        _write(shadow, f"{switch}\n")
        env = shadow.environment({command_client.OFF: switch})
        with shell(words, "", shadow.repo.root, env) as bash:
            os.write(bash.terminal, f"{COMMAND} oops --yes; echo CO''DE $?\n".encode())
            until(lambda: began.exists() and began.read_text() != "")
            process = Path("/proc", began.read_text().strip())
            # The command waits for it. An interrupt while it is being started would leave it alone.
            parent = (process / "stat").read_text().rpartition(")")[2].split()[1]
            await_sleep(int(parent))
            shown = bash.press("\x03", until="CODE ")
            assert "note: agent-undo.postUndo: interrupted" in shown
            assert "CODE 0" in bash.press("", until="READY> ")
        assert not process.exists()
        began.unlink()
