"""Whatever happens to the server, a command is run, and never twice."""

import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path

import pytest

from gitshadow import config
from gitshadow.command_server import worker
from gitshadow.ipc import command_client, wire
from tests.conftest import FULL
from tests.support.probe import IN_PYTHON, Probe, probing, serving
from tests.support.waiting import HANGS_S, until

_SEQPACKET = (socket.AF_UNIX, socket.SOCK_SEQPACKET)
_KILLS = 500 if FULL else 20


def test_its_setting_is_the_documented_one() -> None:
    found = (config.SERVER.git_name, config.SERVER.default)
    assert found == (command_client.SETTING, "auto")


def _appended(probe: Probe, path: Path) -> int:
    code, _, err = probe.run("append", str(path), served=True)
    assert (code, err) == (0, b"")
    return len(path.read_bytes())


def test_a_server_that_hangs_is_left_alone(probe: Probe, tmp_path: Path) -> None:
    until(lambda: len(probe.children()) == 2)
    pids = [probe.server.pid, *probe.children()]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    assert _appended(probe, tmp_path / "written") == 1
    assert not (probe.directory / wire.SOCKET_NAME).exists()
    for pid in pids:
        os.kill(pid, signal.SIGCONT)
    assert probe.server.wait(HANGS_S) == 0


def test_one_that_hangs_after_its_greeting_is_left_alone(
    probe: Probe, tmp_path: Path
) -> None:
    probe.server.kill()
    probe.server.wait()
    path = probe.directory / wire.SOCKET_NAME
    path.unlink()
    with socket.socket(*_SEQPACKET) as listening:
        with probe.socket() as reachable:
            listening.bind(reachable)
        listening.listen()
        words = ("append", str(tmp_path / "written"))
        with probe.start(*words, served=True) as started:
            client = listening.accept()[0]
            client.send(command_client.greeting())
            assert started.wait(HANGS_S) == 0
            client.close()
    assert (tmp_path / "written").read_bytes() == b"x"
    assert not path.exists()


def test_one_of_another_version_is_not_used(
    sealed: Path, client: Sequence[str], tmp_path: Path
) -> None:
    program = tmp_path / "other.py"
    program.write_text(
        "import sys\n"
        f"sys.path.insert(0, {os.path.dirname(IN_PYTHON[-1])!r})\n"
        "from gitshadow.ipc import command_client\n"
        "command_client.VERSION = b'other'\n"
        "import probe_program\n"
        "sys.exit(probe_program.main())\n"
    )
    other = (sys.executable, str(program))
    with probing(sealed / "run", client, by=other) as probe:
        assert probe.run("served", served=True) == (0, b"0\n", b"")


def _write(module: Path) -> None:
    module.write_text("changed = True\n")


def _replace(module: Path) -> None:
    new = module.with_name("new")
    new.touch()
    new.rename(module)


def _move(module: Path) -> None:
    module.parent.rename(module.parent.with_name("moved"))


@pytest.mark.parametrize("change", [_write, _replace, Path.unlink, _move])
def test_a_program_that_changed_is_not_served(
    probe: Probe, tmp_path: Path, change: Callable[[Path], object]
) -> None:
    until(lambda: len(probe.children()) == 2)
    change(Path(probe.environ["PROBE_MODULE"]))
    assert _appended(probe, tmp_path / "written") == 1
    assert probe.server.wait(HANGS_S) == 0
    assert not probe.directory.exists()


def test_nor_where_it_changes_while_the_server_does_not_look(
    probe: Probe, tmp_path: Path
) -> None:
    until(lambda: len(probe.children()) == 2)
    os.kill(probe.server.pid, signal.SIGSTOP)
    _write(Path(probe.environ["PROBE_MODULE"]))
    assert _appended(probe, tmp_path / "written") == 1
    os.kill(probe.server.pid, signal.SIGCONT)
    assert probe.server.wait(HANGS_S) == 0


def test_nor_where_there_are_no_watches_left(sealed: Path, tmp_path: Path) -> None:
    with probing(sealed / "run", IN_PYTHON, IN_PYTHON, "NO WATCHES") as probe:
        assert probe.run("served", served=True)[1] == b"1\n"
        _write(Path(probe.environ["PROBE_MODULE"]))
        assert _appended(probe, tmp_path / "written") == 1
        assert probe.server.wait(HANGS_S) == 0


def test_it_ends_with_its_socket_and_another_one_is_started(
    probe: Probe, tmp_path: Path
) -> None:
    (probe.directory / wire.SOCKET_NAME).unlink()
    probe.server.send_signal(signal.SIGCHLD)
    assert probe.server.wait(HANGS_S) == 0
    with probing(probe.directory.parent.parent, probe.client) as other:
        assert _appended(other, tmp_path / "written") == 1


