"""A machine on which hooks are installed: a home and a program of its own."""

from pathlib import Path

import pytest

from gitshadow.hookfiles import detect
from gitshadow.hookfiles.detect import InstallEnvironment
from tests.support.repo import Repo


@pytest.fixture
def around(tmp_path: Path, repo: Repo) -> InstallEnvironment:
    home = tmp_path / "a home"
    program = home / "bin" / "git-agent-undo"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    return detect.surroundings(
        {"PATH": str(program.parent)},
        str(home),
        executable=str(program),
        worktree=str(repo.root),
        common_state=str(repo.root / ".git" / "agent-undo"),
    )
