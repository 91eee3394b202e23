"""What only macOS has, with its kernel played by fakes: nobody has run it on a real one yet."""

import ctypes
import fcntl
import os
import plistlib
import resource
import select
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitshadow import platform
from gitshadow.config import WatchBackend
from gitshadow.errors import ShadowError
from gitshadow.hookfiles import detect, login
from gitshadow.hookfiles.install import FileAction
from gitshadow.platform.macos import MacOS, facts, sockets
from gitshadow.platform.portable.watcher import PortableWatcher

BOOTED_S = 1_750_000_000
SESSION = "7D3B8E0C-4C64-4E0B-9B5E-0A1F6C2D9E55"


class Sysctl:
    """The function of the C library, in a kernel that knows some names."""

    def __init__(self, *known: bytes) -> None:
        self.known = known

    def sysctlbyname(
        self, name: bytes, buffer: "object", size: object, new: None, length: object
    ) -> int:
        if name not in self.known:
            return -1
        if name == b"kern.boottime":
            struct.pack_into("@qi4x", buffer, 0, BOOTED_S, 123_456)  # type: ignore[arg-type]
        else:
            struct.pack_into("37s", buffer, 0, SESSION.encode())  # type: ignore[arg-type]
        return 0


@pytest.mark.parametrize(
    ("known", "boot"),
    [
        ((b"kern.bootsessionuuid", b"kern.boottime"), f"boot-{SESSION}"),
        ((b"kern.boottime",), f"boot-{BOOTED_S}"),
        ((), None),
    ],
)
def test_boot_is_the_session_of_the_kernel_or_the_second_in_which_it_began(
    monkeypatch: pytest.MonkeyPatch, known: tuple[bytes, ...], boot: str | None
) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: Sysctl(*known))
    assert facts.boot() == boot


def test_boot_is_unknown_where_the_library_has_no_sysctl(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: object())
    assert facts.boot() is None


class HostId:
    """The function of the C library that names the hardware."""

    def __init__(self, fails: int) -> None:
        self.fails = fails

    def gethostuuid(self, buffer: "object", timeout: bytes) -> int:
        assert struct.unpack("@ll", timeout) == (1, 0)
        struct.pack_into("16s", buffer, 0, bytes(range(16)))  # type: ignore[arg-type]
        return self.fails


@pytest.mark.parametrize(
    ("library", "found"),
    [
        (HostId(0), "000102030405060708090a0b0c0d0e0f"),
        (HostId(-1), None),
        (object(), None),
    ],
    ids=["known", "refused", "absent"],
)
def test_machine_is_named_by_its_hardware_because_its_name_changes(
    monkeypatch: pytest.MonkeyPatch, library: object, found: str | None
) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: library)
    assert facts.machine_id() == found


class Peer:
    """A connected socket as macOS has it: `struct xucred` of a version and a user."""

    def __init__(self, version: int, user: int) -> None:
        self.raw = struct.pack("IIh2x16I", version, user, 1, *[20] * 16)

    def getsockopt(self, level: int, option: int, size: int) -> bytes:
        assert (level, option, size) == (0, 1, len(self.raw))
        return self.raw


@pytest.mark.parametrize(("version", "user"), [(0, 501), (1, None)])
def test_user_of_the_other_end_is_known_in_a_known_version(
    version: int, user: int | None
) -> None:
    peer: socket.socket = Peer(version, 501)  # type: ignore[assignment]
    assert sockets.peer_user(peer) == user


class Queue:
    """A kqueue of which the end of a process is a byte in a pipe."""

    def __init__(self) -> None:
        self.reader, self.writer = os.pipe()
        self.asked: list[tuple[object, ...]] = []

    def control(self, events: list[tuple[object, ...]], most: int) -> None:
        self.asked += events

    def fileno(self) -> int:
        return self.reader

    def close(self) -> None:
        os.close(self.reader)


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> Iterator[Queue]:
    made = Queue()
    fakes = {
        "kqueue": lambda: made,
        "kevent": lambda *words: words,
        "KQ_FILTER_PROC": "proc",
        "KQ_EV_ADD": "add",
        "KQ_NOTE_EXIT": "exit",
    }
    for name, fake in fakes.items():
        monkeypatch.setattr(select, name, fake, raising=False)
    yield made
    os.close(made.writer)


