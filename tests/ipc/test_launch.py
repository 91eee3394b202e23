"""Starting and stopping real daemons of real repositories."""

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from gitshadow.ipc import client, launch
from tests.support.counting import leave_stale_socket
from tests.support.repo import Repo
from tests.support.shadow import Shadow
from tests.support.studio import layout_of
from tests.support.waiting import HANGS_S, until


@pytest.fixture
def quiet(repo: Repo, make_shadow: Callable[..., Shadow]) -> Shadow:
    """Return the command in R, where a daemon may run and none does yet."""
    made = make_shadow(repo, daemon=True)
    made.ok("init")
    made.ok("stop")
    return made


def test_two_starts_at_once_make_one_daemon(quiet: Shadow) -> None:
    """ROB-04: the lock decides, and each write is recorded once."""
    starts = [quiet.spawn("start", "--json") for _ in range(3)]
    pids = set()
    for one in starts:
        out, err = one.communicate(timeout=HANGS_S)
        assert one.returncode == 0, err
        pids.add(json.loads(out)["pid"])
    assert len(pids) == 1
    until(lambda: quiet.daemons() == list(pids))
    quiet.repo.append("a", "more\n")
    assert [(row["path"], row["kind"]) for row in quiet.log("-n5")] == [("a", "modify")]
    assert quiet.ok("start", "--json").json()["already"] is True


def test_stop_waits_until_the_daemon_is_gone(quiet: Shadow) -> None:
    layout = layout_of(quiet.repo)
    quiet.ok("start")
    assert launch.stop(layout) is True
    assert quiet.daemons() == []
    assert not os.path.lexists(layout.socket)
    assert launch.stop(layout) is False


def test_daemon_that_is_being_started_ends_after_stop(quiet: Shadow) -> None:
    """A hook starts it, and `stop` comes before it has the lock and says that none runs."""
    layout = layout_of(quiet.repo)
    asked = [*launch.PROGRAM, layout.root, launch.stops(layout)]
    assert launch.stop(layout) is False
    subprocess.run(asked, env=quiet.environment(), check=True, timeout=HANGS_S)
    until(lambda: quiet.daemons() == [])
    assert client.ping(layout) is None
    quiet.ok("start")
    assert len(quiet.daemons()) == 1


def test_stale_socket_and_pid_hurt_nobody(quiet: Shadow) -> None:
    """ROB-04: after `kill -9`, with the pid in the lock file now another program's."""
    layout = layout_of(quiet.repo)
    quiet.ok("start")
    (pid,) = quiet.daemons()
    os.kill(pid, signal.SIGKILL)
    until(lambda: quiet.daemons() == [])
    with subprocess.Popen(["sleep", "600"]) as other:
        try:
            Path(layout.lock).write_text(f"{other.pid}\n")
            assert os.path.lexists(layout.socket)
            assert launch.stop(layout) is False
            assert not os.path.lexists(layout.socket)
            quiet.ok("start")
            assert len(quiet.daemons()) == 1
            assert other.poll() is None
        finally:
            other.kill()


def test_start_replaces_a_socket_that_nobody_serves(quiet: Shadow) -> None:
    layout = layout_of(quiet.repo)
    leave_stale_socket(layout)
    quiet.ok("start")
    assert client.ready(layout) == quiet.daemons()[0]


def test_hook_starts_the_daemon_and_waits_for_it(quiet: Shadow) -> None:
    """A hook that finds none spools, starts it, and is taken up."""
    layout = layout_of(quiet.repo)
    payload = {
        "session_id": "s-1",
        "transcript_path": "/home/u/.claude/t.jsonl",
        "cwd": layout.root,
        "hook_event_name": "UserPromptSubmit",
        "prompt": "do it",
        "prompt_id": "p-1",
    }
    result = quiet.ok("hook", "claude-code", stdin=json.dumps(payload).encode())
    assert result.raw == b""
    until(lambda: client.ready(layout) is not None)
    until(lambda: os.listdir(layout.spool_dir) == [])
    assert [row["native_id"] for row in _agents(quiet)] == ["s-1"]
    assert len(quiet.daemons()) == 1


def _agents(shadow: Shadow) -> list[dict[str, object]]:
    rows = shadow.ok("sessions", "--json").rows()
    return [row for row in rows if row["agent"] is not None]


def test_hook_starts_no_daemon_when_that_is_off(quiet: Shadow) -> None:
    quiet.env["GITSHADOW_DAEMON"] = "off"
    payload = {
        "cwd": str(quiet.repo.root),
        "session_id": "s",
        "hook_event_name": "Stop",
    }
    quiet.ok("hook", "claude-code", stdin=json.dumps(payload).encode())
    assert quiet.daemons() == []
    assert os.listdir(layout_of(quiet.repo).spool_dir) == []


def test_daemon_ends_by_a_signal_after_its_job(quiet: Shadow) -> None:
    layout = layout_of(quiet.repo)
    quiet.ok("start")
    (pid,) = quiet.daemons()
    os.kill(pid, signal.SIGTERM)
    until(lambda: quiet.daemons() == [])
    assert not os.path.lexists(layout.socket)
    assert "Traceback" not in Path(layout.log).read_text()


def test_daemon_works_below_a_long_path(
    tmp_path: Path, make_shadow: Callable[..., Shadow]
) -> None:
    """ROB-13: over 108 bytes up to the socket."""
    repo = Repo.create(tmp_path / ("d" * 100) / ("e" * 100), ("a",))
    shadow = make_shadow(repo, daemon=True)
    shadow.init()
    repo.append("a", "more\n")
    assert [row["kind"] for row in shadow.log("-n1")] == ["modify"]
    assert len(shadow.daemons()) == 1


def test_environment_of_git_does_not_reach_the_daemon(
    quiet: Shadow, tmp_path: Path
) -> None:
    """GIT-13: it would make git children work on another repository."""
    quiet.env["GIT_DIR"] = str(quiet.repo.root / ".git")
    quiet.env["GIT_INDEX_FILE"] = str(tmp_path / "elsewhere")
    quiet.ok("start")
    (pid,) = quiet.daemons()
    names = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    assert not [name for name in names if name.startswith(b"GIT_")]
    del quiet.env["GIT_DIR"], quiet.env["GIT_INDEX_FILE"]
