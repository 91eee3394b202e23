"""The writer lock: one process at a time, and none that is dead."""

import os
import signal
import stat
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from gitshadow.errors import LockedError, StoreError
from gitshadow.store.lock import WriterLock
from tests.support.waiting import HANGS_S

_HOLDER = """\
import sys
from gitshadow.store.lock import WriterLock
from tests.support.waiting import HANGS_S
from tests.support.waiting import HANGS_S
lock = WriterLock(sys.argv[1])
lock.acquire(0)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "lock")


def hold(path: str) -> "subprocess.Popen[bytes]":
    """Start a process that holds the lock until its standard input ends."""
    child = subprocess.Popen(
        [sys.executable, "-c", _HOLDER, path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"held\n"
    return child


def test_acquire_takes_a_free_lock_and_names_its_holder(path: str) -> None:
    lock = WriterLock(path)
    lock.acquire(0)
    assert lock.held
    assert Path(path).read_text() == f"{os.getpid()}\n"
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    lock.release()
    assert not lock.held


_FORKER = """\
import os, signal, sys, time
from gitshadow.store.lock import WriterLock
lock = WriterLock(sys.argv[1])
lock.acquire(0)
if os.fork():
    os.kill(os.getpid(), signal.SIGKILL)
time.sleep(0.3)
"""


def test_lock_of_a_process_that_was_killed_while_it_forked_is_soon_free(
    path: str,
) -> None:
    """Its child holds it until it has become another program, or ended."""
    words = [sys.executable, "-c", _FORKER, path]
    assert subprocess.run(words, check=False).returncode == -signal.SIGKILL
    with WriterLock(path) as lock:
        lock.acquire(0)


def test_acquire_is_refused_when_another_process_holds_it(path: str) -> None:
    with hold(path) as child:
        with pytest.raises(
            LockedError, match=f"process {child.pid} holds it"
        ) as caught:
            WriterLock(path).acquire(0)
        assert caught.value.hint is not None
        assert "git agent-undo daemon stop" in caught.value.hint
        child.communicate()


def test_acquire_waits_when_its_holder_ends_in_time(path: str) -> None:
    with hold(path) as child:
        assert child.stdin is not None
        child.stdin.close()
        lock = WriterLock(path)
        lock.acquire(HANGS_S)
        assert lock.held
        lock.release()


def test_lock_is_free_when_its_holder_was_killed(path: str) -> None:
    with hold(path) as child:
        child.send_signal(signal.SIGKILL)
        child.wait()
    with WriterLock(path) as lock:
        lock.acquire(0)
        assert Path(path).read_text() == f"{os.getpid()}\n"


def test_two_locks_of_one_process_exclude_each_other(path: str) -> None:
    first, second = WriterLock(path), WriterLock(path)
    first.acquire(0)
    with pytest.raises(LockedError):
        second.acquire(0)
    assert not second.held
    first.release()
    second.acquire(0)
    second.release()


def test_release_twice_is_harmless_when_it_was_never_taken(path: str) -> None:
    lock = WriterLock(path)
    lock.release()
    lock.acquire(0)
    lock.release()
    lock.release()
    assert not lock.held


def test_context_manager_releases_when_its_block_fails(path: str) -> None:
    lock = WriterLock(path)
    other = WriterLock(path)
    other.acquire(0)
    with pytest.raises(LockedError), lock:
        lock.acquire(0)
    other.release()
    with lock:
        lock.acquire(0)
        assert lock.held
    assert not lock.held


def test_acquire_follows_no_link(path: str, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    os.symlink(victim, path)
    with pytest.raises(StoreError, match="symbolic links") as caught:
        WriterLock(path).acquire(0)
    assert caught.value.hint, "as where no inode is left: plain words"
    assert victim.read_text() == "mine"


def test_child_process_does_not_inherit_the_lock(path: str) -> None:
    lock = WriterLock(path)
    lock.acquire(0)
    listing = "import os; print(*map(os.path.realpath, os.scandir('/proc/self/fd')))"
    done = subprocess.run(
        [sys.executable, "-c", listing],
        close_fds=False,
        capture_output=True,
        text=True,
        check=True,
    )
    assert path in open_files()
    assert done.stdout.split()
    assert path not in done.stdout.split()
    lock.release()


def test_acquire_takes_the_new_file_when_the_old_was_removed_while_waiting(
    path: str,
) -> None:
    lock = WriterLock(path)
    with hold(path) as child:
        waiting = threading.Thread(target=lock.acquire, args=(HANGS_S,))
        waiting.start()
        while path not in open_files():
            waiting.join(0.005)
        os.unlink(path)
        child.communicate()
    waiting.join()
    with pytest.raises(LockedError):
        WriterLock(path).acquire(0)
    lock.release()


def open_files() -> set[str]:
    """Return where this process's open files are."""
    found = set()
    for fd in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the descriptor of the listing itself
            found.add(os.readlink(f"/proc/self/fd/{fd}"))
    return found
