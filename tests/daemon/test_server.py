"""The server: one engine thread behind a socket and a watcher."""

import contextlib
import os
import queue
import socket
import stat
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from gitshadow.daemon import listener as listening
from gitshadow.daemon import server as serving_module
from gitshadow.errors import ShadowError, UnreachableError
from gitshadow.ipc import client, wire
from gitshadow.model import RepoPath
from gitshadow.platform import current
from gitshadow.store.journal.db import Db
from gitshadow.store.layout import Layout
from tests.support.counting import (
    CountingEngine,
    initialised,
    leave_stale_socket,
    serving,
)
from tests.support.repo import Repo
from tests.support.waiting import HANGS_S, until


@pytest.fixture
def layout(repo: Repo) -> Layout:
    return initialised(repo)


@pytest.fixture
def engine() -> CountingEngine:
    return CountingEngine()


@pytest.fixture
def server(layout: Layout, engine: CountingEngine) -> Iterator[threading.Thread]:
    with serving(layout, engine) as thread:
        until(lambda: client.ready(layout) is not None)
        yield thread


def test_request_comes_back_with_the_engines_document(
    layout: Layout, engine: CountingEngine, server: threading.Thread
) -> None:
    answer = client.request(layout, "look", {"path": "a\nb"})
    assert answer == {"verb": "look", "number": 1}
    assert engine.asked == [("look", {"path": "a\nb"})]


def test_hints_come_all_the_same_when_a_git_command_is_waited_for(
    repo: Repo, engine: CountingEngine, server: threading.Thread
) -> None:
    """They are taken at the next deadline, not one by one."""
    engine.holding = True
    repo.write("n", "x")
    until(lambda: b"n" in engine.paths)


def test_engine_is_called_by_one_thread(
    layout: Layout, engine: CountingEngine, server: threading.Thread
) -> None:
    clients = [
        threading.Thread(target=client.request, args=(layout, "look", {}))
        for _ in range(20)
    ]
    for one in clients:
        one.start()
    for one in clients:
        one.join()
    assert len(engine.asked) == 20
    assert engine.threads == {server.ident}


def test_spooled_delivery_is_asked_for_its_answer(
    layout: Layout, engine: CountingEngine, server: threading.Thread
) -> None:
    engine.answer = b"words for the agent"
    sock = wire.connect(layout.wt_dir, HANGS_S)
    try:
        assert wire.call(sock, b"told", b"body") == (wire.OK, engine.answer)
    finally:
        sock.close()
    assert (engine.told_bodies, engine.bodies) == ([b"body"], [])


def test_error_of_a_verb_is_a_document(
    layout: Layout, server: threading.Thread
) -> None:
    assert client.request(layout, "refuse", {}) == {
        "error": "cannot do it",
        "hint": "try",
        "exit": 1,
        "caused_by": "deeper",
    }


def test_shortage_is_the_same_whatever_was_to_be_opened(
    layout: Layout, engine: CountingEngine, server: threading.Thread
) -> None:
    """What it left out is looked at again."""
    answer = client.request(layout, "starve", {})
    assert answer["error"] == "could not open a file: too many files are open"
    until(lambda: engine.lost > 0)


def test_unexpected_error_is_reported_and_journalled(
    layout: Layout, engine: CountingEngine, server: threading.Thread
) -> None:
    """ROB-08: never silent, and the daemon goes on."""
    os.unlink(layout.journal)  # an empty one is damaged, which would explain the error
    Db.open(layout.journal, create=True).close()
    answer = client.request(layout, "break", {})
    assert answer["error"] == "internal: nobody expected this"
    assert engine.verbs == ["break", "journal_gap"]
    (report,) = Path(layout.reports_dir).iterdir()
    assert "RuntimeError: nobody expected this" in report.read_text()
    assert stat.S_IMODE(report.stat().st_mode) == 0o600
    assert client.request(layout, "look", {})["verb"] == "look"


