"""The installed command as a sentence: `shadow("log", "--json").rows()`."""

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from gitshadow.commands import client
from gitshadow.errors import ShadowError
from gitshadow.ipc import client as ipc_client
from gitshadow.ipc import launch
from gitshadow.messages.codec import Nothing
from gitshadow.messages.record import FLUSH
from gitshadow.messages.status import INIT, InitRequest
from gitshadow.store.layout import Layout
from tests.support import audit, fork_server
from tests.support.repo import PathLike, Repo
from tests.support.waiting import HANGS_S, readable, until

COMMAND = str(Path(sys.executable).parent / "git-agent-undo")
Document = dict[str, object]

TEST_MARK = "SHADOW_TEST"
_MARK = "SHADOW_TEST_MARK"
_DAEMON = b"-m\0gitshadow.daemon\0"
_EXIT_SECONDS = HANGS_S
_ENDING_SECONDS = 20.0
_EXECUTES = os.environ.get("GITSHADOW_TEST_FULL") == "1"
_seen: set[int] = set()


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one command: exit code and both streams."""

    args: tuple[str, ...]
    code: int
    raw: bytes
    err: str

    @property
    def out(self) -> str:
        """Return standard output as text."""
        return self.raw.decode("utf-8", "surrogateescape")

    def json(self) -> Document:
        """Return the one JSON document on standard output."""
        document = json.loads(self.raw)
        assert isinstance(document, dict), self
        return document

    def rows(self) -> list[Document]:
        """Return the JSON objects on standard output, one per line."""
        rows = [json.loads(line) for line in self.raw.splitlines()]
        assert all(isinstance(row, dict) for row in rows), self
        return rows


@dataclass(slots=True)
class Shadow:
    """Run the installed `git-agent-undo` in one repository.

    `env` is added to the environment of every call. Where `executes` is false, commands and the
    daemon are forks of a process that has imported them (`fork_server`). All processes started
    here carry a mark in their environment, so that one left behind is found whoever started it.
    """

    repo: Repo
    daemon: bool
    env: dict[str, str] = field(default_factory=dict)
    timeout_seconds: float = HANGS_S
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    executes: bool = _EXECUTES

    def __call__(
        self,
        *args: PathLike,
        stdin: bytes = b"",
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Result:
        """Run one command to its end."""
        return self.run_in(self.environment(env), *args, stdin=stdin, cwd=cwd)

    def run_in(
        self,
        env: Mapping[str, str],
        *args: PathLike,
        stdin: bytes = b"",
        cwd: str | os.PathLike[str] | None = None,
    ) -> Result:
        """Run one command to its end in an environment that is given whole."""
        done = self._run(args, stdin, cwd or self.repo.root, env)
        return Result(
            args=tuple(os.fsdecode(arg) for arg in args),
            code=done.returncode,
            raw=done.stdout,
            err=done.stderr.decode("utf-8", "surrogateescape"),
        )

    def _run(
        self,
        args: Sequence[PathLike],
        stdin: bytes,
        cwd: str | os.PathLike[str],
        env: Mapping[str, str],
    ) -> "subprocess.CompletedProcess[bytes] | fork_server.Ended":
        words = [COMMAND, *(os.fsdecode(arg) for arg in args)]
        if not self.executes and fork_server.can_fork(env):
            asked = fork_server.Request("command", words, os.fspath(cwd), env)
            return fork_server.run(asked, stdin, self.timeout_seconds)
        return subprocess.run(
            words,
            cwd=cwd,
            env=env,
            input=stdin,
            capture_output=True,
            timeout=self.timeout_seconds,
            check=False,
        )

    def ok(
        self,
        *args: PathLike,
        stdin: bytes = b"",
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Result:
        """Run one command and check that it exits 0."""
        result = self(*args, stdin=stdin, cwd=cwd, env=env)
        assert result.code == 0, result
        return result

    def spawn(self, *args: PathLike) -> subprocess.Popen[bytes]:
        """Start one command without waiting for it; the caller waits."""
        return subprocess.Popen(
            [COMMAND, *args],
            cwd=self.repo.root,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def environment(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the environment of a command run here."""
        daemon = {} if self.daemon else {"GITSHADOW_DAEMON": "off"}
        return {**os.environ, _MARK: self.mark, **daemon, **self.env, **(extra or {})}

    # Sentences of the acceptance rows

    def log(self, *args: PathLike) -> list[Document]:
        """Return the rows of `log`, newest first: like every look it flushes first."""
        return self.ok("log", "--json", *args).rows()

    def newest(self, *args: PathLike) -> dict[str, Document]:
        """Return the newest row of each path in `log`; each says how sure it is and why."""
        found: dict[str, Document] = {}
        for row in self.log(*args):
            assert row["confidence"], row
            assert row["reason"], row
            found.setdefault(str(row["path"]), row)
        return found

    def changes(self) -> list[tuple[object, object]]:
        """Return kind and path of all rows, oldest first, without baselines."""
        rows = reversed(self.log())
        return [(row["kind"], row["path"]) for row in rows if row["kind"] != "baseline"]

    def sessions(self) -> list[Document]:
        """Return the rows of `sessions`."""
        return self.ok("sessions", "--json").rows()

    def session(self, native: str) -> Document:
        """Return the session that an agent gave this id."""
        (found,) = [row for row in self.sessions() if row["native_id"] == native]
        return found

    def oops(self, *args: PathLike) -> Document:
        """Run `oops --yes` and return its report, whatever its exit code."""
        return self("oops", "--yes", "--json", *args).json()

    def status(self) -> Document:
        """Return the document of `status`."""
        return self.ok("status", "--json").json()

    def verify(self) -> None:
        """Check V2, V4 and V5 now, also that no covered file went unrecorded."""
        self.settle()
        self.repo.check()
        audit.audit(self.repo)
        coverage = self.status()["coverage"]
        assert isinstance(coverage, dict)
        tops = [str(item["path"]) for item in coverage["excluded"]]
        assert audit.unrecorded(self.repo, tops) == []

    def spool(self, agent: str, payload: bytes) -> None:
        """Leave a hook's payload as a hook does that finds nobody: its time is this moment.

        For payloads that say what was written a moment ago, within seconds: a process that
        delivers one may be slower than that on a machine that is busy or stands still.
        """
        document = {"agent": agent, "cwd": "/", "payload": payload.decode()}
        path = self.repo.state_dir / "spool" / f"{time.time_ns()}-{os.getpid()}.json"
        path.with_suffix(".part").write_text(json.dumps(document))
        path.with_suffix(".part").rename(path)

    # Before and after what a test is about: as the command does it, but in this process

    @contextmanager
    def _in_its_environment(self) -> Iterator[Layout]:
        kept = dict(os.environ)
        os.environ.update(self.environment())
        try:
            yield client.find_layout(str(self.repo.root))
        finally:
            os.environ.clear()
            os.environ.update(kept)

    def init(self) -> None:
        """Run `init`, which starts the daemon if the test is about it."""
        with self._in_its_environment() as layout:
            client.send(INIT, InitRequest(), root_hint=layout.root)
            if self.daemon:
                if not self.executes and fork_server.can_fork(os.environ):
                    _fork_daemon(layout)
                launch.start(layout)

    def settle(self) -> None:
        """Run `flush`."""
        with self._in_its_environment() as layout:
            client.send(FLUSH, Nothing(), root_hint=layout.root)

    def _stop(self) -> None:
        """Run `stop`; a process that survives it is found afterwards."""
        with suppress(ShadowError), self._in_its_environment() as layout:
            launch.stop(layout)

    # The end of a test

    def close(self) -> None:
        """Check V5, stop the daemon, check that no process is left, then V2 and V4."""
        recording = self.repo.root.exists() and self.repo.state_dir.exists()
        audited = recording and not self.repo.damaged
        try:
            if audited:
                self.settle()
                audit.audit(self.repo)
        finally:
            if recording:
                self._stop()
            self._reap()
        if self.repo.root.exists():
            self.repo.check()

    def _reap(self) -> None:
        """Check that no process is left, and end those that are."""
        left = [pid for pid in self.processes() if not _exits(pid, _EXIT_SECONDS)]
        assert _kill(left) == []

    def processes(self) -> Iterator[int]:
        """Yield the pids of living processes that our commands started."""
        yield from _marked(_MARK, self.mark, _pids())

    def running(self, *words: str) -> list[int]:
        """Return the pids of living processes that our commands started as these words."""
        wanted = "".join(f"{word}\0" for word in words).encode()
        return [pid for pid in self.processes() if wanted in _read_proc(pid, "cmdline")]

    def daemons(self) -> list[int]:
        """Return the pids of living daemons that this test started."""
        return self.running("-m", "gitshadow.daemon")


