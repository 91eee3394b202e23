"""Hook events put into a real journal: sessions, turns and windows as the agent reports them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitshadow.adapters import registry
from gitshadow.adapters.base import HookEvent, HookPhase
from gitshadow.attribution import intake
from gitshadow.attribution.delivery import places_of, reach
from gitshadow.attribution.intake import EventSource, Intake, apply
from gitshadow.attribution.ladder import attribute
from gitshadow.attribution.lifecycle import close_gone
from gitshadow.attribution.process import ProcessId, process_start
from gitshadow.attribution.windows import Evidence, Scene
from gitshadow.model import Actor, Call, Confidence, RepoPath, Session, ToolClass, Turn
from gitshadow.store.journal import sessions, turns
from gitshadow.store.journal.db import Db
from tests.support.sql_work import counted_sql

MS = 1_000_000
START = 1_800_000_000_000_000_000
FIXTURES = Path(__file__).parents[1] / "fixtures" / "hook_payloads"


def at(moment_ms: int) -> int:
    return START + moment_ms * MS


@pytest.fixture
def context(db: Db, tmp_path: Path) -> "HookIntake":
    root = tmp_path / "repo"
    (root / "sub").mkdir(parents=True)
    return HookIntake(db, os.path.realpath(root))


class HookIntake:
    """Deliver Claude Code's payloads to a journal at chosen moments, in milliseconds."""

    def __init__(self, db: Db, root: str) -> None:
        self.db = db
        self.root = root
        self.place = EventSource("main")

    def send(self, moment_ms: int, event: str, **fields: object) -> Intake:
        return self.deliver(moment_ms, "claude-code", hook_event_name=event, **fields)

    def generic(self, moment_ms: int, event: str, **fields: object) -> Intake:
        return self.deliver(moment_ms, "generic", event=event, **fields)

    def deliver(self, moment_ms: int, agent: str, **fields: object) -> Intake:
        names = {"session_id": "s", "session": "s", "cwd": self.root}
        raw = json.dumps({**names, **fields}).encode()
        event = registry.parse(agent, raw, {})
        assert isinstance(event, HookEvent), event
        around = reach(event, self.root)
        return apply(self.db, event, at(moment_ms), around, self.place)

    def pre(
        self, moment_ms: int, call: str, path: str | None, **more: object
    ) -> Intake:
        return self.send(moment_ms, "PreToolUse", **self._tool(call, path), **more)

    def post(
        self, moment_ms: int, call: str, path: str | None, **more: object
    ) -> Intake:
        return self.send(moment_ms, "PostToolUse", **self._tool(call, path), **more)

    def _tool(self, call: str, path: str | None) -> dict[str, object]:
        if path is None:
            tool, tool_input = "Bash", {"command": "make"}
        else:
            tool, tool_input = "Write", {"file_path": os.path.join(self.root, path)}
        return {"tool_name": tool, "tool_input": tool_input, "tool_use_id": call}

    def session(self, native: str = "s", agent: str = "claude-code") -> Session:
        found = sessions.find_native(self.db, agent, native)
        assert found is not None
        return found

    def call(self, call: str, native: str = "s", agent: str = "claude-code") -> Call:
        found = turns.get_call(self.db, self.session(native, agent).id, call)
        assert found is not None
        return found

    def span(self, call: str, native: str = "s") -> tuple[int, int | None, str | None]:
        found = self.call(call, native)
        closed = None if found.closed_ns is None else (found.closed_ns - START) // MS
        return (found.opened_ns - START) // MS, closed, found.outcome

    def turns(self, native: str = "s") -> list[Turn]:
        return list(turns.list_turns(self.db, self.session(native).id))

    def spans(self, native: str = "s") -> list[tuple[str, int, int | None]]:
        return [
            (
                turn.id,
                (turn.started_ns - START) // MS,
                None if turn.ended_ns is None else (turn.ended_ns - START) // MS,
            )
            for turn in self.turns(native)
        ]

    def writer_of(self, path: str, moment_ms: int) -> tuple[str | None, str | None]:
        """Return session and call that the ladder names for a write at a moment."""
        moment = at(moment_ms)
        evidence = Evidence(
            path=RepoPath(path.encode()), begin_ns=moment, end_ns=moment
        )
        windows = tuple(turns.windows_between(self.db, moment, moment))
        claim = attribute(evidence, Scene(windows=windows))
        return claim.session, claim.call


# The plain course of things


