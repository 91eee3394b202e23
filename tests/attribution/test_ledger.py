"""What agents' processes wrote at most: real ones, and those of a kernel that never rests."""

import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitshadow.attribution.ledger import (
    ByteLedger,
    CountSpan,
    Needs,
    TreeCounts,
    excludes,
    needs,
)
from gitshadow.attribution.process import ProcessId, process_start
from gitshadow.platform.linux.processes import ProcFiles, file_systems
from gitshadow.platform.port import Counts, FileSystem
from tests.attribution.test_process_activity import Agent
from tests.support.kernel import Kernel, Process
from tests.support.pages import need_pages
from tests.support.waiting import until

EXT4 = FileSystem(counts_copies=True, counts_pages=True)
TMPFS = FileSystem(counts_copies=True, counts_pages=False)
BTRFS = FileSystem()
BUSY = 1000
"""Page faults of a tree that started a program."""


class Ticks:
    """A clock that goes on by one at each question."""

    tolerance_ns = 0

    def __init__(self) -> None:
        self.at_ns = 0

    def now_ns(self) -> int:
        self.at_ns += 1
        return self.at_ns


# What a write needs


@given(
    st.binary(max_size=300),
    st.lists(st.tuples(st.integers(0, 350), st.binary(max_size=60))),
)
def test_no_way_of_writing_needs_fewer_bytes(
    old: bytes, writes: list[tuple[int, bytes]]
) -> None:
    now = bytearray(old)
    for at, data in writes:
        now = now.ljust(at, b"\0")
        now[at : at + len(data)] = data
    spent = sum(len(data) for _, data in writes)
    assert needs(old, bytes(now), 0).written <= spent


def test_what_a_write_needs_is_what_differs() -> None:
    assert needs(None, b"abc", 0).written == 3
    assert needs(b"abc", b"abcdef", 0).written == 3
    assert needs(b"abc", b"axc", 0).written == 1
    assert needs(b"abc", b"", 0).written == 0
    assert needs(None, bytes(5000), 0).written == 0
    assert needs(None, b"a\0b", 7) == Needs(
        since_ns=7, written=1, is_new=True, is_text=False, dirties=True
    )
    assert not needs(b"a", b"b", 0).dirties
    assert needs(b"a", b"b", 0, was_clean=True).dirties


@pytest.mark.parametrize(
    ("most", "wanted", "where", "excluded"),
    [
        (Counts(99, 0, BUSY), needs(None, b"x" * 100, 0), EXT4, True),
        (Counts(100, 4096, BUSY), needs(None, b"x" * 100, 0), EXT4, False),
        # They wrote enough, but into no file: to a terminal or a pipe.
        (Counts(9999, 0, BUSY), needs(None, b"x" * 100, 0), EXT4, True),
        (Counts(9999, 4096, BUSY), needs(None, b"x" * 100, 0), EXT4, False),
        (Counts(9999, 4096, BUSY), needs(None, b"x" * 5000, 0), EXT4, True),
        (Counts(9999, 0, BUSY), needs(None, b"x" * 100, 0), TMPFS, False),
        (Counts(9999, 0, BUSY), needs(None, b"x" * 100, 0), BTRFS, False),
        (Counts(9999, 0, BUSY), needs(None, bytes(100), 0), EXT4, False),
        # A page that is dirty already does not become dirty again.
        (Counts(9999, 0, BUSY), needs(b"x", b"y", 0), EXT4, False),
        (Counts(9999, 0, BUSY), needs(b"x", b"y", 0, was_clean=True), EXT4, True),
        # Where copies share blocks, only processes that did nothing at all are excluded.
        (Counts(99, 0, BUSY), needs(None, b"x" * 100, 0), BTRFS, False),
        (Counts(99, 0, 0), needs(None, b"x" * 100, 0), BTRFS, True),
        # No text is written through a memory map, but other content may be.
        (Counts(0, 8192, BUSY), needs(None, b"x" * 5000 + b"\0", 0), EXT4, False),
        (Counts(0, 4096, BUSY), needs(None, b"x" * 5000 + b"\0", 0), EXT4, True),
        (Counts(0, 0, BUSY), needs(None, b"x" * 5000 + b"\0", 0), TMPFS, False),
        (Counts(0, 0, BUSY), needs(b"\0", b"x" * 5000 + b"\0", 0), EXT4, False),
        (Counts(0, 0, 0), needs(b"x", b"", 0), EXT4, False),
    ],
)
def test_who_wrote_fewer_bytes_is_excluded(
    most: Counts, wanted: Needs, where: FileSystem, excluded: bool
) -> None:
    assert excludes(most, wanted, where) is excluded


