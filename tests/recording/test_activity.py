"""What agents' processes did between two looks: real ones, and those of a restless kernel."""

import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitshadow.attribution.process import ProcessId, process_start
from gitshadow.attribution.process_evidence import Did, ProcessTree
from gitshadow.platform.linux.processes import ProcFiles
from gitshadow.platform.port import Counts, FileSystem
from gitshadow.recording.activity import Needed, bytes_needed
from tests.attribution.test_process_activity import Agent
from tests.support.kernel import Kernel, Process
from tests.support.waiting import until


class Ticks:
    """A clock that goes on by one at each question."""

    tolerance_ns = 0

    def __init__(self) -> None:
        self.at_ns = 0

    def now_ns(self) -> int:
        self.at_ns += 1
        return self.at_ns


class Looks:
    """Looks at one tree, the first one when it is made; `first` is the number to compare with."""

    def __init__(self, root: ProcessId, counters: ProcFiles) -> None:
        self.tree = ProcessTree(root, counters)
        self.number = 0
        self.clock = Ticks()
        self.first = self.look()

    def look(self) -> int:
        """Look once; return the number of the look."""
        self.number += 1
        self.tree.look(self.number, self.clock)
        return self.number

    def settle(self) -> None:
        """Compare with what is the case now."""
        self.first = self.look()

    def did(self, first: int | None = None) -> Did | None:
        """Look again and return what was done, None if one of the looks failed."""
        wanted = (self.first if first is None else first, self.look())
        by_number = {one.number: one for one in self.tree.looks}
        if not by_number.keys() >= set(wanted):
            return None
        found = self.tree.did(*(by_number[one] for one in wanted))
        return found if found.whole is not None or found.slept else None


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
    assert bytes_needed(old, bytes(now)) <= spent


def test_what_a_write_needs_is_what_differs() -> None:
    assert bytes_needed(b"", b"abc") == 3
    assert bytes_needed(b"abc", b"abcdef") == 3
    assert bytes_needed(b"abc", b"axc") == 1
    assert bytes_needed(b"abc", b"") == 0
    assert bytes_needed(b"", bytes(5000)) == 0


def test_who_wrote_less_did_not_make_a_change() -> None:
    assert Needed(100).is_more_than(Counts(99, 4096))
    assert not Needed(100).is_more_than(Counts(100, 0))
    # They wrote enough, but into no file: to a terminal or a pipe.
    assert Needed(100, 4096).is_more_than(Counts(9999, 0))
    assert not Needed(100, 4096).is_more_than(Counts(9999, 4096))
    assert not Needed().is_more_than(Counts())
    assert not Needed(100).is_more_than(None)


def test_file_systems_are_told_apart() -> None:
    kernel = Kernel()
    kernel.mounts = (
        b"25 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"
        b"26 25 0:30 / /tmp rw - tmpfs tmpfs rw\n"
        b"27 25 0:44 / /home rw master:2 - btrfs /dev/vdb rw\n"
        b"28 25 8:1 / /a rw - ext4 /dev/sda1 rw,data=journal\n"
        b"29 25 8:2 / /b rw - ext4 /dev/pmem0 rw,dax=always\n"
        b"30 25 8:3 / /c rw - ext4 /dev/sda3 rw,data=ordered\n"
    )
    known = {
        (254, 0): FileSystem(counts_copies=True, counts_pages=True),
        (0, 30): FileSystem(counts_copies=True),
        (0, 44): FileSystem(),
        (8, 1): FileSystem(counts_copies=True),
        (8, 2): FileSystem(counts_copies=True),
        (8, 3): FileSystem(counts_copies=True, counts_pages=True),
        (9, 9): FileSystem(),
    }
    assert {one: kernel.file_system(os.makedev(*one)) for one in known} == known


# Real processes


@pytest.fixture
def agent() -> Iterator[Agent]:
    made = Agent()
    with made.child:
        yield made