def test_window_opens_and_closes_with_its_hooks(context: HookIntake) -> None:
    """ATT-01: a window from the pre-hook to the post-hook, with the path it names."""
    context.send(0, "UserPromptSubmit", prompt="go", prompt_id="p1")
    opened = context.pre(10, "c1", "sub/a", prompt_id="p1")
    closed = context.post(30, "c1", "sub/a", prompt_id="p1")
    assert (opened.opened, opened.paths, opened.needs_barrier) == (
        True,
        (b"sub/a",),
        False,
    )
    assert (closed.closed, closed.paths) == (True, (b"sub/a",))
    call = context.call("c1")
    assert context.span("c1") == (10, 30, "ok")
    assert (call.turn, call.tool, call.tool_class) == ("p1", "Write", ToolClass.WRITE)
    assert call.paths == (b"sub/a",)


def test_session_is_opened_by_its_first_event_whatever_it_is(
    context: HookIntake,
) -> None:
    context.pre(10, "c1", "a")
    found = context.session()
    assert (found.actor, found.agent) == (Actor.AGENT, "claude-code")
    assert (found.started_ns, found.ended_ns) == (at(10), None)
    assert found.id.startswith("claude-code-")


def test_barrier_is_needed_when_a_tool_names_no_path(context: HookIntake) -> None:
    assert context.pre(10, "c1", None).needs_barrier is True
    assert context.post(20, "c1", None).needs_barrier is False
    assert context.send(30, "Stop").needs_barrier is True


def test_reading_tool_opens_no_window(context: HookIntake) -> None:
    done = context.send(10, "PreToolUse", tool_name="Read", tool_use_id="r")
    assert (done.opened, done.needs_barrier) == (False, False)
    assert turns.get_call(context.db, context.session().id, "r") is None


def test_failed_call_closes_its_window(context: HookIntake) -> None:
    context.pre(10, "c1", None)
    context.send(20, "PostToolUseFailure", tool_name="Bash", tool_use_id="c1")
    assert context.span("c1") == (10, 20, "failed")


def test_denied_call_claims_nothing(context: HookIntake) -> None:
    context.pre(10, "c1", None)
    assert context.writer_of("x", 15)[1] == "c1"
    context.send(20, "PermissionDenied", tool_name="Bash", tool_use_id="c1")
    assert context.span("c1") == (10, 20, "denied")
    assert context.writer_of("x", 15) == (None, None)


def test_turn_ends_with_stop_and_the_session_goes_on(context: HookIntake) -> None:
    context.send(0, "UserPromptSubmit", prompt="go", prompt_id="p1")
    done = context.send(50, "Stop", prompt_id="p1", background_tasks=[{"id": "x"}])
    assert done.background
    assert context.spans() == [("p1", 0, 50)]
    assert context.session().ended_ns is None


def test_turn_goes_on_after_the_stop_of_a_subagent_in_its_session(
    context: HookIntake,
) -> None:
    def kimi(moment_ms: int, event: str, **fields: object) -> None:
        context.deliver(
            moment_ms,
            "kimi",
            hook_event_name=event,
            **{"session_id": "session_1", **fields},
        )

    started = {"tool_name": "Agent", "tool_call_id": "a", "tool_input": {}}
    kimi(0, "UserPromptSubmit", prompt=[{"type": "text", "text": "Do it"}])
    kimi(10, "PreToolUse", **started)
    kimi(30, "Stop")
    session = sessions.find_native(context.db, "kimi", "session_1")
    assert session is not None
    (turn,) = turns.list_turns(context.db, session.id)
    assert (turn.prompt, turn.ended_ns) == ("Do it", None)
    kimi(40, "PostToolUse", **started)
    kimi(50, "Stop")
    (turn,) = turns.list_turns(context.db, session.id)
    assert turn.ended_ns == at(50)


def test_session_end_ends_turn_and_windows(context: HookIntake) -> None:
    context.send(0, "UserPromptSubmit", prompt="go", prompt_id="p1")
    context.pre(10, "c1", None)
    context.send(20, "SessionEnd", reason="logout")
    assert context.spans() == [("p1", 0, 20)]
    assert context.span("c1") == (10, 20, "expired: session end")
    assert (context.session().ended_ns, context.session().end_reason) == (
        at(20),
        "logout",
    )


def test_session_is_opened_again_when_its_id_comes_back(context: HookIntake) -> None:
    context.send(0, "SessionStart", source="startup")
    first = context.session().id
    context.send(10, "SessionEnd", reason="other")
    context.send(20, "SessionStart", source="resume")
    found = context.session()
    assert (found.id, found.ended_ns, found.end_reason) == (first, None, None)