def test_file_systems_are_told_apart() -> None:
    mounts = (
        b"25 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"
        b"26 25 0:30 / /tmp rw - tmpfs tmpfs rw\n"
        b"27 25 0:44 / /home rw master:2 - btrfs /dev/vdb rw\n"
        b"28 25 8:1 / /a rw - ext4 /dev/sda1 rw,data=journal\n"
        b"29 25 8:2 / /b rw - ext4 /dev/pmem0 rw,dax=always\n"
        b"30 25 8:3 / /c rw - ext4 /dev/sda3 rw,data=ordered\n"
    )
    assert file_systems(mounts) == {
        os.makedev(254, 0): EXT4,
        os.makedev(0, 30): TMPFS,
        os.makedev(0, 44): BTRFS,
        os.makedev(8, 1): TMPFS,
        os.makedev(8, 2): TMPFS,
        os.makedev(8, 3): EXT4,
    }


def test_a_file_is_on_the_disk_after_twice_the_time_that_pages_stay_dirty() -> None:
    kernel = Kernel()
    kernel.centiseconds = 300
    assert kernel.time_to_disk_ns() == 12_000_000_000
    kernel.centiseconds = 0  # the machine's owner writes when it suits
    assert kernel.time_to_disk_ns() is None
    assert (ProcFiles().time_to_disk_ns() or 1) > 0


# Real processes


@pytest.fixture
def agent() -> Iterator[Agent]:
    made = Agent()
    with made.child:
        yield made


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a directory whose file system counts pages, as most disks' do."""
    need_pages(tmp_path)
    return tmp_path


@pytest.fixture
def ledger(agent: Agent) -> Iterator[ByteLedger]:
    counters = ProcFiles()
    made = ByteLedger(Ticks(), counters)
    made.watch(agent.id)
    settle(made, 1)
    yield made
    counters.keep(())


def settle(ledger: ByteLedger, at_ns: int) -> None:
    ledger.begin_barrier()
    ledger.settled(at_ns)


def most(ledger: ByteLedger, agent: Agent, since_ns: int = 1) -> TreeCounts | None:
    ledger.look()
    return ledger.most(agent.id, needs(b"", b"", since_ns))


@pytest.mark.parametrize(
    "command",
    [
        "head -c 5000 /dev/urandom > {}",
        "head -c 5000 /dev/urandom > {0}.a; cp {0}.a {0}",
        "head -c 5000 /dev/urandom > {0}.a; cat {0}.a > {0}",
        "head -c 5000 /dev/zero | tr '\\0' x > {0}; sed -i s/x/y/g {0}",
        "head -c 5000 /dev/urandom > {} & wait",
    ],
)
def test_what_a_finished_shell_wrote_is_counted(
    agent: Agent, ledger: ByteLedger, tmp_path: Path, command: str
) -> None:
    agent.say(command.format(tmp_path / "made"))
    found = most(ledger, agent)
    assert found is not None
    assert found.below.written >= (tmp_path / "made").stat().st_size == 5000
    assert found.below.faults > 0


