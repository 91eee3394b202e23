"""The program behind Git's own hooks: what it passes on, and that Git always goes on."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from gitshadow.errors import LockedError
from gitshadow.ipc import githook
from gitshadow.store.layout import Layout
from tests.support.repo import Repo
from tests.support.shadow import COMMAND, Shadow
from tests.support.waiting import HANGS_S

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def told(shadow_n: Shadow, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, object]]:
    """Stand in an initialised repository; return the list of what the engine is told."""
    monkeypatch.chdir(shadow_n.repo.root)
    return []


def hook(told: list[dict[str, object]], *words: str) -> list[tuple[object, object]]:
    def tell(layout: Layout, params: Mapping[str, object]) -> None:
        told.append(dict(params))

    assert githook.main(list(words), tell) == 0
    return [(one["event"], one["managed"]) for one in told]


def test_event_is_told_with_the_process_that_waits(
    told: list[dict[str, object]],
) -> None:
    assert hook(told, "post-checkout", "a", "b", "1") == [("post-checkout", False)]
    assert told[0]["pid"] == os.getppid()


@pytest.mark.parametrize(
    ("variable", "event"),
    [
        ("PRE_COMMIT_CHECKOUT_TYPE", "post-checkout"),
        ("PRE_COMMIT_IS_SQUASH_MERGE", "post-merge"),
        ("PRE_COMMIT_REWRITE_COMMAND", "post-rewrite"),
        ("PRE_COMMIT", "post-commit"),
    ],
)
def test_event_of_pre_commit_is_told_by_its_variables(
    told: list[dict[str, object]],
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    event: str,
) -> None:
    monkeypatch.setenv(variable, "1")
    assert hook(told, "--from-pre-commit") == [(event, True)]


def test_hook_that_another_follows_says_so(told: list[dict[str, object]]) -> None:
    hook(told, "--chained", "pre-commit")
    assert (told[0]["event"], told[0]["chained"]) == ("pre-commit", True)


def test_event_that_pre_commit_names_stands(told: list[dict[str, object]]) -> None:
    assert hook(told, "--from-pre-commit", "pre-commit") == [("pre-commit", True)]


@pytest.mark.parametrize(
    "name", ["GITSHADOW_INTERNAL", "_PRE_COMMIT_SKIP_POST_CHECKOUT"]
)
def test_calls_of_our_own_git_and_of_a_stash_are_dropped(
    told: list[dict[str, object]], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "1")
    assert hook(told, "post-checkout", "a", "b", "0") == []


@pytest.mark.parametrize(("word", "calls"), [("false", 0), ("OFF", 0), ("true", 1)])
def test_call_is_dropped_where_recording_is_switched_off(
    told: list[dict[str, object]],
    monkeypatch: pytest.MonkeyPatch,
    word: str,
    calls: int,
) -> None:
    monkeypatch.setenv("GITSHADOW_ENABLED", word)
    assert len(hook(told, "post-checkout", "a", "b", "0")) == calls


def test_only_the_end_of_a_reference_transaction_is_told(shadow_n: Shadow) -> None:
    for state in ("preparing", "prepared", "aborted", "committed"):
        done = shadow_n(
            "git-hook", "reference-transaction", state, stdin=b"x" * 1_000_000
        )
        assert (done.code, done.raw, done.err) == (0, b"", "")


def test_variables_of_git_are_gone_before_the_engine_looks(
    told: list[dict[str, object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", "/elsewhere")
    monkeypatch.setenv("GIT_INDEX_FILE", "/elsewhere/index")
    hook(told, "post-commit")
    assert not {"GIT_DIR", "GIT_INDEX_FILE"} & set(os.environ)


def test_list_of_post_rewrite_is_read_to_its_end(
    shadow_n: Shadow,
) -> None:
    with subprocess.Popen(
        [COMMAND, "git-hook", "post-rewrite", "rebase"],
        cwd=shadow_n.repo.root,
        env=shadow_n.environment(),
        stdin=subprocess.PIPE,
    ) as child:
        assert child.stdin is not None
        child.stdin.write(b"old new\n" * 100_000)  # more than a pipe holds
        child.stdin.close()
        assert child.wait(HANGS_S) == 0


def test_repository_that_was_not_initialised_is_left_alone(
    repo: Repo, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(repo.root)
    assert hook([], "post-commit") == []
    assert capsys.readouterr() == ("", "")
    assert not repo.state_dir.exists()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (LockedError("busy"), ""),
        (RuntimeError("bad\x1b"), "git-agent-undo: 'bad\\x1b'\n"),
    ],
)
def test_git_goes_on_whatever_the_engine_says(
    shadow_n: Shadow,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: Exception,
    said: str,
) -> None:
    def fail(layout: Layout, params: Mapping[str, object]) -> None:
        raise error

    monkeypatch.chdir(shadow_n.repo.root)
    assert githook.main(["post-commit"], fail) == 0
    assert capsys.readouterr().err == said


def test_no_third_party_package_is_imported() -> None:
    """Its import time is a person's waiting time, several times a commit."""
    code = (
        "import sys; from gitshadow.ipc import githook, client, wire\n"
        "print(sorted({'click', 'pygit2', 'watchfiles'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_entries_for_pre_commit_run_where_the_program_is(shadow_n: Shadow) -> None:
    text = (ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")
    entries = re.findall(r"^ +entry: git-agent-undo (.+)$", text, re.MULTILINE)
    assert len(entries) == text.count("-   id: ") == 3
    for entry in entries:
        done = shadow_n(*entry.split(), env={"PRE_COMMIT": "1"})
        assert (done.code, done.raw, done.err) == (0, b"", "")
