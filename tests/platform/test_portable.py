"""What all POSIX systems have, compared on Linux with what only Linux has."""

import os
import signal
import socket
import stat as st
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from gitshadow.platform.linux import processes as of_linux
from gitshadow.platform.portable import (
    Portable,
    files,
    machine,
    processes,
    sockets,
)
from tests.support.waiting import until


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator["subprocess.Popen[bytes]"]:
    env = {"GITSHADOW_SESSION": "s1", "PATH": os.environ["PATH"]}
    words = ["sleep", "1000"]
    with subprocess.Popen(words, cwd=tmp_path, env=env) as child:
        until(lambda: of_linux.command_line(child.pid) == (b"sleep", b"1000"))
        yield child
        child.kill()


def test_process_is_the_same_to_both(
    sleeper: "subprocess.Popen[bytes]", tmp_path: Path
) -> None:
    pid = sleeper.pid
    mine, linux = processes.stat(pid), of_linux.stat(pid)
    assert mine is not None
    assert linux is not None
    assert (mine.parent, mine.name, mine.dead) == (linux.parent, "sleep", False)
    apart_ns = processes.started_ns(mine.id.started) - of_linux.started_ns(
        linux.id.started
    )
    assert abs(apart_ns) < processes.COARSE_NS
    assert processes.command_line(pid) == of_linux.command_line(pid)
    assert processes.directory(pid) == str(tmp_path)
    assert processes.executable(pid) == of_linux.executable(pid)
    assert b"GITSHADOW_SESSION=s1\0" in (processes.environment(pid) or b"")
    assert processes.place(pid, b"x") == os.fsencode(tmp_path) + b"/x"


