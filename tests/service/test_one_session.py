"""Whose rows are when subagents work in the background, in the session of their parent."""

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from gitshadow.attribution.process import ProcessId, process_start, started_ns
from gitshadow.recording.context import RecorderContext
from gitshadow.store.journal import sessions, turns
from tests.service.test_windows import rows, seen, tell, told
from tests.support.context import desk_of
from tests.support.repo import Repo
from tests.support.waiting import until


@pytest.fixture
def context(repo: Repo) -> Iterator[RecorderContext]:
    with desk_of(repo) as context:
        yield context


class Kimi:
    """Kimi Code, whose process is that of the test."""

    def __init__(self, context: RecorderContext) -> None:
        self._context = context
        self._me = ProcessId(os.getpid(), process_start(os.getpid()) or 0)

    def send(self, event: str, **fields: object) -> None:
        names = {"hook_event_name": event, "session_id": "session_1"}
        tell(self._context, "kimi", {**names, **fields}, pids=(self._me,))

    def begin(self, call: str, tool: str = "Bash", **given: object) -> None:
        self._tool("PreToolUse", call, tool, given)

    def end(self, call: str, tool: str = "Bash", **given: object) -> None:
        self._tool("PostToolUse", call, tool, given)

    def _tool(self, event: str, call: str, tool: str, given: object) -> None:
        self.send(event, tool_name=tool, tool_call_id=call, tool_input=given)

    def prompt(self, text: str) -> None:
        self.send("UserPromptSubmit", prompt=text)

    def start_subagent(self) -> None:
        self.begin("agent", "Agent", run_in_background=True)
        self.end("agent", "Agent", run_in_background=True)

    @property
    def open_calls(self) -> list[str]:
        db = self._context.workspace.db
        session = sessions.find_native(db, "kimi", "session_1")
        assert session is not None
        return [call.id for call in turns.open_calls(db, session.id)]

    def prompts(self, path: str) -> list[str | None]:
        """Return the prompts of the turns that wrote a path."""
        db = self._context.workspace.db
        found: list[str | None] = []
        for row in rows(self._context, path):
            turn = row.attribution.turn or ""
            known = turns.get_turn(db, row.attribution.session, turn)
            found.append(None if known is None else known.prompt)
        return found


@pytest.fixture
def kimi(context: RecorderContext) -> Kimi:
    return Kimi(context)


@contextmanager
def shell() -> Iterator[None]:
    """Run a shell below the agent."""
    with subprocess.Popen(["sh", "-c", "read line"], stdin=subprocess.PIPE) as started:
        process = ProcessId(started.pid, process_start(started.pid) or 0)
        # Start times are as inexact as two ticks of the clock.
        until(lambda: time.time_ns() > started_ns(process) + 100_000_000)
        yield


def test_a_subagents_shell_that_runs_goes_on_when_its_parent_stops(
    context: RecorderContext, repo: Repo, kimi: Kimi
) -> None:
    kimi.prompt("Do it")
    kimi.start_subagent()
    kimi.begin("sub")
    with shell():
        kimi.begin("own", "Write", path="parent.txt", content="x\n")
        kimi.end("own", "Write", path="parent.txt", content="x\n")
        kimi.send("Stop")
        assert kimi.open_calls == ["sub"]
        seen(context, repo, "subsh.txt", "s\n")
        (row,) = rows(context, "subsh.txt")
        assert told(row) == ("medium", "sub")
    kimi.end("sub")
    kimi.begin("file", "Write", path="sub.txt", content="y\n")
    seen(context, repo, "sub.txt", "y\n")
    kimi.end("file", "Write", path="sub.txt", content="y\n")
    kimi.send("Stop")
    assert kimi.open_calls == []
    (row,) = rows(context, "sub.txt")
    assert told(row) == ("certain", "file")
    assert kimi.prompts("subsh.txt") + kimi.prompts("sub.txt") == ["Do it", "Do it"]


def test_the_stop_of_a_subagent_ends_its_call_whose_end_was_not_reported(
    context: RecorderContext, repo: Repo, kimi: Kimi
) -> None:
    kimi.prompt("Do it")
    kimi.start_subagent()
    kimi.begin("sub")
    with shell():
        kimi.send("Stop")
        assert kimi.open_calls == ["sub"]
    kimi.send("Stop")
    assert kimi.open_calls == []
    seen(context, repo, "mine.txt", "by a person\n")
    assert told(rows(context, "mine.txt")[0]) == ("unknown", None)


def test_a_call_whose_end_was_not_reported_ends_with_the_stop(
    context: RecorderContext, repo: Repo, kimi: Kimi
) -> None:
    kimi.prompt("Do it")
    kimi.start_subagent()
    kimi.begin("killed")
    kimi.begin("sub")
    with shell():
        kimi.begin("file", "Write", path="mine.txt", content="x\n")
        kimi.send("Stop")
    assert kimi.open_calls == ["sub"]
    seen(context, repo, "mine.txt", "by a person\n")
    assert told(rows(context, "mine.txt")[0])[1] != "file"


def test_nothing_is_open_after_the_stop_when_no_shell_runs(
    context: RecorderContext, repo: Repo, kimi: Kimi
) -> None:
    kimi.prompt("Do it")
    kimi.start_subagent()
    kimi.begin("killed")
    kimi.send("Stop")
    assert kimi.open_calls == []
    seen(context, repo, "mine.txt", "by a person\n")
    assert told(rows(context, "mine.txt")[0]) == ("unknown", None)


def test_no_call_outlives_the_stop_of_a_session_without_subagents(kimi: Kimi) -> None:
    kimi.prompt("Do it")
    kimi.begin("left")
    with shell():
        kimi.send("Stop")
    assert kimi.open_calls == []


@pytest.mark.parametrize("after", ["Stop", "UserPromptSubmit"])
def test_a_reported_end_shows_that_a_subagents_call_went_on(
    context: RecorderContext, repo: Repo, kimi: Kimi, after: str
) -> None:
    kimi.prompt("Do it")
    kimi.start_subagent()
    kimi.begin("sub", "Write", path="sub.txt", content="y\n")
    kimi.send(after, **({} if after == "Stop" else {"prompt": "And now?"}))
    seen(context, repo, "sub.txt", "y\n")
    assert told(rows(context, "sub.txt")[0])[1] is None
    kimi.end("sub", "Write", path="sub.txt", content="y\n")
    assert told(rows(context, "sub.txt")[0]) == ("certain", "sub")
    seen(context, repo, "sub.txt", "by a person\n")
    assert told(rows(context, "sub.txt")[-1])[1] is None


def test_a_late_end_of_a_call_lengthens_nothing_without_subagents(
    context: RecorderContext, repo: Repo, kimi: Kimi
) -> None:
    kimi.prompt("Do it")
    kimi.begin("own", "Write", path="a", content="y\n")
    kimi.send("Stop")
    seen(context, repo, "a", "by a person\n")
    kimi.end("own", "Write", path="a", content="y\n")
    assert told(rows(context, "a")[-1]) == ("unknown", None)
