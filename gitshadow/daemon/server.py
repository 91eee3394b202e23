"""Run the daemon's loop: one thread owns the worktree, watchers and connections only enqueue.

An error that nobody expected gets a line in the log and a report file.
Invariant: jobs are done one after the other in order of arrival, and hints that came before a job
are recorded before it. Logging an error never raises another one, and one that repeats does not
fill the disk.
"""

import contextlib
import json
import os
import queue
import signal
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from gitshadow.api import run as run_verb
from gitshadow.api.status import init_answer
from gitshadow.attribution.delivery import without_processes
from gitshadow.capture.reconcile import Entering
from gitshadow.config import DaemonMode, WatchBackend
from gitshadow.daemon.listener import Jobs, SocketListener, SocketRequest
from gitshadow.errors import (
    JournalError,
    LockedError,
    MovedError,
    ShadowError,
    StoreError,
    shortage_behind,
)
from gitshadow.guards.outlets import outlets
from gitshadow.guards.watch import Guard
from gitshadow.ipc import client, launch, wire
from gitshadow.maintenance import setup, startup_repair
from gitshadow.maintenance.setup import Initialised
from gitshadow.maintenance.startup_repair import finish_undo, mend
from gitshadow.maintenance.upkeep import Upkeep
from gitshadow.messages.codec import JsonObject, Params, encode
from gitshadow.model import RepoPath
from gitshadow.platform import current
from gitshadow.platform.watching import Hints, WatchPort
from gitshadow.recording.context import RecorderContext, open_context
from gitshadow.reporting.prompt_line import Prompting
from gitshadow.service import hook_intake, settings
from gitshadow.sharing.mirror import Mirroring
from gitshadow.store.git_settings import stamps_of
from gitshadow.store.journal.db_file import damage_behind
from gitshadow.store.layout import Layout, discover

QUIET_S = 60.0
_MAX_REPORTS = 50
LOCK_S = 20.0
IDLE_END_S = 24 * 3600.0
_LOCK_TURN_S = 0.2
_TICK_S = 0.5
# Each wake-up costs a laptop's battery. What matters wakes the loop by itself.
_RESTING_TICK_S = 2.0
_RESTS_AFTER_S = 3.0
_COMMIT_POLL_S = 0.01
_ALIVE_S = 5.0
_RELOOK_S = 1.0
_RELOOK_LIMIT_S = 60.0
_HOOKS = (b"hook", b"told")
_PROCESSES = ("pid", "ancestors")


