"""The check and its windows under the real pre-commit framework, which stashes and brings back."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.support.claude import Claude
from tests.support.shadow import COMMAND, Shadow
from tests.support.waiting import HANGS_S

ROOT = Path(__file__).parents[2]
_CONFIG = """\
repos:
- repo: local
  hooks:
  - id: gitshadow-check
    name: check
    entry: git-agent-undo check --from-pre-commit
    language: system
    always_run: true
    pass_filenames: false
"""
_STAGED = "the line that the agent wrote first\n"
_UNSTAGED = _STAGED + "the line that it has not staged yet\n"


def install(shadow: Shadow, config: str = _CONFIG) -> None:
    """Have git run pre-commit, with this configuration, already committed."""
    shadow.repo.write(".pre-commit-config.yaml", config)
    shadow.repo.commit("configure")
    run(shadow, sys.executable, "-m", "pre_commit", "install")


def run(shadow: Shadow, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words,
        cwd=shadow.repo.root,
        env=shadow.environment(env),
        capture_output=True,
        text=True,
        timeout=HANGS_S,
        check=False,
    )


@pytest.fixture
def stashing(agent: Claude) -> Claude:
    """Return an agent that staged one line of `a` and not the next, in an open turn."""
    install(agent.shadow)
    agent.prompt("write")
    agent.write("a", _STAGED)
    agent.shadow.repo.git("add", "a")
    agent.write("a", _UNSTAGED)
    return agent


def test_stash_and_return_are_nobodys_write_inside_the_agents_own_call(
    stashing: Claude,
) -> None:
    shadow, repo = stashing.shadow, stashing.shadow.repo
    seen = {row["seq"] for row in shadow.log()}
    call = stashing.pre("Bash", {"command": "git commit -m x"})
    done = run(shadow, "git", "commit", "-m", "by the agent")
    stashing.post(call)
    assert done.returncode == 0, done
    assert "Stashing unstaged files" in done.stderr
    assert repo.git("show", "HEAD:a") + "\n" == _STAGED
    rows = [row for row in shadow.log() if row["seq"] not in seen and row["path"]]
    assert {row["path"] for row in rows} <= {"a"}
    assert all(str(row["reason"]).startswith("commit hooks ") for row in rows), rows
    assert {row["actor"] for row in rows} <= {"unknown"}
    owners = shadow.ok("blame", "--json", "a").rows()
    assert [row["agent"] for row in owners] == ["claude-code"] * 2


def test_turn_is_undone_whole_after_such_a_commit(stashing: Claude) -> None:
    run(stashing.shadow, "git", "commit", "-m", "by a person")
    before = stashing.shadow.repo.git("show", "HEAD~1:a") + "\n"
    stashing.shadow.oops()
    assert stashing.shadow.repo.read("a").decode() == before


def test_commit_is_refused_while_another_sessions_turn_is_open(
    stashing: Claude,
) -> None:
    """A variable of a session that nobody knows makes the commit a stranger's."""
    shadow, head = stashing.shadow, stashing.shadow.repo.git("rev-parse", "HEAD")
    done = run(shadow, "git", "commit", "-m", "x", GITSHADOW_SESSION="somebody-else")
    assert done.returncode == 1, done
    assert "refused: a:1: an open turn of claude-code changed it" in done.stderr
    assert 'prompt: "write"' in done.stderr
    assert shadow.repo.git("rev-parse", "HEAD") == head
    assert shadow.repo.read("a").decode() == _UNSTAGED
    stashing.stop()
    done = run(shadow, "git", "commit", "-m", "x", GITSHADOW_SESSION="somebody-else")
    assert done.returncode == 0, done


def test_journal_that_cannot_be_read_holds_nothing_up(stashing: Claude) -> None:
    shadow = stashing.shadow
    shadow("stop")
    journal = shadow.repo.state_dir / "journal.db"
    for path in (journal, *journal.parent.glob("journal.db-*")):
        path.unlink(missing_ok=True)
    journal.write_bytes(b"no database at all\n" * 100)
    shadow.repo.damaged = True
    done = run(shadow, "git", "commit", "-m", "x")
    assert done.returncode == 0, done


@pytest.mark.release
@pytest.mark.timeout(180)
def test_hooks_of_this_repository_run_the_installed_program(
    shadow_n: Shadow, tmp_path: Path
) -> None:
    """pre-commit clones, builds and installs us without a network, then we step aside."""
    clone = tmp_path / "gitshadow"
    _copy_of_this_repository(clone)
    revision = _git(clone, "rev-parse", "HEAD")
    mark = tmp_path / "bin" / "git-agent-undo"
    mark.parent.mkdir()
    mark.write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/called\nexec {COMMAND} "$@"\n')
    mark.chmod(0o755)
    shadow_n.env |= {
        "PATH": f"{mark.parent}{os.pathsep}{os.environ['PATH']}",
        # The build finds its tools in our own environment, not in an index.
        "PYTHONPATH": sysconfig.get_paths()["purelib"],
        "PIP_NO_INDEX": "1",
        "PIP_NO_DEPS": "1",
        "PIP_NO_BUILD_ISOLATION": "0",
        "VIRTUALENV_NO_PERIODIC_UPDATE": "1",
    }
    install(
        shadow_n,
        f"repos:\n- repo: {clone}\n  rev: {revision}\n  hooks:\n"
        "  - id: gitshadow-window\n  - id: gitshadow-check\n",
    )
    shadow_n.repo.write("new", "by hand\n")
    shadow_n.repo.git("add", "new")
    done = run(shadow_n, "git", "commit", "-m", "x")
    assert done.returncode == 0, done
    assert (tmp_path / "called").read_text().splitlines() == [
        "git-hook --from-pre-commit pre-commit",
        "check --from-pre-commit",
    ]


def _copy_of_this_repository(where: Path) -> None:
    """Commit what the wheel is built of, as it stands in the working tree."""
    where.mkdir()
    names = ["gitshadow", "hooks", "pyproject.toml", "README.md", "LICENSE"]
    names += [".pre-commit-hooks.yaml"]
    subprocess.run(["cp", "-r", *names, str(where)], cwd=ROOT, check=True)
    _git(where, "init", "-q")
    _git(where, "add", "--all")
    _git(where, "commit", "-qm", "copy")


def _git(where: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", *words], cwd=where, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()