def test_ids_are_distinct_when_native_ids_clean_to_the_same(
    context: HookIntake,
) -> None:
    """GIT-17: two native ids, two sessions."""
    names = ["../../heads/main", "x" * 300, "✨", "✨ ", "A", "a"]
    ids = [
        context.pre(n, "c", "a", session_id=name).session
        for n, name in enumerate(names)
    ]
    assert len(set(ids)) == len(names)
    assert all(len(name) <= 40 for name in ids)


# Ends that never come


def test_window_and_turn_end_at_the_next_prompt(context: HookIntake) -> None:
    """ATT-12: the cancelled call and the turn without a stop claim nothing later."""
    context.send(0, "UserPromptSubmit", prompt="one", prompt_id="p1")
    context.pre(10, "c1", None)
    context.send(20, "UserPromptSubmit", prompt="two", prompt_id="p2")
    assert context.writer_of("a", 30) == (None, None)
    context.pre(40, "c2", "b", prompt_id="p2")
    assert context.span("c1") == (10, 20, "expired: next prompt")
    assert context.spans() == [("p1", 0, 20), ("p2", 20, None)]
    assert context.writer_of("b", 45)[1] == "c2"
    assert context.call("c2").turn == "p2"


def test_two_turns_are_two_when_no_ids_are_sent(context: HookIntake) -> None:
    context.send(0, "UserPromptSubmit", prompt="one")
    context.pre(10, "c1", "a")
    context.send(20, "UserPromptSubmit", prompt="two")
    context.pre(30, "c2", "a")
    first, second = context.turns()
    assert context.call("c1").turn == first.id != second.id == context.call("c2").turn
    assert (first.ordinal, second.ordinal) == (1, 2)
    assert first.prompt == "one"


def test_two_turns_are_two_when_the_agent_repeats_an_id(context: HookIntake) -> None:
    context.send(0, "UserPromptSubmit", prompt="one", prompt_id="p")
    context.send(10, "Stop", prompt_id="p")
    context.send(20, "UserPromptSubmit", prompt="two", prompt_id="p")
    context.pre(30, "c", "a", prompt_id="p")
    assert [turn.id for turn in context.turns()] == ["p", "p~2"]
    assert context.call("c").turn == "p~2"


def test_turn_goes_on_when_the_agent_works_after_its_stop(context: HookIntake) -> None:
    context.send(0, "UserPromptSubmit", prompt="one", prompt_id="p")
    context.send(10, "Stop", prompt_id="p")
    context.pre(20, "c", "a", prompt_id="p")
    assert context.spans() == [("p", 0, None)]
    assert context.call("c").turn == "p"


def test_turn_opens_when_the_prompt_was_not_seen(context: HookIntake) -> None:
    context.pre(10, "c", "a", prompt_id="p")
    assert context.spans() == [("p", 10, None)]
    context.send(5, "UserPromptSubmit", prompt="late", prompt_id="p")
    assert [turn.prompt for turn in context.turns()] == ["late"]


def test_windows_of_parallel_calls_stay_open(context: HookIntake) -> None:
    context.pre(10, "c1", None)
    context.pre(20, "c2", None)
    context.post(30, "c1", None)
    assert context.span("c2") == (20, None, None)


# Late, twice, out of order


def test_call_is_one_when_it_is_delivered_twice(context: HookIntake) -> None:
    """ATT-13: one call, whoever delivers it how often."""
    assert context.pre(10, "c1", "a").opened is True
    assert context.pre(11, "c1", "a").opened is False
    assert context.post(20, "c1", "a").closed is True
    assert context.post(25, "c1", "a").closed is False
    assert context.pre(26, "c1", "a").opened is False
    assert context.span("c1") == (10, 20, "ok")


def test_prompt_is_one_when_it_is_delivered_twice(context: HookIntake) -> None:
    for fields in ({"prompt_id": "p"}, {"session_id": "other"}):
        context.send(0, "UserPromptSubmit", prompt="x", **fields)
        context.send(3, "UserPromptSubmit", prompt="x", **fields)
    assert len(context.turns("s")) == 1
    assert len(context.turns("other")) == 1


def test_each_write_has_its_own_call_when_a_post_hook_is_late(
    context: HookIntake,
) -> None:
    """ATT-14: the time of the write decides."""
    context.pre(10, "c1", "a")
    context.pre(20, "c2", "b")
    context.post(25, "c1", "a")
    context.post(30, "c2", "b")
    assert context.writer_of("a", 12)[1] == "c1"
    assert context.writer_of("b", 22)[1] == "c2"
    assert context.writer_of("c", 22) == (None, None)


