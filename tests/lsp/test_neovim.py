"""A real editor with the lines of the documentation: who wrote this, and undo it."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.lsp.test_server import NEW, OLD
from tests.support.repo import Repo
from tests.support.shadow import COMMAND, Shadow
from tests.support.studio import studio_of
from tests.support.tools import need
from tests.support.waiting import HANGS_S

PAGE = Path(__file__).parents[2] / "docs/editors.md"
STEPS = Path(__file__).with_name("neovim.lua")


def test_neovim_shows_the_author_of_a_line_and_undoes_it(
    repo: Repo, make_shadow: Callable[..., Shadow], tmp_path: Path
) -> None:
    need("nvim")
    repo.write("a.txt", OLD)
    repo.commit("start")
    with studio_of(repo) as studio:
        studio.prompt("S1", "Make the third line better")
        studio.write("S1", "a.txt", NEW)
        studio.stop("S1")
    shadow = make_shadow(repo, daemon=False)
    block = re.search(r"```lua\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert block is not None
    init = tmp_path / "init.lua"
    init.write_text(block[1] + 'vim.o.autoread = true\nvim.o.shada = ""\n')
    said = tmp_path / "said"
    path = f"{Path(COMMAND).parent}:{shadow.environment()['PATH']}"
    done = subprocess.run(
        [
            "nvim",
            "--headless",
            "-u",
            init,
            "a.txt",
            "-c",
            f"luafile {STEPS}",
            "-c",
            "qa!",
        ],
        cwd=repo.root,
        env=shadow.environment({"SAID": str(said), "PATH": path}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=HANGS_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    text = said.read_text()
    assert r"hover **claude\-code** · t1" in text, (text, done.stderr)
    assert "Make the third line better" in text
    assert "asked claude-code" in text
    assert "said restored 1 file" in text
    assert "\nline line 3\n" in text
    assert repo.read("a.txt").decode() == OLD
