"""The installed witness service as its own process, and clients of other users; needs root."""

import array
import errno
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from gitshadow.platform.linux.witness import client, install, service
from gitshadow.platform.linux.witness.client import ServiceWitness
from gitshadow.platform.linux.witness.fanotify import FileEvents
from gitshadow.platform.linux.witness.processes import look_at
from gitshadow.platform.writers import (
    WitnessGoneError,
    WriterAnswer,
    WriterQuery,
    opened,
)
from tests.support.waiting import until
from tests.support.witness_service import OTHER, USER, Machine, machine, need_kernel

pytestmark = pytest.mark.process


@pytest.fixture
def running() -> Iterator[Machine]:
    with machine() as found:
        yield found


def home(running: Machine, user: int) -> Path:
    """Return a directory that is closed to all but one user."""
    found = running.place / str(user)
    found.mkdir(mode=0o700)
    os.chown(found, user, user)
    return found


def watched(path: Path) -> tuple[int, ServiceWitness]:
    """Open a directory, and have the service watch it."""
    top = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    return top, ServiceWitness(top)


def ask(witness: ServiceWitness, top: int, path: bytes) -> WriterAnswer | None:
    """Ask who wrote a path."""
    me = look_at(os.getpid())
    assert me is not None
    with opened(top, path) as places:
        return witness.ask(WriterQuery(places, ((me.pid, me.started),), 0))


def connected() -> socket.socket:
    """Connect to the service as a client that obeys no rules."""
    found = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    found.connect(service.SOCKET)
    found.settimeout(30)
    return found


def send(peer: socket.socket, data: bytes, *fds: int) -> bytes:
    """Send a request with open files; return the reply, nothing if the service hung up."""
    rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))
    peer.sendmsg([data], [rights] if fds else [])
    try:
        return peer.recv(service.PACKET_BYTES)
    except ConnectionResetError:
        return b""


WATCH = service.packed_request(service.WATCH)


def question(*names: bytes, has_target: bool = False) -> bytes:
    """Return a question about some names, whatever they are."""
    places = tuple((0, name) for name in names)
    return service.packed_question(WriterQuery(places, (), 0), has_target=has_target)


def test_a_user_learns_who_wrote_in_a_closed_directory_of_theirs(
    running: Machine,
) -> None:
    path = home(running, USER)

    def act() -> None:
        top, witness = watched(path)
        child = os.posix_spawn("/bin/sh", ["sh", "-c", f"echo x > {path}/a"], {})
        os.waitpid(child, 0)
        (path / "own").write_text("x")
        answer = ask(witness, top, b"a")
        assert answer is not None
        (report,) = answer.reports
        assert (report.pid, report.agent, report.is_sure) == (child, 0, True), report
        own = ask(witness, top, b"own")
        assert own is not None
        assert own.reports == ()
        (path / "a").unlink()
        assert ask(witness, top, b"a") is not None

    running.as_user(USER, act)


def test_a_user_learns_nothing_of_what_belongs_to_others(running: Machine) -> None:
    path, foreign = home(running, USER), home(running, OTHER)
    foreign.chmod(0o755)
    (foreign / "secret").write_text("x")
    os.chown(foreign / "secret", OTHER, OTHER)
    # A directory and a file of another user below one's own.
    (path / "theirs").mkdir()
    (path / "file").write_text("x")
    (path / "link").symlink_to(foreign / "secret")
    os.chown(path / "link", USER, USER, follow_symlinks=False)

    def act() -> None:
        peer = connected()
        assert send(peer, WATCH, os.open(foreign, os.O_RDONLY)) == b""
        peer = connected()
        assert send(peer, WATCH, os.open(foreign / "secret", os.O_RDONLY)) == b""
        top, witness = watched(path)
        assert ask(witness, top, b"own") is not None
        assert ask(witness, top, b"link") is not None
        assert ask(witness, top, b"file") is None
        assert ask(witness, top, b"theirs/x") is None
        # Directories of others, sent as if they were one's own.
        peer = connected()
        assert send(peer, WATCH, top)[:1] == service.DONE
        theirs = os.open(foreign, os.O_RDONLY)
        assert send(peer, question(b"secret"), theirs) == service.UNKNOWN
        secret = os.open(foreign / "secret", os.O_PATH)
        data = question(b"a", has_target=True)
        assert send(peer, data, top, secret) == service.UNKNOWN

    running.as_user(USER, act)