@pytest.mark.parametrize("itself", [False, True], ids=["a hook", "a program"])
def test_a_tool_was_over_when_its_hook_was_started_however_busy_the_machine_is(
    context: HookIntake, monkeypatch: pytest.MonkeyPatch, itself: bool
) -> None:
    """A program that reports about itself was started before the tool."""
    own = ProcessId(7, 70)
    context.place = EventSource("main", (own,) if itself else (), own=own)
    monkeypatch.setattr(intake, "started_ns", lambda _: at(1_020))
    context.pre(10, "c1", "a")
    context.post(60_000, "c1", "a", duration_ms=5)
    assert context.writer_of("a", 1_000)[1] == (None if itself else "c1")
    assert context.writer_of("a", 59_900)[1] == "c1"


def test_spooled_events_do_not_touch_what_came_after_them(context: HookIntake) -> None:
    """ATT-14: payloads delivered late carry their own time."""
    context.send(100, "UserPromptSubmit", prompt="two", prompt_id="p2")
    context.pre(110, "c2", None, prompt_id="p2")
    context.send(0, "UserPromptSubmit", prompt="one", prompt_id="p1")
    context.pre(10, "c1", None, prompt_id="p1")
    context.post(20, "c1", None, prompt_id="p1")
    context.send(30, "Stop", prompt_id="p1")
    context.send(40, "SessionEnd", reason="other")
    assert context.span("c2") == (110, None, None)
    assert context.span("c1") == (10, 20, "ok")
    assert {name: end for name, _, end in context.spans()}["p2"] is None
    assert context.call("c1").turn == "p1"
    assert context.session().ended_ns is None


def test_late_after_event_does_not_open_an_ended_session(context: HookIntake) -> None:
    context.pre(10, "c1", "a")
    context.send(20, "SessionEnd", reason="other")
    context.post(30, "c1", "a")
    assert context.session().ended_ns == at(20)
    assert context.span("c1") == (10, 20, "expired: session end")


def test_late_before_event_leaves_no_open_window_in_an_ended_session(
    context: HookIntake,
) -> None:
    context.send(0, "SessionStart")
    context.send(50, "SessionEnd", reason="other")
    context.pre(10, "c1", None)
    assert context.span("c1")[:2] == (10, 50)
    context.post(20, "c1", None)
    assert context.span("c1") == (10, 20, "ok")


def test_window_is_as_long_as_its_tool_ran_when_the_start_was_not_seen(
    context: HookIntake,
) -> None:
    context.post(100, "c1", "a", duration_ms=40)
    assert context.span("c1") == (60, 100, "ok")


def test_edit_reported_beside_its_call_is_no_call_of_its_own(
    context: HookIntake,
) -> None:
    """ATT-13: Cursor's `afterFileEdit`, before and after the end of the call."""
    names = {"conversation_id": "s", "generation_id": "t"}
    tool = {"tool_name": "Write", "tool_use_id": "c1", "tool_input": {"path": "a"}}
    edit = {"hook_event_name": "afterFileEdit", "file_path": f"{context.root}/a"}
    context.deliver(10, "cursor", hook_event_name="preToolUse", **names, **tool)
    during = context.deliver(20, "cursor", **edit, **names)
    context.deliver(30, "cursor", hook_event_name="postToolUse", **names, **tool)
    late = context.deliver(40, "cursor", **edit, **names)
    assert (during.call, late.call) == ("c1", "c1")
    other = context.deliver(5_000, "cursor", **edit, **names)
    assert other.call not in (None, "c1")
    calls = turns.list_calls(context.db, other.session)
    assert [(one.id, one.closed_ns) for one in calls] == [
        ("c1", at(30)),
        (other.call, at(5_000)),
    ]


def test_same_call_twice_is_two_when_the_agent_sends_no_ids(
    context: HookIntake,
) -> None:
    fields = {"tool": "make", "class": "shell"}
    first = context.generic(10, "before", **fields)
    context.generic(20, "after", **fields)
    second = context.generic(30, "before", **fields)
    context.generic(40, "after", **fields)
    assert second.call == f"{first.call}~2"
    found = [context.call(one.call or "", agent="generic") for one in (first, second)]
    assert [call.closed_ns for call in found] == [at(20), at(40)]


def test_open_call_ends_at_the_next_when_the_agent_sends_no_ids(
    context: HookIntake,
) -> None:
    first = context.generic(10, "before", tool="make", **{"class": "shell"})
    context.generic(30, "before", tool="edit", paths=["a"])
    found = context.call(first.call or "", agent="generic")
    assert (found.closed_ns, found.outcome) == (at(30), "expired: next call")


# Subagents