def test_an_agent_that_writes_nothing_is_counted_with_nothing(
    agent: Agent, ledger: ByteLedger, tmp_path: Path
) -> None:
    agent.say("head -c 5000 /dev/urandom > /dev/null")
    settle(ledger, 2)
    (tmp_path / "mine").write_bytes(b"x" * 5000)
    assert most(ledger, agent, 2) == TreeCounts(Counts(), Counts())


@pytest.mark.parametrize("redirection", ["| cat > /dev/null", "> {}"])
def test_what_a_shell_prints_makes_no_page_dirty(
    agent: Agent, ledger: ByteLedger, place: Path, redirection: str
) -> None:
    (place / "made").write_bytes(b"x")  # the directory is not to become longer
    settle(ledger, 2)
    agent.say(f"head -c 5000 /dev/urandom {redirection.format(place / 'made')}")
    found = most(ledger, agent, 2)
    assert found is not None
    assert found.below.written >= 5000
    assert (found.below.dirtied >= 8192) is (redirection == "> {}")
    assert (found.below.dirtied == 0) is (redirection != "> {}")


def test_what_the_agent_prints_itself_is_not_below_it(
    agent: Agent, ledger: ByteLedger
) -> None:
    agent.say("true")
    found = most(ledger, agent)
    assert found is not None
    assert found.below.written == 0
    assert found.whole.written == len("done\n")


def test_a_process_that_its_parent_left_is_counted_while_it_lives(
    agent: Agent, ledger: ByteLedger, tmp_path: Path
) -> None:
    go, end, done = tmp_path / "go", tmp_path / "end", tmp_path / "done"
    agent.say(f"mkfifo {go} {end}")
    # The shell in between waits until it was looked at, then ends before the one below it.
    agent.say(f"(sh -c 'read x < {go}; echo written > {done}; read x < {end}' &)")
    (left,) = _reading(go)
    ledger.adopt(agent.id, [left])
    settle(ledger, 2)
    go.write_text("1\n")
    until(lambda: done.exists() and done.stat().st_size > 0)
    found: list[TreeCounts | None] = []

    def is_counted() -> bool:
        # The kernel counts a write after it has made it.
        found.append(most(ledger, agent, 2))
        return found[-1] is None or found[-1].below.written >= len("written\n")

    until(is_counted)
    assert found[-1] is not None
    end.write_text("2\n")
    until(lambda: not os.path.exists(f"/proc/{left.pid}"))
    # What it did at last is in no count, so nothing before is known.
    assert most(ledger, agent, 2) is None


def _reading(fifo: Path) -> Sequence[ProcessId]:
    found: list[ProcessId] = []

    def look() -> bool:
        for name in filter(str.isdecimal, os.listdir("/proc")):
            try:
                words = Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            started = process_start(int(name))
            is_it = (
                words[0] == b"sh"
                and words[1] == b"-c"
                and words[2].startswith(b"read x")
            )
            if is_it and str(fifo).encode() in words[2] and started is not None:
                found.append(ProcessId(int(name), started))
        return bool(found)

    until(look)
    return found


# A kernel that never rests: it goes on at each file that is read


class Steps:
    """What happens in a kernel, a number at a time.

    A process ends only if it has no children left, and each child is waited for: so nobody is
    abandoned.
    """

    def __init__(self, steps: Iterator[int]) -> None:
        self.kernel = Kernel(self.step)
        self.root = self.kernel.start()
        self.steps = steps
        self.total = 0

    def step(self) -> None:
        number = next(self.steps, 0)
        kind, which = number % 5, number // 5
        living = [one for one in self.kernel.processes.values() if not one.ended]
        one = living[which % len(living)]
        if kind == 1:
            self.kernel.start(one.pid)
        elif kind == 2:
            self.kernel.write(one, which)
            self.total += which
        elif kind == 3 and one is not self.root and not self.kernel.children(one.pid):
            self.kernel.end(one)
        elif kind == 4:
            self.kernel.wait(one)


STEPS = st.lists(st.integers(0, 5000), max_size=300)


