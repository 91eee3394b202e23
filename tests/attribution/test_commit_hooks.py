"""A commit whose hooks run is seen by git's own processes."""

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gitshadow.attribution import commits
from gitshadow.attribution.process import ProcessId, process_start
from gitshadow.model import Actor, Attribution, Confidence
from gitshadow.platform import current
from gitshadow.platform.linux import processes
from gitshadow.recording.commit_window import CommitWindow
from tests.support.repo import Repo
from tests.support.studio import layout_of

_WAITING = '#!/bin/sh\necho $$ >"%s"\nread line <"%s"\n'


def hooks_at(root: str) -> ProcessId | None:
    """Return what runs a hook in a worktree, as a new look finds it."""
    return commits.hooks_at(root, current().process_facts().table())


@pytest.fixture
def waiting(repo: Repo, tmp_path: Path) -> Callable[[str], Path]:
    """Return a function that makes a program which waits to be let go."""
    os.mkfifo(tmp_path / "gate")
    os.mkfifo(tmp_path / "pid")

    def make(name: str) -> Path:
        path = tmp_path / name if "/" not in name else repo.root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(_WAITING % (tmp_path / "pid", tmp_path / "gate"))
        path.chmod(0o755)
        return path

    return make


@contextmanager
def at_work(repo: Repo, where: Path, *words: str) -> Iterator[int]:
    """Run git until it waits; give the pid of what it waits for, then let it go."""
    with subprocess.Popen(
        ["git", *words], cwd=repo.root, stdout=subprocess.DEVNULL
    ) as child:
        pid = int((where / "pid").read_text())
        try:
            yield pid
        finally:
            (where / "gate").write_text("\n")
            child.wait(30)


def test_hook_of_a_commit_is_found(
    repo: Repo, tmp_path: Path, waiting: Callable[[str], Path]
) -> None:
    waiting(".git/hooks/pre-commit")
    words = ("-c", "core.quotePath=true", "commit", "-q", "--allow-empty", "-m", "x")
    with at_work(repo, tmp_path, *words) as pid:
        started = process_start(pid)
        assert started is not None
        assert hooks_at(str(repo.root)) == ProcessId(pid, started)
        assert hooks_at(str(tmp_path)) is None
    assert hooks_at(str(repo.root)) is None


def test_editor_of_a_commit_is_no_hook(
    repo: Repo,
    tmp_path: Path,
    waiting: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A person may write the message for an hour, and files beside it."""
    monkeypatch.setenv("GIT_EDITOR", str(waiting("editor")))
    with at_work(repo, tmp_path, "commit", "-q", "--allow-empty"):
        assert hooks_at(str(repo.root)) is None


@pytest.mark.parametrize("form", ["openpgp", "x509", "ssh"])
def test_program_that_signs_a_commit_is_no_hook(
    repo: Repo, tmp_path: Path, waiting: Callable[[str], Path], form: str
) -> None:
    """ROB-14: it may be a script of any name, and writes nothing in the working tree."""
    program = "gpg.program" if form == "openpgp" else f"gpg.{form}.program"
    repo.git("config", "gpg.format", form)
    repo.git("config", program, str(waiting("../signer")))
    repo.git("config", "user.signingKey", "key::ssh-ed25519 AAAA")
    with at_work(repo, tmp_path, "commit", "-qS", "--allow-empty", "-m", "signed"):
        assert hooks_at(str(repo.root)) is None


def test_hook_of_another_command_is_no_commits(
    repo: Repo, tmp_path: Path, waiting: Callable[[str], Path]
) -> None:
    waiting(".git/hooks/post-checkout")
    with at_work(repo, tmp_path, "checkout", "-q", "-b", "topic"):
        assert hooks_at(str(repo.root)) is None


@pytest.mark.linux
def test_a_later_look_reads_few_of_many_processes_again(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LAW-08: each batch of a shell's writes looks; another user of /proc may have 2,000."""
    monkeypatch.setattr(processes, "_SETTLED_S", -1.0)
    read, pids = processes._read, []

    def counted(proc: str, pid: int, *rest: Any) -> Any:
        pids.append(pid)
        return read(proc, pid, *rest)

    monkeypatch.setattr(processes, "_read", counted)
    window = CommitWindow(layout_of(repo))
    shell = Attribution(
        actor=Actor.AGENT, session="s", confidence=Confidence.MEDIUM, reason="timing"
    )
    sleeping = [subprocess.Popen(["sleep", "60"]) for _ in range(40)]
    try:
        counts = []
        for _ in range(3):
            window.revise((), (shell,), lambda _: shell, lambda _: None)
            counts.append(len(pids))
            pids.clear()
        assert counts[0] >= 40
        assert max(counts[1:]) < counts[0] / 2
    finally:
        for process in sleeping:
            process.kill()
            process.wait()