@pytest.fixture
def looks(agent: Agent) -> Iterator[Looks]:
    counters = ProcFiles()
    yield Looks(agent.id, counters)
    counters.keep(())


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
    agent: Agent, looks: Looks, tmp_path: Path, command: str
) -> None:
    agent.say(command.format(tmp_path / "made"))
    found = looks.did()
    assert found is not None
    assert not found.slept
    assert found.below is not None
    assert found.below.written >= (tmp_path / "made").stat().st_size == 5000


def test_an_agent_that_writes_nothing_is_counted_with_nothing(
    agent: Agent, looks: Looks, tmp_path: Path
) -> None:
    agent.say("head -c 5000 /dev/urandom > /dev/null")
    looks.settle()
    (tmp_path / "mine").write_bytes(b"x" * 5000)
    assert looks.did() == Did(Counts(), Counts(), slept=True)


@pytest.mark.parametrize("redirection", ["| cat > /dev/null", "> {}"])
def test_what_a_shell_prints_makes_no_page_dirty(
    agent: Agent, looks: Looks, tmp_path: Path, redirection: str
) -> None:
    if not ProcFiles().file_system(tmp_path.stat().st_dev).counts_pages:
        pytest.skip("the file system of temporary files does not count dirty pages")
    (tmp_path / "made").write_bytes(b"x")  # the directory is not to become longer
    looks.settle()
    agent.say(f"head -c 5000 /dev/urandom {redirection.format(tmp_path / 'made')}")
    found = looks.did()
    assert found is not None
    assert found.below is not None
    assert found.below.written >= 5000
    assert (found.below.dirtied >= 8192) is (redirection == "> {}")
    assert (found.below.dirtied == 0) is (redirection != "> {}")


def test_what_the_agent_prints_itself_is_not_below_it(
    agent: Agent, looks: Looks
) -> None:
    agent.say("true")
    found = looks.did()
    assert found is not None
    assert found.below == Counts()
    assert found.whole == Counts(len("done\n"))


def test_a_process_that_its_parent_left_is_counted_while_it_lives(
    agent: Agent, looks: Looks, tmp_path: Path
) -> None:
    go, end, done = tmp_path / "go", tmp_path / "end", tmp_path / "done"
    agent.say(f"mkfifo {go} {end}")
    # The shell in between waits until it was looked at, then ends before the one below it.
    agent.say(f"(sh -c 'read x < {go}; echo written > {done}; read x < {end}' &)")
    (left,) = _reading(go)
    looks.tree.known += (left,)
    looks.settle()
    go.write_text("1\n")
    until(lambda: done.exists() and done.stat().st_size > 0)
    found: list[int] = []

    def is_counted() -> bool:
        # The kernel counts a write after it has made it.
        did = looks.did()
        found.append(did.below.written if did and did.below else 0)
        return found[-1] >= len("written\n")

    until(is_counted)
    end.write_text("2\n")
    until(lambda: not os.path.exists(f"/proc/{left.pid}"))
    # What it did at last is in no count, so nothing before is known.
    assert looks.did() is None


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
        looks = Looks(world.root.id, world.kernel)
        before = world.total
        for _ in range(chance.randrange(20)):
            world.step()
        written = world.total - before
        found = looks.did()
        if found is not None and found.whole is not None:
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
    looks = Looks(world.root.id, kernel)
    before, there = world.total, set(kernel.processes)
    # Nobody that was counted before ends: then the bound is exact.
    world.steps = iter([one for one in between if one % 5 in (1, 2)])
    for _ in between:
        world.step()
    found = looks.did()
    assert found is not None or len(kernel.processes) > 256
    assert there <= set(kernel.processes)
    if found is not None and found.whole is not None:
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


def below(looks: Looks, first: int | None = None) -> int | None:
    found = looks.did(first)
    return None if found is None or found.below is None else found.below.written


