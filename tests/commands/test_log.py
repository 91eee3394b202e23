"""What `log` says where there is nothing to list."""

import pytest

from gitshadow.cli import main
from tests.support.repo import Repo
from tests.support.studio import studio_of


@pytest.mark.parametrize(
    ("agent", "hint"),
    [
        ("claude", "no matching changes; did you mean claude-code?\n"),
        ("codxe", "no matching changes; did you mean codex or opencode?\n"),
        ("codex", "no matching changes; to list all: git agent-undo log\n"),
    ],
)
def test_log_names_the_agent_that_was_meant(
    agent: str,
    hint: str,
    repo: Repo,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with studio_of(repo) as studio:
        studio.write("S1", "a", "1\n")
    monkeypatch.chdir(repo.root)
    monkeypatch.setenv("GITSHADOW_DAEMON", "off")
    assert main(["log", "--agent", agent]) == 0
    assert capsys.readouterr().err == hint
