"""Real editors with the lines of the documentation: who wrote this, and undo it."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.lsp.test_server import NEW, OLD
from tests.support.editors import newer, settings
from tests.support.panes import terminal
from tests.support.repo import Repo
from tests.support.shadow import COMMAND, Shadow
from tests.support.studio import studio_of
from tests.support.tools import need
from tests.support.waiting import HANGS_S

STEPS = Path(__file__).parent
_EGLOT = ("-f", "package-initialize", "--eval", "(require 'eglot)")


@pytest.fixture
def changed(repo: Repo, make_shadow: Callable[..., Shadow]) -> Shadow:
    """Return R, in which an agent has changed a line of `a.txt`."""
    repo.write("a.txt", OLD)
    repo.commit("start")
    with studio_of(repo) as studio:
        studio.prompt("S1", "Make the third line better")
        studio.write("S1", "a.txt", NEW)
        studio.stop("S1")
    return make_shadow(repo, daemon=False)


@pytest.fixture
def said(changed: Shadow, tmp_path: Path) -> Callable[..., str]:
    """Return what runs an editor with the settings of the page, and what its script wrote."""
    repo = changed.repo

    def run(*command: str | Path, init: Path, text: str) -> str:
        init.write_text(text)
        written = tmp_path / "said"
        path = f"{Path(COMMAND).parent}:{changed.environment()['PATH']}"
        done = subprocess.run(
            command,
            cwd=repo.root,
            env=changed.environment({"SAID": str(written), "PATH": path}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=HANGS_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        text = written.read_text()
        assert "hover **claude-code** · t1" in text, (text, done.stderr)
        assert "Make the third line better" in text
        assert "\nline line 3\n" in text
        assert repo.read("a.txt").decode() == OLD
        return text

    return run


@pytest.mark.parametrize("is_newer", [False, True])
def test_neovim_shows_the_author_of_a_line_and_undoes_it(
    said: Callable[..., str], tmp_path: Path, is_newer: bool
) -> None:
    program = newer("nvim") if is_newer else need("nvim")
    init = tmp_path / "init.lua"
    steps = ("-c", f"luafile {STEPS / 'neovim.lua'}", "-c", "qa!")
    heading = "Neovim" if is_newer else "Neovim before 0.11"
    more = 'vim.o.autoread = true\nvim.o.shada = ""\n'
    text = said(
        *(program, "--headless", "-u", init, "a.txt", *steps),
        init=init,
        text=settings("lua", heading) + more,
    )
    assert "asked claude-code" in text
    assert "said restored 1 file" in text


def test_helix_shows_the_author_of_a_line_and_undoes_it(
    changed: Shadow, sealed: Path, tmp_path: Path
) -> None:
    program = newer("hx")
    languages = sealed / "config/helix/languages.toml"
    languages.parent.mkdir(parents=True)
    languages.write_text(settings("toml", "Helix"))
    path = f"{Path(COMMAND).parent}:{os.environ['PATH']}"
    env = changed.environment({"PATH": path})
    with terminal(
        tmp_path, [str(program), "a.txt:3"], changed.repo.root, env=env
    ) as shown:
        shown.sees("third", "3:1")
        # Helix answers for a server that has not started.
        shown.press_until(lambda text: "claude-code · t1" in text, "Space", "k")
        shown.sees("Make the third line better", "before:", "line 3")
        shown.press("Escape")
        # Escape and a key at once are Alt.
        shown.sees("line 5", without="claude-code · t1")
        shown.press("Space", "a")
        shown.sees("Undo in this file: claude-code")
        shown.press("Down", "Down", "Enter")
        shown.sees("will restore 1 file", "+line 3", "Do it")
        shown.press("Enter")
        shown.sees("restored 1 file")
    assert changed.repo.read("a.txt").decode() == OLD


def test_emacs_shows_the_author_of_a_line_and_undoes_it(
    said: Callable[..., str], tmp_path: Path
) -> None:
    if not _has_eglot():
        pytest.skip("no Emacs with eglot (Debian packages emacs-nox and elpa-eglot)")
    init = tmp_path / "init.el"
    options = ("--batch", "-l", "package", *_EGLOT, "-l", init)
    text = said(
        *("emacs", *options, "-l", STEPS / "emacs.el"),
        init=init,
        text=settings("elisp", "Emacs"),
    )
    assert "Server reports (type=3): claude-code, just now" in text
    assert "told Server reports (type=3): restored 1 file" in text


def _has_eglot() -> bool:
    emacs = shutil.which("emacs")
    return (
        emacs is not None
        and subprocess.run(
            [emacs, "--batch", "-l", "package", *_EGLOT],
            capture_output=True,
            check=False,
            timeout=HANGS_S,
        ).returncode
        == 0
    )
