"""Make the pictures of the documentation: `make pictures`.

What they show really happens (`tests.support.scenery`); each is a shot of the program itself.
"""

import os
import re
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from demo.record import Style, draw, pieces
from gitshadow.messages.codec import decode
from gitshadow.messages.report import ReportAnswer
from gitshadow.render.page import page
from gitshadow.ui.app import UiSettings
from tests.support.browser import browsing
from tests.support.code_server import vs_code
from tests.support.display import await_colour, display, shown
from tests.support.editors import newer, settings
from tests.support.panes import pane, terminal
from tests.support.repo import Repo
from tests.support.scenery import shop
from tests.support.screens import Play, direct, view
from tests.support.studio import studio_of
from tests.support.tools import need
from tests.support.waiting import until

IMAGES = Path(__file__).parents[2] / "docs" / "img"
_LINK = "0000ff"
"""The colour of links in gitk 2.39: the names of branches come after everything else."""
_FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
"""What textual would have a browser load from elsewhere."""
_CONFIG = (
    "[user]\n\tname = You\n\temail = you@example.com\n[init]\n\tdefaultBranch = main\n"
)


def report(repo: Repo, scratch: Path) -> bytes:
    """Return the top of a report's page, one turn open."""
    with studio_of(repo) as studio:
        text = page(decode(ReportAnswer, studio.run("report", session="main")))
    target = scratch / "report.html"
    target.write_text(text, encoding="utf-8")
    with browsing(scratch) as browser:
        browser.look_at(960, 1180)
        browser.open(target.as_uri())
        opened = "document.querySelector('#turn-4').open = true; 0"
        browser.run(opened)
        return browser.picture()


def tig(repo: Repo, scratch: Path) -> bytes:
    """Return tig on a session that is shown."""
    command = (need("tig"), "main", _exposed(repo))
    columns = 126
    with pane(scratch, command, repo.root, columns=columns, lines=13) as seen:
        until(lambda: "Start" in seen())
        return _drawn(seen("-e"), "A session in tig", columns)


def helix(repo: Repo, scratch: Path) -> bytes:
    """Return Helix with the author of a line."""
    languages = scratch / ".config/helix/languages.toml"
    languages.parent.mkdir(parents=True)
    text = settings("toml", "Helix").replace('"text"', '"python"')
    languages.write_text(text.replace('"txt"', '"py"'))
    command = (str(newer("hx")), f"shop/orders.py:{_line_of(repo)}")
    return _asked(scratch, repo, command, ("Space", "k"), "Helix")


def neovim(repo: Repo, scratch: Path) -> bytes:
    """Return Neovim with the author of a line."""
    init = scratch / "init.lua"
    more = 'vim.o.number = true\nvim.o.winborder = "rounded"\nvim.o.shada = ""\n'
    init.write_text(settings("lua", "Neovim") + more)
    place = ("shop/orders.py", f"+{_line_of(repo)}")
    command = (str(newer("nvim")), "-u", str(init), *place)
    return _asked(
        scratch, repo, command, (":lua vim.lsp.buf.hover()", "Enter"), "Neovim"
    )


def emacs(repo: Repo, scratch: Path) -> bytes:
    """Return Emacs with the author of a line."""
    init = scratch / "init.el"
    text = settings("elisp", "Emacs").replace("text-mode", "python-mode")
    quiet = "(setq native-comp-async-report-warnings-errors nil)"
    init.write_text(f"{quiet}\n(package-initialize)\n{text}")
    place = (f"+{_line_of(repo)}", "shop/orders.py")
    command = ("emacs", "-nw", "-q", "-l", str(init), *place)
    keys = ("M-x", "eldoc", "Enter")
    return _asked(scratch, repo, command, keys, "Emacs")


def _line_of(repo: Repo) -> int:
    lines = repo.read("shop/orders.py").decode().split("\n")
    return next(at for at, line in enumerate(lines, 1) if "raise ValueError" in line)