def test_a_socket_that_nobody_serves_costs_nothing_but_time(
    probe: Probe, tmp_path: Path
) -> None:
    probe.server.kill()
    probe.server.wait()
    assert (probe.directory / wire.SOCKET_NAME).exists()
    env = probe.environment(served=True)
    path = tmp_path / "written"
    code, _, _ = probe.run("append", str(path), served=True, env=env)
    assert (code, path.read_bytes()) == (0, b"x")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")
def test_the_socket_of_another_user_is_not_used(
    sealed: Path, probe: Probe, tmp_path: Path
) -> None:
    probe.server.kill()
    probe.server.wait()
    path = probe.directory / wire.SOCKET_NAME
    path.unlink()
    here, theirs = os.pipe()
    planted = os.fork()
    if planted == 0:
        got = 2
        try:
            listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with probe.socket() as reachable:
                listening.bind(reachable)
            os.chmod(path, 0o777)
            os.setuid(12345)
            listening.listen()
            os.write(theirs, b".")
            taken, got = listening.accept()[0], 0
            with suppress(OSError):
                taken.send(command_client.greeting())
                # What a trusting client would send.
                got = len(taken.recv(1 << 20))
        finally:
            os._exit(got > 0)
    os.close(theirs)
    assert os.read(here, 1) == b"."
    assert _appended(probe, tmp_path / "written") == 1
    assert os.waitstatus_to_exitcode(os.waitpid(planted, 0)[1]) == 0


def test_a_relative_directory_is_not_used(probe: Probe) -> None:
    """The server, in the root directory, would make it there, as without HOME."""
    relative = os.path.relpath(probe.environ["XDG_RUNTIME_DIR"])
    names = ("XDG_RUNTIME_DIR", "XDG_STATE_HOME", "HOME")
    env = probe.environment(served=True, extra=dict.fromkeys(names, relative))
    assert probe.run("served", served=True, env=env) == (0, b"0\n", b"")
    with pytest.raises(FileNotFoundError):
        command_client.directory({}, probe.client[-1])


def test_two_hundred_at_once(probe: Probe, tmp_path: Path) -> None:
    path = tmp_path / "written"
    started = [
        probe.start("append", str(path), served=True)
        for _ in range(200 if FULL else 50)
    ]
    assert {one.wait(HANGS_S) for one in started} == {0}
    for one in started:
        one.communicate()
    assert len(path.read_bytes()) == len(started)


@pytest.mark.parametrize(
    "sent",
    [b"", b"\0", b"junk", b"1000000\0", b"x" * 65536],
)
def test_no_message_stops_it(probe: Probe, sent: bytes, tmp_path: Path) -> None:
    for _ in range(5):
        _send(probe, sent)
    assert _appended(probe, tmp_path / "written") == 1


def _send(probe: Probe, sent: bytes) -> None:
    with socket.socket(*_SEQPACKET) as client:
        with probe.socket() as path:
            client.connect(path)
        assert client.recv(64) == command_client.greeting()
        client.send(sent)
        assert client.recv(64) == b"exit 1"


def test_who_waits_hears_of_processes_that_ended_before_the_server_looked(
    probe: Probe,
) -> None:
    until(lambda: len(probe.children()) == 2)
    os.kill(probe.server.pid, signal.SIGSTOP)
    with socket.socket(*_SEQPACKET) as one, socket.socket(*_SEQPACKET) as other:
        for client in (one, other):
            with probe.socket() as path:
                client.connect(path)
            client.settimeout(HANGS_S)
            assert client.recv(64) == command_client.greeting()
            client.send(b"junk")
        stats = [Path(f"/proc/{pid}/stat") for pid in probe.children()]
        until(lambda: all(") Z " in one.read_text() for one in stats))
        os.kill(probe.server.pid, signal.SIGCONT)
        assert [one.recv(64), other.recv(64)] == [b"exit 1"] * 2


def test_a_client_that_does_not_wait_for_its_process_is_no_trouble(
    probe: Probe,
) -> None:
    with socket.socket(*_SEQPACKET) as client:
        with probe.socket() as path:
            client.connect(path)
        assert client.recv(64) == command_client.greeting()
        client.shutdown(socket.SHUT_WR)
        assert client.recv(64) == b"exit 1"
    assert (probe.directory / "log").read_bytes() == b""


def test_too_much_for_one_message_is_run_directly(probe: Probe, tmp_path: Path) -> None:
    path = tmp_path / "written"
    many = {f"NAME{n}": "x" * 100_000 for n in range(12)}
    env = {**probe.environment(served=True), **many}
    code, _, err = probe.run("append", str(path), served=True, env=env)
    assert (code, err, path.read_bytes()) == (0, b"", b"x")


