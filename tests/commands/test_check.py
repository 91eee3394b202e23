"""check at the door: what passes although it failed, and what Git says of its index."""

import os
import sqlite3
from collections.abc import Mapping

import pytest

from gitshadow import cli
from gitshadow.commands import client
from gitshadow.errors import JournalError, LockedError, StoreError, UsageError
from gitshadow.messages.codec import JsonObject, Params
from gitshadow.store.layout import Layout
from tests.support.repo import Repo


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Mapping[str, object]]:
    """Have the engine answer that nothing was found; return what it is asked."""
    seen: list[Mapping[str, object]] = []

    def ask(_: Layout, name: str, params: Params) -> JsonObject:
        seen.append(params)
        return {"status": "passed", "findings": [], "change": {}}

    monkeypatch.setattr(client, "answer", ask)
    return seen


def ends(monkeypatch: pytest.MonkeyPatch, how: JsonObject | Exception) -> None:
    """Have the engine answer with this document, or raise this error."""

    def answer(_: Layout, name: str, params: Params) -> JsonObject:
        if isinstance(how, Exception):
            raise how
        return how

    monkeypatch.setattr(client, "answer", answer)


@pytest.mark.parametrize(
    "error",
    [
        LockedError("another process is at work", hint="wait"),
        JournalError("the journal is damaged"),
        StoreError("an object is missing"),
        ValueError("a bug"),
    ],
)
def test_gate_never_fails_because_of_us(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: Exception,
) -> None:
    ends(monkeypatch, error)
    assert cli.main(["check"]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("warning: nothing was checked: ")
    assert err.count("\n") == 1
    assert str(error) in err


def test_skipped_check_is_a_document_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ends(monkeypatch, LockedError("busy"))
    assert cli.main(["check", "--json"]) == 0
    assert '"status": "skipped"' in capsys.readouterr().out


def test_what_the_user_typed_wrong_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ends(monkeypatch, UsageError("cannot find commit x"))
    assert cli.main(["check", "x"]) == 2
    assert "cannot find commit x" in capsys.readouterr().err


def test_refused_change_exits_5(monkeypatch: pytest.MonkeyPatch) -> None:
    ends(monkeypatch, {"status": "refused", "findings": [], "change": {}})
    assert cli.main(["check"]) == 5


def test_index_of_the_running_commit_is_passed_on(
    asked: list[Mapping[str, object]],
    monkeypatch: pytest.MonkeyPatch,
    repo: Repo,
) -> None:
    """Git names it relative to the top, where it runs hooks (githooks(5))."""
    monkeypatch.chdir(repo.root)
    monkeypatch.setenv("GIT_INDEX_FILE", ".git/index.lock")
    assert cli.main(["check", "--quiet"]) == 0
    assert asked[0]["index"] == str(repo.root / ".git" / "index.lock")
    assert (asked[0]["pid"], asked[0]["parent"]) == (os.getpid(), os.getppid())


def test_settings_in_the_environment_are_passed_on(
    asked: list[Mapping[str, object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITSHADOW_CHECK_GAPS", "off")
    monkeypatch.setenv("GITSHADOW_CONFIRM", "off")
    cli.main(["check"])
    assert asked[0]["environ"] == {"GITSHADOW_CHECK_GAPS": "off"}


def test_settings_of_git_c_go_along_and_others_are_named(
    asked: list[Mapping[str, object]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A daemon has another environment, and libgit2 reads none of it."""
    given = "'agent-undo.check.gaps'='off' 'agent-undo.prompts'='off'"
    monkeypatch.setenv("GIT_CONFIG_PARAMETERS", given)
    cli.main(["check"])
    assert asked[0]["environ"] == {"GITSHADOW_CHECK_GAPS": "off"}
    said = "warning: `git -c agent-undo.prompts` is ignored here\n"
    assert capsys.readouterr().err == said


@pytest.mark.parametrize(
    "words",
    [
        ["--staged", "HEAD"],
        ["--range", "a..b", "HEAD"],
        ["--staged", "--range", "a..b"],
    ],
)
def test_one_change_is_checked_at_a_time(
    asked: list[Mapping[str, object]], words: list[str]
) -> None:
    assert cli.main(["check", *words]) == 2
    assert asked == []


def test_journal_of_another_version_is_left_alone(
    repo: Repo,
    asked: list[Mapping[str, object]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """pre-commit's copy of ours may be newer than the one that records here."""
    monkeypatch.chdir(repo.root)
    repo.state_dir.mkdir()
    with sqlite3.connect(repo.state_dir / "journal.db") as db:
        db.execute("PRAGMA user_version = 900")
    assert cli.main(["check", "--from-pre-commit"]) == 0
    assert asked == []
    assert "the journal is from another version" in capsys.readouterr().err
