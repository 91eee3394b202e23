"""A daemon that the server becomes shares its pages, and is otherwise one that was executed."""

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from gitshadow.ipc import command_client, wire
from tests.support.repo import Repo
from tests.support.shadow import COMMAND, Shadow
from tests.support.waiting import HANGS_S, until

_SERVER = "from gitshadow.command_server.__main__ import main; "
_SERVER += f"main({COMMAND!r})"
_OF_ANOTHER_VERSION = (
    "from gitshadow.ipc import command_client; command_client.VERSION = b'other'; "
    + _SERVER
)
_SOON_IDLE = (
    "from gitshadow.command_server import __main__ as served; served._IDLE_S = 5; "
    f"served._LOOK_S = 0.1; served.main({COMMAND!r})"
)
# Those of a process that are not its own: who it is, and what it has done.
_STATUS = (
    *("Umask", "Uid", "Gid", "Groups", "Threads", "SigBlk", "SigIgn", "SigCgt"),
    *("CapEff", "NoNewPrivs", "Seccomp", "Cpus_allowed"),
)


@pytest.fixture
def server(sealed: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start a server of this test's own."""
    with _serving(_SERVER) as made:
        yield made


@pytest.fixture
def shadow(repo: Repo, make_shadow: Callable[..., Shadow]) -> Shadow:
    """Return the executed command before `init`; it asks the server for daemons."""
    made = make_shadow(repo)
    made.executes = True
    made.env[command_client.OFF] = "auto"
    return made


@contextmanager
def _serving(program: str) -> Iterator[subprocess.Popen[bytes]]:
    words = [sys.executable, "-P", "-c", program]
    server = subprocess.Popen(words, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        until((_directory() / wire.SOCKET_NAME).exists)
        until(lambda: len(_children(server)) == 2)
        yield server
    finally:
        server.kill()
        server.wait()


def _directory() -> Path:
    return Path(command_client.directory(os.environ, COMMAND))


def _children(server: subprocess.Popen[bytes]) -> list[int]:
    path = Path(f"/proc/{server.pid}/task/{server.pid}/children")
    return [int(pid) for pid in path.read_text().split()]


def _started(
    shadow: Shadow, *words: str, served: bool = True, stdin: bytes = b""
) -> int:
    # Other executed commands of a test use the server even if it is switched off.
    env = shadow.environment({command_client.OFF: "auto" if served else "off"})
    root = shadow.repo.root
    subprocess.run([COMMAND, *words], cwd=root, env=env, input=stdin, check=True)
    (pid,) = shadow.daemons()
    return pid


def _memory(pid: int) -> Mapping[str, int]:
    """Return the sums of all mappings, in KiB."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    return {line.split()[0].rstrip(":"): int(line.split()[1]) for line in lines}


def _is_forked(server: subprocess.Popen[bytes], pid: int) -> bool:
    """Return whether a process has the addresses that execve(2) chose for the server."""
    first, second = (Path(f"/proc/{one}/auxv") for one in (server.pid, pid))
    return first.read_bytes() == second.read_bytes()


def _facts(pid: int) -> dict[str, object]:
    process = Path(f"/proc/{pid}")
    texts = ("environ", "comm", "cgroup", "oom_score_adj", "limits")
    status = dict(
        line.split(":\t", 1) for line in (process / "status").read_text().splitlines()
    )
    fields = (process / "stat").read_text().rpartition(")")[2].split()
    parent, group, session, terminal = (int(field) for field in fields[1:5])
    return {
        **{name: (process / name).read_bytes() for name in texts},
        # The last word is another one after each stop.
        "cmdline": (process / "cmdline").read_bytes().split(b"\0")[:-2],
        **{name: status[name] for name in _STATUS},
        **{name: os.readlink(process / name) for name in ("cwd", "exe", "root")},
        "fds": _opened(process),
        "nice and policy": (fields[16], fields[38]),
        "parent": parent,
        "leader": (group == session, session == pid, terminal),
    }


def _opened(process: Path) -> Sequence[str]:
    links = [(int(one.name), os.readlink(one)) for one in (process / "fd").iterdir()]
    named = [link.partition("[")[0] for _, link in sorted(links)]
    return [*named[:3], *sorted(named[3:])]


def _change() -> None:
    """Change all that a process hands on to those that it starts."""
    os.umask(0o27)
    resource.setrlimit(resource.RLIMIT_NOFILE, (500, 600))
    os.nice(3)
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    Path("/proc/self/oom_score_adj").write_text("321")


@pytest.mark.parametrize("change", [None, _change], ids=["nothing", "all"])
def test_it_has_all_of_who_started_it(
    shadow: Shadow, server: subprocess.Popen[bytes], change: Callable[[], None] | None
) -> None:
    _started(shadow, "init", served=False)
    found = []
    for switch in ("off", "auto"):
        shadow.ok("stop")
        env = shadow.environment({command_client.OFF: switch, "GIT_DIR": ".git"})
        words = [COMMAND, "daemon", "start"]
        root = shadow.repo.root
        subprocess.run(words, cwd=root, env=env, preexec_fn=change, check=True)
        (pid,) = shadow.daemons()
        assert _is_forked(server, pid) == (switch == "auto")
        facts = _facts(pid)
        environ = facts["environ"]
        assert isinstance(environ, bytes)
        facts["environ"] = sorted(
            one for one in environ.split(b"\0") if not one.startswith(b"GITSHADOW_SER")
        )
        found.append(facts)
    assert found[0] == found[1]


def test_its_pages_are_those_of_the_server(
    shadow: Shadow, server: subprocess.Popen[bytes]
) -> None:
    direct = _memory(_started(shadow, "init", served=False))
    shadow.ok("stop")
    pid = _started(shadow, "daemon", "start")
    memory = _memory(pid)
    assert memory["Private_Dirty"] < 0.85 * direct["Private_Dirty"]
    assert memory["Shared_Dirty"] > 0.2 * memory["Rss"]


@pytest.mark.parametrize("starter", ["init", "start", "hook"])
def test_whatever_starts_a_daemon_has_the_server_do_it(
    shadow: Shadow, server: subprocess.Popen[bytes], starter: str
) -> None:
    payload = {
        "hook_event_name": "SessionStart",
        "session_id": "s",
        "cwd": str(shadow.repo.root),
    }
    words = {
        "init": ("init",),
        "start": ("daemon", "start"),
        "hook": ("hook", "claude-code"),
    }[starter]
    if starter != "init":
        _started(shadow, "init", served=False)
        shadow.ok("stop")
    pid = _started(shadow, *words, stdin=json.dumps(payload).encode())
    assert _is_forked(server, pid)


def test_it_goes_on_when_the_server_is_killed(
    shadow: Shadow, server: subprocess.Popen[bytes]
) -> None:
    pid = _started(shadow, "init")
    server.kill()
    server.wait()
    (_directory() / wire.SOCKET_NAME).unlink()
    shadow.env[command_client.OFF] = "off"
    shadow.repo.write("made", "later\n")
    assert len(shadow.log()) == 1
    assert shadow.daemons() == [pid]
    assert shadow.status()["daemon"]["pid"] == pid  # type: ignore[index]


def test_the_server_ends_while_it_lives(shadow: Shadow) -> None:
    """Nobody has asked for an hour, here for five seconds: a daemon lives for days."""
    with _serving(_SOON_IDLE) as server:
        pid = _started(shadow, "init")
        assert _is_forked(server, pid)
        assert server.wait(HANGS_S) == 0
    assert shadow.daemons() == [pid]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_server_goes_on_when_it_ends(
    shadow: Shadow, server: subprocess.Popen[bytes], number: signal.Signals
) -> None:
    pid = _started(shadow, "init")
    os.kill(pid, number)
    until(lambda: not shadow.daemons())
    # It was nobody's child, and those that are ready stay so.
    until(lambda: len(_children(server)) == 2)
    assert server.poll() is None
    assert _is_forked(server, _started(shadow, "daemon", "start"))
    assert shadow.ok("daemon", "stop").out == "stopped\n"
    assert shadow.daemons() == []


def test_a_server_that_is_switched_off_is_not_asked(
    shadow: Shadow, server: subprocess.Popen[bytes]
) -> None:
    assert not _is_forked(server, _started(shadow, "init", served=False))


def test_a_server_that_hangs_is_not_waited_for(
    shadow: Shadow, server: subprocess.Popen[bytes]
) -> None:
    _started(shadow, "init", served=False)
    shadow.ok("stop")
    pids = [server.pid, *_children(server)]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    assert not _is_forked(server, _started(shadow, "daemon", "start"))
    for pid in pids:
        os.kill(pid, signal.SIGCONT)
    assert server.wait(HANGS_S) == 0


def test_a_server_of_another_version_is_not_used(shadow: Shadow) -> None:
    with _serving(_OF_ANOTHER_VERSION) as server:
        assert not _is_forked(server, _started(shadow, "init"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can confine in all these ways")
@pytest.mark.parametrize(
    "words",
    [("setpriv", "--no-new-privs"), ("unshare", "--net")],
    ids=" ".join,
)
def test_a_confined_one_is_executed(
    shadow: Shadow, server: subprocess.Popen[bytes], words: Sequence[str]
) -> None:
    command = [*words, COMMAND, "init"]
    root = shadow.repo.root
    subprocess.run(command, cwd=root, env=shadow.environment(), check=True)
    (pid,) = shadow.daemons()
    assert not _is_forked(server, pid)


@pytest.fixture
def control_group() -> Iterator[Path]:
    """Make a control group; it is empty again when the test ends."""
    top = Path("/sys/fs/cgroup")
    # Of version 1 (cgroups(7)), each controller has a tree of its own.
    made = next(filter(Path.is_dir, (top / "freezer", top))) / f"test{os.getpid()}"
    try:
        made.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    yield made
    made.rmdir()


def test_who_is_in_another_control_group_keeps_its_daemon_there(
    shadow: Shadow, server: subprocess.Popen[bytes], control_group: Path
) -> None:
    members = control_group / "cgroup.procs"
    command = ["sh", "-c", f'echo $$ >{members} && exec "$@"', "sh", COMMAND, "init"]
    root = shadow.repo.root
    subprocess.run(command, cwd=root, env=shadow.environment(), check=True)
    (pid,) = shadow.daemons()
    assert not _is_forked(server, pid)
    assert str(pid) in members.read_text().split()
    shadow.ok("stop")
    until(lambda: not members.read_text())