def test_end_of_a_process_is_awaited_by_a_kqueue(queue: Queue) -> None:
    end = facts.end_of(42)
    assert end is not None
    assert queue.asked == [(42, "proc", "add", "exit")]
    assert not end.has_come()
    threading.Timer(0.05, lambda: os.write(queue.writer, b".")).start()
    assert end.wait().is_late
    assert end.has_come()
    end.close()


def test_end_is_awaited_by_a_descriptor_that_select_does_not_take(queue: Queue) -> None:
    """select(2) takes none from 1024, which a daemon that watches many files has."""
    low = os.dup(queue.reader)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 2048)), hard))
    try:
        end = facts.KqueueEnd(fcntl.fcntl(low, fcntl.F_DUPFD, 1024))
        assert not end.has_come()
        os.write(queue.writer, b".")
        assert end.has_come()
        end.close()
    finally:
        os.close(low)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_process_that_has_ended_is_not_awaited(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(events: object, most: int) -> None:
        raise ProcessLookupError

    monkeypatch.setattr(queue, "control", gone)
    assert facts.end_of(42) is None


def test_sync_empties_the_cache_of_the_drive_or_does_what_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []

    def full(fd: int, command: int) -> None:
        assert command == 51
        done.append("full")
        if len(done) > 1:
            raise OSError

    monkeypatch.setattr(fcntl, "fcntl", full)
    monkeypatch.setattr(os, "fsync", lambda fd: done.append("plain"))
    facts.sync(0)
    facts.sync(0)
    assert done == ["full", "full", "plain"]


class Places:
    """A worktree that is named by another path than events have."""

    def __init__(self, top: Path) -> None:
        self.root = str(top)
        self.git_dir = str(top / ".git")


def test_watcher_takes_the_paths_that_events_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FSEvents says `/private/tmp` for `/tmp`, and `Repo` for `repo`."""
    (tmp_path / "Repo" / ".git").mkdir(parents=True)
    (tmp_path / "repo").symlink_to("Repo")

    def get_path(fd: int, command: int, buffer: bytes) -> bytes:
        assert command == 50
        return os.fsencode(os.readlink(f"/proc/self/fd/{fd}")).ljust(len(buffer), b"\0")

    monkeypatch.setattr(fcntl, "fcntl", get_path)
    places = Places(tmp_path / "repo")
    watcher = MacOS().open_watcher(WatchBackend.AUTO, places, lambda: None)
    assert isinstance(watcher, PortableWatcher)
    root = str(tmp_path / "Repo")
    found = watcher._root, watcher._git_dir, watcher._recursive
    assert found == (root, f"{root}/.git", True)
    watcher.close()


def test_path_of_events_is_the_one_asked_for_where_the_system_does_not_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> bytes:
        raise OSError

    monkeypatch.setattr(fcntl, "fcntl", refuse)
    assert facts.reported_path(str(tmp_path)) == str(tmp_path)
    assert facts.reported_path("/nowhere") == "/nowhere"


@pytest.fixture
def at_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> detect.InstallEnvironment:
    monkeypatch.setattr(platform, "NAME", platform.MACOS)
    program = tmp_path / "git-agent-undo"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (tmp_path / "home" / ".local" / "state").mkdir(parents=True)
    return detect.surroundings({}, str(tmp_path / "home"), executable=str(program))


def test_login_is_a_property_list_per_worktree_and_nothing_is_left(
    at_home: detect.InstallEnvironment, tmp_path: Path
) -> None:
    assert login.service({}).name == "launchd"
    for root in ("/Users/u/tea", "/Users/u/ü"):
        done = login.apply(login.plan(root, at_home), at_home)
        assert [step.error for step in done.steps] == [None]
    agents = tmp_path / "home" / "Library" / "LaunchAgents"
    found = [plistlib.loads(path.read_bytes()) for path in agents.iterdir()]
    assert sorted(one["WorkingDirectory"] for one in found) == [
        "/Users/u/tea",
        "/Users/u/ü",
    ]
    assert all(one["ProgramArguments"][1:] == ["daemon", "watch"] for one in found)
    assert all(f"{one['Label']}.plist" in os.listdir(agents) for one in found)
    again = login.plan("/Users/u/tea", at_home)
    assert [step.action for step in again.steps] == [FileAction.NONE]
    roots = ["/Users/u/tea", "/Users/u/ü"]
    login.apply(login.plan_removal(roots, at_home), at_home)
    assert not agents.exists()


def test_login_is_refused_where_no_service_manager_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(platform, "NAME", platform.PORTABLE)
    with pytest.raises(ShadowError, match="no service manager of this system is known"):
        login.service({})