def test_subagent_is_a_session_below_its_parent(context: HookIntake) -> None:
    """ATT-15: child session with `parent`; its turn is a part of the parent's."""
    context.send(0, "UserPromptSubmit", prompt="go", prompt_id="p1")
    child = {"agent_id": "kid", "agent_type": "docs", "prompt_id": "p1"}
    context.send(10, "SubagentStart", **child)
    context.pre(20, "c1", "a", **child)
    context.post(30, "c1", "a", **child)
    context.send(40, "SubagentStop", **child)
    context.send(45, "SubagentStop", **child)
    parent, kid = context.session(), context.session("s/kid")
    assert (kid.parent, kid.ended_ns, parent.ended_ns) == (parent.id, at(40), None)
    assert context.call("c1", "s/kid").turn == "p1/kid"
    assert context.spans("s/kid") == [("p1/kid", 10, 40)]
    assert context.spans() == [("p1", 0, None)]


def test_subagent_of_which_only_the_end_is_reported_is_no_session(
    context: HookIntake, db: Db
) -> None:
    context.send(0, "UserPromptSubmit", prompt="go", prompt_id="p1")
    done = context.send(10, "SubagentStop", agent_id="compact", agent_type="")
    assert [one.id for one in sessions.all_sessions(db)] == [context.session().id]
    assert (done.session, done.turn) == (context.session().id, None)
    assert context.spans() == [("p1", 0, None)]


def test_subagents_turn_is_named_after_the_parents_open_one(
    context: HookIntake,
) -> None:
    context.send(0, "UserPromptSubmit", prompt="go")
    context.pre(20, "c1", "a", agent_id="kid")
    assert context.call("c1", "s/kid").turn == f"{context.turns()[0].id}/kid"


def test_subagent_goes_on_when_its_parents_turn_ends(context: HookIntake) -> None:
    context.send(0, "UserPromptSubmit", prompt="go", prompt_id="p1")
    context.pre(10, "c1", None, agent_id="kid", prompt_id="p1")
    context.send(20, "Stop", prompt_id="p1")
    assert context.span("c1", "s/kid") == (10, None, None)
    context.send(30, "SessionEnd", reason="other")
    assert context.session("s/kid").ended_ns == at(30)


# Places


def test_paths_are_found_in_the_worktree_that_they_name(context: HookIntake) -> None:
    """ATT-11: inside, relative to the payload's cwd, and outside."""
    cwd = os.path.join(context.root, "sub")
    done = context.generic(
        0, "before", cwd=cwd, paths=["x", "../y", "/elsewhere/z", "../../out"]
    )
    outside = os.path.join(os.path.dirname(context.root), "out").encode()
    assert done.paths == (b"sub/x", b"y")
    assert done.other_paths == (b"/elsewhere/z", outside)


def test_window_claims_nothing_here_when_its_paths_lie_elsewhere(
    context: HookIntake,
) -> None:
    """ATT-11: no row for the outside path."""
    context.generic(0, "before", paths=["/elsewhere/z"], **{"class": "other"})
    assert context.writer_of("a", 5) == (None, None)


def test_path_is_found_through_links(context: HookIntake) -> None:
    """CAP-23: a link to the top, a link to a file, a link that leads out."""
    os.symlink(".", os.path.join(context.root, "m"))
    os.symlink("a", os.path.join(context.root, "l"))
    os.symlink("/usr", os.path.join(context.root, "n"))
    done = context.generic(0, "before", paths=["m/sub/x", "l", "n/share"])
    assert done.paths == (b"sub/x", b"l", b"a")
    assert done.other_paths == (b"/usr/share",)


def test_path_is_unquoted_when_it_is_as_we_print_it(context: HookIntake) -> None:
    done = context.generic(0, "before", paths=['"caf\\351"', '"half'])
    assert done.paths == (b"caf\xe9", b'"half')


def test_places_are_cwd_and_the_parents_of_paths() -> None:
    event = HookEvent(
        agent="x",
        host="x",
        native_session="s",
        phase=HookPhase.BEFORE,
        raw_event="before",
        paths=(b"/one/a", b"b", b"/one/c"),
        cwd=b"/two",
    )
    assert places_of(event) == (b"/two", b"/one")
    assert reach(event, "/one").paths == (b"a", b"c")


# Processes


