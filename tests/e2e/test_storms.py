"""Storms: whatever happens to the tree while the daemon records, nothing is lost."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from tests.conftest import FULL, on_both
from tests.support import audit
from tests.support.repo import Repo
from tests.support.shadow import Shadow
from tests.support.waiting import HANGS_S

_PROJECT = Path(__file__).parents[2]
_KILL_AT_MOST = 293
"""A prime, so that each round of many kills the daemon after another number of writes."""


def hammer(repo: Repo, top: str, seed: int, steps: int) -> subprocess.Popen[bytes]:
    """Start a storm in one directory of a worktree; odd seeds come with odd names."""
    kind = "odd" if seed % 2 else "plain"
    outside = repo.root.parent / "outside"
    outside.mkdir(exist_ok=True)
    words = [str(repo.root / top), str(outside), str(seed), str(steps), kind]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.support.hammer", *words], cwd=_PROJECT
    )


def replayed(repo: Repo) -> audit.Files:
    """Return what all events together, in their order, make of the first commit."""
    files = audit.files_of_tree(repo, "HEAD")
    with closing(audit.open_journal(repo)) as db:
        rows = db.execute(
            "SELECT kind, path, old_path, after_oid, after_mode FROM events"
            " WHERE kind NOT IN ('gap', 'baseline', 'head') ORDER BY seq"
        )
        for kind, path, old_path, oid, mode in rows:
            if kind == "rename":
                del files[old_path]
            if oid is None:
                del files[path]
            else:
                files[path] = (oid, mode)
    return files


def check_agreement(shadow: Shadow) -> None:
    """Check that journal, tree and disk say the same of every path, and that all is whole."""
    check_disk(shadow)
    shadow.ok("stop")  # `git fsck` complains of objects that are packed while it runs
    shadow.verify()


def check_disk(shadow: Shadow) -> None:
    """Check that journal, tree and disk say the same of every path."""
    shadow.ok("flush")
    disk = audit.on_disk(shadow.repo)
    assert replayed(shadow.repo) == disk
    assert audit.recorded_tree(shadow.repo) == audit.with_git_modes(disk)


def weather(shadow: Shadow, seed: int, steps: int, tops: Sequence[str]) -> None:
    """Let storms rage in some directories, flushing meanwhile, until all are over."""
    storms = [
        hammer(shadow.repo, top, seed + 1_000 * number, steps)
        for number, top in enumerate(tops)
    ]
    while any(storm.poll() is None for storm in storms):
        shadow.ok("flush")
    assert [storm.returncode for storm in storms] == [0] * len(storms)


def daemon_pid(shadow: Shadow) -> int:
    """Return the pid of the daemon."""
    return int(str(shadow.ok("start", "--json").json()["pid"]))


@on_both("seed", range(4))
def test_no_event_is_lost_in_a_storm(shadow_d: Shadow, seed: int) -> None:
    """CAP-10: after a flush the journal's latest state is the disk, for every path."""
    pid = daemon_pid(shadow_d)
    weather(shadow_d, seed, 300, ("storm", "storm", "other"))
    assert daemon_pid(shadow_d) == pid
    check_agreement(shadow_d)
    assert list(shadow_d.repo.state_dir.joinpath("reports").iterdir()) == []


@pytest.mark.full
@on_both("seed", range(200))
def test_no_event_is_lost_in_many_storms(shadow_d: Shadow, seed: int) -> None:
    """CAP-10: short ones, each of them other; directories are swapped, names are odd."""
    weather(shadow_d, 10_000 + seed, 120, ("storm", "storm", "other"))
    check_agreement(shadow_d)


def test_no_event_is_lost_without_a_daemon(shadow_n: Shadow) -> None:
    """CAP-10: every command catches up with the storm before it."""
    weather(shadow_n, 7, 300, ("storm", "other"))
    check_agreement(shadow_n)


