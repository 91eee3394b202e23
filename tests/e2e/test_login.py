"""start --at-login: shown first, taken back whole, and one plain line without systemd."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.repo import Repo
from tests.support.shadow import Shadow

# Its subject is systemd; tests/platform/test_macos.py has launchd.
pytestmark = [pytest.mark.both_modes, pytest.mark.process, pytest.mark.linux]


@pytest.fixture
def shadow(repo: Repo, make_shadow: Callable[..., Shadow]) -> Shadow:
    made = make_shadow(repo)
    made.init()
    return made


@pytest.fixture
def systemd(sealed: Path) -> None:
    """Have the runtime directory look as it does where systemd serves this user."""
    place = Path(os.environ["XDG_RUNTIME_DIR"]) / "systemd"
    place.mkdir()
    (place / "private").touch()


def settings() -> set[str]:
    """Return all that is below the directory of a user's settings."""
    top = Path(os.environ["XDG_CONFIG_HOME"])
    return {str(path.relative_to(top)) for path in top.rglob("*")}


def test_one_line_says_so_where_no_systemd_serves(shadow: Shadow) -> None:
    refused = shadow("start", "--at-login", "--yes")
    assert refused.code == 1
    assert refused.err.splitlines() == [
        "error: cannot start at login: no systemd user manager is running for you",
        "hint: add `git agent-undo daemon start` to your shell profile; hooks start it too",
    ]
    assert settings() == set()


@pytest.mark.usefixtures("systemd")
def test_nothing_is_written_before_somebody_said_yes(shadow: Shadow) -> None:
    shown = shadow("start", "--at-login")
    assert (shown.code, settings()) == (5, set())
    assert "  +[Service]" in shown.out.splitlines()
    assert "nothing was changed" in shown.out
    assert "at your next login" not in shown.out


@pytest.mark.usefixtures("systemd")
@pytest.mark.parametrize("leave", [("stop", "--at-login"), ("uninstall",)])
def test_what_was_written_goes_again(shadow: Shadow, leave: tuple[str, ...]) -> None:
    before = settings()
    document = shadow.ok("start", "--at-login", "--yes", "--json").json()
    assert document["already"] is True
    (link,) = Path(os.environ["XDG_CONFIG_HOME"]).glob("systemd/user/*.wants/*")
    assert " watch\n" in link.read_text()
    shadow.ok(*leave, "--yes")
    assert settings() == before
    assert shadow.daemons() == []
