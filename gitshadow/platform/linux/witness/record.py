"""Remember for a while which process changed what, and say since when nothing was missed.

Invariant: memory is bounded. What was dropped, by the kernel or here, is known: `covered_since_ns`
of an answer is a moment after it, so nobody concludes anything from what is missing.
"""

import contextlib
import os
import select
import threading
import time
from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from gitshadow.platform.linux.witness.fanotify import (
    Entry,
    FileEvent,
    FileEvents,
    Handle,
    QueueOverflowError,
    handle_of,
)
from gitshadow.platform.linux.witness.processes import (
    LostProcessesError,
    Process,
    ProcessEvents,
    WriterTable,
)
from gitshadow.platform.writers import (
    FileAction,
    ProcessKey,
    WitnessGoneError,
    WriterAnswer,
    WriterQuery,
    WriterReport,
)

_MOST_RECORDS = 50_000
# Thousands may write one file in turn. A process that is not among the last gets a second record.
_MERGED = 16
_LOST_SLOTS = 1 << 16
# Events that wait together cost little, and those of one process on one file become one.
_PAUSE_S = 0.02
_Key = Entry | Handle
_TERMINALS = ("tmux", "screen", "zellij", "dtach", "abduco", "sshd", "code", "emacs")


@dataclass(slots=True, eq=False)
class _Record:
    """What one process did to one object, under one name; `process` is None if unknown.

    `program` is what it ran, empty where it may have started another one since.
    """

    keys: tuple[_Key, ...]
    pid: int
    process: Process | None
    program: str
    change: FileAction
    read_ns: int


class KernelWitness:
    """The record of what the kernel reports of the file system of an open directory.

    Raises:
        OSError: the kernel does not report it, to this process or of this file system.
    """

    def __init__(self, directory: int) -> None:
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._records: deque[_Record] = deque()
        self._index: dict[_Key, list[_Record]] = {}
        self._lost_ns = array("q", bytes(8 * _LOST_SLOTS))
        self._table = WriterTable()
        self._has_failed = False
        with contextlib.ExitStack() as stack:
            self._files = FileEvents()
            stack.callback(self._files.close)
            self._processes = ProcessEvents()
            stack.callback(self._processes.close)
            self._table.fill()
            self._wake, self._waker = os.pipe2(os.O_CLOEXEC)
            stack.callback(os.close, self._wake)
            stack.callback(os.close, self._waker)
            self._device = os.fstat(directory).st_dev
            self._began_ns = time.monotonic_ns()
            self._files.mark(directory)
            self._since_ns = time.time_ns()
            self._closing = stack.pop_all()
        self._thread = threading.Thread(target=self._run, name="witness", daemon=True)
        self._thread.start()

    @property
    def has_failed(self) -> bool:
        """Return whether the kernel's reports could not be read any more."""
        return self._has_failed

    def close(self) -> None:
        """Stop."""
        self._stopping.set()
        os.write(self._waker, b"x")
        self._thread.join()
        self._closing.close()

    def drain(self) -> None:
        """Read all that the kernel has queued.

        Raises:
            WitnessGoneError: it cannot be read, now or before.
        """
        with self._lock:
            self._drain()

    def ask(self, question: WriterQuery) -> WriterAnswer | None:
        """Return what is known, None where this file system is not watched.

        Raises:
            OSError: the file cannot be opened.
            WitnessGoneError: nothing is reported any more.
        """
        with opened_target(question.places) as target:
            return self.answer(question, target)

    def answer(
        self, question: WriterQuery, target: int | None, owner: int | None = None
    ) -> WriterAnswer | None:
        """Return what is known of a path whose file is open.

        Args:
            question: The question.
            target: The file, None where it is gone.
            owner: The user to whom the directories and the file must belong; None for anybody.

        Returns:
            None where one of them is another user's, or is on another file system.

        Raises:
            WitnessGoneError: nothing is reported any more.
        """
        # What was opened by others may be slow to look at, so nobody has to wait for it.
        keys = self._keys(question.places, target, owner)
        if keys is None:
            return None
        with self._lock:
            self._drain()
            covered_ns = self._since_ns
            found: dict[object, WriterReport] = {}
            offset_ns = time.time_ns() - time.monotonic_ns()
            # Nobody can say to whom a file belongs that is not there.
            if question.has_moved and owner is None:
                name, _ = keys[len(question.places) - 1]
                keys += self._files_of(name, question.since_ns)
            for key, mask in keys:
                covered_ns = max(covered_ns, self._lost_ns[hash(key) % _LOST_SLOTS])
                for record in self._index.get(key, ()):
                    is_late = record.read_ns >= question.since_ns
                    if is_late and record.change & mask == mask:
                        _gather(found, record, question.agents, offset_ns)
        return WriterAnswer(covered_ns, tuple(found.values()))

    def _keys(
        self,
        places: Sequence[tuple[int, bytes]],
        target: int | None,
        owner: int | None,
    ) -> list[tuple[_Key, FileAction]] | None:
        """Return what to look for: the path, its file, and directories above that were renamed."""
        found: list[tuple[_Key, FileAction]] = []
        renamed = FileAction.RENAMED | FileAction.DIRECTORY
        for number, (directory, name) in enumerate(places):
            handle = self._handle(directory, owner)
            if handle is None:
                return None
            is_last = number == len(places) - 1
            found.append((Entry(handle, name), FileAction(0) if is_last else renamed))
        if target is not None:
            handle = self._handle(target, owner)
            if handle is None:
                return None
            found.append((handle, FileAction(0)))
        return found

    def _handle(self, fd: int, owner: int | None) -> Handle | None:
        """Return the handle of what is open, None if it is not to be spoken of."""
        look = os.fstat(fd)
        if look.st_dev != self._device or owner not in (None, look.st_uid):
            return None
        return handle_of(fd)

    def _files_of(self, name: _Key, since_ns: int) -> list[tuple[_Key, FileAction]]:
        """Return the files that had a name, as far as it was reported."""
        found = {
            key
            for record in self._index.get(name, ())
            if record.read_ns >= since_ns
            for key in record.keys
            if not isinstance(key, Entry)
        }
        return [(key, FileAction(0)) for key in found]

    def _run(self) -> None:
        waiting = select.poll()
        for fd in (self._files.fd, self._processes.fd, self._wake):
            waiting.register(fd, select.POLLIN)
        while not self._stopping.is_set():
            waiting.poll()
            try:
                self.drain()
            except WitnessGoneError:
                return
            self._stopping.wait(_PAUSE_S)

    def _drain(self) -> None:
        if self._has_failed:
            raise WitnessGoneError
        try:
            self._read()
        except OSError as error:
            self._has_failed = True
            self._lose()
            raise WitnessGoneError from error

    def _read(self) -> None:
        """Read file events before process events: so who wrote is known when it is sought."""
        began_ns = time.monotonic_ns()
        events = self._file_events()
        try:
            for happened in self._processes.read():
                self._table.note(happened)
        except LostProcessesError:
            self._table = WriterTable()
            self._table.fill()
            self._lose()
        ended_ns, read_ns = time.monotonic_ns(), time.time_ns()
        for event in events:
            process = self._table.between(event.pid, self._began_ns, ended_ns)
            self._add(event, process, read_ns)
        self._began_ns = began_ns

    def _file_events(self) -> list[FileEvent]:
        found: list[FileEvent] = []
        own = os.getpid()
        try:
            # Our own writes need no author: the verb that made them recorded them.
            found.extend(one for one in self._files.read() if one.pid != own)
        except QueueOverflowError:
            found.clear()
            self._lose()
        return found

    def _lose(self) -> None:
        """Forget all: something is missing, and nobody knows what."""
        self._records.clear()
        self._index.clear()
        self._since_ns = time.time_ns()

    def _add(self, event: FileEvent, process: Process | None, read_ns: int) -> None:
        keys: tuple[_Key, ...] = event.entries
        if event.target is not None:
            keys = (*keys, event.target)
        if not keys:
            return
        for known in islice(reversed(self._index.get(keys[0], ())), _MERGED):
            if known.keys == keys and known.process is process and process is not None:
                known.change |= event.change
                known.read_ns = read_ns
                return
        # A shell writes, and then becomes the last program of its command by exec(2).
        is_named = process is not None and process.named_ns < self._began_ns
        program = process.name if process is not None and is_named else ""
        record = _Record(keys, event.pid, process, program, event.change, read_ns)
        self._records.append(record)
        for key in keys:
            self._index.setdefault(key, []).append(record)
        while len(self._records) > _MOST_RECORDS:
            self._drop(self._records.popleft())

    def _drop(self, record: _Record) -> None:
        for key in record.keys:
            self._lost_ns[hash(key) % _LOST_SLOTS] = record.read_ns + 1
            left = self._index[key]
            left.remove(record)
            if not left:
                del self._index[key]


