"""Which living processes are left over from a call."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gitshadow.attribution.native_ids import guessed_id, is_guessed
from gitshadow.attribution.process import (
    AgentProcess,
    Living,
    ProcessId,
    process_start,
)
from gitshadow.attribution.process_evidence import (
    Leftovers,
    outliving,
    without_hooks,
)
from gitshadow.attribution.windows import ProcessHint
from gitshadow.model import Actor, Call, Session, ToolClass
from gitshadow.store.journal import turns
from gitshadow.store.journal.db import Db
from tests.support.waiting import until

S = 1_000_000_000


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Db]:
    journal = Db.open(str(tmp_path / "journal.db"), create=True)
    with journal.write():
        turns.open_call(journal, window("shell", 10, 20, ToolClass.SHELL))
        turns.open_call(journal, window("edit", 30, 40, ToolClass.WRITE))
        turns.open_call(journal, window("open", 50, None, ToolClass.SHELL))
    yield journal
    journal.close()


def window(name: str, opened: int, closed: int | None, kind: ToolClass) -> Call:
    return Call(
        id=name,
        session="s1",
        turn="t1",
        tool=name,
        tool_class=kind,
        opened_ns=opened * S,
        closed_ns=None if closed is None else closed * S,
    )


def process(started: int, session: str = "s1") -> Living:
    return Living(ProcessId(7, 1), (session,), (session,), "sleep", started * S)


@pytest.mark.parametrize(
    ("living", "expected"),
    [
        (process(15), (ProcessHint(7, "s1", "sleep", "t1"),)),
        (process(5), ()),
        (process(35), ()),
        (process(55), ()),
        (process(15, "s2"), ()),
    ],
    ids=["left-over", "server", "file-tool", "still-open", "another-session"],
)
def test_process_is_left_over_when_a_shell_call_that_ended_started_it(
    db: Db, living: Living, expected: tuple[ProcessHint, ...]
) -> None:
    """ATT-17: not the servers that an agent keeps for itself."""
    assert outliving(db, [living], 60 * S) == expected


def test_all_are_named_when_a_left_over_process_may_be_of_two_sessions(db: Db) -> None:
    both = ("s1", "s2")
    living = Living(ProcessId(7, 1), both, both, "sleep", 15 * S)
    found = outliving(db, [living], 60 * S)
    assert [one.session for one in found] == ["s1", "s2"]


# What is left running


class Left:
    """A shell that a call left running, and what is known of it; `say` has it run a line."""

    def __init__(self, db: Db) -> None:
        self.shell = subprocess.Popen(
            ["sh", "-s"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        started = process_start(self.shell.pid)
        assert started is not None
        self.id = ProcessId(self.shell.pid, started)
        self.known = Leftovers()
        living = Living(self.id, ("s1",), ("s1",), "sh", 15 * S)
        self.known.note(db, [living], 60 * S)
        self.say("true")

    def say(self, line: str) -> None:
        assert self.shell.stdin is not None
        assert self.shell.stdout is not None
        self.shell.stdin.write(f"{line}; echo done\n")
        self.shell.stdin.flush()
        assert self.shell.stdout.readline() == "done\n"

    def end(self) -> None:
        self.shell.kill()
        self.shell.communicate()

    def pids_at(self, moment_s: float, *, writes_bytes: bool = True) -> list[int]:
        found = self.known.at(round(moment_s * S), writes_bytes=writes_bytes)
        return [one.pid for one in found]


@pytest.fixture
def left(db: Db) -> Iterator[Left]:
    made = Left(db)
    yield made
    made.end()


def at(moment_s: float) -> Callable[[], int]:
    return lambda: round(moment_s * S)


def test_leftover_may_have_written_until_it_ended(left: Left) -> None:
    """ATT-17: a command writes last and ends before anybody looks."""
    left.known.look(at(70))
    left.say("true")
    left.end()
    left.known.look(time.time_ns)
    now_s = time.time_ns() / S
    assert left.pids_at(now_s - 60) == [left.id.pid]
    assert left.pids_at(now_s + 1) == []


def test_leftover_that_wrote_nothing_since_did_not_write_the_file(left: Left) -> None:
    left.known.look(at(70))
    left.known.look(at(72))
    assert left.pids_at(71) == []
    left.say("true")
    left.known.look(at(74))
    assert left.pids_at(73) == [left.id.pid]


def test_leftover_that_ran_may_have_changed_something_without_a_byte(
    left: Left, tmp_path: Path
) -> None:
    left.known.look(at(70))
    assert left.shell.stdin is not None
    left.shell.stdin.write(f"cd {tmp_path}; >made\n")
    left.shell.stdin.flush()
    until((tmp_path / "made").exists)
    left.known.look(at(72))
    assert left.pids_at(71, writes_bytes=False) == [left.id.pid]
    assert left.pids_at(71) == []


def test_child_of_a_leftover_is_one_too(left: Left) -> None:
    left.known.look(at(70))
    left.say("sleep 60 >&2 & echo $! >&2")
    left.known.look(at(72))
    (child,) = set(left.pids_at(71)) - {left.id.pid}
    assert left.known.at(71 * S, writes_bytes=True)[-1].turn == "t1"
    os.kill(child, signal.SIGKILL)


# Agents without hooks


@pytest.fixture
def root(tmp_path: Path) -> str:
    """Return a worktree with another one inside it."""
    for place in (tmp_path / "repo", tmp_path / "repo" / "inner"):
        (place / ".git").mkdir(parents=True)
        (place / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (tmp_path / "repo" / "src").mkdir()
    return str(tmp_path / "repo")


def at_work(cwd: str, agent: str | None = "aider", pid: int = 7) -> AgentProcess:
    return AgentProcess(ProcessId(pid, 1), agent, cwd, 10 * S)


def session(native: str) -> Session:
    return Session(
        id=native, native_id=native, actor=Actor.AGENT, agent="aider", started_ns=0
    )


@pytest.mark.parametrize("below", ["", "/src"])
def test_agent_without_hooks_is_found_when_it_alone_stands_in_the_worktree(
    root: str, below: str
) -> None:
    mine = at_work(root + below)
    others = [at_work("/", pid=8), at_work(root + "/inner", pid=9)]
    others.append(at_work(root + "x", pid=10))
    guessed = session(guessed_id(mine.id))
    assert is_guessed(guessed)
    assert without_hooks([mine, *others], [guessed], root, 20 * S) == mine


def test_nobody_is_found_when_another_agent_or_an_editor_stands_there_too(
    root: str,
) -> None:
    for other in (at_work(root, "codex", pid=8), at_work(root, None, pid=8)):
        assert without_hooks([at_work(root), other], [], root, 20 * S) is None


def test_nobody_is_found_when_an_editor_is_alone(root: str) -> None:
    assert without_hooks([at_work(root, None)], [], root, 20 * S) is None


def test_nobody_is_found_when_a_hook_has_told_of_a_session(root: str) -> None:
    live = [session("told")]
    assert without_hooks([at_work(root)], live, root, 20 * S) is None


def test_nobody_is_found_when_the_agent_began_after_the_write(root: str) -> None:
    assert without_hooks([at_work(root)], [], root, 10 * S) is None