def steps_of(chance: random.Random) -> Iterator[int]:
    while True:
        (kind,) = chance.choices(range(5), (0, 2, 3, 3, 5))
        yield kind + 5 * chance.randrange(1000)


def test_no_interleaving_hides_what_a_tree_wrote() -> None:
    known = 0
    for seed in range(2000):
        chance = random.Random(seed)
        world = Steps(steps_of(chance))
        for _ in range(15):
            world.step()
        ledger = ByteLedger(Ticks(), world.kernel)
        agent = world.root.id
        ledger.watch(agent)
        settle(ledger, 1)
        before = world.total
        for _ in range(chance.randrange(20)):
            world.step()
        written = world.total - before
        ledger.look()
        found = ledger.most(agent, needs(b"", b"", 1))
        if found is not None:
            known += 1
            assert found.whole.written >= written, seed
    assert known > 1000


@given(STEPS, STEPS)
def test_while_nothing_runs_the_bound_is_what_was_written(
    first: list[int], between: list[int]
) -> None:
    world = Steps(iter(first))
    kernel = world.kernel
    for _ in first:
        world.step()
    ledger = ByteLedger(Ticks(), kernel)
    agent = world.root.id
    ledger.watch(agent)
    settle(ledger, 1)
    before, there = world.total, set(kernel.processes)
    # Nobody that was counted before ends: then the bound is exact.
    world.steps = iter([one for one in between if one % 5 in (1, 2)])
    for _ in between:
        world.step()
    ledger.look()
    found = ledger.most(agent, needs(b"", b"", 1))
    assert found is not None or len(kernel.processes) > 256
    assert there <= set(kernel.processes)
    if found is not None:
        assert found.whole.written == world.total - before


# The kernel of tests/support, where one thing happens at one moment of a look


def family(kernel: Kernel) -> tuple[Process, Process, Process]:
    """Start an agent, its shell, and what the shell runs."""
    root = kernel.start()
    shell = kernel.start(root.pid)
    return root, shell, kernel.start(shell.pid)


def at_read(kernel: Kernel, number: int, act: Callable[[], None]) -> None:
    """Let something happen right before a file of /proc is read, counted from now."""
    wanted = kernel.reads + number

    def go_on() -> None:
        if kernel.reads == wanted:
            act()

    kernel.go_on = go_on


def below(ledger: ByteLedger, root: Process) -> int | None:
    ledger.look()
    found = ledger.most(root.id, needs(b"", b"", 1))
    return None if found is None else found.below.written


@pytest.mark.parametrize("number", range(1, 40))
@pytest.mark.parametrize("is_first", [True, False])
def test_whatever_happens_in_a_look_no_write_is_missed(
    number: int, is_first: bool
) -> None:
    for what in range(4):
        kernel = Kernel()
        root, shell, command = family(kernel)
        ledger = ByteLedger(Ticks(), kernel)
        ledger.watch(root.id)

        def act(
            what: int = what,
            kernel: Kernel = kernel,
            family: tuple[Process, Process, Process] = (root, shell, command),
        ) -> None:
            root, shell, command = family
            if what == 0:
                kernel.write(root, 500)
            elif what == 1:
                kernel.start(root.pid)
            elif what in (2, 3) and not command.ended:
                kernel.end(command)
                kernel.wait(shell)
                if what == 3:
                    kernel.end(shell)
                    kernel.wait(root)

        if is_first:
            at_read(kernel, number, act)
        settle(ledger, 1)
        kernel.go_on = lambda: None
        writer = next(one for one in (command, shell, root) if not one.ended)
        kernel.write(writer, 100)
        if not is_first:
            at_read(kernel, number, act)
        found = below(ledger, root)
        if writer is not root:
            assert found is None or found >= 100, (what, found)


def counted(kernel: Kernel, root: Process) -> ByteLedger:
    ledger = ByteLedger(Ticks(), kernel)
    ledger.watch(root.id)
    settle(ledger, 1)
    return ledger