def test_process_is_the_same_after_the_clock_was_set(
    sleeper: "subprocess.Popen[bytes]", monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hook begins after that; psutil in a daemon adds the difference to all starts then."""
    before = processes.stat(sleeper.pid)
    create_time = psutil.Process.create_time
    monkeypatch.setattr(
        psutil.Process, "create_time", lambda self: create_time(self) + 3600
    )
    after = processes.stat(sleeper.pid)
    assert before is not None
    assert after is not None
    assert after.id == before.id


@pytest.mark.parametrize("pid", [-5, 1 << 40, 1 << 70])
def test_number_that_no_process_has_is_that_of_none(pid: int) -> None:
    assert processes.stat(pid) is None
    assert processes.command_line(pid) == ()
    assert Portable().lineage(pid) == []


def test_table_has_living_processes_and_no_ended_one(
    sleeper: "subprocess.Popen[bytes]",
) -> None:
    table = processes.table()
    assert sleeper.pid in table.look()
    assert sleeper.pid in processes.children(os.getpid())
    sleeper.kill()
    until(lambda: getattr(processes.stat(sleeper.pid), "dead", False))
    assert sleeper.pid not in table.look()
    sleeper.wait()
    assert processes.stat(sleeper.pid) is None
    assert processes.command_line(sleeper.pid) == ()
    assert processes.environment(sleeper.pid) is None


def test_program_that_a_process_runs_next_is_another_one() -> None:
    words = ["sh", "-c", "read x; exec sleep 1000"]
    with subprocess.Popen(words, stdin=subprocess.PIPE) as child:
        until(lambda: of_linux.command_line(child.pid)[:1] == (b"sh",))
        before = processes.stat(child.pid)
        assert child.stdin is not None
        child.stdin.write(b"\n")
        child.stdin.flush()
        until(lambda: of_linux.command_line(child.pid)[:1] == (b"sleep",))
        after = processes.stat(child.pid)
        child.kill()
    assert before is not None
    assert after is not None
    assert (before.id, before.image != after.image) == (after.id, True)


@pytest.mark.parametrize(
    ("name", "words", "found"),
    [
        (
            "Python",
            ["/usr/bin/python3", "/opt/bin/git-agent-undo", "hook"],
            "git-agent-undo",
        ),
        ("python3.12", ["python3.12", "-m", "x"], "python3.12"),
        ("node", ["node", "x.js"], "node"),
    ],
)
def test_script_is_called_by_its_own_name(
    name: str, words: list[str], found: str
) -> None:
    assert processes._name(name, words) == found


def test_holder_of_a_file_is_found_and_what_is_unknown_is_no_evidence(
    tmp_path: Path,
) -> None:
    path = str(tmp_path / "lock")
    with open(path, "w"):
        assert os.getpid() in processes.holders((path,))[path]
        assert list(processes.written_files(os.getpid(), os.fsencode(tmp_path))) == []
    assert processes.holders((path,)) == {}
    assert processes.activity(os.getpid()) is None
    assert processes.end_of(os.getpid()) is None
    assert processes.counters() is None


def test_lineage_names_each_process_above() -> None:
    first, second = Portable().lineage(os.getpid())[:2]
    assert first.partition("/")[0] == str(os.getpid())
    assert second.partition("/")[0] == str(os.getppid())


@pytest.mark.parametrize("depth", [0, 3])
def test_socket_is_reached_however_long_its_path_is(tmp_path: Path, depth: int) -> None:
    directory = tmp_path.joinpath(*["d" * 60] * depth)
    directory.mkdir(parents=True, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as listening:
        with sockets.address(str(directory), "s") as address:
            listening.bind(address)
        listening.listen()
        with (
            socket.socket(socket.AF_UNIX) as peer,
            sockets.address(str(directory), "s") as address,
        ):
            peer.connect(address)
            assert sockets.peer_user(peer) is None
    made = os.path.dirname(os.path.dirname(address)) if depth else str(directory)
    assert os.path.exists(made) is not bool(depth)
    assert os.listdir(directory) == ["s"]


def test_directory_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(OSError, match=r"Not a directory|symbolic"):
        sockets.address(str(tmp_path / "link"), "s")


def test_mode_of_an_unreadable_file_is_set_and_a_link_is_not_followed(
    tmp_path: Path,
) -> None:
    (tmp_path / "a").touch()
    (tmp_path / "a").chmod(0)
    (tmp_path / "link").symlink_to("a")
    fd = os.open(tmp_path, os.O_RDONLY)
    try:
        assert files.chmod(b"a", 0o640, fd)
        assert not files.chmod(b"link", 0o600, fd)
    finally:
        os.close(fd)
    assert st.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640


def test_birth_is_known_where_stat_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stat:
        st_ino, st_birthtime = 7, 12.5

    assert files.birth_of(b"none", 0) is None
    with monkeypatch.context() as patched:
        patched.setattr(os, "stat", lambda *_, **__: Stat)
        found = files.birth_of(b"a", 0)
    assert found == (7, 12_500_000_000)


def test_blocked_signal_is_waited_for() -> None:
    code = """if True:
    import os, signal
    from gitshadow.platform.portable import machine
    waited = {signal.SIGTERM, signal.SIGINT, signal.SIGUSR1}
    signal.pthread_sigmask(signal.SIG_BLOCK, waited)
    os.kill(os.getpid(), signal.SIGINT)
    print(machine.await_signal(waited, 60.0))
    """
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    number = int(signal.SIGINT)
    shown = f"ReceivedSignal(number={number!r}, by_kernel=True)"
    said = done.stdout.replace(repr(signal.SIGINT), str(number))
    assert said == f"{shown}\n"


def test_boot_is_a_second_and_unknown_where_it_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(psutil, "boot_time", lambda: 1_700_000_000.5)
    assert machine.boot() == "boot-1700000000"

    def fail() -> float:
        raise psutil.AccessDenied

    monkeypatch.setattr(psutil, "boot_time", fail)
    assert machine.boot() is None


class Mount(NamedTuple):
    """A mounted file system as psutil lists it."""

    mountpoint: str
    fstype: str


@pytest.mark.parametrize(
    ("mounts", "kind"),
    [
        ({"": "nfs"}, None),
        ({"repo": "nfs"}, "nfs"),
        ({"repo": "fusefs.sshfs"}, "fusefs.sshfs"),
        ({"repository": "nfs"}, None),
        ({"repo/inner": "nfs"}, None),
    ],
)
def test_file_system_that_others_write_to_is_known_by_what_is_mounted(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mounts: dict[str, str],
    kind: str | None,
) -> None:
    found = [Mount(str(tmp_path / place), name) for place, name in mounts.items()]
    found += [Mount(str(tmp_path), "apfs"), Mount("/", "nfs")]
    monkeypatch.setattr(psutil, "disk_partitions", lambda **_: found)
    assert machine.shared_file_system(bytes(tmp_path / "repo")) == kind

    def fail(**_: bool) -> list[Mount]:
        raise psutil.AccessDenied

    monkeypatch.setattr(psutil, "disk_partitions", fail)
    assert machine.shared_file_system(str(tmp_path / "repo")) is None


def test_machine_knows_nothing_that_is_not_everywhere(tmp_path: Path) -> None:
    assert machine.machine_id() is None
    assert machine.shared_file_system(str(tmp_path)) is None
    assert machine.watch_limits() is None
    assert machine.end_descriptor(os.getpid()) is None
    with machine.unnamed_file() as file:
        file.write(b"x")
        file.seek(0)
        assert file.read() == b"x"
