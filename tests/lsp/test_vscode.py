"""VS Code with our extension: who wrote this, the plan of an undo as a diff, and the undo."""

from collections.abc import Callable
from pathlib import Path

from tests.lsp.test_server import NEW, OLD
from tests.support.code_server import vs_code
from tests.support.repo import Repo
from tests.support.shadow import Shadow
from tests.support.studio import studio_of
from tests.support.waiting import until

LINES = ".view-line"
MENU = ".action-widget .monaco-list-row"
BUTTONS = ".notification-list-item .monaco-button"


def test_vs_code_shows_the_author_of_a_line_and_undoes_it(
    repo: Repo, make_shadow: Callable[..., Shadow], tmp_path: Path
) -> None:
    repo.write("a.txt", OLD)
    repo.commit("start")
    with studio_of(repo) as studio:
        studio.prompt("S1", "Make the third line better")
        studio.write("S1", "a.txt", NEW)
        studio.stop("S1")
    environ = make_shadow(repo, daemon=False).environment()
    with vs_code(repo.root, "a.txt", tmp_path, environ) as code:
        code.await_text(".codelens-decoration", "claude-code")
        code.click(LINES, "third")
        code.press("ki")
        assert "Make the third line better" in code.await_text(
            ".monaco-hover", "claude-code · t1"
        )
        code.press(".")
        code.click(MENU, "Undo in this file: claude-code")
        code.await_text(LINES, "-third")
        code.await_text(LINES, "+line 3")
        code.click(BUTTONS, "Do it")
        until(lambda: repo.read("a.txt").decode() == OLD)
