"""A repository or worktree that moves, or is made again, while its daemon runs."""

import os
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.repo import Repo
from tests.support.shadow import Shadow

_MOVED = (
    "the worktree was moved or replaced while the daemon ran: since the previous row,"
    " only the last state of each file was recorded"
)


def moved(shadow: Shadow, place: Path) -> Shadow:
    """Return the same command at another place."""
    return replace(shadow, repo=Repo(place))


def test_repository_that_moves_is_recorded_on(repo: Repo, shadow_d: Shadow) -> None:
    repo.write("a", "before\n")
    shadow_d.ok("flush")
    place = repo.root.parent / "moved"
    os.rename(repo.root, place)
    shadow = moved(shadow_d, place)
    shadow.repo.write("c", "after\n")
    status = shadow("status")
    assert (status.code, status.err) == (0, "")
    expected = {("modify", "a"), ("modify", "c"), ("gap", None)}
    assert set(shadow.changes()) == expected
    assert [row["note"] for row in shadow.log("--kind", "gap")] == [_MOVED]
    shadow.ok("start")
    shadow.repo.write("b", "with a daemon\n")
    assert ("modify", "b") in shadow.changes()
    shadow.verify()
    shadow.ok("stop")
    os.rename(place, repo.root)


@pytest.mark.parametrize("verb", ["log", "flush", "start"])
def test_worktree_that_git_moves_is_recorded_on(
    repo: Repo, shadow_d: Shadow, verb: str
) -> None:
    first, second = repo.root.parent / "w2", repo.root.parent / "w3"
    repo.git("worktree", "add", "-q", "-b", "w2", str(first))
    shadow = moved(shadow_d, first)
    shadow.ok("start")
    shadow.repo.write("a", "before\n")
    shadow.ok("flush")
    repo.git("worktree", "move", str(first), str(second))
    shadow = moved(shadow_d, second)
    shadow.repo.write("c", "after\n")
    done = shadow(verb)
    assert (done.code, done.err) == (0, "")
    found = shadow.changes()
    assert ("modify", "a") in found
    assert ("modify", "c") in found
    assert ("delete", "c") not in found
    shadow.verify()
    shadow("stop")


def test_repository_made_again_is_recorded_from_its_first_write(
    repo: Repo, shadow_d: Shadow, make_repo: Callable[..., Repo]
) -> None:
    """The same rename in each life: nothing of an earlier one is mistaken for this one."""
    for _ in range(3):
        os.rename(repo.root / "a", repo.root / "renamed")
        assert shadow_d.changes() == [("rename", "renamed")]
        done = subprocess.run(
            ["rm", "-rf", str(repo.root)], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
        Repo.create(repo.root)
        shadow_d.init()
    repo.write("b", "last life\n")
    assert shadow_d.changes() == [("modify", "b")]
    assert len(shadow_d.daemons()) == 1
