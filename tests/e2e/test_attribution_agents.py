"""ATT: the agents with hooks of their own shape, each by the payloads that it really sends.

The payloads are the samples of tests/fixtures/hook_payloads, with the paths of a real repository.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.repo import ten_lines
from tests.support.shadow import Document, Shadow

pytestmark = pytest.mark.usefixtures("untouched")

FIXTURES = Path(__file__).parents[1] / "fixtures" / "hook_payloads"
OWN_TURN = "turn-"
DERIVED = "h-"


@dataclass(slots=True)
class Agent:
    """Send payloads under one agent's name; `file` takes the place of the samples' files."""

    shadow: Shadow
    name: str
    file: str = "src/f.py"

    def sample(self, name: str, **changes: object) -> dict[str, object]:
        """Return a sample payload with the paths of this repository and some other fields."""
        text = (FIXTURES / f"{name}.json").read_text()
        for sample in ("src/cart.py", "src/money.py"):
            text = text.replace(sample, self.file)
        text = text.replace("/home/dev/app", str(self.shadow.repo.root))
        payload = json.loads(text)
        assert isinstance(payload, dict)
        return {**payload, **changes}

    def send(self, payload: Mapping[str, object]) -> None:
        """Deliver one payload to the installed command: exit 0, empty output."""
        data = json.dumps(payload).encode()
        result = self.shadow("hook", self.name, stdin=data)
        assert (result.code, result.raw, result.err) == (0, b"", ""), result

    def spool(self, payload: Mapping[str, object]) -> None:
        """Leave one payload for the next command, at this moment."""
        self.shadow.spool(self.name, json.dumps(payload).encode())

    def send_sample(self, name: str, **changes: object) -> None:
        """Deliver one sample."""
        self.send(self.sample(name, **changes))

    def write(self, text: str = "agent\n") -> None:
        """Do what the agent's tool does."""
        self.shadow.repo.write(self.file, text)


@dataclass(frozen=True, slots=True)
class Story:
    """Tell one agent's session: what comes before its write, what after, and whose it is then.

    A turn `turn-` or a call `h-` stands for an id of ours. Entries are names of samples, or a
    name with fields that are other.
    """

    agent: str
    session: str
    call: str
    tool: str
    before: tuple[object, ...]
    after: tuple[object, ...]
    turn: str = OWN_TURN
    confidence: str = "certain"
    file: str = field(default="")


GROK_TURN = "556780c0-0459-4d6b-98e2-2a13a718524b"
AMP_THREAD = {"id": "T-019ca1ce-3ae2-7686-a41e-ccc078837f8a"}
AMP_RESULT = {
    "toolUseID": "toolu_01amp",
    "tool": "edit_file",
    "status": "done",
    "thread": AMP_THREAD,
}
PI = {"ctx": {"session_id": "pi-1"}}
ACP_SESSION = {"sessionId": "sess_abc123def456"}
ACP_DONE = {
    "sessionId": "sess_abc123def456",
    "update": {
        "sessionUpdate": "tool_call_update",
        "toolCallId": "call_001",
        "status": "completed",
    },
}
CHAT = {
    "hook": "chat.message",
    "input": {"sessionID": "ses_3f1c0d9e8b7a", "messageID": "msg_01"},
    "output": {"parts": [{"type": "text", "text": "Do it"}]},
}