@pytest.mark.full
@pytest.mark.timeout(600)
@on_both("seed", range(100, 120))
def test_no_event_is_lost_in_a_long_storm(shadow_d: Shadow, seed: int) -> None:
    """CAP-10: the same, for longer."""
    weather(shadow_d, seed, 5_000, ("storm", "storm", "other", "third"))
    check_agreement(shadow_d)


@pytest.mark.timeout(900)
@on_both("writes", [50_000 if FULL else 1_000])
def test_no_final_byte_of_four_writers_is_lost(shadow_d: Shadow, writes: int) -> None:
    """CAP-10: each file's last version has a row and is in the commit of its writer's chain."""
    pid = daemon_pid(shadow_d)
    command = [sys.executable, "-m", "tests.support.writer", str(shadow_d.repo.root)]
    writers = [
        subprocess.Popen([*command, str(number), str(writes // 4)], cwd=_PROJECT)
        for number in range(4)
    ]
    assert [writer.wait(900) for writer in writers] == [0] * 4
    check_disk(shadow_d)
    (ref,) = shadow_d.repo.shadow_refs()
    disk = audit.with_git_modes(audit.on_disk(shadow_d.repo))
    assert audit.files_of_tree(shadow_d.repo, ref) == disk
    assert daemon_pid(shadow_d) == pid
    shadow_d.ok("stop")  # `git fsck` complains of objects that are packed while it runs
    shadow_d.verify()


@on_both()
def test_daemon_killed_in_a_storm_leaves_a_gap_and_no_lie(
    repo: Repo, shadow_d: Shadow
) -> None:
    """ROB-02: the next command repairs, catches up and says that it was interrupted."""
    pid = daemon_pid(shadow_d)
    storm = hammer(repo, "storm", 1, 200)
    for number in range(1_000):
        repo.write(f"many/d{number % 10}/f{number}", f"{number}\n")
        if number == 600:
            os.kill(pid, signal.SIGKILL)
    assert storm.wait(HANGS_S) == 0
    gaps = [row for row in shadow_d.log() if row["kind"] == "gap"]
    assert ["killed" in str(row["note"]) for row in gaps] == [True]
    check_agreement(shadow_d)
    shadow_d.ok("start")
    repo.write("a", "after\n")
    assert [row["path"] for row in shadow_d.log("-n1")] == ["a"]
    check_agreement(shadow_d)
    gaps = [row for row in shadow_d.log() if row["kind"] == "gap"]
    assert len(gaps) == 1


@on_both("after", range(400 if FULL else 6))
def test_daemon_killed_at_any_moment(repo: Repo, shadow_d: Shadow, after: int) -> None:
    """ROB-02: wherever the kill strikes between two steps, V5 holds afterwards."""
    pid = daemon_pid(shadow_d)
    for number in range(300):
        repo.write(f"f{number % 60}", f"{number}\n")
        if number == (20 + 45 * after) % _KILL_AT_MOST:
            os.kill(pid, signal.SIGKILL)
    check_agreement(shadow_d)


def test_stale_files_of_a_dead_daemon_are_replaced(
    repo: Repo, shadow_d: Shadow
) -> None:
    """ROB-04: a pid that belongs to another program now gets no signal."""
    pid = daemon_pid(shadow_d)
    os.kill(pid, signal.SIGKILL)
    other = subprocess.Popen(["sleep", "600"], start_new_session=True)
    try:
        place = repo.state_dir / "wt" / "main"
        (place / "lock").write_text(f"{other.pid}\n")
        assert (place / "sock").exists()
        assert shadow_d.ok("stop").out == "no daemon was running\n"
        fresh = daemon_pid(shadow_d)
        assert fresh not in (pid, other.pid)
        repo.write("a", "once\n")
        rows = [row for row in shadow_d.log() if row["kind"] != "gap"]
        assert [(row["path"], row["kind"]) for row in rows] == [("a", "modify")]
        (place / "lock").write_text(f"{other.pid}\n")
        assert shadow_d.ok("stop").out == "stopped\n"
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()