def test_session_ends_when_its_process_is_gone(context: HookIntake) -> None:
    """ATT-08: window expired, session closed, reason "process gone"."""
    command = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as agent:
        started = process_start(agent.pid)
        assert started is not None
        context.place = EventSource("main", (ProcessId(agent.pid, started),))
        context.send(0, "UserPromptSubmit", prompt="go", prompt_id="p1")
        context.pre(10, "c1", None, prompt_id="p1")
        context.pre(20, "c2", None, prompt_id="p1", agent_id="kid")
        assert close_gone(context.db, sessions.live(context.db), at(30)) == ()
        agent.kill()
        agent.wait()
    kid, parent = context.session("s/kid").id, context.session().id
    assert set(close_gone(context.db, sessions.live(context.db), at(40))) == {
        kid,
        parent,
    }
    assert context.session().end_reason == "process gone"
    assert context.span("c1") == (10, 20, "process gone")
    assert context.spans() == [("p1", 0, 20)]
    assert context.writer_of("a", 35) == (None, None)
    assert close_gone(context.db, sessions.live(context.db), at(50)) == ()


def test_window_is_longer_again_when_the_lost_agent_closes_it(
    context: HookIntake,
) -> None:
    gone = ProcessId(os.getpid(), 1)
    context.pre(10, "c1", None)
    with context.db.write():
        found = context.session()
        sessions.put(
            context.db,
            Session(
                id=found.id,
                native_id=found.native_id,
                actor=found.actor,
                agent=found.agent,
                started_ns=found.started_ns,
                last_seen_ns=found.last_seen_ns,
                pid=gone.pid,
                pid_started=gone.started,
            ),
        )
    close_gone(context.db, sessions.live(context.db), at(15))
    assert context.span("c1") == (10, 10, "process gone")
    context.post(30, "c1", None)
    assert context.span("c1") == (10, 30, "ok")


def test_call_times_out_when_nothing_is_heard_and_no_process_is_known(
    context: HookIntake,
) -> None:
    context.pre(0, "c1", None)
    close_gone(context.db, sessions.live(context.db), at(599_000))
    assert context.span("c1") == (0, None, None)
    close_gone(context.db, sessions.live(context.db), at(601_000))
    assert context.span("c1") == (0, 0, "timed out")
    assert context.session().ended_ns is None


# Everything at once

PAYLOADS = [
    path
    for path in sorted(FIXTURES.glob("claude_code__*.json"))
    if registry.parse("claude-code", path.read_bytes(), {}) is not None
]


@pytest.mark.parametrize("path", PAYLOADS, ids=lambda path: path.stem)
def test_fixture_is_taken_once_when_it_comes_twice(
    context: HookIntake, path: Path
) -> None:
    event = registry.parse("claude-code", path.read_bytes(), {})
    assert isinstance(event, HookEvent)
    around = reach(event, context.root)
    first = apply(context.db, event, at(0), around, context.place)
    before = _contents(context.db, first.session)
    again = apply(context.db, event, at(0), around, context.place)
    assert again.session == first.session
    assert _contents(context.db, first.session) == before


def _contents(db: Db, session: str) -> tuple[object, ...]:
    return (
        sessions.all_sessions(db),
        turns.list_turns(db),
        turns.list_calls(db, session),
    )


STEPS = st.lists(
    st.tuples(
        st.integers(0, 40),
        st.sampled_from(("PreToolUse", "PostToolUse", "UserPromptSubmit", "Stop")),
        st.sampled_from(("c1", "c2", "c3")),
        st.sampled_from(("a", None)),
        st.sampled_from(("p1", "p2", None)),
    ),
    max_size=12,
)


@given(STEPS)
def test_rows_are_sound_in_whatever_order_events_come(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[int, str, str, str | None, str | None]],
) -> None:
    """ATT-14: no window ends before it begins, at most one turn is open."""
    folder = tmp_path_factory.mktemp("any")
    db = Db.open(str(folder / "journal.db"), create=True)
    context = HookIntake(db, str(folder))
    for moment, name, call, path, prompt_id in steps:
        more: dict[str, object] = {"prompt_id": prompt_id} if prompt_id else {}
        if name == "PreToolUse":
            context.pre(moment, call, path, **more)
        elif name == "PostToolUse":
            context.post(moment, call, path, **more)
        else:
            context.send(moment, name, prompt=f"{moment}", **more)
    if steps:
        rows = context.turns()
        assert sum(turn.ended_ns is None for turn in rows) <= 1
        assert all(t.ended_ns is None or t.ended_ns >= t.started_ns for t in rows)
        assert len({turn.ordinal for turn in rows}) == len(rows)
        calls = turns.windows_between(db, at(-1), at(100))
        assert all(c.closed_ns is None or c.closed_ns >= c.opened_ns for c in calls)
        assert all(
            call.turn is None or call.turn in {t.id for t in rows} for call in calls
        )
        claims = [
            attribute(
                Evidence(path=RepoPath(b"a"), begin_ns=at(n), end_ns=at(n)),
                Scene(windows=tuple(calls)),
            )
            for n in range(40)
        ]
        assert all(c.call is None or c.confidence is not Confidence.LOW for c in claims)
    db.close()


