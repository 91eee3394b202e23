"""A forked command does what the installed one does, and looks like it to other programs."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import fork_server
from tests.support.probe import probing
from tests.support.repo import Repo
from tests.support.shadow import COMMAND, Shadow


@pytest.fixture
def forking(shadow_n: Shadow) -> Shadow:
    if not fork_server.can_fork(os.environ):
        pytest.skip("no command is forked: another processor, or coverage is counted")
    shadow_n.executes = False
    return shadow_n


@pytest.mark.parametrize("words", [("log", "--json"), ("pins",), ("no-such-verb",)])
def test_fork_ends_and_prints_as_the_installed_command(
    forking: Shadow, words: tuple[str, ...]
) -> None:
    forked = forking(*words)
    forking.executes = True
    assert forked == forking(*words)


def test_fork_reads_standard_input_and_writes_with_the_umask_of_the_test(
    forking: Shadow,
) -> None:
    payload = {"hook_event_name": "SessionStart", "session_id": "s"}
    payload["cwd"] = str(forking.repo.root)
    old = os.umask(0o027)
    try:
        forking.ok("hook", "claude-code", stdin=json.dumps(payload).encode())
        forking.ok("exec", "--agent", "x", "--", "sh", "-c", ": > made")
    finally:
        os.umask(old)
    assert forking.repo.mode("made") == 0o640
    assert "claude-code" in forking.ok("sessions").out


def test_fork_is_a_child_of_the_test_with_its_own_arguments_and_environment(
    forking: Shadow, repo: Repo
) -> None:
    script = "cp /proc/$PPID/cmdline /proc/$PPID/comm /proc/$PPID/environ . && echo $PPID > pid"
    words = [
        "exec",
        "--agent",
        "x",
        "--",
        "sh",
        "-c",
        f"{script}; cat /proc/$PPID/stat > stat",
    ]
    forking.ok(*words)
    assert repo.read("stat").rpartition(b")")[2].split()[1] == b"%d" % os.getpid()
    assert repo.read("comm") == b"git-agent-undo\n"
    assert repo.read("cmdline").rstrip(b"\0").split(b"\0") == [
        os.fsencode(word) for word in (COMMAND, *words)
    ]
    assert f"HOME={Path.home()}".encode() in repo.read("environ").split(b"\0")


def test_forked_daemon_is_found_as_one(
    repo: Repo, make_shadow: Callable[..., Shadow]
) -> None:
    shadow = make_shadow(repo)
    shadow.executes = False
    shadow.init()
    (pid,) = shadow.daemons()
    arguments = Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    assert arguments == [
        *(os.fsencode(sys.executable), b"-P", b"-m", b"gitshadow.daemon"),
        *(os.fsencode(repo.root), b"0"),
    ]


def test_forked_server_runs_until_it_is_ended(sealed: Path) -> None:
    if not fork_server.can_fork(os.environ):
        pytest.skip("no command is forked: another processor, or coverage is counted")
    with probing(sealed / "run") as probe:
        assert isinstance(probe.server, fork_server.Child)
        assert probe.run("served", served=True) == (0, b"1\n", b"")
        with pytest.raises(subprocess.TimeoutExpired):
            probe.server.wait(0)
        probe.server.kill()
        assert [probe.server.wait(), probe.server.wait()] == [-signal.SIGKILL] * 2
