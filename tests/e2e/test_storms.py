"""Storms: whatever happens to the tree while the daemon records, nothing is lost."""

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from itertools import product
from pathlib import Path

import pytest

from gitshadow.config import WatchBackend
from tests.conftest import FULL
from tests.support import audit
from tests.support.repo import Repo
from tests.support.shadow import Shadow
from tests.support.waiting import HANGS_S

_PROJECT = Path(__file__).parents[2]
_KILL_AT_MOST = 293
"""A prime, so that each round of many kills the daemon after another number of writes."""
Files = dict[bytes, tuple[str, int]]


def hammer(repo: Repo, top: str, seed: int, steps: int) -> subprocess.Popen[bytes]:
    """Start a storm in one directory of a worktree; odd seeds come with odd names."""
    kind = "odd" if seed % 2 else "plain"
    outside = repo.root.parent / "outside"
    outside.mkdir(exist_ok=True)
    words = [str(repo.root / top), str(outside), str(seed), str(steps), kind]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.support.hammer", *words], cwd=_PROJECT
    )


def on_disk(repo: Repo) -> Files:
    """Return every file and link of the worktree; links are not followed."""
    found: Files = {}
    top = repo.path()
    for directory, inner, names in os.walk(top):
        if directory.rstrip(b"/") == top.rstrip(b"/"):
            inner.remove(b".git")
        for name in (*names, *inner):
            path = os.path.join(directory, name)
            state = audit.disk_state(path)
            if state is not None:
                found[os.path.relpath(path, top)] = state
    return found


def replayed(repo: Repo) -> Files:
    """Return what all events together, in their order, make of the first commit."""
    files: Files = {}
    listed = repo.git("ls-tree", "-r", "-z", "HEAD").split("\0")[:-1]
    for meta, _, name in (line.partition("\t") for line in listed):
        mode, _, oid = meta.split()
        files[os.fsencode(name)] = (oid, int(mode, 8))
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


def recorded_tree(repo: Repo) -> Files:
    """Return the tree that the journal holds for the worktree, with Git's modes."""
    with closing(audit.open_journal(repo)) as db:
        (tree,) = db.execute("SELECT tree FROM worktrees WHERE id = 'main'").fetchone()
    listed = repo.git("ls-tree", "-r", "-z", tree).split("\0")[:-1]
    found: Files = {}
    for meta, _, name in (line.partition("\t") for line in listed):
        mode, _, oid = meta.split()
        found[os.fsencode(name)] = (oid, int(mode, 8))
    return found


def with_git_modes(files: Files) -> Files:
    """Return files with the modes that a tree can hold."""

    def of(mode: int) -> int:
        if stat.S_ISLNK(mode):
            return 0o120000
        return 0o100755 if mode & 0o100 else 0o100644

    return {path: (oid, of(mode)) for path, (oid, mode) in files.items()}


def check_agreement(shadow: Shadow) -> None:
    """Check that journal, tree and disk say the same of every path, and that all is whole."""
    check_disk(shadow)
    shadow.verify()


def check_disk(shadow: Shadow) -> None:
    """Check that journal, tree and disk say the same of every path."""
    shadow.ok("flush")
    disk = on_disk(shadow.repo)
    assert replayed(shadow.repo) == disk
    assert recorded_tree(shadow.repo) == with_git_modes(disk)


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


@pytest.mark.parametrize(
    ("seed", "watcher"),
    [*product(range(4), [WatchBackend.AUTO]), (0, WatchBackend.WATCHFILES)],
)
def test_no_event_is_lost_in_a_storm(
    shadow_d: Shadow, seed: int, watcher: WatchBackend
) -> None:
    """CAP-10: after a flush the journal's latest state is the disk, for every path."""
    if watcher is not WatchBackend.AUTO:
        shadow_d.ok("stop")
        shadow_d.repo.git("config", "agent-undo.watcher", watcher)
    pid = daemon_pid(shadow_d)
    weather(shadow_d, seed, 300, ("storm", "storm", "other"))
    check_agreement(shadow_d)
    assert daemon_pid(shadow_d) == pid
    assert list(shadow_d.repo.state_dir.joinpath("reports").iterdir()) == []


@pytest.mark.full
@pytest.mark.parametrize("seed", range(200))
def test_no_event_is_lost_in_many_storms(shadow_d: Shadow, seed: int) -> None:
    """CAP-10: short ones, each of them other; directories are swapped, names are odd."""
    weather(shadow_d, 10_000 + seed, 120, ("storm", "storm", "other"))
    check_disk(shadow_d)
    shadow_d.ok("stop")  # `git fsck` complains of objects that are packed while it runs
    shadow_d.verify()


def test_no_event_is_lost_without_a_daemon(shadow_n: Shadow) -> None:
    """CAP-10: every command catches up with the storm before it."""
    weather(shadow_n, 7, 300, ("storm", "other"))
    check_agreement(shadow_n)


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(100, 120))
def test_no_event_is_lost_in_a_long_storm(shadow_d: Shadow, seed: int) -> None:
    """CAP-10: the same, for longer."""
    weather(shadow_d, seed, 5_000, ("storm", "storm", "other", "third"))
    check_agreement(shadow_d)


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


@pytest.mark.parametrize("after", range(400 if FULL else 6))
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
