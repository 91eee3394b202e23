"""TX-15 with real payloads: each hook of Claude Code in a process of its own."""

import json
import os
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest

from gitshadow.errors import UsageError
from gitshadow.sdk.integrations.hooks import HookedTurns, take_hook
from gitshadow.sdk.turns.policy import Policy
from gitshadow.sdk.turns.session import AgentUndo
from tests.sdk.integrations.test_hook_turns import FREE, opened, plain
from tests.sdk.turns.world import Toys, World, registry

FIXTURES = Path(__file__).parents[2] / "fixtures" / "hook_payloads"
SESSION = "0b8c7d1e-5f2a-4e0b-9d3c-6a7b8c9d0e1f"
DRAFT = {"tool_name": "mcp__draft__create", "tool_use_id": "c1"}
CHARGE = {"tool_name": "mcp__card__charge", "tool_use_id": "c3"}


def payload(name: str, **fields: object) -> dict[str, object]:
    """Return a payload that the agent sends, with the fields of another call."""
    text = (FIXTURES / f"claude_code__{name}.json").read_text("utf-8")
    found: dict[str, object] = json.loads(text)
    return {**found, **fields}


def session_of(root: Path, policy: Policy = FREE) -> AgentUndo:
    """Open the agent's session."""
    return opened(root, session=SESSION, policy=policy)


def deliver(
    root: Path, hook: Mapping[str, object], policy: Policy = FREE
) -> dict[str, object]:
    """Take one hook in a process of its own; return what that prints, {} for nothing."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            raw = json.dumps(hook).encode()
            said = take_hook(
                raw, lambda session: opened(root, session=session, policy=policy)
            )
            os.write(writing, said)
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    with open(reading, "rb") as stream:
        text = stream.read()
    assert os.waitpid(pid, 0)[1] == 0
    found: dict[str, object] = json.loads(text or "{}")
    return found


def test_real_payloads_are_one_turn(place: Path, world: World) -> None:
    """TX-15: the same entries, inverses and outcomes as in one process."""
    title, amount = {"title": "x"}, {"amount": 5}
    with closing(opened(place, session="whole")) as au, au.turn("go") as turn:
        turn.call("draft.create", title, call_id="c1")
        turn.call("toy.soft_fail", call_id="c2")
        turn.call("card.charge", amount, call_id="c3")
    toys = Toys(World.make(place / "world"))
    draft = {**DRAFT, "tool_input": title}
    fail = {"tool_name": "mcp__toy__soft_fail", "tool_use_id": "c2", "tool_input": {}}
    charge = {**CHARGE, "tool_input": amount}
    assert deliver(place, payload("UserPromptSubmit", prompt="go\nat once")) == {}
    with closing(session_of(place)) as au:
        assert [row.kind for row in au.log()] == ["turn_begun"]
    made = toys.draft_create("x", idempotency_key="k")
    charged = toys.card_charge(5, idempotency_key="k")
    for hook in (
        payload("PreToolUse__mcp", **draft),
        payload("PostToolUse__Bash", **draft, tool_response=blocks(made)),
        payload("PreToolUse__mcp", **fail),
        payload("PostToolUse__Bash", **fail)
        | {"hook_event_name": "PostToolUseFailure", "error": "no such customer"},
        payload("PreToolUse__Bash"),
        payload("PostToolUse__Bash"),
        payload("PreToolUse__mcp", **charge),
        payload("PostToolUse__Bash", **charge, tool_response=blocks(charged)),
        payload("Notification"),
        payload("SubagentStop"),
        payload("Stop"),
    ):
        assert deliver(place, hook) == {}
    with (
        closing(session_of(place)) as au,
        closing(opened(place, session="whole")) as one,
    ):
        assert [(row.label, row.status) for row in au.turns()] == [("go", "committed")]
        assert list(map(plain, au.calls("t-1"))) == list(map(plain, one.calls("t-1")))
        assert au.entries("t-1") == one.entries("t-1")
        report = au.undo("t-1")
        assert report.counts["reversed"] == report.counts["compensated"] == 1
    assert world.state["drafts"] == {}


def blocks(value: object) -> list[dict[str, str]]:
    """Return what an MCP server answers."""
    return [{"type": "text", "text": json.dumps(value)}]


IDLE = {"notification_type": "idle_prompt"}


@pytest.mark.parametrize(
    "ending",
    [
        payload("UserPromptSubmit"),
        payload("SessionEnd"),
        payload("StopFailure"),
        payload("Notification", **IDLE),
    ],
    ids=["prompt", "session end", "failure", "idle"],
)
def test_an_interrupt_without_a_stop_is_interrupted(
    place: Path, world: World, ending: dict[str, object]
) -> None:
    """At the next prompt, at the latest; nothing is undone by itself."""
    toys = Toys(world)
    call = {**DRAFT, "tool_input": {"title": "x"}}
    deliver(place, payload("UserPromptSubmit"))
    deliver(place, payload("PreToolUse__mcp", **call))
    made = toys.draft_create("x", idempotency_key="k")
    deliver(place, payload("PostToolUse__Bash", **call, tool_response=made))
    with closing(session_of(place)) as au:
        assert [row.status for row in au.turns()] == ["open"]
    deliver(place, ending)
    with closing(session_of(place)) as au:
        assert au.turns()[0].status == "interrupted"
        assert world.state["drafts"] == {"9": "x"}
        HookedTurns(au).end()
        assert au.undo("t-1").counts["reversed"] == 1


def test_a_call_that_must_not_run_is_denied(place: Path, world: World) -> None:
    """AN-18, OUT-02: in the agent's own words."""
    mail = {
        "tool_name": "mcp__mail__send",
        "tool_use_id": "c1",
        "tool_input": {"to": "x"},
    }
    policy = Policy(non_reversible="deny")
    deliver(place, payload("UserPromptSubmit"), policy)
    assert deliver(place, payload("PreToolUse__mcp", **mail), policy) == {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": "mail.send cannot be undone",
        }
    }