def test_same_error_makes_one_report(layout: Layout, server: threading.Thread) -> None:
    for _ in range(5):
        client.request(layout, "break", {})
    assert len(os.listdir(layout.reports_dir)) == 1


def test_write_in_the_worktree_is_hinted(
    repo: Repo, engine: CountingEngine, server: threading.Thread
) -> None:
    """CAP-01: without any client."""
    repo.write("a", "changed\n")
    until(lambda: RepoPath(b"a") in engine.paths)
    assert engine.threads == {server.ident}


def test_what_could_not_be_recorded_is_looked_for_again(
    repo: Repo,
    engine: CountingEngine,
    server: threading.Thread,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """ROB-08: caught up afterwards."""
    monkeypatch.setattr(serving_module, "_RELOOK_LIMIT_S", 0.0)
    engine.hints_fail = [ShadowError("disk full"), ShadowError("disk full")]
    repo.write("a", "changed\n")
    until(lambda: engine.lost > 0)
    assert engine.hints_fail == []
    assert engine.verbs == ["journal_gap"]


def test_client_that_never_speaks_hurts_nobody(
    layout: Layout, server: threading.Thread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ROB-13: others are served, and the silent ones are hung up on."""
    monkeypatch.setattr(listening, "READ_S", HANGS_S)
    silent = [wire.connect(layout.wt_dir, HANGS_S) for _ in range(10)]
    silent[0].sendall(b"GS1 ")
    assert client.request(layout, "look", {})["verb"] == "look"
    monkeypatch.setattr(listening, "READ_S", 0.0)
    for one in silent:
        one.settimeout(HANGS_S)
        assert one.recv(1) == b""
        one.close()


def test_more_clients_than_places_are_served_in_turn(
    layout: Layout, server: threading.Thread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ROB-13: 64 that never close are hung up on, then the next gets its answer."""

    def served() -> bool:
        try:
            return client.request(layout, "look", {}, HANGS_S)["verb"] == "look"
        except UnreachableError:
            return False  # a test that stood still is taken for a silent one too

    monkeypatch.setattr(listening, "READ_S", 0.5)
    with ExitStack() as stack:
        for _ in range(listening.MAX_CONNECTIONS):
            silent = wire.connect(layout.wt_dir, HANGS_S)
            stack.callback(silent.close)
        until(served)


def test_client_is_answered_where_no_thread_can_be_started(
    layout: Layout, server: threading.Thread, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", none_left)
        for _ in range(listening.MAX_CONNECTIONS + 1):
            assert client.request(layout, "look", {})["verb"] == "look"
    assert client.request(layout, "look", {})["verb"] == "look"


def test_nonsense_is_hung_up_on(layout: Layout, server: threading.Thread) -> None:
    peer = wire.connect(layout.wt_dir, HANGS_S)
    peer.sendall(b"GET / HTTP/1.1\n")
    peer.settimeout(HANGS_S)
    assert peer.recv(1) == b""
    peer.close()
    until(lambda: client.ping(layout) == os.getpid())


@pytest.mark.parametrize("body", [b"{", b"[]", b"\xff", b""])
def test_request_without_an_object_is_refused(
    layout: Layout, server: threading.Thread, body: bytes
) -> None:
    sock = wire.connect(layout.wt_dir, HANGS_S)
    status, answer = wire.call(sock, b"look", body)
    sock.close()
    assert status == wire.OK
    assert b"cannot read the request" in answer


def test_silent_peers_keep_nobody_waiting(
    layout: Layout, server: threading.Thread
) -> None:
    """A hook waits for two seconds; each of these could be silent for ten."""
    peers = [wire.connect(layout.wt_dir, HANGS_S)]

    def connects() -> bool:
        # They can come faster than a thread accepts them.
        with contextlib.suppress(BlockingIOError):
            peers.append(wire.connect(layout.wt_dir, HANGS_S))
        return len(peers) == listening.MAX_CONNECTIONS + 5

    until(connects)
    sock = wire.connect(layout.wt_dir, listening.READ_S / 2)
    status, _ = wire.call(sock, b"look", b"{}")
    assert status == wire.OK
    for peer in (sock, *peers):
        peer.close()


def test_request_over_the_limit_is_refused_politely(
    layout: Layout, server: threading.Thread
) -> None:
    sock = wire.connect(layout.wt_dir, HANGS_S)
    length = wire.MAX_REQUEST + 1
    sock.sendall(b"GS1 %b look %d\n" % (wire.VERSION, length))
    sock.sendall(bytes(1 << 20))
    fields, rest = wire.read_line(sock)
    body = wire.read_body(sock, fields[2], rest, 1000)
    sock.close()
    assert fields[1] == wire.ERROR
    assert b"67108865 bytes are too many" in body


def test_ping_is_answered_while_the_engine_is_busy(
    layout: Layout, engine: CountingEngine, server: threading.Thread
) -> None:
    busy = threading.Thread(target=client.request, args=(layout, "wait", {}))
    busy.start()
    until(lambda: engine.verbs == ["wait"])
    until(lambda: client.ping(layout) == os.getpid())
    assert busy.is_alive()
    engine.gate.set()
    busy.join()


def test_daemon_is_not_ready_before_its_first_walk(
    layout: Layout, engine: CountingEngine
) -> None:
    with serving(layout, engine, started=False):
        until(lambda: client.ping(layout) is not None)
        assert client.ready(layout) is None
        engine.starting.set()
        until(lambda: client.ready(layout) is not None)


def test_stop_is_answered_and_ends_the_server(
    layout: Layout, server: threading.Thread
) -> None:
    numbers = current().machine_facts().pid_namespace()
    answer = {"pid": os.getpid(), "pid_namespace": numbers}
    assert client.request(layout, "stop", {}) == answer
    server.join(HANGS_S)
    assert not server.is_alive()
    assert not os.path.lexists(layout.socket)
    with pytest.raises(UnreachableError):
        client.request(layout, "look", {})


def test_request_behind_a_stop_is_told_so(
    layout: Layout, engine: CountingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller does it itself; nobody waits for a daemon that is gone."""
    told: list[str] = []
    queued = _note_what_is_queued(monkeypatch)

    def ask(verb: str) -> None:
        try:
            client.request(layout, verb, {})
        except UnreachableError as error:
            told.append(error.message)

    def queue_up(asker: threading.Thread) -> None:
        before = len(queued)
        asker.start()
        until(lambda: len(queued) > before)

    askers = [
        threading.Thread(target=ask, args=(it,)) for it in ("wait", "stop", "look")
    ]
    with serving(layout, engine):
        until(lambda: client.ready(layout) is not None)
        for asker in askers:
            queue_up(asker)
        engine.gate.set()
        for asker in askers:
            asker.join()
    assert queued == [b"wait", b"stop", b"look"]
    assert told == ["the daemon is stopping"]


def _note_what_is_queued(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Return a list that grows by a verb once its request stands in the queue."""
    queued: list[bytes] = []

    class Noting(queue.Queue[listening.SocketRequest | None]):
        def put(
            self,
            item: listening.SocketRequest | None,
            block: bool = True,
            timeout: float | None = None,
        ) -> None:
            super().put(item, block, timeout)
            if item is not None:
                queued.append(item.verb)

    monkeypatch.setattr(queue, "SimpleQueue", Noting)
    return queued


def test_client_of_another_version_ends_the_server(
    layout: Layout, server: threading.Thread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "VERSION", b"9.9-9")
    sock = wire.connect(layout.wt_dir, HANGS_S)
    sock.sendall(b"GS1 0.0-0 look 2\n{}")
    fields, _ = wire.read_line(sock)
    sock.close()
    assert fields[1] == wire.OTHER_VERSION
    server.join(HANGS_S)
    assert not server.is_alive()


@pytest.mark.parametrize("why", ["worktree", "socket", "idle"])
def test_server_ends_when_nobody_needs_or_reaches_it(
    layout: Layout,
    engine: CountingEngine,
    server: threading.Thread,
    monkeypatch: pytest.MonkeyPatch,
    why: str,
) -> None:
    monkeypatch.setattr(serving_module, "_ALIVE_S", 0.0)
    if why == "worktree":
        engine.living = False
    elif why == "socket":
        os.unlink(layout.socket)
    else:
        monkeypatch.setattr(serving_module, "IDLE_END_S", 0.0)
    server.join(HANGS_S)
    assert not server.is_alive()


def test_server_in_the_foreground_stays_however_little_happens(
    layout: Layout, engine: CountingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has it started at login expects it on Monday too."""
    monkeypatch.setattr(serving_module, "IDLE_END_S", 0.0)
    with serving(layout, engine, lasting=True) as server:
        until(lambda: engine.ticks > 3)
        assert server.is_alive()


def test_socket_is_private_whatever_the_umask(
    layout: Layout, engine: CountingEngine
) -> None:
    """ROB-13: 0600 with umask 000."""
    old = os.umask(0)
    try:
        with serving(layout, engine):
            until(lambda: client.ready(layout) is not None)
            assert stat.S_IMODE(os.stat(layout.socket).st_mode) == 0o600
            assert os.umask(0) == 0
    finally:
        os.umask(old)


_STRANGER = """
import socket, sys
sock = socket.socket(socket.AF_UNIX)
sock.settimeout(float(sys.argv[2]))
sock.connect(f"/proc/self/fd/{sys.argv[1]}/sock")
print(sock.recv(1))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_other_user_is_refused(layout: Layout, server: threading.Thread) -> None:
    """ROB-13: even where the file's own mode would let them."""
    os.chmod(layout.wt_dir, 0o711)
    os.chmod(layout.socket, 0o666)
    fd = os.open(layout.wt_dir, os.O_PATH)
    done = subprocess.run(
        ["/usr/bin/env", "python3", "-S", "-c", _STRANGER, str(fd), str(HANGS_S)],
        pass_fds=[fd],
        user=65534,
        cwd="/",
        capture_output=True,
        text=True,
        timeout=HANGS_S,
        check=False,
    )
    os.close(fd)
    assert done.stdout == "b''\n", done.stderr


def test_socket_has_its_name_only_when_it_listens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client would take one that refuses for that of a dead daemon."""
    named: list[bool] = []
    listen = socket.socket.listen

    def look(one: socket.socket, backlog: int) -> None:
        named.append((tmp_path / wire.SOCKET_NAME).exists())
        listen(one, backlog)

    monkeypatch.setattr(socket.socket, "listen", look)
    with (
        listening.bind(str(tmp_path), 1),
        closing(wire.connect(str(tmp_path), HANGS_S)),
    ):
        assert named == [False]


def test_stale_socket_is_replaced(layout: Layout, engine: CountingEngine) -> None:
    """ROB-04: what a dead daemon left behind is in nobody's way."""
    leave_stale_socket(layout)
    assert client.ping(layout) is None
    with serving(layout, engine):
        until(lambda: client.ready(layout) == os.getpid())
        assert client.request(layout, "look", {})["verb"] == "look"


def test_request_to_a_daemon_of_another_place_is_not_answered(
    layout: Layout, engine: CountingEngine
) -> None:
    """The worktree was moved: whoever asks does the work itself, at the new place."""
    with serving(layout, engine) as thread:
        until(lambda: client.ready(layout) is not None)
        engine.placed = False
        assert client.ping(layout) is None
        with pytest.raises(UnreachableError):
            client.request(layout, "look", {})
        thread.join(HANGS_S)
        assert not thread.is_alive()
    assert engine.asked == []


def test_socket_of_another_daemon_is_left_alone(
    layout: Layout, engine: CountingEngine
) -> None:
    """The repository was made again at the same path, with a daemon of its own."""
    with serving(layout, engine) as thread:
        until(lambda: client.ready(layout) is not None)
        os.unlink(layout.socket)
        leave_stale_socket(layout)
        engine.placed = False
        thread.join(HANGS_S)
    assert os.path.exists(layout.socket)