STORIES = (
    Story(
        "goose",
        session="20260920_3",
        call="call_g1",
        tool="edit",
        before=(
            "goose__SessionStart",
            "goose__UserPromptSubmit",
            "goose__PreToolUse__edit_namespaced",
        ),
        after=("goose__PostToolUse__edit", "goose__Stop"),
    ),
    Story(
        "kiro",
        session="abc123-def456-789",
        call=DERIVED,
        tool="fs_write",
        before=(
            "kiro_v1__SessionStart",
            "kiro_v1__UserPromptSubmit",
            "kiro_v1__PreToolUse",
        ),
        after=("kiro_v1__PostFileSave", "kiro_v1__PostToolUse", "kiro_cli2__stop"),
    ),
    Story(
        "cline",
        session="conv-123",
        turn="conv-123",
        call="call-456",
        tool="editor",
        before=("cline_sdk__prompt_submit", "cline_sdk__tool_call"),
        after=("cline_sdk__tool_result", "cline_sdk__agent_end"),
    ),
    Story(
        "cline",
        session="1758363300000",
        call=DERIVED,
        tool="write_to_file",
        before=("cline__TaskStart", "cline__UserPromptSubmit", "cline__PreToolUse"),
        after=(
            ("cline__PreToolUse", {"hookName": "PostToolUse"}),
            "cline__TaskComplete",
        ),
        file="src/cline-legacy.py",
    ),
    Story(
        "opencode",
        session="ses_3f1c0d9e8b7a",
        call="toolu_01abc",
        tool="edit",
        turn="msg_01",
        before=(CHAT, "opencode__tool_execute_before__edit"),
        after=("opencode__tool_execute_after__edit", "opencode__event_session_status"),
    ),
    Story(
        "amp",
        session="T-019ca1ce-3ae2-7686-a41e-ccc078837f8a",
        call="toolu_01amp",
        tool="edit_file",
        turn="M-0199",
        before=("amp__session_start", "amp__agent_start", "amp__tool_call"),
        after=(
            ("amp__tool_call", {"hook": "tool.result", "event": AMP_RESULT}),
            "amp__agent_end",
        ),
    ),
    Story(
        "pi",
        session="pi-1",
        call="call_pi1",
        tool="edit",
        before=(("pi__before_agent_start", PI), ("pi__tool_call", PI)),
        after=(("pi__tool_result", PI), ("pi__agent_end", PI)),
    ),
    Story(
        "grok",
        session="01a03a9f-0f3b-78d2-bad3-cf2ad4e0ff2e",
        call="call-1c3bf464-0",
        tool="write",
        turn=GROK_TURN,
        before=(
            "grok__session_start",
            "grok__user_prompt_submit",
            ("grok__post_tool_use", {"hookEventName": "pre_tool_use"}),
        ),
        after=("grok__post_tool_use", "grok__stop__turn", "grok__stop__teardown"),
    ),
    Story(
        "antigravity",
        session="ec33ebf9-0cba-4100-8142-c61503f6c587",
        call="step-19",
        tool="write_to_file",
        before=("antigravity__PreInvocation", "antigravity__PreToolUse__write_to_file"),
        after=(
            ("antigravity__PostToolUse", {"stepIdx": 19, "error": ""}),
            "antigravity__Stop",
        ),
    ),
    Story(
        "openhands",
        session="04e2eedbe2d64736a1a4436334d9e1e6",
        call=DERIVED,
        tool="file_editor",
        before=("openhands__UserPromptSubmit", "openhands__PreToolUse"),
        after=("openhands__PostToolUse", "openhands__Stop"),
    ),
    Story(
        "acp",
        session="sess_abc123def456",
        call="call_001",
        tool="edit",
        before=("acp__session_prompt__request", "acp__session_update_tool_call"),
        after=(
            ("acp__session_update_tool_call", {"params": ACP_DONE}),
            (
                "acp__session_prompt__request",
                {"params": ACP_SESSION, "result": {"stopReason": "end_turn"}},
            ),
        ),
    ),
)


def send_all(agent: Agent, steps: tuple[object, ...]) -> None:
    for step in steps:
        if isinstance(step, str):
            agent.send_sample(step)
        elif isinstance(step, tuple):
            agent.send_sample(step[0], **step[1])
        else:
            assert isinstance(step, dict)
            agent.send(step)


def sessions_by_native(shadow: Shadow) -> dict[str, Document]:
    rows = shadow.sessions()
    return {str(row["native_id"]): row for row in rows}


def masked(value: object) -> object:
    """Return an id, or its beginning where use one of ours."""
    text = str(value)
    for ours in (OWN_TURN, DERIVED):
        if text.startswith(ours):
            return ours
    return value