def test_a_tree_of_thousands_is_given_up_soon() -> None:
    kernel = Kernel()
    root, shell, _ = family(kernel)
    ledger = counted(kernel, root)
    for _ in range(2000):
        kernel.start(shell.pid)
    kernel.reads = 0
    assert below(ledger, root) is None
    assert kernel.reads < 5000


def test_a_process_that_is_hidden_leaves_the_bound_unknown() -> None:
    kernel = Kernel()
    root, _, command = family(kernel)
    ledger = counted(kernel, root)
    assert below(ledger, root) == 0
    kernel.hidden.add(command.pid)  # as with hidepid, or for a program with more rights
    assert below(ledger, root) is None
    kernel.hidden.add(root.pid)
    assert below(ledger, root) is None


def test_a_pid_that_is_given_again_is_another_process() -> None:
    kernel = Kernel()
    root, shell, command = family(kernel)
    kernel.write(command, 900)
    ledger = counted(kernel, root)
    kernel.end(command)
    kernel.wait(shell)
    again = kernel.start(shell.pid, command.pid)
    kernel.write(again, 100)
    found = below(ledger, root)
    assert found is not None
    assert found >= 100
    for one in (again, shell):
        kernel.end(one)
        kernel.wait(shell if one is again else root)
    kernel.end(root)
    kernel.write(kernel.start(pid=root.pid), 50)
    assert below(ledger, root) is None


def test_a_clock_that_goes_back_leaves_the_bound_unknown() -> None:
    kernel = Kernel()
    root, _, command = family(kernel)
    clock = Ticks()
    clock.at_ns = 10_000
    ledger = ByteLedger(clock, kernel)
    ledger.watch(root.id)
    settle(ledger, 10_000)
    born = needs(None, b"x" * 100, clock.now_ns())
    kernel.write(command, 100)
    clock.at_ns = 5_000
    ledger.look()
    ledger.look()
    assert ledger.most(root.id, born) is None
    clock.at_ns = 20_000
    ledger.look()
    later = needs(None, b"x" * 100, clock.now_ns())
    ledger.look()
    found = ledger.most(root.id, later)
    assert found is not None
    assert found.below.written == 0


def test_a_counter_that_goes_back_leaves_the_bound_unknown() -> None:
    kernel = Kernel()
    root, shell, command = family(kernel)
    kernel.write(command, 900)
    ledger = counted(kernel, root)
    command.own = Counts(100, 0, 1)
    kernel.write(shell, 100)
    assert below(ledger, root) is None


@pytest.mark.parametrize("reaps", [False, True])
def test_a_child_that_nobody_waited_for_hides_only_what_it_wrote_itself(
    reaps: bool,
) -> None:
    kernel = Kernel()
    root, shell, command = family(kernel)
    ledger = counted(kernel, root)
    kernel.write(command, 100)
    kernel.end(command)
    written = below(ledger, root)
    assert written is not None
    assert written > 100
    settle(ledger, 2)
    kernel.write(shell, 7)
    if reaps:
        kernel.wait(shell)
    ledger.look()
    last = ledger.most(root.id, needs(b"", b"", 2))
    assert last is not None
    assert last.below.written == (107 if reaps else 7)


# Who slept


def slept(ledger: ByteLedger, agent: ProcessId, before: int) -> bool:
    after = ledger.done + 1
    ledger.look()
    found = ledger.most(agent, None, CountSpan(before, after))
    return found is not None and found.slept


def test_a_child_that_nobody_waited_for_sleeps() -> None:
    kernel = Kernel()
    root, shell, command = family(kernel)
    ledger = counted(kernel, root)
    kernel.end(command)
    assert not slept(ledger, root.id, ledger.done)
    # What it left gets its new parents while it ends.
    assert not slept(ledger, root.id, ledger.done)
    assert slept(ledger, root.id, ledger.done)
    kernel.act(shell)
    assert not slept(ledger, root.id, ledger.done)


