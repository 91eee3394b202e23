"""The daemon in repositories that libgit2 cannot open, and while their format changes."""

import os
import signal
import subprocess
from collections.abc import Callable

import pytest

from tests.support.newer_git import need_newer_git
from tests.support.repo import Repo
from tests.support.shadow import Shadow


@pytest.fixture
def recorded(repo: Repo, make_shadow: Callable[..., Shadow]) -> Shadow:
    shadow = make_shadow(repo)
    shadow.init()
    return shadow


@pytest.mark.kinds("sha256-files", "sha1-reftable", "sha256-reftable")
def test_recording_and_undo_work_in_every_format(recorded: Shadow) -> None:
    shadow, repo = recorded, recorded.repo
    before = repo.read("a")
    repo.append("a", "more\n")
    repo.write("new", "n\n")
    shadow.ok("oops", "--yes")
    assert (repo.read("a"), repo.exists("new")) == (before, False)
    shadow.ok("redo", "--yes")
    assert repo.read("a") == before + b"more\n"
    assert repo.exists("new")
    repo.git("gc", "-q", "--prune=now")
    repo.git("pack-refs", "--all")
    shadow.ok("pack")
    repo.append("a", "again\n")
    assert "again" in shadow.ok("blame", "a").out
    shadow.ok("oops", "--yes")
    assert repo.read("a") == before
    shadow.ok("doctor")
    assert set(repo.shadow_refs())


@pytest.mark.kinds("sha256-files", "sha1-reftable")
def test_killed_children_of_the_daemon_lose_nothing(recorded: Shadow) -> None:
    shadow, repo = recorded, recorded.repo
    before = repo.read("a")
    for number in range(3):
        repo.append("a", f"{number}\n")
        shadow.ok("log")
        killed = _kill_children_of_git(repo)
        assert killed or number == 0
    shadow.ok("oops", "--yes")
    assert repo.read("a") == before
    shadow.ok("doctor")


def _kill_children_of_git(repo: Repo) -> int:
    """Kill every git that is kept open in a repository; return how many there were."""
    listed = subprocess.run(
        ["ps", "-wweo", "pid=,args="], capture_output=True, text=True, check=True
    )
    place = f"--git-dir={repo.git_dir}"
    rows = (row.split(None, 1) for row in listed.stdout.splitlines())
    found = [int(pid) for pid, args in rows if place in args and args[:3] == "git"]
    for pid in found:
        os.kill(pid, signal.SIGKILL)
    return len(found)


@pytest.mark.kinds("sha1-files", "sha256-files")
def test_daemon_follows_refs_that_move_to_another_format(
    recorded: Shadow, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_newer_git(monkeypatch)
    shadow, repo = recorded, recorded.repo
    # Only a daemon that finds a git which reads reftables can follow.
    shadow.ok("daemon", "stop")
    before = repo.read("a")
    repo.append("a", "before\n")
    shadow.ok("log")
    daemon = shadow.ok("status", "--json").json()["daemon"]
    for to in ("reftable", "files"):
        refs = set(repo.shadow_refs())
        repo.git("refs", "migrate", f"--ref-format={to}")
        repo.append("a", f"{to}\n")
        shadow.ok("log")
        assert set(repo.shadow_refs()) == refs
        repo.git("commit", "-qam", f"in {to}")
        shadow.ok("doctor")
    assert shadow.ok("status", "--json").json()["daemon"] == daemon
    shadow.ok("oops", "--yes")
    assert repo.read("a") == before
