"""`ui` where it cannot be shown: one line, and what helps."""

import locale
import sys

import pytest

from gitshadow.cli import main
from gitshadow.commands import ui
from gitshadow.commands.here import HereEngine
from gitshadow.ui.app import ViewApp
from tests.support.repo import Repo
from tests.support.studio import studio_of


@pytest.fixture
def on_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have it believe that somebody looks at it."""
    monkeypatch.setattr(ui, "is_interactive", lambda: True)
    monkeypatch.setenv("TERM", "xterm")


@pytest.mark.usefixtures("on_terminal")
def test_without_textual_it_says_how_to_get_it(
    repo: Repo, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with studio_of(repo):
        pass
    monkeypatch.chdir(repo.root)
    monkeypatch.setitem(sys.modules, "textual", None)
    assert main(["ui"]) == 1
    assert capsys.readouterr().err == (
        "error: cannot start the terminal UI: textual is not installed\n"
        "hint: pip install 'gitshadow[ui]', or: pipx inject gitshadow textual\n"
    )


@pytest.mark.usefixtures("on_terminal")
def test_where_nothing_is_recorded_it_says_init(
    repo: Repo, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(repo.root)
    assert main(["ui"]) == 1
    assert "hint: git agent-undo init" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("env", "unicode"),
    [
        ({"LC_ALL": "C"}, False),
        ({"LC_ALL": "POSIX", "LANG": "C.UTF-8"}, False),
        ({"LC_ALL": "C.UTF-8"}, True),
        ({"LANG": "C.UTF-8"}, True),
        ({"LANG": "no_such.utf8"}, True),
        ({"LANG": "no_such"}, False),
        ({}, False),
    ],
)
def test_locale_says_what_can_be_drawn(
    monkeypatch: pytest.MonkeyPatch, env: dict[str, str], unicode: bool
) -> None:
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    before = locale.setlocale(locale.LC_CTYPE)
    try:
        assert ui._has_unicode() == unicode
    finally:
        locale.setlocale(locale.LC_CTYPE, before)


@pytest.mark.parametrize(
    ("ground", "light"), [("0;15", True), ("15;0", False), ("", False)]
)
def test_ground_says_whether_it_is_light(
    monkeypatch: pytest.MonkeyPatch, ground: str, light: bool
) -> None:
    monkeypatch.setenv("COLORFGBG", ground)
    assert ui._is_light() == light


@pytest.mark.usefixtures("on_terminal")
def test_what_nobody_expected_is_one_line_without_the_values_of_variables(
    repo: Repo, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(self: HereEngine, verb: object, request: object) -> None:
        raise ValueError("odd")

    run = ViewApp.run
    with studio_of(repo):
        pass
    monkeypatch.chdir(repo.root)
    monkeypatch.setattr(HereEngine, "send", fail)
    monkeypatch.setattr(ViewApp, "run", lambda app: run(app, headless=True))
    assert main(["ui"]) == 1
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "error: internal: ValueError: odd"
    assert said[1].startswith("hint: please report this, with ")
    assert len(said) == 2