def test_model_is_noted_where_a_hook_names_one(context: HookIntake) -> None:
    context.send(0, "SessionStart", model="claude-sonnet-5")
    context.send(1, "UserPromptSubmit", prompt="go")
    context.send(2, "SessionStart", source="resume", model="claude-opus-5")
    assert sessions.models_of(context.db, context.session().id) == [
        (at(0), "claude-sonnet-5"),
        (at(2), "claude-opus-5"),
    ]


# A subagent's turn, where its payloads do not name its parent's


def grok(context: HookIntake, moment_ms: int, event: str, **fields: object) -> Intake:
    about = {"sessionId": "s", "workspaceRoot": context.root, **fields}
    return context.deliver(moment_ms, "grok", hookEventName=event, **about)


def child(context: HookIntake, moment_ms: int, event: str, **fields: object) -> Intake:
    kid = {"sessionId": "kid", "subagentType": "x"}
    return grok(context, moment_ms, event, **kid, **fields)


def shell(call: str) -> dict[str, object]:
    return {"toolName": "bash", "toolUseId": call, "toolInput": {"command": "make"}}


def test_subagent_stays_in_its_turn_when_the_parents_has_ended(
    context: HookIntake,
) -> None:
    grok(context, 0, "user_prompt_submit", promptId="p1")
    grok(context, 10, "subagent_start", subagentId="kid", subagentType="x")
    assert child(context, 20, "user_prompt_submit").turn == "p1/kid"
    grok(context, 30, "stop", promptId="p1")
    assert child(context, 40, "pre_tool_use", **shell("c1")).turn == "p1/kid"
    grok(context, 50, "user_prompt_submit", promptId="p2")
    assert child(context, 60, "pre_tool_use", **shell("c2")).turn == "p1/kid"
    child(context, 70, "session_end")
    assert child(context, 80, "pre_tool_use", **shell("c3")).turn == "p2/kid"


def test_subagent_is_in_the_parents_turn_when_it_names_one_of_its_own(
    context: HookIntake,
) -> None:
    """Codex 0.169."""
    kid = {"agent_id": "kid", "turn_id": "own", "model": "m"}
    context.deliver(
        0, "codex", hook_event_name="UserPromptSubmit", turn_id="p", model="m"
    )
    context.deliver(10, "codex", hook_event_name="SubagentStart", **kid)
    asked = context.deliver(20, "codex", hook_event_name="UserPromptSubmit", **kid)
    assert asked.turn == "p/kid"
    kids = turns.list_turns(context.db, context.session("s/kid", "codex").id)
    assert [one.id for one in kids] == ["p/kid"]


def test_wait_writes_nothing_itself_when_it_is_for_subagents_alone(
    context: HookIntake,
) -> None:
    """The same tool of Grok waits for commands in the background, which have no window."""
    grok(context, 0, "subagent_start", subagentId="kid", subagentType="x")
    for call, ids in (("c1", ["kid"]), ("c2", ["kid", "task"]), ("c3", [])):
        wait = {"toolName": "get_command_or_subagent_output", "toolUseId": call}
        grok(context, 10, "pre_tool_use", **wait, toolInput={"task_ids": ids})
    found = [context.call(call, agent="grok").tool_class for call in ("c1", "c2", "c3")]
    assert found == [ToolClass.AGENT, ToolClass.OTHER, ToolClass.OTHER]


def test_turn_goes_on_when_the_agent_continues_it_unasked(context: HookIntake) -> None:
    grok(context, 0, "user_prompt_submit", promptId="p1", prompt="go")
    grok(context, 10, "stop", promptId="p1")
    again = grok(context, 20, "user_prompt_submit", promptId="subagent-completed-kid")
    assert again.turn == "p1"
    assert grok(context, 30, "pre_tool_use", **shell("c1")).turn == "p1"
    grok(context, 40, "session_end")
    late = grok(context, 50, "user_prompt_submit", promptId="subagent-completed-kid")
    assert late.turn is None
    (turn,) = turns.list_turns(context.db, context.session("s", "grok").id)
    assert turn.ended_ns == at(40)


# A subagent with a session of its own, whose start or transcript names its caller


def droid(context: HookIntake, moment_ms: int, event: str, **fields: object) -> Intake:
    tool = {"tool_name": "Execute", "tool_input": {"command": str(moment_ms)}}
    return context.deliver(
        moment_ms, "droid", hook_event_name=event, **{**tool, **fields}
    )


