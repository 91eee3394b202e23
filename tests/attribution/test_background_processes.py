"""Which living processes are left over from a call."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gitshadow.attribution.process import AgentProcess, Living, ProcessId
from gitshadow.attribution.process_evidence import (
    guessed_id,
    is_guessed,
    outliving,
    without_hooks,
)
from gitshadow.attribution.windows import ProcessHint
from gitshadow.model import Actor, Call, Session, ToolClass
from gitshadow.store.journal import turns
from gitshadow.store.journal.db import Db

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