@pytest.mark.parametrize("number", range(1, 40))
@pytest.mark.parametrize("is_first", [True, False])
def test_whatever_happens_in_a_look_no_write_is_missed(
    number: int, is_first: bool
) -> None:
    for what in range(4):
        kernel = Kernel()
        root, shell, command = family(kernel)

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
        looks = Looks(root.id, kernel)
        kernel.go_on = lambda: None
        writer = next(one for one in (command, shell, root) if not one.ended)
        kernel.write(writer, 100)
        if not is_first:
            at_read(kernel, number, act)
        found = below(looks)
        if writer is not root:
            assert found is None or found >= 100, (what, found)


def test_a_tree_of_thousands_is_given_up_soon() -> None:
    kernel = Kernel()
    root, shell, _ = family(kernel)
    looks = Looks(root.id, kernel)
    for _ in range(2000):
        kernel.start(shell.pid)
    kernel.reads = 0
    assert looks.did() is None
    assert kernel.reads < 5000


def test_a_process_that_is_hidden_leaves_the_bound_unknown() -> None:
    kernel = Kernel()
    root, _, command = family(kernel)
    looks = Looks(root.id, kernel)
    assert below(looks) == 0
    kernel.hidden.add(command.pid)  # as with hidepid, or for a program with more rights
    assert looks.did() is None
    kernel.hidden.add(root.pid)
    assert looks.did() is None


def test_a_pid_that_is_given_again_is_another_process() -> None:
    kernel = Kernel()
    root, shell, command = family(kernel)
    kernel.write(command, 900)
    looks = Looks(root.id, kernel)
    kernel.end(command)
    kernel.wait(shell)
    again = kernel.start(shell.pid, command.pid)
    kernel.write(again, 100)
    found = below(looks)
    assert found is not None
    assert found >= 100
    for one in (again, shell):
        kernel.end(one)
        kernel.wait(shell if one is again else root)
    kernel.end(root)
    kernel.write(kernel.start(pid=root.pid), 50)
    assert looks.did() is None


def test_a_counter_that_goes_back_leaves_the_bound_unknown() -> None:
    kernel = Kernel()
    root, shell, command = family(kernel)
    kernel.write(command, 900)
    looks = Looks(root.id, kernel)
    kernel.act(command)
    command.own = command.own._replace(written=100)
    kernel.write(shell, 100)
    assert looks.did() is None


@pytest.mark.parametrize("reaps", [False, True])
def test_a_child_that_nobody_waited_for_hides_only_what_it_wrote_itself(
    reaps: bool,
) -> None:
    kernel = Kernel()
    root, shell, command = family(kernel)
    looks = Looks(root.id, kernel)
    kernel.write(command, 100)
    kernel.end(command)
    written = below(looks)
    assert written is not None
    assert written > 100
    looks.settle()
    kernel.write(shell, 7)
    if reaps:
        kernel.wait(shell)
    assert below(looks) == (107 if reaps else 7)


# Who slept


def slept(looks: Looks, first: int) -> bool:
    found = looks.did(first)
    return found is not None and found.slept


def test_a_child_that_nobody_waited_for_sleeps() -> None:
    kernel = Kernel()
    root, shell, command = family(kernel)
    looks = Looks(root.id, kernel)
    kernel.end(command)
    assert not slept(looks, looks.number)
    # What it left gets its new parents while it ends.
    assert not slept(looks, looks.number)
    assert slept(looks, looks.number)
    kernel.act(shell)
    assert not slept(looks, looks.number)


def test_a_shell_that_waits_slept_and_one_that_runs_did_not(
    agent: Agent, looks: Looks, tmp_path: Path
) -> None:
    go, end, gone = tmp_path / "go", tmp_path / "end", tmp_path / "gone"
    agent.say(f"mkfifo {go} {end}")
    gone.touch()
    line = f"read x < {go}; rm {gone}; read x < {end}"
    assert agent.child.stdin is not None
    agent.child.stdin.write(f"{line}\n")
    agent.child.stdin.flush()
    until(lambda: slept(looks, looks.number))
    before = looks.number
    assert slept(looks, before)
    go.write_text("1\n")
    until(lambda: not gone.exists())
    assert not slept(looks, before)
    end.write_text("2\n")
    assert agent.child.stdout is not None
    agent.child.stdout.readline()
    assert not slept(looks, before)


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
        looks = Looks(members[0].id, kernel)
        if name == "runs on":  # it has a processor all the time
            kernel.stays_awake = lambda: True
            kernel.act(members[2])
            looks.look()
        before = looks.number
        act(kernel, *members)
        is_idle = name in ("nothing", "the agent itself")
        assert slept(looks, before) is is_idle, name