def _fork_daemon(layout: Layout) -> None:
    """Start the daemon as `launch.spawn` does, and wait until it answers."""
    words = [*launch.PROGRAM, layout.root, launch.stops(layout)]
    env = {name: value for name, value in os.environ.items() if name[:4] != "GIT_"}
    env.pop("GITSHADOW_SESSION", None)
    asked = fork_server.Request("daemon", words, "/", env)
    log = os.open(layout.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    with open(os.devnull, "r+b") as nothing, open(log, "ab") as errors:
        fork_server.start(asked, (nothing, nothing, errors), HANGS_S)
    until(lambda: ipc_client.ping(layout) is not None)


def end_daemons(mark: str) -> None:
    """Check that no daemon is left of a test, by the mark in its environment; end those that are.

    One that began to end just now is not left.
    """
    # After each of 8,000 tests, the environment of every process was the dearest thing to read.
    # A process that an earlier test has seen cannot have the mark of this one.
    living = _pids()
    found = [pid for pid in _marked(TEST_MARK, mark, living - _seen) if _is_daemon(pid)]
    _seen.clear()
    _seen.update(living)
    left = [pid for pid in found if not _exits(pid, _ENDING_SECONDS)]
    assert _kill(left) == []


def _is_daemon(pid: int) -> bool:
    return _DAEMON in _read_proc(pid, "cmdline")


def _pids() -> set[int]:
    return {int(name) for name in os.listdir("/proc") if name.isdigit()}


def _marked(name: str, value: str, among: set[int]) -> Iterator[int]:
    """Yield those processes that have a variable in their environment."""
    mark = f"{name}={value}".encode()
    for pid in among:
        if mark in _read_proc(pid, "environ").split(b"\0"):
            yield pid


def _kill(pids: list[int]) -> list[bytes]:
    """End processes; return what they were started as."""
    commands = [_read_proc(pid, "cmdline") for pid in pids]
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return commands


def _read_proc(pid: int, name: str) -> bytes:
    try:
        with open(f"/proc/{pid}/{name}", "rb") as stream:
            return stream.read()
    except OSError:
        return b""


def _exits(pid: int, seconds: float) -> bool:
    """Wait for a process to end; tell whether it did in time."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return readable(handle, seconds)
    finally:
        os.close(handle)
