"""Ends that agents tell in their own way, or not at all: what they do to windows."""

import json
import os
from pathlib import Path

import pytest

from gitshadow.adapters import registry
from gitshadow.adapters.base import HookEvent
from gitshadow.attribution import lifecycle
from gitshadow.attribution.delivery import reach
from gitshadow.attribution.intake import EventSource, Intake, apply
from gitshadow.attribution.ladder import attribute
from gitshadow.attribution.lifecycle import close_gone, close_written
from gitshadow.attribution.process import ProcessId, process_start
from gitshadow.attribution.windows import Evidence, Scene
from gitshadow.model import Actor, Attribution, Call, Confidence, RepoPath, Session
from gitshadow.store.journal import sessions, turns
from gitshadow.store.journal.db import Db

MS = 1_000_000
START = 1_800_000_000_000_000_000


class HookIntake:
    """Deliver payloads of any agent to a journal at chosen moments, in milliseconds."""

    def __init__(self, db: Db, root: str, agent: str) -> None:
        self.db, self.agent = db, agent
        self.root = root
        self.place = EventSource("main")

    def send(self, moment_ms: int, **payload: object) -> Intake:
        names = {"session_id": "s", "cwd": self.root}
        raw = json.dumps({**names, **payload}).encode()
        event = registry.parse(self.agent, raw, {})
        assert isinstance(event, HookEvent), event
        around = reach(event, self.root)
        return apply(self.db, event, START + moment_ms * MS, around, self.place)

    def session(self, native: str = "s") -> Session:
        found = sessions.find_native(self.db, self.agent, native)
        assert found is not None
        return found

    def calls(self, native: str = "s") -> list[Call]:
        return list(turns.list_calls(self.db, self.session(native).id))

    def spans(self) -> list[tuple[int, int | None]]:
        return [
            (
                (call.opened_ns - START) // MS,
                None if call.closed_ns is None else (call.closed_ns - START) // MS,
            )
            for call in self.calls()
        ]

    def writer_of(self, path: str, moment_ms: int) -> str | None:
        """Return the call that the ladder names for a write at a moment."""
        at_ns = START + moment_ms * MS
        evidence = Evidence(path=RepoPath(path.encode()), begin_ns=at_ns, end_ns=at_ns)
        windows = tuple(turns.windows_between(self.db, at_ns, at_ns))
        return attribute(evidence, Scene(windows=windows)).call

    def spend(self, call: Call, moment_ms: int) -> int:
        who = Attribution(
            actor=Actor.AGENT,
            session=call.session,
            agent=self.agent,
            call=call.id,
            confidence=Confidence.CERTAIN,
            reason="x",
        )
        return close_written(self.db, [(START + moment_ms * MS, who)])


@pytest.fixture
def root(tmp_path: Path) -> str:
    made = tmp_path / "repo"
    made.mkdir()
    return os.path.realpath(made)


# Ends that name a step alone


def step(number: int, tool: str | None = None) -> dict[str, object]:
    call = {} if tool is None else {"toolCall": {"name": tool, "args": {}}}
    return {"conversationId": "s", "stepIdx": number, **call}


def test_end_of_a_step_closes_its_call(db: Db, root: str) -> None:
    context = HookIntake(db, root, "antigravity")
    context.send(0, **step(1, "run_command"))
    context.send(100, **step(1))
    (call,) = context.calls()
    assert (call.id, call.tool, call.outcome) == ("step-1", "run_command", "ok")
    assert context.spans() == [(0, 100)]


def test_end_of_an_unknown_step_makes_up_no_call(db: Db, root: str) -> None:
    context = HookIntake(db, root, "antigravity")
    context.send(0, **step(1, "view_file"))
    assert context.send(100, **step(1)).call is None
    assert context.calls() == []


# Ends of a turn that had no prompt


def test_end_of_a_turn_ends_a_call_that_no_prompt_came_before(
    db: Db, root: str
) -> None:
    """docs/hooks.md: else what a person writes there later would be the agent's."""
    context = HookIntake(db, root, "generic")
    context.send(0, event="before", session="s", call="c", paths=["a"])
    context.send(100, event="turn_end", session="s")
    assert context.spans() == [(0, 100)]
    assert context.writer_of("a", 200) is None


def test_end_of_an_earlier_turn_leaves_the_calls_of_a_later_one(
    db: Db, root: str
) -> None:
    context = HookIntake(db, root, "generic")
    context.send(0, event="prompt", session="s", turn="t1")
    context.send(10, event="prompt", session="s", turn="t2")
    context.send(20, event="before", session="s", call="c", paths=["a"])
    context.send(30, event="turn_end", session="s", turn="t1")
    assert context.spans() == [(20, None)]


# Files that are reported as saved


def saved(context: HookIntake, moment_ms: int) -> None:
    context.send(moment_ms, hook_event_name="PostFileSave", file_path="a")


