"""When an agent's processes end, with real processes."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from gitshadow.attribution.process import Living, ProcessId, is_alive, process_start
from gitshadow.attribution.process_evidence import Exits, Leftovers
from gitshadow.model import Call, ToolClass
from gitshadow.platform.linux import processes
from gitshadow.store.journal import turns
from gitshadow.store.journal.db import Db
from tests.support.waiting import until

AGENT = """
import subprocess, sys
for line in sys.stdin:
    subprocess.run(["sh", "-c", line])
    print("done", flush=True)
"""
SECOND = 1_000_000_000


class Agent:
    """A process that runs shells; `say` returns when one is over."""

    def __init__(self) -> None:
        self.child = subprocess.Popen(
            [sys.executable, "-c", AGENT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started = process_start(self.child.pid)
        assert started is not None
        self.id = ProcessId(self.child.pid, started)
        self.say("true")

    def say(self, line: str) -> None:
        assert self.child.stdin is not None
        assert self.child.stdout is not None
        self.child.stdin.write(line + "\n")
        self.child.stdin.flush()
        assert self.child.stdout.readline() == "done\n"


FIRST_THREAD_ENDS = """
import ctypes, os, sys, threading
def work():
    sys.stdin.read()
    os._exit(0)
threading.Thread(target=work).start()
ctypes.CDLL(None).pthread_exit(None)
"""


def first_thread_has_ended(process: ProcessId) -> bool:
    return ") Z " in Path(f"/proc/{process.pid}/stat").read_text()


def test_a_watched_process_lives_until_its_last_thread_has_ended() -> None:
    exits = Exits()
    with subprocess.Popen(
        [sys.executable, "-c", FIRST_THREAD_ENDS], stdin=subprocess.PIPE
    ) as child:
        process = ProcessId(child.pid, process_start(child.pid) or 0)
        exits.watch(process)
        until(lambda: first_thread_has_ended(process))
        assert is_alive(process)
        assert exits.is_alive(process)
        assert exits.ended(time.time_ns) == {}
        before_ns = time.time_ns()
        child.communicate()
        until(lambda: not exits.is_alive(process))
        ended = exits.ended(time.time_ns)
        assert before_ns < ended[process] < time.time_ns()
        assert exits.ended(time.time_ns) == {}


def test_only_the_moments_are_known_where_the_end_was_seen_before_it_was_noted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Exits, "_wait", lambda *_: None)
    exits = Exits()
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as child:
        process = ProcessId(child.pid, process_start(child.pid) or 0)
        exits.watch(process)
        before_ns = time.time_ns()
        assert exits.ended(time.time_ns) == {}
        assert exits.has_not_ended(process)
        child.communicate()
        assert exits.has_not_ended(process)
        ended_ns = exits.ended(time.time_ns)[process]
        assert not exits.has_not_ended(process)
        assert exits.is_unsure(process, ended_ns, ended_ns)
        assert exits.is_unsure(process, before_ns, ended_ns + 1)
        assert not exits.is_unsure(process, ended_ns + 1, ended_ns + 1)
        assert not exits.is_unsure(process, before_ns, before_ns)


@pytest.mark.parametrize(
    "after",
    [(1, 0), (2, 0), (1, 1)],
    ids=["slept", "held by another thread", "preempted"],
)
def test_only_a_wait_after_the_one_sleep_came_after_the_end(
    monkeypatch: pytest.MonkeyPatch, after: tuple[int, int]
) -> None:
    queued_ns = iter((7 * SECOND, 8 * SECOND))
    monkeypatch.setattr(processes, "_queued_ns", lambda: next(queued_ns))
    switches = iter(((0, 0), after))
    monkeypatch.setattr(processes, "_switches", lambda: next(switches))
    exits = Exits()
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as child:
        process = ProcessId(child.pid, process_start(child.pid) or 0)
        exits.watch(process)
        (watch,) = exits._watched.values()
        watch.lived_ns -= 60 * SECOND
        before_ns = time.time_ns()
        child.communicate()
        until(lambda: watch.ended_ns is not None)
        after_ns = time.time_ns()
        ended_ns = exits.ended(time.time_ns)[process]
        is_exact = after == (1, 0)
        assert (ended_ns < after_ns - SECOND) is is_exact
        assert (before_ns < ended_ns < after_ns) is not is_exact
        unsure = exits.is_unsure(process, before_ns - 2 * SECOND, before_ns)
        assert unsure is not is_exact


def test_a_leftover_goes_on_until_its_last_thread_has_ended(tmp_path: Path) -> None:
    db = Db.open(str(tmp_path / "journal.db"), create=True)
    leftovers = Leftovers()
    with subprocess.Popen(
        [sys.executable, "-c", FIRST_THREAD_ENDS], stdin=subprocess.PIPE
    ) as child:
        process = ProcessId(child.pid, process_start(child.pid) or 0)
        now_ns = time.time_ns()
        with db.write():
            turns.open_call(db, shell_call(now_ns - SECOND, now_ns + SECOND))
        living = Living(process, ("s1",), ("s1",), "python", now_ns)
        leftovers.note(db, [living], now_ns + 2 * SECOND)
        until(lambda: first_thread_has_ended(process))
        leftovers.look(lambda: now_ns + 120 * SECOND)
        leftovers.look(lambda: now_ns + 240 * SECOND)
        assert leftovers
        child.communicate()
        leftovers.look(lambda: now_ns + 360 * SECOND)
        assert leftovers
        leftovers.look(lambda: now_ns + 480 * SECOND)
        assert not leftovers
    db.close()


def shell_call(opened_ns: int, closed_ns: int) -> Call:
    return Call(
        id="c1",
        session="s1",
        turn=None,
        tool="Bash",
        tool_class=ToolClass.SHELL,
        opened_ns=opened_ns,
        closed_ns=closed_ns,
    )