class Troubles:
    """Note what went wrong in one worktree."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._noted: dict[str, float] = {}

    def note(self, error: Exception) -> bool:
        """Log an error; return whether it is new: the same one counts once a minute."""
        said, now = f"{type(error).__name__}: {error}", time.monotonic()
        self._noted = {k: v for k, v in self._noted.items() if now - v < QUIET_S}
        if said in self._noted:
            return False
        self._noted[said] = now
        with contextlib.suppress(OSError):
            self._write(error, said)
        return True

    def _write(self, error: Exception, said: str) -> None:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        _append(self._layout.log, f"{stamp} daemon: {said!a}\n")
        if isinstance(error, ShadowError):
            return
        if len(os.listdir(self._layout.reports_dir)) < _MAX_REPORTS:
            name = f"{time.time_ns()}-daemon.txt"
            trace = "".join(traceback.format_exception(error))
            _append(os.path.join(self._layout.reports_dir, name), trace)


def _append(path: str, text: str) -> None:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    fd = os.open(path, flags, 0o600)
    with open(fd, "w", encoding="utf-8", errors="backslashreplace") as stream:
        stream.write(text)


class Service:
    """One worktree that stays open, with a watcher; one thread calls every method."""

    def __init__(self, context: RecorderContext) -> None:
        self._context = context
        self._port: WatchPort | None = None
        self._stamps = settings.stamps(context.workspace, {})
        self._upkeep = Upkeep(context)
        self._mirroring = Mirroring(context.workspace)
        self._prompting = Prompting(context)
        self._guard = Guard(context, outlets(context.workspace.environ))
        self._rooted: Initialised | None = None

    @classmethod
    def open(
        cls, layout: Layout, environ: Mapping[str, str], *, lock_timeout_s: float
    ) -> "Service":
        """Open a worktree and catch up; errors as `open_workspace`."""
        context = open_context(layout, environ, lock_timeout_s=lock_timeout_s)
        hook_intake.listen(context)
        try:
            # A watcher comes first where everything is to be read.
            mend(context, rooting=not context.workspace.config.enabled)
        except BaseException:
            context.close()
            raise
        return cls(context)

    @property
    def enabled(self) -> bool:
        """Return whether this repository is to be recorded at all."""
        return self._context.workspace.config.enabled

    @property
    def backend(self) -> WatchBackend:
        """Return what is to notice that files change."""
        return self._context.workspace.config.watcher

    def drain(self) -> None:
        """Process the hook payloads that wait."""
        hook_intake.drain_spool(self._context)

    def start(self, port: WatchPort) -> None:
        """Begin to watch; what changed while nobody watched is recorded as offline."""
        self._port = port
        startup_repair.mark_running(self._context)
        # The walk needs the windows to find authors, so the payloads are processed before it. Their
        # files stay until after it: hooks wait until all is recorded that was written before them.
        if startup_repair.is_fresh(self._context.workspace):
            self._context.observer.start(port, self._root)
        else:
            hook_intake.process_spool(self._context)
            self._context.observer.start(port)
        hook_intake.drain_spool(self._context)

    def _root(self, entering: Entering) -> Sequence[RepoPath]:
        """Read a worktree of which nothing is recorded."""
        ws = self._context.workspace
        done = setup.root_worktree(ws, entering)
        allowed = ws.config.enabled and ws.config.daemon is DaemonMode.AUTO
        self._rooted = done._replace(daemon_allowed=allowed)
        self._context.pipeline.uncovered.walked(done.excluded)
        return done.directories

    def hints(self, hints: Hints) -> None:
        """Record what was hinted, with the payloads that came before it."""
        self._follow_settings()
        if not self.enabled:
            return
        # First, because the end of a call settles, and these hints are in no list any more: what
        # they tell of would look newer than that.
        self._context.observer.hints(hints)
        hook_intake.drain_spool(self._context)

    @property
    def holds(self) -> bool:
        """Return whether hints only wait until a git command is over."""
        return self._context.observer.holds

    @property
    def rests(self) -> bool:
        """Return whether nothing is under way that has to be looked at now and then."""
        processes = self._context.processes
        return not (
            processes.is_watching or processes.is_shell_open() or self._upkeep.is_busy
        )

    def due(self) -> float | None:
        """Return the monotonic time of the next deferred work, None where there is none."""
        due = self._context.observer.due()
        if not self._context.commits.running:
            return due
        look = time.monotonic() + _COMMIT_POLL_S
        return look if due is None else min(due, look)

    def tick(self) -> None:
        """Do deferred work that is due."""
        over = self._context.commits.gone()
        if self.enabled:
            self._context.processes.tick(time.monotonic())
            self._context.observer.tick()
        # A commit that succeeds ends its window by its last hook. One that fails runs none, so only
        # the end of its process shows it.
        if over:
            self._context.observer.settle()
            self._context.commits.end()
        if self.enabled:
            self._upkeep.tick()
            self._mirroring.tick()
            self._guard.tick()
        if self._context.workspace.states.shed():
            current().machine_facts().give_back_memory()

    def run(self, verb: str, params: Params) -> JsonObject:
        """Run one verb; errors as the verb's."""
        self._follow_settings()
        # On a full disk an interrupted undo cannot be finished; other verbs may work all the same.
        with contextlib.suppress(StoreError, JournalError):
            finish_undo(self._context)
        hook_intake.drain_spool(self._context)
        if verb == "init" and self._rooted is not None:
            done, self._rooted = self._rooted, None
            layout = self._context.workspace.layout
            return encode(init_answer(layout, done)._replace(daemon=True))
        return run_verb(self._context, verb, params)

    def hook(self, body: bytes) -> bytes:
        """Process one hook delivery; return what the agent is to read."""
        self._follow_settings()
        hook_intake.drain_spool(self._context)
        return hook_intake.take_body(self._context, body, self._guard)

    def told(self, body: bytes) -> bytes:
        """Return what the agent is to read at a delivery that came through the spool."""
        return hook_intake.told(self._context, body)

    def prompt(self) -> bytes:
        """Return what a shell's prompt shows, without recording anything first."""
        self._follow_settings()
        return self._prompting.segment()

    def _follow_settings(self) -> None:
        """Read the settings again if a file that may contain them changed."""
        if stamps_of(self._stamps) == self._stamps:
            return
        self._stamps = settings.stamps(self._context.workspace, self._stamps)
        before = self.enabled
        settings.read_again(self._context)
        # What was written while recording was off is recorded as found offline.
        if self.enabled and not before and self._port is not None:
            self._context.observer.start(self._port)

    def alive(self) -> bool:
        """Return whether the worktree still exists and is the same repository."""
        layout = self._context.workspace.layout
        if not os.path.isdir(layout.wt_dir):
            return False
        found = discover(layout.root)
        return found is not None and found.git_dir == layout.git_dir

    def in_place(self) -> bool:
        """Return whether the paths of worktree and state lead to what was opened."""
        return self._context.workspace.in_place

    def close(self) -> None:
        """Close the worktree."""
        self._upkeep.close()
        self._mirroring.close()
        if self.in_place():
            startup_repair.mark_stopped(self._context)
        else:
            startup_repair.note_move(self._context)
        self._context.close()


