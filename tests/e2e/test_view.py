"""UX, the view as installed: in a real terminal, by keys, and where there is none."""

import os
import signal
from pathlib import Path

import pytest

from tests.support.panes import terminal
from tests.support.shadow import COMMAND, Shadow
from tests.support.terminal import on_a_terminal

VIEW = (COMMAND, "ui")


@pytest.fixture
def wronged(shadow_n: Shadow) -> Shadow:
    """Return the command in R after three runs of agents; the second made `wrong.py`."""
    for name in ("first", "wrong", "third"):
        told = f"echo {name} > {name}.py"
        shadow_n.ok("exec", "--agent", name, "--", "sh", "-c", told)
    return shadow_n


@pytest.mark.parametrize(("columns", "lines"), [(80, 24), (60, 20)])
def test_the_right_turn_is_found_and_undone_within_ten_keys(
    wronged: Shadow, tmp_path: Path, columns: int, lines: int
) -> None:
    """Search, undo, yes: eight keys, and only that run is taken back."""
    root = wronged.repo.root
    with terminal(tmp_path, VIEW, root, columns=columns, lines=lines) as shown:
        shown.sees("wrong", "third", "first")
        shown.press("/", "w", "r", "o", "n", "Enter", "u")
        shown.sees("y apply", "wrong.py")
        shown.press("y")
        shown.sees("undo this with")
    assert not (root / "wrong.py").exists()
    assert (root / "first.py").read_text() == "first\n"
    assert (root / "third.py").read_text() == "third\n"


@pytest.mark.parametrize(
    "env",
    [{"NO_COLOR": "1"}, {"LC_ALL": "C"}, {"LC_ALL": "broken.XX", "LANG": "broken.XX"}],
)
def test_it_works_without_colours_and_without_a_locale(
    wronged: Shadow, tmp_path: Path, env: dict[str, str]
) -> None:
    """UX: what is drawn is whole, in ASCII where the locale has no more."""
    root = wronged.repo.root
    wronged.repo.write("größe \x1b[31m.txt", "x\n")
    wronged.ok("flush")
    whole = {**os.environ, "LC_ALL": "C.UTF-8", **env}
    with terminal(tmp_path, VIEW, root, columns=80, lines=24, env=whole) as shown:
        shown.sees("first", "x1b[31m.txt")
        text, styled = shown.shown(), shown.shown("-e")
        assert ("größe" in text) == ("LC_ALL" not in env)
        assert text.isascii() == ("LC_ALL" in env)
        coloured = any(f"\x1b[{code}" in styled for code in ("31m", "38;5", "38;2"))
        assert coloured == ("NO_COLOR" not in env)
        shown.press("q")


def test_first_screen_shows_the_turns_after_a_checkout_of_many_files(
    wronged: Shadow, tmp_path: Path
) -> None:
    repo = wronged.repo
    repo.git("switch", "-q", "-c", "many")
    for number in range(300):
        repo.write(f"many/{number}", "x\n")
    repo.git("add", "many")
    repo.git("commit", "-qm", "many")
    wronged.ok("flush")
    repo.git("switch", "-q", "main")
    wronged.ok("flush")
    with terminal(tmp_path, VIEW, repo.root, columns=80, lines=24) as shown:
        shown.sees("git switched 300 files", "third", "wrong", "first")


@pytest.mark.parametrize(
    ("env", "focused", "other"),
    [
        ({"NO_COLOR": "1"}, "┏━ ", "╭─ "),
        ({"LC_ALL": "C", "NO_COLOR": "1"}, "+- ", "   "),
    ],
)
def test_focus_is_seen_without_colours(
    wronged: Shadow, tmp_path: Path, env: dict[str, str], focused: str, other: str
) -> None:
    root = wronged.repo.root
    with terminal(tmp_path, VIEW, root, columns=120, lines=40, env=env) as shown:
        shown.sees(f"{focused}Timeline", f"{other}Files", "Enter files")
        shown.press("Enter")
        shown.sees(f"{other}Timeline", f"{focused}Files", "u undo file")


def test_it_follows_a_terminal_that_changes_its_size(
    wronged: Shadow, tmp_path: Path
) -> None:
    with terminal(tmp_path, VIEW, wronged.repo.root, columns=80, lines=24) as shown:
        shown.sees("of turn")
        shown.resize(50, 12)
        shown.sees("third", without="of turn")
        shown.resize(140, 40)
        shown.sees("of turn", "third")


@pytest.mark.parametrize("sign", [signal.SIGHUP, signal.SIGKILL])
def test_a_view_that_dies_leaves_nothing_half(
    wronged: Shadow, tmp_path: Path, sign: signal.Signals
) -> None:
    """The terminal is gone right after the yes: all of the undo is done, or nothing."""
    root = wronged.repo.root
    with terminal(tmp_path, VIEW, root, columns=80, lines=24) as shown:
        shown.sees("third")
        shown.press("u")
        shown.sees("y apply")
        pid = shown.pid
        shown.press("y")
        os.kill(pid, sign)
    wronged.ok("flush")
    ops = wronged.ok("ops", "--json").rows()
    assert [op["status"] for op in ops] in ([], ["done"])
    assert (root / "third.py").exists() == (not ops)


def test_a_view_that_is_terminated_gives_the_terminal_back(
    wronged: Shadow, tmp_path: Path
) -> None:
    """The screen before it is shown again, and what is typed is echoed."""
    pid = tmp_path / "pid"
    begun = f"sh -c 'echo $$ >{pid}; exec {COMMAND} ui'; echo left $?; exec cat"
    with terminal(tmp_path, ("sh", "-c", begun), wronged.repo.root) as shown:
        shown.sees("third")
        os.kill(int(pid.read_text()), signal.SIGTERM)
        shown.sees("left 143", without="third")
        shown.press("e", "c", "h", "o")
        shown.sees("echo")


def test_a_terminal_that_cannot_draw_gets_one_line(wronged: Shadow) -> None:
    shown = on_a_terminal(wronged, "ui", env={"TERM": "dumb"})
    assert shown.code == 2
    assert "TERM=dumb" in shown.text
    assert "git agent-undo log" in shown.text


def test_a_pipe_gets_one_line(wronged: Shadow) -> None:
    result = wronged("ui")
    assert result.code == 2
    assert result.err == (
        "error: the terminal UI needs a terminal\n"
        "hint: git agent-undo log, and git agent-undo show ID\n"
    )