def came_and_went(kernel: Kernel, root: Process, *_: Process) -> None:
    child = kernel.start(root.pid)
    kernel.execute(child)
    kernel.end(child)
    kernel.wait(root)


@pytest.mark.parametrize("after", range(20))
def test_who_is_waited_for_during_a_look_was_not_asleep(after: int) -> None:
    """It is among the children, or the agent has its faults: whatever of both is read first."""
    kernel = Kernel()
    root, *_ = family(kernel)
    looks = Looks(root.id, kernel)
    before = looks.number
    child = kernel.start(root.pid)
    kernel.write(child, 100)
    answers = iter(range(after + 1))

    def end_it() -> None:
        if next(answers, None) == after:
            kernel.end(child)
            kernel.wait(root)

    kernel.go_on = end_it
    assert not slept(looks, before)


@pytest.mark.parametrize("runs", [False, True])
def test_a_process_with_threads_slept_if_all_of_them_did(
    agent: Agent, looks: Looks, runs: bool
) -> None:
    pause = "time.sleep(0.001)" if runs else "time.sleep(60)"
    program = "import threading, time\ndef work():\n  while True: "
    program += f"{pause}\nthreading.Thread(target=work, daemon=True).start()\n"
    program += "print(flush=True)\ntime.sleep(60)"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        started = process_start(child.pid)
        assert started is not None
        looks.tree.known += (ProcessId(child.pid, started),)
        if runs:
            looks.look()
            before = looks.number
            until(lambda: not slept(looks, before))
        else:
            until(lambda: slept(looks, looks.look()))
        child.kill()


def test_what_slept_is_not_read_again() -> None:
    kernel = Kernel()
    root, _, command = family(kernel)
    looks = Looks(root.id, kernel)
    kernel.reads = 0
    looks.look()
    unchanged = kernel.reads
    kernel.act(command)
    kernel.reads = 0
    looks.look()
    assert unchanged < kernel.reads
    kernel.write(command, 100)
    assert below(looks) == 100


def test_orphan_that_a_sleeping_process_adopts_is_counted() -> None:
    kernel = Kernel()
    root, shell, command = family(kernel)
    shell.adopts = True
    looks = Looks(root.id, kernel)
    orphan = kernel.start(command.pid)
    kernel.end(command)
    for _ in range(3):
        looks.look()
    looks.settle()
    kernel.write(orphan, 100)
    assert below(looks) == 100


def test_only_what_was_written_between_two_looks_counts() -> None:
    kernel = Kernel()
    root, _, command = family(kernel)
    looks = Looks(root.id, kernel)
    kernel.write(command, 500)
    before = looks.look()
    kernel.write(command, 20)
    assert below(looks, before) == 20
    assert below(looks) == 520


# What the kernel itself hides

_LOOK = """
import sys
from gitshadow.platform import current
from gitshadow.platform.linux.processes import ProcFiles
from gitshadow.platform.port import ProcessId
from gitshadow.attribution.process_evidence import ProcessTree

class Ticks:
    at_ns, tolerance_ns = 0, 0
    def now_ns(self): self.at_ns += 1; return self.at_ns

own = current().process_facts().own
root = ProcessId(int(sys.argv[1]), int(sys.argv[2]))
tree = ProcessTree(root, ProcFiles())
tree.look(1, Ticks())
print(list(tree.looks), [one.id for one in own() if one.id == root])
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
    assert done.stdout == "[] []\n", done
