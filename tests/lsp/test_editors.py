"""Real editors with the lines of the documentation: who wrote this, and undo it."""

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.lsp.test_server import NEW, OLD
from tests.support.repo import Repo
from tests.support.shadow import COMMAND, Shadow
from tests.support.studio import studio_of
from tests.support.tools import need
from tests.support.waiting import HANGS_S

PAGE = Path(__file__).parents[2] / "docs/editors.md"
STEPS = Path(__file__).parent
_EGLOT = ("-f", "package-initialize", "--eval", "(require 'eglot)")


@pytest.fixture
def said(
    repo: Repo, make_shadow: Callable[..., Shadow], tmp_path: Path
) -> Callable[..., str]:
    """Return what runs an editor with the settings of the page, and what its script wrote."""
    repo.write("a.txt", OLD)
    repo.commit("start")
    with studio_of(repo) as studio:
        studio.prompt("S1", "Make the third line better")
        studio.write("S1", "a.txt", NEW)
        studio.stop("S1")
    shadow = make_shadow(repo, daemon=False)

    def run(*command: str | Path, language: str, init: Path, more: str = "") -> str:
        block = re.search(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)
        assert block is not None
        init.write_text(block[1] + more)
        written = tmp_path / "said"
        path = f"{Path(COMMAND).parent}:{shadow.environment()['PATH']}"
        done = subprocess.run(
            command,
            cwd=repo.root,
            env=shadow.environment({"SAID": str(written), "PATH": path}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=HANGS_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        text = written.read_text()
        assert r"hover **claude\-code** · t1" in text, (text, done.stderr)
        assert "Make the third line better" in text
        assert "\nline line 3\n" in text
        assert repo.read("a.txt").decode() == OLD
        return text

    return run


def test_neovim_shows_the_author_of_a_line_and_undoes_it(
    said: Callable[..., str], tmp_path: Path
) -> None:
    need("nvim")
    init = tmp_path / "init.lua"
    steps = ("-c", f"luafile {STEPS / 'neovim.lua'}", "-c", "qa!")
    text = said(
        *("nvim", "--headless", "-u", init, "a.txt", *steps),
        language="lua",
        init=init,
        more='vim.o.autoread = true\nvim.o.shada = ""\n',
    )
    assert "asked claude-code" in text
    assert "said restored 1 file" in text


def test_emacs_shows_the_author_of_a_line_and_undoes_it(
    said: Callable[..., str], tmp_path: Path
) -> None:
    if not _has_eglot():
        pytest.skip("no Emacs with eglot (Debian packages emacs-nox and elpa-eglot)")
    init = tmp_path / "init.el"
    options = ("--batch", "-l", "package", *_EGLOT, "-l", init)
    text = said(
        "emacs", *options, "-l", STEPS / "emacs.el", language="elisp", init=init
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