def test_saved_file_is_a_call_that_ran_just_before(db: Db, root: str) -> None:
    context = HookIntake(db, root, "kiro")
    saved(context, 10_000)
    saved(context, 20_000)
    first, second = context.calls()
    assert context.spans() == [(8_000, 10_000), (18_000, 20_000)]
    assert context.writer_of("a", 9_990) == first.id
    assert context.writer_of("a", 19_990) == second.id == f"{first.id}~2"
    assert context.writer_of("a", 15_000) is None
    assert context.writer_of("b", 9_990) is None


def test_saved_file_is_one_call_when_it_is_told_twice(db: Db, root: str) -> None:
    context = HookIntake(db, root, "kiro")
    saved(context, 10_000)
    saved(context, 10_100)
    assert context.spans() == [(8_000, 10_000)]


def test_saved_file_ends_the_call_that_announced_it(db: Db, root: str) -> None:
    context = HookIntake(db, root, "kiro")
    tool = {"tool_name": "fs_write", "tool_input": {"path": "a"}}
    context.send(0, hook_event_name="PreToolUse", **tool)
    saved(context, 100)
    context.send(200, hook_event_name="PostToolUse", **tool)
    assert context.spans() == [(0, 100)]
    assert [call.tool for call in context.calls()] == ["fs_write"]


# Sessions that a call has started


def task(phase: str, **metadata: object) -> dict[str, object]:
    called = {"tool": "task", "sessionID": "s", "callID": "c", "args": {}}
    return {
        "hook": f"tool.execute.{phase}",
        "input": called,
        "output": {"metadata": metadata},
    }


def chat(session: str) -> dict[str, object]:
    return {"hook": "chat.message", "input": {"sessionID": session}}


def test_child_is_bound_to_the_session_whose_call_names_it(db: Db, root: str) -> None:
    context = HookIntake(db, root, "opencode")
    for moment_ms, session in enumerate(("s", "child")):
        context.send(moment_ms, **chat(session))
    context.send(10, **task("before"))
    context.send(20, **task("after", sessionId="child"))
    assert context.session("child").parent == context.session().id
    assert [call.outcome for call in context.calls()] == ["ok"]


@pytest.mark.parametrize("named", ["s", "nobody", "top"])
def test_child_is_not_bound_when_it_is_none(db: Db, root: str, named: str) -> None:
    context = HookIntake(db, root, "opencode")
    context.send(0, **chat("top"))
    context.send(1, **chat("s"), parentID="top")
    context.send(10, **task("after", sessionId=named))
    assert context.session("top").parent is None
    assert context.session("s").parent == context.session("top").id
    assert sessions.find_native(db, "opencode", "nobody") is None


# No ends at all


def crush(context: HookIntake, moment_ms: int, tool: str, **given: object) -> None:
    context.send(moment_ms, event="PreToolUse", tool_name=tool, tool_input=given)


def test_window_of_an_edit_ends_with_its_write(db: Db, root: str) -> None:
    context = HookIntake(db, root, "crush")
    crush(context, 0, "edit", file_path="a")
    (call,) = context.calls()
    assert context.spend(call, 1_000) == 1
    assert context.spend(call, 2_000) == 0
    assert context.spans() == [(0, 1_050)]
    assert context.calls()[0].outcome == lifecycle.ENDED_BY_WRITE
    assert context.writer_of("a", 1_000) == call.id
    assert context.writer_of("a", 60_000) is None


def test_window_of_a_shell_stays_until_the_next_event(db: Db, root: str) -> None:
    context = HookIntake(db, root, "crush")
    crush(context, 0, "bash", command="make")
    assert context.spend(context.calls()[0], 1_000) == 0
    crush(context, 5_000, "edit", file_path="a")
    assert context.spans() == [(0, 5_000), (5_000, None)]


def test_window_stays_open_for_an_agent_that_tells_ends(db: Db, root: str) -> None:
    context = HookIntake(db, root, "kiro")
    tool = {"tool_name": "fs_write", "tool_input": {"path": "a"}}
    context.send(0, hook_event_name="PreToolUse", **tool)
    assert context.spend(context.calls()[0], 1_000) == 0


@pytest.mark.parametrize(
    ("minutes", "closed"), [(9, None), (11, 0)], ids=["nine", "eleven"]
)
def test_window_ends_when_nothing_is_heard_of_a_living_agent(
    db: Db, root: str, minutes: int, closed: int | None
) -> None:
    context = HookIntake(db, root, "crush")
    started = process_start(os.getpid())
    assert started is not None
    context.place = EventSource("main", (ProcessId(os.getpid(), started),))
    crush(context, 0, "bash", command="make")
    assert context.session().pid == os.getpid()
    close_gone(db, sessions.live(db), START + minutes * 60_000 * MS)
    assert context.spans() == [(0, closed)]