def _asked(
    scratch: Path, repo: Repo, command: Sequence[str], keys: Sequence[str], name: str
) -> bytes:
    """Press the keys that ask for an author until an editor in a terminal shows one."""
    columns = 100
    with terminal(scratch, command, repo.root, columns=columns, lines=26) as shown:
        shown.sees("raise ValueError")
        shown.press_until(lambda text: "names the path" in text, *keys)
        return _drawn(shown.shown("-e"), f"The author of a line in {name}", columns)


def _drawn(text: str, title: str, columns: int) -> bytes:
    style, styled = Style(), []
    for line in text.rstrip("\n").split("\n"):
        styled.append((line, style))
        *_, (_, style) = pieces(line, style)
    return draw(styled, title, columns).encode()


def editor(repo: Repo, scratch: Path) -> bytes:
    """Return VS Code with the author of a line."""
    with vs_code(repo.root, "shop/orders.py", scratch, os.environ) as code:
        code.await_text(".codelens-decoration", "claude-code")
        code.click(".view-line", "        raise ValueError")
        code.press("ki")
        code.await_text(".monaco-hover", "claude-code")
        return code.browser.picture()


def gitk(repo: Repo, scratch: Path) -> bytes:
    """Return gitk on a session that is shown."""
    geometry = scratch / ".config" / "git" / "gitk"
    geometry.parent.mkdir(parents=True)
    geometry.write_text(
        "set geometry(main) 1000x640+0+0\nset geometry(topheight) 190\n"
    )
    session = _exposed(repo)
    command = (need("gitk"), f"--select-commit={session}", "main", session)
    with display(scratch) as screen, shown(screen, command, repo.root):
        return await_colour(screen, _LINK, 1_300).png()


def view_dark(repo: Repo, scratch: Path) -> bytes:
    """Return the view on a dark terminal, a turn selected."""
    return _view(repo, light=False)


def view_light(repo: Repo, scratch: Path) -> bytes:
    """Return the same on a light one."""
    return _view(repo, light=True)


def _view(repo: Repo, *, light: bool) -> bytes:
    made = []

    async def steps(on: Play) -> None:
        await on.seen("Make the order parser", "gap:")
        await on.press("G", "s")
        await on.seen("+from dataclasses import dataclass")
        await on.pilot.pause()
        made.append(on.app.export_screenshot(title="git agent-undo ui"))

    setting = UiSettings("shop", lambda words: 0, light=light)
    view(direct(repo), steps, size=(126, 30), setting=setting)
    return _FONTS.sub("", made[0]).replace("Fira Code", "monospace").encode()


def _exposed(repo: Repo) -> str:
    with studio_of(repo) as studio:
        session = studio.session("main")
        studio.run("expose", session=session)
    repo.git("checkout", "-q", "--", ".")
    repo.git("clean", "-fdq")
    return f"remotes/agent-undo/{session}"


PICTURES: Mapping[str, Callable[[Repo, Path], bytes]] = {
    "report.png": report,
    "editor.png": editor,
    "emacs.svg": emacs,
    "helix.svg": helix,
    "neovim.svg": neovim,
    "tig.svg": tig,
    "gitk.png": gitk,
    "view-dark.svg": view_dark,
    "view-light.svg": view_light,
}


def main(names: list[str]) -> None:
    """Make the named pictures, or all."""
    for name in names or PICTURES:
        # A browser or terminal that was closed may still write its state for a moment.
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
            home = Path(scratch)
            (home / ".gitconfig").write_text(_CONFIG)
            path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
            os.environ |= {"HOME": scratch, "TZ": "UTC", "PATH": path}
            os.environ.pop("XDG_CONFIG_HOME", None)
            repo = shop(home / "shop")
            (IMAGES / name).write_bytes(PICTURES[name](repo, home))


if __name__ == "__main__":
    main(sys.argv[1:])
