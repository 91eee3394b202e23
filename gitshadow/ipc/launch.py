"""Starting and stopping the daemon of a worktree.

Invariant: the flock decides who is the daemon; no signal is ever sent to a pid read from a file.
"""

import contextlib
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence

from gitshadow.errors import LockedError, ShadowError, UnreachableError
from gitshadow.ipc import client, command_client
from gitshadow.platform import current
from gitshadow.store.layout import Layout
from gitshadow.store.lock import WriterLock
from gitshadow.store.safe_files import check_dir, replacing

PROGRAM = (sys.executable, "-P", "-m", "gitshadow.daemon")
START_S = 30.0
FIRST_WALK_S = 120.0
STOP_S = 30.0
_POLL_S = 0.01
_LOCK_TURN_S = 0.2


def start(layout: Layout, timeout_s: float = START_S) -> int:
    """Start the daemon of a worktree, if none runs, and wait for its first walk.

    Args:
        layout: The worktree.
        timeout_s: How long it may take until it answers; a first walk may take longer.

    Returns:
        Its pid.

    Raises:
        ShadowError: it did not answer in time; its log says why.
    """
    running = client.ping(layout)
    if running is None:
        spawn(layout)
    deadline = time.monotonic() + timeout_s
    while (pid := client.ready(layout)) is None:
        if running is None:
            running = client.ping(layout)
        if time.monotonic() > deadline + (0 if running is None else FIRST_WALK_S):
            raise ShadowError(
                "could not start the daemon in time", hint=f"see {layout.log}"
            )
        time.sleep(_POLL_S)
    return pid


def first(layout: Layout, *, force: bool, meanwhile: Callable[[], None]) -> None:
    """Have a daemon read a worktree of which nothing is recorded; returns when it answers.

    It also returns where the daemon ends, because it may not run, or cannot. `meanwhile` is done
    while it starts.
    """
    options = ["--init", *(["--force"] if force else [])]
    living, theirs = os.pipe2(os.O_CLOEXEC)
    with open(living, "rb", 0):
        with open(theirs, "wb", 0), open(os.devnull, "r+b", 0) as nowhere:
            streams = (nowhere.fileno(), theirs, nowhere.fileno())
            child = _child(layout, options, streams)
        meanwhile()
        if child is not None:
            child.wait()
        # The daemon keeps the other end open as long as it lives.
        ended = select.poll()
        ended.register(living, select.POLLIN)
        while client.ping(layout) is None:
            if ended.poll(_POLL_S * 1000):
                break


def spawn(layout: Layout) -> None:
    """Start a daemon process and do not wait for it; a second one ends by itself."""
    with open(open_log(layout), "wb", 0) as log, open(os.devnull, "r+b", 0) as nowhere:
        streams = (nowhere.fileno(), nowhere.fileno(), log.fileno())
        child = _child(layout, (), streams)
    # The daemon forks at once, and only its first process is waited for: no zombie remains.
    if child is not None:
        child.wait()


def _child(
    layout: Layout, options: Sequence[str], streams: tuple[int, int, int]
) -> subprocess.Popen[bytes] | None:
    """Start a daemon on these standard streams; None where it is a child of the command server."""
    # A hook of Git has GIT_DIR and GIT_INDEX_FILE of its command. The daemon outlives that, and its
    # own processes of git would use them.
    environ = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    environ.pop("GITSHADOW_SESSION", None)
    words = [*PROGRAM, layout.root, stops(layout), *options]
    if command_client.begin_daemon(words, environ, streams):
        return None
    return subprocess.Popen(
        words,
        stdin=streams[0],
        stdout=streams[1],
        stderr=streams[2],
        cwd="/",
        env=environ,
        start_new_session=True,
        close_fds=True,
    )


def open_log(layout: Layout) -> int:
    """Open the log of a daemon; what cannot be logged is dropped."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        return os.open(layout.log, flags, 0o600)
    # A full or read-only file system must not keep the daemon from answering questions.
    except OSError:
        return os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)


def stops(layout: Layout) -> str:
    """Return a value that is another one after each `stop`."""
    try:
        return str(os.stat(layout.stops).st_mtime_ns)
    except OSError:
        return "0"


def stop(layout: Layout, timeout_s: float = STOP_S) -> bool:
    """Stop the daemon of a worktree; return whether one ran.

    One that is being started ends by itself. The socket of a killed daemon is removed too.

    Raises:
        ShadowError: it did not end in time.
    """
    with contextlib.suppress(OSError), replacing(layout.stops):
        pass
    deadline = time.monotonic() + timeout_s
    while (document := _ask_to_stop(layout, timeout_s)) is None:
        if _remove_stale(layout):
            return False
        if time.monotonic() > deadline:
            raise ShadowError(
                "could not stop: a process that does not respond holds the writer lock",
                hint=f"its pid is in {layout.lock}",
            )
    pid = document.get("pid")
    # In another container its number is that of another process, or of none: the lock is not.
    numbers = current().machine_facts().pid_namespace()
    is_ours = document.get("pid_namespace", numbers) == numbers
    while _lives(pid) if is_ours and isinstance(pid, int) else _is_locked(layout):
        if time.monotonic() > deadline:
            raise ShadowError(
                f"could not stop the daemon: process {pid} is still running"
            )
        time.sleep(_POLL_S)
    return True


def _ask_to_stop(layout: Layout, timeout_s: float) -> Mapping[str, object] | None:
    try:
        return client.request(layout, "stop", {}, timeout_s)
    except UnreachableError:
        return None


def _remove_stale(layout: Layout) -> bool:
    """Remove the socket of an ended daemon; return False while another process has the lock."""
    # The lock is held by a command, or by a daemon that does not answer yet: its socket must stay.
    if not os.path.isdir(layout.wt_dir):
        return True
    check_dir(layout, "wt", layout.worktree)
    lock = WriterLock(layout.lock)
    try:
        lock.acquire(_LOCK_TURN_S)
    except LockedError:
        return False
    with contextlib.suppress(FileNotFoundError):
        os.unlink(layout.socket)
    lock.release()
    return True


def _is_locked(layout: Layout) -> bool:
    """Return whether a process records a worktree that is still there."""
    if not os.path.isdir(layout.wt_dir):
        return False
    try:
        with WriterLock(layout.lock) as lock:
            lock.acquire(0)
    except LockedError:
        return True
    return False


def _lives(pid: int) -> bool:
    found = current().process_facts().stat(pid)
    return found is not None and not found.dead