def test_a_shell_that_waits_slept_and_one_that_runs_did_not(
    agent: Agent, ledger: ByteLedger, tmp_path: Path
) -> None:
    go, end, gone = tmp_path / "go", tmp_path / "end", tmp_path / "gone"
    agent.say(f"mkfifo {go} {end}")
    gone.touch()
    line = f"read x < {go}; rm {gone}; read x < {end}"
    assert agent.child.stdin is not None
    agent.child.stdin.write(f"{line}\n")
    agent.child.stdin.flush()
    until(lambda: slept(ledger, agent.id, ledger.done))
    before = ledger.done
    assert slept(ledger, agent.id, before)
    go.write_text("1\n")
    until(lambda: not gone.exists())
    assert not slept(ledger, agent.id, before)
    end.write_text("2\n")
    assert agent.child.stdout is not None
    agent.child.stdout.readline()
    assert not slept(ledger, agent.id, before)


def test_who_starts_runs_or_ends_between_two_looks_did_not_sleep() -> None:
    acts: dict[str, Callable[[Kernel, Process, Process, Process], object]] = {
        "nothing": lambda *_: None,
        "the agent itself": lambda kernel, root, *_: kernel.write(root, 9),
        "runs": lambda kernel, _, shell, __: kernel.act(shell),
        "runs on": lambda kernel, _, __, command: kernel.write(command, 1),
        "starts": lambda kernel, root, *_: kernel.start(root.pid),
        "ends": lambda kernel, _, __, command: kernel.end(command),
        "came and went": came_and_went,
    }
    for name, act in acts.items():
        kernel = Kernel()
        members = family(kernel)
        ledger = counted(kernel, members[0])
        if name == "runs on":  # it has a processor all the time
            kernel.stays_awake = lambda: True
            kernel.act(members[2])
            ledger.look()
        before = ledger.done
        act(kernel, *members)
        is_idle = name in ("nothing", "the agent itself")
        assert slept(ledger, members[0].id, before) is is_idle, name


def came_and_went(kernel: Kernel, root: Process, *_: Process) -> None:
    child = kernel.start(root.pid)
    kernel.end(child)
    kernel.wait(root)


def test_a_process_with_threads_may_run_though_its_first_one_sleeps(
    agent: Agent, ledger: ByteLedger
) -> None:
    program = "import threading, time; "
    program += "threading.Thread(target=lambda: time.sleep(9)).start(); print(); "
    program += "time.sleep(9)"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        started = process_start(child.pid)
        assert started is not None
        ledger.adopt(agent.id, [ProcessId(child.pid, started)])
        ledger.look()
        assert not slept(ledger, agent.id, ledger.done)
        child.kill()


def test_what_slept_is_not_read_again() -> None:
    kernel = Kernel()
    root, _, command = family(kernel)
    ledger = counted(kernel, root)
    kernel.reads = 0
    ledger.look()
    unchanged = kernel.reads
    kernel.act(command)
    kernel.reads = 0
    ledger.look()
    assert unchanged < kernel.reads
    kernel.write(command, 100)
    assert below(ledger, root) == 100


def test_orphan_that_a_sleeping_process_adopts_is_counted() -> None:
    kernel = Kernel()
    root, shell, command = family(kernel)
    shell.adopts = True
    ledger = counted(kernel, root)
    orphan = kernel.start(command.pid)
    kernel.end(command)
    for _ in range(3):
        ledger.look()
    settle(ledger, 2)
    kernel.write(orphan, 100)
    ledger.look()
    found = ledger.most(root.id, needs(b"", b"", 2))
    assert found is not None
    assert found.below.written == 100


# Between which looks something was written


