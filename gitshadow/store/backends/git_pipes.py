"""Git commands that are kept open and asked again and again through pipes.

A child is started at the first question, and once more if it has died. It ends with our process:
its input is closed then. A fork of our process closes its copies of the pipes at once, so that no
other process can keep a child alive or read its answers.
"""

import io
import os
import subprocess
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import IO, TypeVar

from gitshadow.errors import StoreError
from gitshadow.platform import current
from gitshadow.store.git import unstarted

_END_S = 5.0
_MOST_SAID = 10_000
_T = TypeVar("_T")


class DeadError(Exception):
    """A child has ended in the middle of an answer; `said` is what it wrote to standard error."""

    def __init__(self, said: str) -> None:
        super().__init__(said)
        self.said = said


class Answers:
    """What a child writes; each method raises EOFError at its end."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream

    def line(self) -> bytes:
        """Return the next line without its end."""
        found = self._stream.readline()
        if not found.endswith(b"\n"):
            raise EOFError
        return found[:-1]

    def take(self, count: int) -> bytes:
        """Return so many bytes."""
        found = self._stream.read(count)
        if len(found) != count:
            raise EOFError
        return found


class _Child:
    """One running child, its pipes, and a file for what it says."""

    def __init__(
        self, words: Sequence[str | bytes], cwd: str, environ: Mapping[str, str]
    ) -> None:
        with current().machine_facts().unnamed_file() as file:
            self.said = os.dup(file.fileno())
        try:
            self.process = subprocess.Popen(
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.said,
                # A fork could write what a buffer holds a second time.
                bufsize=0,
                cwd=cwd,
                env=environ,
                # Ctrl-C is for us: a child that it ends would lose an answer.
                process_group=0,
            )
        except OSError as error:
            os.close(self.said)
            raise unstarted(error) from error
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._input = self.process.stdin.fileno()
        output = io.FileIO(self.process.stdout.fileno(), closefd=False)
        self.answers = Answers(io.BufferedReader(output))

    def write(self, question: bytes) -> None:
        """Send bytes to it."""
        view = memoryview(question)
        while view:
            view = view[os.write(self._input, view) :]

    def close(self) -> None:
        """End it, and wait for that."""
        self._close_pipes()
        try:
            self.process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def abandon(self) -> None:
        """Close the pipes in a fork of our process: the child is not its own."""
        self._close_pipes()
        # Its end is not for this process to wait for.
        self.process.returncode = 0

    def _close_pipes(self) -> None:
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        with suppress(OSError):
            os.close(self.said)

    def words(self) -> str:
        """Return what it wrote to standard error since the last answer."""
        found = os.pread(self.said, _MOST_SAID, 0).decode("utf-8", "replace")
        return "; ".join(found.strip("\0 \n").splitlines())


class GitPipe:
    """A git command that answers questions; started when it is needed."""

    def __init__(
        self,
        words: Sequence[str | bytes],
        cwd: str,
        environ: Mapping[str, str],
        now: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        """Note a command; a function says which variables each child has beyond others."""
        self._words = words
        self._cwd = cwd
        self._environ = environ
        self._now = now
        self._child: _Child | None = None
        self._lock = threading.Lock()
        self._end = weakref.finalize(self, _nothing)
        _ALL.add(self)

    @property
    def is_open(self) -> bool:
        """Return whether a child has been started that is not known to be dead."""
        return self._child is not None

    @property
    def pid(self) -> int | None:
        """Return the pid of the child, None if there is none."""
        child = self._child
        return None if child is None else child.process.pid

    def ask(self, question: bytes, answer: Callable[[Answers], _T]) -> _T:
        """Send bytes, and return what a function reads from the answer.

        A child that is dead, or dies in the answer, is replaced once.

        Raises:
            DeadError: a new child died, too.
            StoreError: no child can be started.
        """
        if self.is_open:
            with suppress(DeadError):
                return self.ask_once(question, answer)
        return self.ask_once(question, answer)

    def ask_once(self, question: bytes, answer: Callable[[Answers], _T]) -> _T:
        """Do the same, for a question that may change something; no child is replaced."""
        with self._lock:
            return self._asked(self._child or self._start(), question, answer)

    def close(self) -> None:
        """End the child; the next question starts another one."""
        with self._lock:
            self._drop()

    def abandon(self) -> None:
        """Forget the child in a fork of our process."""
        self._lock = threading.Lock()
        if self._child is not None:
            # At the end of the fork it would close numbers that belong to other files by then.
            self._end.detach()
            self._child.abandon()
            self._child = None

    def _start(self) -> _Child:
        environ = {**self._environ, **self._now()}
        self._child = child = _Child(self._words, self._cwd, environ)
        self._end = weakref.finalize(self, child.close)
        return child

    def _drop(self) -> None:
        if self._child is not None:
            self._child = None
            self._end()

    def _asked(
        self, child: _Child, question: bytes, answer: Callable[[Answers], _T]
    ) -> _T:
        done = False
        try:
            child.write(question)
            found = answer(child.answers)
            # What it has said so far is not about the next question.
            os.ftruncate(child.said, 0)
            os.lseek(child.said, 0, os.SEEK_SET)
            done = True
        except (EOFError, BrokenPipeError, ConnectionResetError) as error:
            with suppress(subprocess.TimeoutExpired):
                child.process.wait(_END_S)
            raise DeadError(child.words()) from error
        except OSError as error:
            raise StoreError(f"cannot ask git: {error.strerror or error}") from error
        finally:
            # After anything else than a whole answer, the rest would be taken for the next one.
            if not done:
                self._drop()
        return found


def children() -> frozenset[int]:
    """Return the pids of the commands that this process keeps open."""
    found = (pipe.pid for pipe in list(_ALL))
    return frozenset(pid for pid in found if pid is not None)


def _nothing() -> None:
    """Do nothing: there is no child."""


_ALL: "weakref.WeakSet[GitPipe]" = weakref.WeakSet()


def _abandon_all() -> None:
    for pipe in list(_ALL):
        pipe.abandon()


os.register_at_fork(after_in_child=_abandon_all)