def test_every_agents_write_is_its_own(shadow_d: Shadow) -> None:
    """ATT-01: agent, session, turn, call and tool, `certain`, for each in its own shape (D)."""
    expected = {}
    for story in STORIES:
        file = story.file or f"src/{story.agent}.py"
        agent = Agent(shadow_d, story.agent, file)
        send_all(agent, story.before)
        agent.write()
        send_all(agent, story.after)
        expected[file] = (
            story.agent,
            story.session,
            story.turn,
            story.call,
            story.tool,
            story.confidence,
        )
    natives = {
        row["id"]: native for native, row in sessions_by_native(shadow_d).items()
    }
    assert {
        path: (
            row["agent"],
            natives[row["session"]],
            masked(row["turn"]),
            masked(row["call"]),
            row["tool"],
            row["confidence"],
        )
        for path, row in shadow_d.newest().items()
    } == expected
    turns = shadow_d.ok("turns", "--json").rows()
    assert [turn["id"] for turn in turns if turn["ended"] is None] == []
    assert shadow_d.status()["gaps"] == 0


def test_child_session_writes_in_its_parents_turn(shadow_d: Shadow) -> None:
    """ATT-15: opencode's child sessions; undoing the parent's turn includes them."""
    code = Agent(shadow_d, "opencode", "a")
    parent, child = "ses_3f1c0d9e8b7a", "ses_3f1c0d9e8child"
    code.send(CHAT)
    task = code.sample("opencode__tool_execute_after__task_subagent")
    code.send({**task, "hook": "tool.execute.before", "output": {"args": {}}})
    info = {"id": child, "parentID": parent}
    created = {"type": "session.created", "properties": {"info": info}}
    code.send({"hook": "event", "input": {"event": created}})
    code.send(
        {
            **CHAT,
            "input": {"sessionID": child, "messageID": "msg_02"},
            "parentID": parent,
        }
    )
    for name in ("before", "after"):
        payload = code.sample(f"opencode__tool_execute_{name}__edit")
        inner = payload["input"]
        assert isinstance(inner, dict)
        called = {**inner, "sessionID": child}
        path = {"args": {"filePath": str(shadow_d.repo.root / "a")}}
        both = {**called, **path} if name == "after" else called
        code.send({**payload, "input": both, "output": path})
        code.write()
    code.send(task)
    code.send_sample("opencode__event_session_status")
    row = shadow_d.newest()["a"]
    known = sessions_by_native(shadow_d)
    assert (row["session"], row["call"]) == (known[child]["id"], "toolu_01abc")
    assert row["turn"] == f"msg_01/{child}"
    assert known[child]["parent"] == known[parent]["id"]
    call = shadow_d.ok("show", "--json", "toolu_01task").json()
    assert call["outcome"] == "ok"
    assert (
        shadow_d.ok("undo", "--yes", "--json", "msg_01").json()["status"] == "reversed"
    )
    assert shadow_d.repo.read("a") == ten_lines("a").encode()


def test_file_that_the_editor_writes_for_an_agent_is_the_agents(
    shadow_d: Shadow,
) -> None:
    """ATT-01: ACP's `fs/write_text_file`, with and without its answer."""
    acp = Agent(shadow_d, "acp", "a")
    acp.send_sample("acp__session_prompt__request")
    params = {"sessionId": "sess_abc123def456", "path": str(shadow_d.repo.root / "a")}
    acp.send_sample("acp__fs_write_text_file", params=params)
    acp.write()
    acp.send_sample("acp__fs_write_text_file", params=params, result=None)
    other = {**params, "path": str(shadow_d.repo.root / "b")}
    acp.send_sample("acp__fs_write_text_file", params=other, id=5)
    shadow_d.repo.write("b", "agent\n")
    answer = {"params": params, "result": {"stopReason": "end_turn"}}
    acp.send_sample("acp__session_prompt__request", **answer)
    shadow_d.repo.write("b", "human\n")
    rows = shadow_d.log()
    assert [
        (row["path"], row["agent"], row["tool"], row["confidence"]) for row in rows
    ] == [
        ("b", None, None, "unknown"),
        ("b", "acp", "fs/write_text_file", "certain"),
        ("a", "acp", "fs/write_text_file", "certain"),
    ]


