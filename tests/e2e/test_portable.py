"""The installed command on the portable platform: what other systems have, run on Linux.

`make test-full` runs all tests of the daemon so; these few are in every run.
"""

import os
import signal

import pytest

from gitshadow import platform
from gitshadow.ipc import command_client, wire
from tests.support.claude import Claude
from tests.support.repo import Repo, ten_lines
from tests.support.shadow import Shadow
from tests.support.waiting import until

pytestmark = pytest.mark.usefixtures("portable")


@pytest.fixture
def portable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have this process, and all that it starts, take the machine for any POSIX system."""
    monkeypatch.setenv("GITSHADOW_PLATFORM", platform.PORTABLE)
    # The server of these tests knows the platform of this machine only.
    monkeypatch.setenv(command_client.OFF, "off")
    monkeypatch.setattr(platform, "NAME", platform.PORTABLE)
    version = wire.VERSION.rpartition(b"-")[0] + b"-portable"
    monkeypatch.setattr(wire, "VERSION", version)


@pytest.fixture
def shadow_p(portable: None, shadow_d: Shadow) -> Shadow:
    return shadow_d


def test_writes_are_captured_and_an_agents_are_undone(shadow_p: Shadow) -> None:
    repo, agent = shadow_p.repo, Claude(shadow_p)
    agent.start()
    agent.prompt("go")
    agent.write("a", "agent\n")
    agent.shell("rm b; mkdir -p new/deep; echo made > new/deep/d")
    agent.stop()
    repo.write("c", "mine\n")
    rows = {row["path"]: row for row in shadow_p.log()}
    assert (rows["a"]["actor"], rows["a"]["confidence"]) == ("agent", "certain")
    assert (rows["b"]["kind"], rows["b"]["session"]) == ("delete", rows["a"]["session"])
    assert rows["new/deep/d"]["session"] == rows["a"]["session"]
    assert rows["c"]["actor"] != "agent"
    assert shadow_p.oops()["status"] == "reversed"
    assert repo.read("a").decode() == ten_lines("a")
    assert repo.read("b").decode() == ten_lines("b")
    assert (repo.exists("new/deep/d"), repo.read("c")) == (False, b"mine\n")
    shadow_p.verify()


def test_write_without_a_report_is_captured_by_the_watcher(shadow_p: Shadow) -> None:
    shadow_p.repo.write("new/file", "x\n")
    # The directory is made again under its name, perhaps as the same inode.
    shadow_p.repo.write("new/file", "y\n")
    until(lambda: any(row["path"] == "new/file" for row in shadow_p.log()))
    for path in ("new/file", "new"):
        full = shadow_p.repo.path(path)
        (os.rmdir if os.path.isdir(full) else os.unlink)(full)
    shadow_p.repo.write("new/file", "z\n")
    shadow_p.repo.write("new/file", "zz\n")
    newest = shadow_p.log("new/file")[0]["after"]
    assert isinstance(newest, dict)
    assert newest["oid"] == shadow_p.repo.git("hash-object", "new/file")
    shadow_p.verify()


def test_killed_daemon_is_noticed_and_nothing_is_lost(shadow_p: Shadow) -> None:
    repo, agent = shadow_p.repo, Claude(shadow_p)
    agent.prompt("go")
    agent.write("a", "before\n")
    (daemon,) = shadow_p.daemons()
    os.kill(daemon, signal.SIGKILL)
    repo.write("b", "while nobody watched\n")
    agent.write("a", "after\n")
    agent.stop()
    assert {"a", "b"} <= {row.get("path") for row in shadow_p.log()}
    assert shadow_p.oops()["status"] == "reversed"
    assert repo.read("a").decode() == ten_lines("a")
    assert repo.read("b") == b"while nobody watched\n"
    shadow_p.verify()


def test_command_of_exec_is_known_as_an_agents(shadow_p: Shadow) -> None:
    words = ["exec", "--agent", "claude-code", "--", "sh", "-c", "echo x > made"]
    assert shadow_p(*words).code == 0
    # A look may find it made and still empty, which is a change of its own.
    rows = [one for one in shadow_p.log() if one["path"] == "made"]
    assert {(one["actor"], one["agent"]) for one in rows} == {("agent", "claude-code")}


def test_hooks_record_without_a_daemon(
    portable: None, repo: Repo, shadow_n: Shadow
) -> None:
    agent = Claude(shadow_n)
    agent.prompt("go")
    agent.write("a", "agent\n")
    agent.stop()
    assert shadow_n.daemons() == []
    assert shadow_n.log("a")[0]["confidence"] == "certain"
    assert shadow_n.oops()["status"] == "reversed"
    assert repo.read("a").decode() == ten_lines("a")


def test_doctor_says_in_one_line_what_is_not_known(shadow_p: Shadow) -> None:
    (line,) = [
        one
        for one in shadow_p("doctor").out.splitlines()
        if "not known on this system" in one
    ]
    assert "what processes wrote" in line
    assert "inotify" not in shadow_p("doctor").out


def test_init_says_what_to_expect(repo: Repo, shadow_new: Shadow) -> None:
    done = shadow_new("init")
    assert "warning: only Linux and macOS are supported" in done.out


@pytest.mark.parametrize("words", [("daemon", "watch"), ("log",)])
def test_watcher_of_linux_is_refused_in_one_line(
    portable: None, shadow_n: Shadow, words: tuple[str, ...]
) -> None:
    done = shadow_n(*words, env={"GITSHADOW_WATCHER": "inotify"})
    assert done.code == 2
    assert done.err.splitlines() == [
        "error: cannot use 'inotify' as agent-undo.watcher:"
        " on this system it must be auto or watchfiles",
        "hint: git config agent-undo.watcher auto",
    ]


def test_witness_is_refused_with_the_reason(shadow_p: Shadow) -> None:
    said = "this system does not report which process wrote a file"
    assert shadow_p("witness", "status", "--json").json()["problem"] == said
    assert shadow_p("witness", "install").err.splitlines() == [
        f"error: cannot use the witness service: {said}",
        "hint: git config agent-undo.witness false",
    ]