def test_a_client_that_is_gone_before_its_command_begins_ends_it(
    probe: Probe, tmp_path: Path
) -> None:
    path = tmp_path / "written"
    server, pid = _ready(probe, (0, 1, 2), "append", str(path))
    os.kill(pid, signal.SIGSTOP)
    server.send(command_client.GO)
    server.close()
    os.kill(pid, signal.SIGCONT)
    until(lambda: pid not in _children(probe))
    assert not path.exists()


def test_a_message_that_is_noticed_late_does_not_end_its_command(probe: Probe) -> None:
    """Who sends one wakes the reader, and then signals it, however long that was read."""
    given, typed = os.pipe()
    said, out = os.pipe()
    server, _ = _ready(probe, (given, out, 2), "facts", "read")
    with server:
        server.send(command_client.GO)
        os.write(typed, b"typed")
        until(lambda: not select.select([given], [], [], 0)[0])
        server.send(command_client.GO)
        os.close(typed)
        os.close(out)
        with open(said, "rb") as told:
            assert json.loads(told.read())["stdin"] == "typed"
    os.close(given)


def test_a_process_waits_for_a_client_that_was_stopped() -> None:
    client, connection = socket.socketpair(*_SEQPACKET)
    with client, connection, ThreadPoolExecutor() as pool:
        # What a request has to come in.
        connection.settimeout(0.001)
        begins = pool.submit(worker._begins, connection)
        assert client.recv(64) == b"ready %d" % os.getpid()
        assert not wait([begins], 0.01).done
        client.send(command_client.GO)
        assert begins.result(HANGS_S)


def _ready(
    probe: Probe, streams: Sequence[int], *args: str
) -> tuple[socket.socket, int]:
    """Return a connection to a process that waits to begin a command, and its pid."""
    words = [probe.client[-1], *args]
    environ = probe.environment(served=True)
    named = {os.fsencode(n): os.fsencode(v) for n, v in environ.items()}
    request = command_client._request(command_client.COMMAND, words, named)
    found = command_client._connect(str(probe.directory))
    assert found is not None
    server = socket.socket(fileno=found.detach())
    pid = command_client._handed_over(request, streams, "/", server)
    assert pid is not None
    return server, pid


def test_it_gives_up_where_no_process_can_be_forked(probe: Probe) -> None:
    probe.server.kill()
    probe.server.wait()
    words = serving(probe.client, "NO FORK")
    done = subprocess.run(words, env=probe.environ, check=False)
    assert done.returncode == 1
    assert not (probe.directory / wire.SOCKET_NAME).exists()
    assert b"BlockingIOError" in (probe.directory / "log").read_bytes()


def test_the_reason_stays_where_no_process_gets_as_far_as_a_command(
    probe: Probe,
) -> None:
    probe.server.kill()
    probe.server.wait()
    words = serving(probe.client, "NO REHEARSAL")
    done = subprocess.run(words, env=probe.environ, check=False)
    assert done.returncode == 1
    assert not (probe.directory / wire.SOCKET_NAME).exists()
    said = (probe.directory / "log").read_text()
    assert "LookupError: nothing to rehearse" in said
    assert "11 processes in a row ended before they got a command" in said


def test_its_log_does_not_grow_without_an_end(probe: Probe) -> None:
    log, largest = probe.directory / "log", 0
    while (size := log.stat().st_size) >= largest:
        largest = size
        assert size < 1 << 16
        _send(probe, b"junk")
    _send(probe, b"junk")
    assert b"ValueError" in log.read_bytes()


def test_kills_at_random_lose_and_double_nothing(
    sealed: Path, client: Sequence[str], tmp_path: Path
) -> None:
    rng = random.Random(33)
    for number in range(_KILLS // 10):
        runtime = sealed / f"run{number}"
        runtime.mkdir(mode=0o700)
        with probing(runtime, client) as probe:
            for turn in range(10):
                _one_kill(probe, rng, tmp_path / f"{number}.{turn}")


def _one_kill(probe: Probe, rng: random.Random, path: Path) -> None:
    with probe.start("append", str(path), served=True) as started:
        time.sleep(rng.random() * 0.2)
        whom = rng.choice(("client", "worker", "server", "all"))
        pids = {
            "client": [started.pid],
            "worker": _children(probe),
            "server": [probe.server.pid],
            "all": [probe.server.pid, *_children(probe)],
        }[whom]
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        started.communicate(timeout=HANGS_S)
    written = len(path.read_bytes()) if path.exists() else 0
    assert written <= 1, whom
    if started.returncode == 0:
        assert written == 1, whom


def _children(probe: Probe) -> list[int]:
    try:
        return probe.children()
    except OSError:
        return []