def _gather(
    found: dict[object, WriterReport],
    record: _Record,
    agents: Sequence[ProcessKey],
    offset_ns: int,
) -> None:
    """Add what a record says to the report of its process."""
    key = record.process or record.pid
    known = found.get(key) or _report(record, agents, offset_ns)
    found[key] = known._replace(change=known.change | record.change)


def _report(
    record: _Record, agents: Sequence[ProcessKey], offset_ns: int
) -> WriterReport:
    process = record.process
    if process is None:
        return WriterReport(record.pid, "", record.change, None, None, is_sure=False)
    line = tuple(process.line())
    below: Process | None = None
    for distance, one in enumerate(line):
        number = _index_of(one, agents)
        if number is not None:
            is_sure = not any(map(_is_terminal, line[:distance]))
            tool_ns = None if below is None else below.started_ns + offset_ns
            return WriterReport(
                process.pid, record.program, record.change, number, tool_ns, is_sure
            )
        below = one
    return WriterReport(
        process.pid,
        record.program,
        record.change,
        None,
        None,
        is_sure=_is_older(process, agents),
    )


def _index_of(process: Process, agents: Sequence[ProcessKey]) -> int | None:
    for number, agent in enumerate(agents):
        if process.is_same(agent):
            return number
    return None


def _is_terminal(process: Process) -> bool:
    """Return whether a person may type into what a process starts, though an agent started it."""
    return process.name.lower().startswith(_TERMINALS)


def _is_older(process: Process, agents: Iterable[ProcessKey]) -> bool:
    """Return whether a process cannot come from agents that are not among its known ancestors."""
    # What an agent started before the record began can have lost its parent.
    unseen = [one.started for one in process.line() if not one.seen_starting]
    newest = max(unseen, default=0)
    return all(newest < started for _, started in agents)


@contextlib.contextmanager
def opened_target(places: Sequence[tuple[int, bytes]]) -> Iterator[int | None]:
    """Open the file that a path leads to, not to read it; None where it is gone.

    Raises:
        OSError: it cannot be opened.
    """
    directory, name = places[-1]
    try:
        # A link itself, not what it leads to; of a fifo or device nothing is opened either.
        fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    except FileNotFoundError:
        yield None
        return
    try:
        yield fd
    finally:
        os.close(fd)