def test_names_lead_nowhere(running: Machine) -> None:
    path, foreign = home(running, USER), home(running, OTHER)
    foreign.chmod(0o755)

    def act() -> None:
        top = os.open(path, os.O_RDONLY)
        peer = connected()
        assert send(peer, WATCH, top)[:1] == service.DONE
        subprocess.run(["sh", "-c", f"echo x > '{path}/a\nb'"], check=True)
        odd = send(peer, question(b"a\nb"), top)
        (report,) = (service.read_answer(odd, 1) or WriterAnswer(0, ())).reports
        assert report.pid
        # A name is compared with those that the kernel reported: none is looked up.
        for name in (b"..", b".", b"../12346/secret", b"/etc/passwd", b"", b"\xff"):
            answer = service.read_answer(send(peer, question(name), top), 1)
            assert answer is not None
            assert answer.reports == (), name

    os.close(os.open(foreign / "secret", os.O_CREAT | os.O_WRONLY))
    running.as_user(USER, act)


def test_what_no_client_sends_ends_the_connection(running: Machine) -> None:
    path = home(running, USER)

    def act() -> None:
        top = os.open(path, os.O_RDONLY)
        bad: tuple[tuple[bytes, tuple[int, ...]], ...] = (
            (b"", ()),
            (b"x", ()),
            (WATCH, ()),
            (WATCH, (top, top)),
            (service.packed_request(service.DRAIN), ()),
            (bytes(service.PACKET_BYTES + 1), ()),
        )
        for data, fds in bad:
            assert send(connected(), data, *fds) == b"", data[:20]
        many = question(*(b"a",) * 3)
        worse: tuple[tuple[bytes, tuple[int, ...]], ...] = (
            (many, (top,)),
            (many, (top,) * 4),
            (service._REQUEST.pack(service.ASK, False, 0, 2**32 - 1), (top,)),
            (service._REQUEST.pack(b"z", False, 0, 0), ()),
            (WATCH, (top,)),
        )
        for data, fds in worse:
            peer = connected()
            assert send(peer, WATCH, top)[:1] == service.DONE
            assert send(peer, data, *fds) == b"", data[:20]
        _, witness = watched(path)
        witness.drain()

    running.as_user(USER, act)
    assert running.process is not None
    fds = Path(f"/proc/{service_pid(running)}/fd")
    until(lambda: len(os.listdir(fds)) < 16)


def service_pid(running: Machine) -> int:
    """Return the pid of the service: setpriv and nsenter became it."""
    assert running.process is not None
    return running.process.pid


def test_a_client_that_never_reads_stops_nobody(running: Machine) -> None:
    path, other = home(running, USER), home(running, OTHER)

    def flood() -> None:
        top = os.open(path, os.O_RDONLY)
        peer = connected()
        assert send(peer, WATCH, top)[:1] == service.DONE
        drain = service.packed_request(service.DRAIN)
        with pytest.raises(OSError, match=r"Broken pipe|reset"):
            any(not peer.send(drain) for _ in count())

    def act() -> None:
        top, witness = watched(other)
        for _ in range(100):
            assert ask(witness, top, b"a") is not None

    flooding = fork(lambda: running.as_user(USER, flood))
    running.as_user(OTHER, act)
    assert os.waitpid(flooding, 0)[1] == 0


def test_one_user_cannot_take_all_places(running: Machine) -> None:
    path, other = home(running, USER), home(running, OTHER)

    def crowd() -> None:
        top = os.open(path, os.O_RDONLY)
        peers = [connected() for _ in range(40)]
        done = [is_admitted(one, top) for one in peers]
        assert done.count(True) == 16
        (path / "full").touch()
        until((path / "done").exists)

    def act() -> None:
        top, witness = watched(other)
        assert ask(witness, top, b"a") is not None

    crowding = fork(lambda: running.as_user(USER, crowd))
    until(lambda: (path / "full").exists() or ended(crowding))
    running.as_user(OTHER, act)
    (path / "done").touch()
    assert os.waitpid(crowding, 0)[1] == 0


def is_admitted(peer: socket.socket, top: int) -> bool:
    """Return whether the service takes a client."""
    try:
        return send(peer, WATCH, top)[:1] == service.DONE
    except BrokenPipeError:
        return False


def test_events_that_were_dropped_are_told_as_lost(running: Machine) -> None:
    path = home(running, USER)
    most = int(Path("/proc/sys/fs/fanotify/max_queued_events").read_text())
    pid = service_pid(running)

    def act() -> None:
        top, witness = watched(path)
        before = ask(witness, top, b"a")
        assert before is not None
        Path(path / "ready").touch()
        until((path / "flooded").exists)
        after = ask(witness, top, b"f1")
        assert after is not None
        assert after.covered_since_ns > before.covered_since_ns
        assert after.reports == ()

    def flood() -> None:
        until((path / "ready").exists)
        os.kill(pid, signal.SIGSTOP)
        for number in range(most + 10):
            os.close(os.open(path / f"f{number}", os.O_CREAT | os.O_WRONLY))
        os.chown(path / "f1", USER, USER)
        os.kill(pid, signal.SIGCONT)
        (path / "flooded").touch()

    flooding = fork(flood)
    running.as_user(USER, act)
    assert os.waitpid(flooding, 0)[1] == 0