def run(layout: Layout, stops: str | None = None) -> int:
    """Serve one worktree until somebody stops the daemon; return the exit code.

    Args:
        layout: The worktree.
        stops: What `launch.stops` was when it was started; None in the foreground.

    Raises:
        ShadowError: the worktree cannot be opened (in the foreground).
    """
    foreground = stops is None
    service = _open(layout, foreground)
    if service is None:
        return 0
    try:
        # Whoever said `stop` before we had the lock was told that none runs.
        stopped = not service.enabled or stops != launch.stops(layout)
        if stopped and not foreground:
            service.drain()
            return 0
        return Server(layout, service, lasting=foreground).serve()
    finally:
        service.close()


def _open(layout: Layout, foreground: bool) -> Service | None:
    """Open the worktree once nobody else records it; None where another daemon does.

    Raises:
        ShadowError: the worktree cannot be opened, or somebody else keeps it too long.
    """
    deadline = time.monotonic() + LOCK_S
    while True:
        try:
            return Service.open(layout, os.environ, lock_timeout_s=_LOCK_TURN_S)
        except LockedError:
            served = client.ping(layout) is not None
            if served and not foreground:
                return None
            if served or time.monotonic() > deadline:
                raise


@dataclass(slots=True)
class _Wake:
    """Whether the loop has to read the watcher; only the first call of a batch wakes it."""

    jobs: Jobs
    pending: threading.Event = field(default_factory=threading.Event)

    def __call__(self) -> None:
        if not self.pending.is_set():
            self.pending.set()
            self.jobs.put(None)


