"""Which events of an agent's hooks doctor misses, and when it says nothing."""

import json
import uuid
from collections.abc import Callable, Collection

import pytest

from gitshadow.attribution import lifecycle
from gitshadow.attribution.delivery import HookDelivery
from gitshadow.maintenance import diagnostics
from gitshadow.service import hook_intake
from gitshadow.store.journal import sessions
from tests.support.studio import Studio

Drops = Collection[str]


class Host:
    """An agent's program that sends only some of its events."""

    def __init__(self, studio: Studio, drops: Drops = ()) -> None:
        self.studio, self.drops = studio, drops
        self.session = str(uuid.uuid4())
        self.prompt_id: str | None = None
        self.files = 0

    def send(self, event: str, **fields: object) -> None:
        if event in self.drops:
            return
        payload = {
            "session_id": self.session,
            "cwd": str(self.studio.repo.root),
            "hook_event_name": event,
            "prompt_id": self.prompt_id,
            **fields,
        }
        raw = json.dumps({k: v for k, v in payload.items() if v is not None}).encode()
        hook_intake.take(
            self.studio.context, HookDelivery(agent="claude-code", payload=raw)
        )

    def prompt(self) -> None:
        self.prompt_id = str(uuid.uuid4())
        self.send("UserPromptSubmit", prompt="do it")

    def call(self, *, end: bool = True, writes: bool = True) -> None:
        self.files += 1
        name = f"{self.session}-{self.files}.txt"
        told = {
            "tool_name": "Write",
            "tool_input": {"file_path": f"{self.studio.repo.root}/{name}"},
            "tool_use_id": f"toolu_{uuid.uuid4().hex}",
        }
        self.send("PreToolUse", **told)
        if writes:
            self.studio.repo.write(name, "written\n")
            self.studio.context.observer.settle()
        if end:
            self.send("PostToolUse", **told, tool_response={"success": True})

    def turn(self, calls: int = 1) -> None:
        self.prompt()
        for _ in range(calls):
            self.call()
        self.send("Stop")

    def cancelled(self, *, in_call: bool) -> None:
        """Send a turn that a person cancels: no event comes of that."""
        self.prompt()
        self.call(end=not in_call)

    def end(self) -> None:
        self.send("SessionEnd", reason="other")


def problems(studio: Studio) -> list[str]:
    return [one.problem for one in diagnostics.unreported(studio.context.workspace)]


PARTS = {
    "PreToolUse": "claude-code reports that tool calls end, but not that they start",
    "PostToolUse": "claude-code reports that tool calls start, but not that they end",
    "UserPromptSubmit": "claude-code reports tool calls, but no prompts",
    "Stop": "claude-code reports prompts, but not that turns end",
}


@pytest.mark.parametrize("event", PARTS)
def test_an_event_that_never_comes_is_found(event: str, studio: Studio) -> None:
    host = Host(studio, [event])
    for _ in range(6):
        host.turn()
    assert problems(studio) == [PARTS[event]]


@pytest.mark.parametrize("event", PARTS)
def test_an_event_that_comes_again_ends_the_finding(event: str, studio: Studio) -> None:
    host = Host(studio, [event])
    for _ in range(6):
        host.turn()
    host.drops = ()
    host.turn()
    assert problems(studio) == []


@pytest.mark.parametrize("event", PARTS)
def test_an_event_is_missed_over_sessions_that_ended(
    event: str, studio: Studio
) -> None:
    for _ in range(6):
        host = Host(studio, [event])
        host.turn()
        host.end()
    assert problems(studio) == [PARTS[event]]


def test_ends_of_calls_are_missed_in_one_turn(studio: Studio) -> None:
    Host(studio, ["PostToolUse"]).turn(calls=3)
    assert problems(studio) == [PARTS["PostToolUse"]]


def test_nothing_is_said_while_a_turn_runs(studio: Studio) -> None:
    host = Host(studio, ["PostToolUse", "Stop"])
    host.prompt()
    for _ in range(8):
        host.call()
    assert problems(studio) == []


def refused(host: Host) -> None:
    host.prompt()
    host.call(end=False, writes=False)
    host.call(end=False, writes=False)
    host.send("Stop")


def without_calls(host: Host) -> None:
    host.prompt()
    host.send("Stop")


QUIET: dict[str, Callable[[Host], None]] = {
    "whole": lambda host: host.turn(2),
    "cancelled in a call": lambda host: host.cancelled(in_call=True),
    "refused": refused,
    "words alone": without_calls,
}


@pytest.mark.parametrize("kind", QUIET)
def test_nothing_is_said_of_turns_that_lack_no_event(kind: str, studio: Studio) -> None:
    for _ in range(2):
        host = Host(studio)
        for _ in range(4):
            QUIET[kind](host)
        host.end()
    assert problems(studio) == []


def test_nothing_is_said_of_a_few_turns_cancelled_between_calls(studio: Studio) -> None:
    host = Host(studio)
    for _ in range(4):
        host.cancelled(in_call=False)
    assert problems(studio) == []


def test_nothing_is_said_of_agents_that_were_killed(studio: Studio) -> None:
    for _ in range(6):
        host = Host(studio, ["Stop"])
        host.turn()
        ws = studio.context.workspace
        with ws.db.write():
            session = sessions.find_native(ws.db, "claude-code", host.session)
            assert session is not None
            now_ns = ws.clock.now_ns()
            lifecycle.end_session(ws.db, session, now_ns, lifecycle.PROCESS_GONE)
    assert problems(studio) == []