def test_what_an_agent_writes_between_a_cancel_and_its_answer_is_its_own(
    shadow_d: Shadow,
) -> None:
    acp = Agent(shadow_d, "acp", "a")
    acp.send_sample("acp__session_prompt__request")
    named = {"locations": [{"path": str(shadow_d.repo.root / "a")}]}
    call = {"sessionUpdate": "tool_call", "toolCallId": "c", "kind": "edit", **named}
    acp.send_sample(
        "acp__session_update_tool_call", params={**ACP_SESSION, "update": call}
    )
    acp.send_sample("acp__session_cancel")
    acp.write()
    answer = {"params": ACP_SESSION, "result": {"stopReason": "cancelled"}}
    acp.send_sample("acp__session_prompt__request", **answer)
    shadow_d.repo.write("a", "human\n")
    rows = shadow_d.log()
    assert [(row["agent"], row["call"]) for row in rows] == [(None, None), ("acp", "c")]


def test_call_that_a_loaded_session_repeats_claims_nothing_that_comes_later(
    shadow_d: Shadow,
) -> None:
    """It was interrupted in its time, so no end of it is repeated."""
    acp = Agent(shadow_d, "acp", "a")
    named = {"locations": [{"path": str(shadow_d.repo.root / "a")}]}
    call = {"sessionUpdate": "tool_call", "toolCallId": "c", "kind": "edit", **named}
    load = {"method": "session/load", "params": ACP_SESSION}
    acp.send_sample("acp__session_prompt__request", **load)
    acp.send_sample(
        "acp__session_update_tool_call", params={**ACP_SESSION, "update": call}
    )
    acp.send_sample("acp__session_prompt__request", **load, result=None)
    shadow_d.repo.write("a", "human\n")
    assert [row["agent"] for row in shadow_d.log()] == [None]


AIDER = """\
git commit --quiet --no-verify -am 'the user: own work'
echo agent > b
git -c user.name='Test User (aider)' commit --quiet --no-verify -am 'feat: b

Co-authored-by: aider (big) <aider@aider.chat>'
"""


def test_aider_runs_in_exec_and_its_commits_are_noted(
    shadow_n: Shadow, untouched: Callable[[], None]
) -> None:
    """ATT-06: the edit is Aider's; what it commits of the user's stays the user's (N)."""
    shadow_n.repo.write("a", "human\n")
    shadow_n.ok("record", "a")
    before = shadow_n.newest()["a"]
    committer = {"GIT_COMMITTER_NAME": "Test User (aider)"}
    shadow_n.ok("exec", "--agent", "aider", "--", "sh", "-c", AIDER, env=committer)
    untouched()
    rows = shadow_n.newest()
    assert (rows["a"]["seq"], rows["a"]["agent"]) == (before["seq"], before["agent"])
    assert rows["a"]["agent"] is None
    assert (rows["b"]["agent"], rows["b"]["confidence"]) == ("aider", "medium")
    head, _ = shadow_n.log("--kind", "head")  # the user's own commit came first
    assert head["agent"] == "aider"
    assert str(head["note"]).endswith('"feat: b" that names aider')


def test_aider_script_can_report_its_turns(shadow_n: Shadow) -> None:
    """ATT-01: `hook aider` takes the payload of docs/hooks.md (N)."""
    aider = Agent(shadow_n, "aider", "a")
    call = {"session": "s", "call": "c", "tool": "edit", "paths": ["a"]}
    aider.send({"event": "before", **call})
    aider.write()
    aider.send({"event": "after", **call})
    row = shadow_n.newest()["a"]
    assert (row["agent"], row["tool"], row["confidence"]) == (
        "aider",
        "edit",
        "certain",
    )
