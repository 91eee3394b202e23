"""Trailers through Git itself: hooks installed, messages written, given up and replayed."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.claude import Claude
from tests.support.repo import Repo
from tests.support.shadow import Shadow

ADD = "Assisted-by: claude-code:claude-sonnet-5\nAgent-Session: "


@pytest.fixture
def hooked(shadow_n: Shadow) -> Claude:
    """Return an agent in a repository that wants trailers, with one line of its staged."""
    shadow_n.ok("hooks", "install", "git", "--yes")
    shadow_n.repo.git("config", "agent-undo.trailers", "true")
    agent = Claude(shadow_n)
    agent.start()
    agent.prompt("go")
    agent.write("new", "1\n")
    agent.stop()
    shadow_n.repo.git("add", "new")
    return agent


def commit(repo: Repo, *words: str, editor: str = "false") -> int:
    env = {**os.environ, "GIT_EDITOR": editor, "GITSHADOW_DAEMON": "off"}
    done = subprocess.run(
        ["git", "commit", "--quiet", *words],
        cwd=repo.root,
        env=env,
        capture_output=True,
        timeout=60,
        check=False,
    )
    return done.returncode


def message(repo: Repo) -> str:
    return repo.git("log", "-1", "--format=%B")


def test_message_on_the_command_line_gets_them(hooked: Claude) -> None:
    repo = hooked.shadow.repo
    assert commit(repo, "-m", "subject") == 0
    assert message(repo).startswith(f"subject\n\n{ADD}")
    assert commit(repo, "--amend", "--no-edit") == 0
    assert message(repo).count("Assisted-by") == 1


def test_editor_decides_whether_there_is_a_commit(
    hooked: Claude, tmp_path: Path
) -> None:
    repo = hooked.shadow.repo
    first = repo.git("rev-parse", "HEAD")
    assert commit(repo, editor="true") != 0
    assert repo.git("rev-parse", "HEAD") == first
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nprintf "typed\\n" >"$1"\n')
    editor.chmod(0o755)
    assert commit(repo, editor=str(editor)) == 0
    assert message(repo).startswith(f"typed\n\n{ADD}")


def test_replayed_commits_keep_their_messages(hooked: Claude) -> None:
    repo = hooked.shadow.repo
    assert commit(repo, "--no-verify", "-m", "subject") == 0
    repo.git("commit", "--amend", "--no-verify", "--quiet", "-m", "plain")
    picked = repo.git("rev-parse", "HEAD")
    repo.git("reset", "--quiet", "--hard", "HEAD~1")
    repo.write("b", "b\n")
    repo.git("commit", "--quiet", "-am", "other")
    repo.git("cherry-pick", picked)
    assert message(repo).strip() == "plain"
    for _ in range(2):  # the second revert brings the agent's line back
        repo.git("revert", "--no-edit", "HEAD")
    assert repo.exists("new")
    assert "Assisted-by" not in message(repo)


def test_broken_journal_never_fails_a_commit(hooked: Claude) -> None:
    shadow = hooked.shadow
    journal = shadow.repo.state_dir / "journal.db"
    kept = journal.read_bytes()
    journal.write_bytes(b"nonsense")
    try:
        assert commit(shadow.repo, "-m", "subject") == 0
    finally:
        journal.write_bytes(kept)
    assert message(shadow.repo).strip() == "subject"