def transcript(context: HookIntake, **fields: object) -> str:
    """Write what Droid writes when a session begins; return its path."""
    path = Path(context.root).parent / "transcript.jsonl"
    first = {"type": "session_start", "id": "kid", "callingSessionId": "s", **fields}
    path.write_text(json.dumps(first) + '\n{"type": "message"}\n')
    return str(path)


def test_session_is_in_the_turn_of_the_caller_that_its_start_names(
    context: HookIntake,
) -> None:
    turn = droid(context, 0, "PreToolUse").turn
    droid(context, 10, "SessionStart", session_id="kid", calling_session_id="s")
    assert (
        droid(context, 20, "UserPromptSubmit", session_id="kid").turn == f"{turn}/kid"
    )
    assert droid(context, 30, "PreToolUse", session_id="kid").turn == f"{turn}/kid"
    parent = context.session("s", "droid").id
    assert context.session("kid", "droid").parent == parent


def test_session_is_below_the_caller_that_its_transcript_names(
    context: HookIntake,
) -> None:
    """Hooks that were installed meanwhile did not see its start."""
    droid(context, 0, "PreToolUse")
    path = transcript(context)
    droid(context, 10, "PreToolUse", session_id="kid", transcript_path=path)
    parent = context.session("s", "droid").id
    assert context.session("kid", "droid").parent == parent


@pytest.mark.parametrize("changed", [{"id": "other"}, {"callingSessionId": "unknown"}])
def test_session_has_no_caller_when_the_transcript_names_none_that_is_known(
    context: HookIntake, changed: dict[str, str]
) -> None:
    droid(context, 0, "PreToolUse")
    path = transcript(context, **changed)
    droid(context, 10, "SessionStart", session_id="kid", transcript_path=path)
    assert context.session("kid", "droid").parent is None
    assert len(sessions.all_sessions(context.db)) == 2


def test_session_has_no_caller_when_its_transcript_cannot_be_read(
    context: HookIntake, tmp_path: Path
) -> None:
    droid(context, 0, "PreToolUse")
    (tmp_path / "link").symlink_to(transcript(context))
    (tmp_path / "cut").write_bytes(b'{"id": "kid", "callingSess')
    for at_ms, name in ((10, "absent"), (20, "link"), (30, "cut")):
        path = str(tmp_path / name)
        droid(context, at_ms, "SessionStart", session_id="kid", transcript_path=path)
    assert context.session("kid", "droid").parent is None


def test_call_begins_a_turn_when_the_run_reported_no_prompt(
    context: HookIntake,
) -> None:
    """`droid exec`."""
    droid(context, 0, "SessionStart")
    first = droid(context, 10, "PreToolUse").turn
    assert first is not None
    assert droid(context, 20, "PreToolUse").turn == first
    droid(context, 30, "Stop")
    assert droid(context, 40, "PreToolUse").turn not in (None, first)
    assert droid(context, 50, "UserPromptSubmit", prompt="go").turn not in (None, first)


def test_hook_reads_no_whole_row_of_each_call_or_turn_of_a_long_session(
    context: HookIntake,
) -> None:
    """LAW-08: also of an agent whose subagents have no session of their own."""
    shell = {"tool_name": "Bash", "tool_input": {"command": "ls"}}
    for moment_ms, event in ((0, "UserPromptSubmit"), (1, "Stop")):
        context.deliver(moment_ms, "kimi", hook_event_name=event, prompt="go")
    (session,) = sessions.all_sessions(context.db)
    many = 2000
    context.db.run_many(
        "INSERT INTO calls (session, id, tool, tool_class, opened_ns, closed_ns, worktree)"
        " VALUES (?, ?, 'Edit', 'write', 1, 2, 'main')",
        [(session.id, f"call-{number}") for number in range(many)],
    )
    context.db.run_many(
        "INSERT INTO turns (session, id, ordinal, started_ns, ended_ns)"
        " VALUES (?, ?, ?, 1, 2)",
        [(session.id, f"turn-{number}", -number) for number in range(many)],
    )
    for moment_ms, event, fields in (
        (2, "PreToolUse", shell),
        (3, "PostToolUse", shell),
        (4, "PostToolUse", shell),
        (5, "UserPromptSubmit", {"prompt": "on"}),
    ):
        with counted_sql(context.db) as work:
            context.deliver(
                moment_ms, "kimi", hook_event_name=event, tool_use_id="x", **fields
            )
        assert work.steps < 2 * many, event
