"""Colour and pager, chosen as Git chooses them."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.repo import Repo
from tests.support.shadow import COMMAND, Shadow
from tests.support.waiting import HANGS_S

SHOW = (
    "from gitshadow.commands.terminal import screen; found = screen();"
    "print(found.view.colour, found.view.terminal, found.view.prefix, found.pager)"
)


def written(cwd: Path, *command: str, **env: str) -> tuple[int, bytes]:
    """Return the exit code of a command, and what it writes to a terminal."""
    ours, theirs = pty.openpty()
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, "TERM": "xterm", **env},
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        timeout=HANGS_S,
        check=False,
    )
    os.close(theirs)
    out = os.read(ours, 1 << 16)
    os.close(ours)
    return done.returncode, out


def on_a_terminal(cwd: Path, **env: str) -> str:
    """Return what `screen` finds in a process whose standard output is a terminal."""
    code, out = written(cwd, sys.executable, "-c", SHOW, **env)
    assert code == 0
    return out.decode().strip()


def in_a_pipe(cwd: Path, **env: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", SHOW],
        cwd=cwd,
        env={**os.environ, "TERM": "xterm", **env},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()


def test_terminal_has_colour_and_the_named_pager(repo: Repo) -> None:
    assert on_a_terminal(repo.root, PAGER="more") == "True True b'' more"


def test_core_pager_wins_over_pager_and_git_pager_over_both(repo: Repo) -> None:
    repo.git("config", "core.pager", "cored -x")
    assert on_a_terminal(repo.root, PAGER="more").endswith(" cored -x")
    found = on_a_terminal(repo.root, PAGER="more", GIT_PAGER="cat")
    assert found.endswith(" None")


@pytest.mark.parametrize(
    "env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=["no-color", "dumb"]
)
def test_terminal_that_wants_no_colour_gets_none(
    repo: Repo, env: dict[str, str]
) -> None:
    assert on_a_terminal(repo.root, **env).startswith("False True ")


def test_color_ui_off_is_obeyed(repo: Repo) -> None:
    repo.git("config", "color.ui", "false")
    assert on_a_terminal(repo.root).startswith("False True ")


def test_pipe_has_neither_colour_nor_pager(repo: Repo) -> None:
    """UX-06: no colour into a pipe."""
    assert in_a_pipe(repo.root) == "False False b'' None"
    assert in_a_pipe(repo.root, GIT_PAGER_IN_USE="true").startswith("True False ")


def test_pipe_has_colour_when_the_user_wants_it_always(repo: Repo) -> None:
    repo.git("config", "color.ui", "always")
    assert in_a_pipe(repo.root) == "True False b'' None"
    assert in_a_pipe(repo.root, NO_COLOR="1") == "False False b'' None"


def test_prefix_is_where_the_command_is_typed(repo: Repo) -> None:
    """UX-01: paths are shown from the current directory."""
    (repo.root / "sub" / "deep").mkdir(parents=True)
    found = in_a_pipe(repo.root / "sub" / "deep")
    assert found == "False False b'sub/deep' None"


def shown(cwd: Path, *words: str, **env: str) -> bytes:
    """Return what a verb writes to a terminal."""
    return written(cwd, COMMAND, *words, **{"GIT_PAGER": "cat", **env})[1]


@pytest.mark.parametrize(
    ("words", "env", "coloured"),
    [
        ((), {}, True),
        (("--color=never",), {}, False),
        (("--color=always",), {"NO_COLOR": "1"}, True),
        (("--color=auto",), {"NO_COLOR": "1"}, False),
    ],
)
def test_color_is_spelled_as_git_does(
    words: tuple[str, ...], env: dict[str, str], coloured: bool, shadow_n: Shadow
) -> None:
    shadow_n.repo.write("new", "x\n")
    out = shown(shadow_n.repo.root, "log", "--events", *words, **env)
    assert (b"\x1b[32mcreate" in out) is coloured


def test_color_always_colours_a_pipe_too(shadow_n: Shadow) -> None:
    shadow_n.repo.write("new", "x\n")
    assert "\x1b[" in shadow_n.ok("log", "--color=always").out
    assert "\x1b[" not in shadow_n.ok("log").out


def test_terminal_of_the_c_locale_gets_no_sign_beyond_ascii(shadow_n: Shadow) -> None:
    repo = shadow_n.repo
    repo.write("old", "some text to know it again by\n")
    shadow_n.ok("flush")
    (repo.root / "old").rename(repo.root / "new")
    assert b"old -> new" in shown(repo.root, "log", "--events", LC_ALL="C")
    assert "old → new".encode() in shown(repo.root, "log", "--events", LC_ALL="C.UTF-8")
