"""A real engine that records nothing but what it was asked, and a server around it."""

import errno
import os
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from gitshadow.config import WatchBackend
from gitshadow.daemon.server import Server, Service
from gitshadow.errors import ShadowError, StoreError
from gitshadow.ipc import wire
from gitshadow.model import RepoPath
from gitshadow.platform.watching import Hints, WatchPort
from gitshadow.recording.workspace import make_state_dirs
from gitshadow.store.layout import Layout, discover
from tests.support.repo import Repo
from tests.support.waiting import HANGS_S


@dataclass(slots=True)
class CountingEngine(Service):
    """Keep what the server asked for, in order; fail where the test wants it to."""

    asked: list[tuple[str, Mapping[str, object]]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    told_bodies: list[bytes] = field(default_factory=list)
    paths: set[RepoPath] = field(default_factory=set)
    lost: int = 0
    ticks: int = 0
    answer: bytes = b""
    living: bool = True
    placed: bool = True
    holding: bool = False
    hints_fail: list[Exception] = field(default_factory=list)
    gate: threading.Event = field(default_factory=threading.Event)
    starting: threading.Event = field(default_factory=threading.Event)
    threads: set[int] = field(default_factory=set)

    @property
    def backend(self) -> WatchBackend:
        return WatchBackend.AUTO

    def start(self, port: WatchPort) -> None:
        port.add([RepoPath(b"")])
        assert self.starting.wait(HANGS_S)

    def hints(self, hints: Hints) -> None:
        self.threads.add(threading.get_ident())
        if self.hints_fail:
            raise self.hints_fail.pop()
        self.paths |= hints.paths
        self.lost += hints.lost

    def due(self) -> float | None:
        return None

    @property
    def holds(self) -> bool:
        return self.holding

    @property
    def rests(self) -> bool:
        return True

    def tick(self) -> None:
        self.ticks += 1

    def run(self, verb: str, params: Mapping[str, object]) -> dict[str, object]:
        self.threads.add(threading.get_ident())
        self.asked.append((verb, params))
        if verb == "wait":
            self.gate.wait()
        if verb == "refuse":
            raise ShadowError("cannot do it", hint="try") from ShadowError("deeper")
        if verb == "starve":
            raise StoreError(f"cannot run git: {os.strerror(errno.EMFILE)}")
        if verb == "break":
            raise RuntimeError("nobody expected this")
        return {"verb": verb, "number": len(self.asked)}

    def hook(self, body: bytes) -> bytes:
        self.bodies.append(body)
        if self.answer == b"late":
            self.gate.wait()
        return self.answer

    def told(self, body: bytes) -> bytes:
        self.told_bodies.append(body)
        return self.answer

    def prompt(self) -> bytes:
        if self.answer == b"late":
            self.gate.wait()
        return self.answer

    def alive(self) -> bool:
        return self.living

    def in_place(self) -> bool:
        return self.placed

    @property
    def verbs(self) -> list[str]:
        return [verb for verb, _ in self.asked]


def initialised(repo: Repo) -> Layout:
    """Make the directories of an initialised repository, with an empty journal."""
    layout = discover(str(repo.root))
    assert layout is not None
    make_state_dirs(layout)
    with open(layout.journal, "x"):
        return layout


def leave_stale_socket(layout: Layout) -> None:
    """Leave what a killed daemon leaves: a socket that nobody serves."""
    fd = os.open(layout.wt_dir, os.O_PATH)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stale:
        stale.bind(f"/proc/self/fd/{fd}/{wire.SOCKET_NAME}")
    os.close(fd)


@contextmanager
def serving(
    layout: Layout,
    engine: CountingEngine,
    *,
    started: bool = True,
    lasting: bool = False,
) -> Iterator[threading.Thread]:
    """Serve until the block ends; the thread's end is the server's.

    Without `started` the engine's first walk goes on until its `starting` is set; with
    `lasting` it does not end because nobody needs it.
    """
    if started:
        engine.starting.set()
    server = Server(layout, engine, lasting=lasting)
    thread = threading.Thread(target=server.serve)
    thread.start()
    try:
        yield thread
    finally:
        engine.gate.set()
        engine.starting.set()
        server.stop()
        thread.join(HANGS_S)
        assert not thread.is_alive()