def test_only_what_was_written_after_the_look_before_a_hint_counts() -> None:
    kernel = Kernel()
    root, _, command = family(kernel)
    ledger = counted(kernel, root)
    kernel.write(command, 500)
    ledger.look()
    before = ledger.done
    kernel.write(command, 20)
    ledger.look()
    kernel.write(command, 700)
    ledger.look()
    wanted = needs(b"", b"x" * 100, 1)
    span = CountSpan(before, before + 1, by_call=True)
    found = ledger.most(root.id, wanted, span)
    assert found is not None
    assert found.below.written == 20
    assert excludes(found.below, wanted, EXT4)
    unhinted = ledger.most(root.id, wanted, span._replace(by_call=False))
    assert unhinted is not None
    assert unhinted.below.written == 520


def test_what_ran_at_the_look_before_a_hint_may_be_in_the_midst_of_its_write() -> None:
    kernel = Kernel()
    root, _, command = family(kernel)
    ledger = counted(kernel, root)
    kernel.stays_awake = lambda: True
    kernel.write(command, 500)  # counted, but the hint is still to come
    ledger.look()
    before = ledger.done
    ledger.look()
    found = ledger.most(
        root.id, needs(b"", b"x" * 100, 1), CountSpan(before, before + 1, by_call=True)
    )
    assert found is not None
    assert found.below.written == found.whole.written == 500


def test_a_look_that_began_before_a_stamp_does_not_cover_it() -> None:
    kernel = Kernel()
    root, *_ = family(kernel)
    clock = Ticks()
    ledger = ByteLedger(clock, kernel)
    ledger.watch(root.id)
    ledger.look()
    began_ns = clock.now_ns()
    ledger.look()
    assert ledger.covers(CountSpan(1, 2, ctime_ns=began_ns))
    assert not ledger.covers(CountSpan(1, 3, ctime_ns=began_ns))
    assert not ledger.covers(CountSpan(1, 2, ctime_ns=began_ns + 1))
    clock.tolerance_ns = 1  # a stamp may be older than what it stamps
    assert not ledger.covers(CountSpan(1, 2, ctime_ns=began_ns))
    assert ledger.covers(CountSpan(1, 2))


# What the kernel itself hides

_LOOK = """
import sys
from gitshadow.attribution.ledger import ByteLedger, needs
from gitshadow.attribution.process import ProcessId
from gitshadow.platform import current
from gitshadow.platform.linux.processes import ProcFiles
from gitshadow.store.clock import EpochClock

class Ticks(EpochClock):
    at_ns, tolerance_ns = 0, 0
    def __init__(self): pass
    def now_ns(self): self.at_ns += 1; return self.at_ns

own = current().process_facts().own
root = ProcessId(int(sys.argv[1]), int(sys.argv[2]))
ledger = ByteLedger(Ticks(), ProcFiles())
ledger.watch(root)
ledger.begin_barrier()
ledger.settled(1)
ledger.look()
print(ledger.most(root, needs(b"", b"", 1)), [one.id for one in own() if one.id == root])
"""


@pytest.mark.parametrize(
    "words",
    [
        # proc(5): another user's processes are invisible.
        (
            *("unshare", "--mount", "--propagation", "private", "sh", "-c"),
            'mount -t proc -o hidepid=invisible proc /proc && exec "$@"',
            *("sh", "setpriv", "--reuid", "65534", "--clear-groups"),
        ),
        # pid_namespaces(7): the same number is nobody, or another process.
        ("unshare", "--pid", "--fork", "--mount-proc"),
    ],
    ids=["hidepid", "pid namespace"],
)
def test_nothing_is_known_of_processes_that_the_kernel_hides(
    agent: Agent, words: Sequence[str]
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may hide processes")
    arguments = (str(agent.id.pid), str(agent.id.started))
    done = subprocess.run(
        [*words, sys.executable, "-c", _LOOK, *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    if "not permitted" in done.stderr or "Permission denied" in done.stderr:
        pytest.skip(f"this machine lets nobody hide processes: {done.stderr}")
    assert done.stdout == "None []\n", done