class Server:
    """Serve one worktree, whose writer lock the service holds.

    With `lasting` it does not end after a day without work.
    """

    def __init__(
        self, layout: Layout, service: Service, *, lasting: bool = False
    ) -> None:
        self._layout = layout
        self._service = service
        self._lasting = lasting
        self._jobs: Jobs = queue.SimpleQueue()
        self._wake = _Wake(self._jobs)
        self._watcher = current().open_watcher(service.backend, layout, self._wake)
        self._troubles = Troubles(layout)
        self._stopping = threading.Event()
        self._busy_at = time.monotonic()
        self._alive_at = time.monotonic()
        self._relook_at: float | None = None
        self._relook_s = _RELOOK_S
        self._owed: Params | None = None

    def serve(self) -> int:
        """Serve until something ends it; clients wait until the first walk is done."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(number, lambda *_: self.stop())
        listener = SocketListener(self._layout, self._jobs, self._service.in_place)
        try:
            self._service.start(self._watcher)
            listener.ready = True
            while not self._stopping.is_set():
                self._turn(listener)
        finally:
            listener.close()
            self._watcher.close()
        return 0

    def stop(self) -> None:
        """End after the present job; may be called by a signal handler."""
        self._stopping.set()
        self._jobs.put(None)

    def _turn(self, listener: SocketListener) -> None:
        """Wait for the next job or deadline, and do what is due."""
        job = self._next()
        if not self._service.in_place():
            self._leave(job)
            return
        self._guarded(self._take_hints)
        if job is not None:
            self._busy_at = time.monotonic()
            if self._relook_at is not None:
                self._guarded(self._relook)
            self._answer(job)
        self._guarded(self._tick)
        listener.tend()
        self._end_when_done(listener)

    def _next(self) -> SocketRequest | None:
        """Wait for the next job or deadline; None: hints came, or something is due."""
        due = time.monotonic() + self._patience()
        while True:
            try:
                job = self._jobs.get(timeout=max(0.0, due - time.monotonic()))
            except queue.Empty:
                return None
            # Git slows down if each file that it writes is looked at meanwhile.
            if job is not None or self._stopping.is_set() or not self._service.holds:
                return job

    def _leave(self, job: SocketRequest | None) -> None:
        """End without a change of any file; the client does its work itself."""
        # The paths lead to another repository now, or to none.
        self._stopping.set()
        if job is not None:
            job.finish(wire.ENDING, b"{}")

    def _patience(self) -> float:
        now, due = time.monotonic(), self._service.due()
        rests = now - self._busy_at > _RESTS_AFTER_S and self._service.rests
        tick_s = _RESTING_TICK_S if rests else _TICK_S
        return tick_s if due is None else min(tick_s, max(0.0, due - now))

    def _take_hints(self) -> None:
        if not self._wake.pending.is_set():
            return
        self._wake.pending.clear()
        hints = self._watcher.take()
        if hints != Hints():
            self._busy_at = time.monotonic()
            self._service.hints(hints)

    def _tick(self) -> None:
        if self._relook_at is not None and time.monotonic() >= self._relook_at:
            self._relook()
        self._service.tick()
        self._watcher.tidy()
        if self._owed is not None:
            self._service.run("journal_gap", self._owed)
            self._owed = None

    def _relook(self) -> None:
        """Look for what an earlier failure lost, before a request gets its answer."""
        self._service.hints(Hints(lost=True))
        self._relook_at, self._relook_s = None, _RELOOK_S

    def _end_when_done(self, listener: SocketListener) -> None:
        """End when the worktree is gone, nobody needs us, or nobody can reach us."""
        now = time.monotonic()
        if not self._lasting and now - self._busy_at > IDLE_END_S:
            self._stopping.set()
        if now - self._alive_at > _ALIVE_S:
            self._alive_at = now
            if not self._service.alive() or not listener.reachable():
                self._stopping.set()

    def _guarded(self, work: Callable[[], None]) -> None:
        """Do a part of the loop; if it fails, all is looked at again later."""
        try:
            work()
        # A loop that ends here would leave the worktree without a recorder, and no person sees it.
        except Exception as error:  # noqa: BLE001
            if not self._service.in_place():
                self._leave(None)
                return
            self._look_later()
            self._note(shortage_behind(error) or error)

    def _look_later(self) -> None:
        """Look at everything again after a while, longer each time."""
        self._relook_at = time.monotonic() + self._relook_s
        self._relook_s = min(self._relook_s * 2, _RELOOK_LIMIT_S)

    def _note(self, error: Exception) -> None:
        """Log an error and journal a gap, at most once a minute for the same error."""
        if not self._troubles.note(error):
            return
        why: Params = {"why": f"the daemon failed: {error}"}
        try:
            self._service.run("journal_gap", why)
        # A full disk takes no gap row either: the next tick that can write it does.
        except Exception as second:  # noqa: BLE001
            self._owed = why
            self._troubles.note(second)

    def _answer(self, job: SocketRequest) -> None:
        try:
            status, body = self._result(job)
        except MovedError:
            self._leave(job)
            return
        except Exception as error:  # noqa: BLE001 - the loop goes on
            if not isinstance(error, ShadowError) and not self._service.in_place():
                self._leave(job)
                return
            status, body = self._failure(job, error)
        job.finish(status, body)

    def _refusal(self, job: SocketRequest, error: ShadowError) -> tuple[bytes, bytes]:
        """Return the text of an error; a hook gets `LATER`, and spools its payload."""
        if job.verb not in _HOOKS:
            return wire.OK, _error_body(error)
        self._note(error)
        return wire.LATER, b""

    def _failure(self, job: SocketRequest, error: Exception) -> tuple[bytes, bytes]:
        """Return what to say of an error; after a shortage, all is looked at again."""
        short = shortage_behind(error)
        if short is not None:
            self._look_later()
            return self._refusal(job, short)
        if isinstance(error, ShadowError):
            return self._refusal(job, error)
        self._note(error)
        damaged = damage_behind(error, self._layout.journal)
        said = damaged or ShadowError(f"internal: {error}")
        return wire.ERROR, _error_body(said)

    def _result(self, job: SocketRequest) -> tuple[bytes, bytes]:
        if job.version != wire.VERSION:
            # The client starts a daemon of its own version. A prompt starts none.
            if job.verb != b"prompt":
                self.stop()
            return wire.OTHER_VERSION, b"{}"
        if job.verb in _HOOKS:
            body = without_processes(job.body) if job.numbers_differ else job.body
            answer = self._service.hook if job.verb == b"hook" else self._service.told
            return wire.OK, answer(body)
        if job.verb == b"prompt":
            return wire.OK, self._service.prompt()
        verb = job.verb.decode("ascii", "replace")
        if verb == "stop":
            self.stop()
            numbers = current().machine_facts().pid_namespace()
            said = {"pid": os.getpid(), "pid_namespace": numbers}
            return wire.OK, json.dumps(said).encode()
        try:
            params = json.loads(job.body)
        except ValueError as error:
            raise ShadowError("cannot read the request") from error
        if not isinstance(params, dict):
            raise ShadowError("cannot read the request")
        if job.numbers_differ:
            params = {k: v for k, v in params.items() if k not in _PROCESSES}
        return wire.OK, json.dumps(self._service.run(verb, params)).encode()


def _error_body(error: ShadowError) -> bytes:
    cause = error.__cause__
    document: JsonObject = {
        "error": error.message,
        "hint": error.hint,
        "exit": int(error.exit_code),
    }
    if isinstance(cause, ShadowError):
        document["caused_by"] = cause.message
    return json.dumps(document).encode()