def test_a_tool_of_the_agent_itself_may_be_declared(place: Path, world: World) -> None:
    """TX-15: `claude.Bash`; what is not declared is the agent's own business."""
    tools = registry(world)
    tools.add("claude.Bash", lambda command: None)

    def open_session(session: str) -> AgentUndo:
        return AgentUndo.open(str(place), session=session, tools=tools)

    answers = [
        take_hook(json.dumps(payload(name)).encode(), open_session)
        for name in ("UserPromptSubmit", "PreToolUse__Bash", "PreToolUse__Edit")
    ]
    with open_session(SESSION) as au:
        assert [call.tool for call in au.calls("t-1")] == ["claude.Bash"]
        assert [call.outcome for call in au.calls("t-1")] == ["denied"]
    assert answers[0] == answers[2] == b""
    assert b"there is no one to ask" in answers[1]


def test_hooks_of_tools_at_once_wait_for_each_other(place: Path, world: World) -> None:
    """TX-15: an agent runs several tools at once; no call is lost."""
    deliver(place, payload("UserPromptSubmit"))
    pids = []
    for number in range(6):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                arguments = {"tool_input": {"note": "n"}, "tool_use_id": f"c{number}"}
                hook = payload(
                    "PreToolUse__mcp", tool_name="mcp__notes__read", **arguments
                )
                take_hook(
                    json.dumps(hook).encode(),
                    lambda session: opened(place, session=session),
                )
                code = 0
            finally:
                os._exit(code)
        pids.append(pid)
    assert [os.waitpid(pid, 0)[1] for pid in pids] == [0] * 6
    with closing(session_of(place)) as au:
        assert len(au.calls("t-1")) == 6


@pytest.mark.parametrize("raw", [b"", b"[]", b"{", b"\xff"])
def test_a_payload_that_is_none_is_an_error(place: Path, raw: bytes) -> None:
    def never(session: str) -> AgentUndo:
        raise AssertionError("no session is meant")

    with pytest.raises(UsageError, match="cannot read the hook"):
        take_hook(raw, never)


def test_an_event_of_no_concern_prints_nothing(place: Path, world: World) -> None:
    hook = payload("PreCompact")
    assert take_hook(json.dumps(hook).encode(), lambda s: opened(place)) == b""