def test_a_service_that_is_killed_is_gone_for_its_client(running: Machine) -> None:
    path = home(running, USER)
    pid = service_pid(running)

    def act() -> None:
        top, witness = watched(path)
        (path / "ready").touch()
        until((path / "killed").exists)
        with pytest.raises(WitnessGoneError):
            ask(witness, top, b"a")
        with pytest.raises(OSError, match="refused"):
            ServiceWitness(top)
        (path / "gone").touch()
        until((path / "again").exists)
        ServiceWitness(top).drain()

    client_pid = fork(lambda: running.as_user(USER, act))
    until((path / "ready").exists)
    os.kill(pid, signal.SIGKILL)
    running.stop(signal.SIGKILL)
    (path / "killed").touch()
    until(lambda: (path / "gone").exists() or ended(client_pid))
    running.start()
    (path / "again").touch()
    assert os.waitpid(client_pid, 0)[1] == 0


@pytest.mark.parametrize("planted", ["socket", "directory", "link", "server"])
def test_a_planted_socket_is_not_believed(
    planted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files to another user")
    directory = tmp_path / "run"
    directory.mkdir(mode=0o755)
    path = directory / "witness"
    monkeypatch.setattr(service, "DIRECTORY", str(directory))
    monkeypatch.setattr(service, "SOCKET", str(path))
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listening.bind(str(path))
    if planted == "server":
        # The peer of a connection is who listens, whoever owns the name.
        os.setegid(USER)
        os.seteuid(USER)
    listening.listen()
    os.seteuid(0)
    os.setegid(0)
    assert (client.problem() is None) == (planted != "server")
    if planted == "socket":
        os.chown(path, USER, USER)
    elif planted == "directory":
        directory.chmod(0o777)
    elif planted == "link":
        path.rename(directory / "real")
        path.symlink_to(directory / "real")
    with pytest.raises(PermissionError):
        ServiceWitness(os.open(tmp_path, os.O_RDONLY))
    listening.close()


def test_uninstall_leaves_nothing(running: Machine) -> None:
    running.stop(signal.SIGTERM)
    before = running.root("witness", "status", "--json")
    assert '"installed": true' in before.stdout
    assert '"answers": false' in before.stdout
    assert running.root("witness", "uninstall").returncode == 0
    left = f"ls -d {install.DIRECTORY} {install.UNIT} {service.DIRECTORY}"
    done = subprocess.run(
        (*running.entering, "sh", "-c", left), capture_output=True, check=False
    )
    assert done.stdout == b""
    again = running.root("witness", "uninstall")
    assert again.stdout == "nothing was installed\n"


def test_what_root_runs_belongs_to_root_and_is_the_same_each_time(
    running: Machine,
) -> None:
    words = (*running.entering, "stat", "-c", "%u %a", install.FILE, install.DIRECTORY)
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout == "0 644\n0 755\n"
    assert install.archive() == install.archive()


def test_only_root_installs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: USER)
    for act in (install.install, install.uninstall, install.run):
        with pytest.raises(Exception, match="only root"):
            act()


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    unit = tmp_path / install.UNIT_NAME
    # The file is not there unless it was installed.
    unit.write_text(install.UNIT_TEXT.replace(install.FILE, ""))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", unit],
        capture_output=True,
        text=True,
        check=False,
    )
    assert install.UNIT_NAME not in done.stderr, done.stderr


def fork(act: Callable[[], None]) -> int:
    """Do something in a fork of this process; return its pid."""
    pid = os.fork()
    if pid == 0:
        try:
            act()
            os._exit(0)
        finally:
            os._exit(1)
    return pid


def ended(pid: int) -> bool:
    """Return whether a child has ended."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def test_a_record_that_failed_is_replaced_for_the_next_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_kernel(tmp_path)
    top = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    kept = service._FileSystems()

    def fail(_: FileEvents) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with kept.watched(top, USER) as first:
        monkeypatch.setattr(FileEvents, "read", fail)
        with pytest.raises(WitnessGoneError):
            first.drain()
        monkeypatch.undo()
        with kept.watched(top, USER) as second, kept.watched(top, OTHER) as third:
            assert first is not second is third
            second.drain()
    with kept.watched(top, USER) as fourth:
        fourth.drain()
    os.close(top)
