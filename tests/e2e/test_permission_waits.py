"""A call that waits for a person: its window is the time in which its tool ran."""

import json
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from gitshadow.attribution.intake import EARLY_NS
from tests.support.claude import Claude
from tests.support.repo import ten_lines
from tests.support.reports import items
from tests.support.shadow import Document, Shadow

pytestmark = pytest.mark.usefixtures("untouched")

WAIT_S = EARLY_NS / 1e9 + 0.3
"""Longer than a tool may have begun before its duration says."""


def think(shadow: Shadow) -> None:
    """Let a person think about a prompt until what was written is certainly no tool's."""
    if shadow.daemon:
        shadow.ok("flush")
    time.sleep(WAIT_S)


def rows_at(shadow: Shadow, path: str) -> list[Document]:
    return shadow.log("--", path)[::-1]


def same_after_reindex(shadow: Shadow) -> None:
    before = [row for row in shadow.log("-n", "1000") if row["kind"] != "gap"]
    shadow.ok("stop")
    shadow.ok("reindex")
    assert [row for row in shadow.log("-n", "1000") if row["kind"] != "gap"] == before


def test_a_persons_file_is_theirs_when_a_shell_waits_for_permission(
    agent: Claude,
) -> None:
    shadow, repo = agent.shadow, agent.shadow.repo
    agent.prompt("go")
    call = agent.pre("Bash", {"command": "sed -i '2s/$/X/' a"})
    repo.write("b", ten_lines("b") + "PERSON\n")
    think(shadow)
    agent.allow(call)
    # The bytes of a shell are counted below its agent.
    edit = "sed '2s/$/X/' a > ../edited; cat ../edited > a"
    subprocess.run(["sh", "-c", edit], cwd=repo.root, check=True)
    agent.post(call)
    (row,) = rows_at(shadow, "b")
    assert (row["confidence"], row["call"]) == ("low", None)
    (row,) = rows_at(shadow, "a")
    assert (row["confidence"], row["call"]) == ("medium", call)
    report = shadow.ok("oops", "--yes", "--json").json()
    assert [
        path for path, item in items(report).items() if item["state"] == "reversed"
    ] == ["a"]
    assert repo.read("b") == ten_lines("b").encode() + b"PERSON\n"
    same_after_reindex(shadow)


def test_a_persons_line_stays_when_the_file_tool_waits_for_permission(
    agent: Claude,
) -> None:
    """The tool wrote the same file later; the host sends what it had found there."""
    shadow, repo = agent.shadow, agent.shadow.repo
    agent.prompt("go")
    path = str(repo.root / "a")
    edit = {"file_path": path, "old_string": "line 2\n", "new_string": "line 2 agent\n"}
    call = agent.pre("Edit", edit)
    mine = ten_lines("a").replace("line 9", "line 9 PERSON")
    repo.write("a", mine)
    think(shadow)
    agent.allow(call)
    repo.write("a", mine.replace("line 2\n", "line 2 agent\n"))
    agent.post(call, {"filePath": path, "originalFile": mine, "replaceAll": False})
    first, last = rows_at(shadow, "a")
    assert (first["confidence"], first["call"]) == ("low", None)
    assert (last["confidence"], last["call"]) == ("certain", call)
    shadow.ok("oops", "--yes")
    assert repo.read("a") == mine.encode()
    same_after_reindex(shadow)


def test_another_sessions_writes_are_its_own_when_a_shell_waits(agent: Claude) -> None:
    shadow, repo = agent.shadow, agent.shadow.repo
    other = Claude(shadow, "s2")
    agent.prompt("one")
    other.prompt("two")
    waiting = agent.pre("Bash", {"command": "make"})
    call = other.shell("echo theirs > n; rm b")
    think(shadow)
    agent.allow(waiting)
    # The bytes of a shell are counted below its agent.
    subprocess.run(["sh", "-c", "echo agent > a"], cwd=repo.root, check=True)
    agent.post(waiting)
    (row,) = rows_at(shadow, "n")
    assert (row["confidence"], row["call"]) == ("medium", call)
    (row,) = rows_at(shadow, "a")
    assert (row["confidence"], row["call"]) == ("medium", waiting)
    same_after_reindex(shadow)


class Untimed:
    """An agent whose hooks do not say how long a tool ran; its process is that of the tests."""

    def __init__(self, shadow: Shadow, agent: str) -> None:
        self.shadow, self.agent = shadow, agent
        self.transcript: Path | None = None
        self.send(_PROMPT[agent], prompt="go")

    def send(self, event: str, **fields: object) -> None:
        payload: dict[str, object] = {
            "session_id": "s1",
            "cwd": str(self.shadow.repo.root),
            "hook_event_name": event,
            **({"turn_id": "t1"} if self.agent == "codex" else {}),
            **({"transcript_path": str(self.transcript)} if self.transcript else {}),
            **fields,
        }
        done = self.shadow("hook", self.agent, stdin=json.dumps(payload).encode())
        assert (done.code, done.raw) == (0, b"")

    def before(self, tool: str, given: Mapping[str, object]) -> dict[str, object]:
        call: dict[str, object] = {"tool_name": tool, "tool_input": given}
        if self.agent == "codex":
            call["tool_use_id"] = "call_1"
        self.send(_BEFORE[self.agent], **call)
        return call

    def after(self, call: dict[str, object], response: object) -> None:
        self.send(_AFTER[self.agent], tool_response=response, **call)

    def run(self, command: str) -> None:
        """Run a shell as the agent does, as a child."""
        root = self.shadow.repo.root
        subprocess.run(["/bin/sh", "-c", command], cwd=root, check=True)


_PROMPT = {"codex": "UserPromptSubmit", "gemini": "BeforeAgent"}
_BEFORE = {"codex": "PreToolUse", "gemini": "BeforeTool"}
_AFTER = {"codex": "PostToolUse", "gemini": "AfterTool"}
_STOP = {"codex": "Stop", "gemini": "AfterAgent"}
_SHELL = {"codex": "Bash", "gemini": "run_shell_command"}
_SEEN_S = 2.5
"""The daemon looks at the agent's processes up to 50 times a second, on a busy machine rarely."""
_EXCLUDED = "an agent was at work, but its processes did not run or wrote fewer bytes"


@pytest.mark.linux  # only its counters show that nothing ran
@pytest.mark.parametrize("name", ["codex", "gemini"])
def test_a_persons_file_is_theirs_when_the_agent_runs_nothing_at_the_time(
    shadow_d: Shadow, name: str
) -> None:
    repo, agent = shadow_d.repo, Untimed(shadow_d, name)
    call = agent.before(_SHELL[name], {"command": "make"})
    shadow_d.settle()
    repo.write("b", ten_lines("b") + "PERSON\n")
    shadow_d.settle()
    agent.run("echo agent > a; sleep 0.3; rm c")
    agent.after(call, "")
    (row,) = rows_at(shadow_d, "b")
    assert (row["confidence"], row["call"], row["reason"]) == ("low", None, _EXCLUDED)
    for path in ("a", "c"):
        (row,) = rows_at(shadow_d, path)
        assert (row["confidence"], row["agent"]) == ("medium", name)
    shadow_d.oops()
    assert repo.read("b") == ten_lines("b").encode() + b"PERSON\n"
    assert repo.read("a") == ten_lines("a").encode()
    same_after_reindex(shadow_d)


@pytest.mark.linux  # only its counters show that nothing ran
def test_a_persons_file_stays_theirs_when_the_duration_of_the_call_includes_it(
    shadow_d: Shadow,
) -> None:
    """The call is judged again at its end, when nobody counts any more what it did then."""
    agent, repo = Claude(shadow_d), shadow_d.repo
    agent.prompt("go")
    call = agent.pre("Bash", {"command": "make"})
    think(shadow_d)
    agent.allow(call)
    # Our hooks and commands are children of the agent here. So the daemon looks after the last
    # hook, and again before the next command.
    shadow_d.settle()
    repo.write("b", ten_lines("b") + "PERSON\n")
    shadow_d.settle()
    (before,) = rows_at(shadow_d, "b")
    assert (before["confidence"], before["reason"]) == ("low", _EXCLUDED)
    agent.post(call)
    assert rows_at(shadow_d, "b") == [before]
    shadow_d("oops", "--yes")
    assert repo.read("b") == ten_lines("b").encode() + b"PERSON\n"


def test_a_running_shell_keeps_its_writes_when_it_is_quiet_for_a_while(
    shadow_d: Shadow,
) -> None:
    """It was started after its call was announced, so it did not wait for anybody."""
    agent = Untimed(shadow_d, "codex")
    call = agent.before("Bash", {"command": "make"})
    agent.run(f"sleep {_SEEN_S}; echo agent > a; sleep 0.3")
    agent.after(call, "")
    (row,) = rows_at(shadow_d, "a")
    assert (row["confidence"], row["call"]) == ("medium", "call_1")


def test_a_persons_line_stays_when_a_file_tool_says_no_duration(
    shadow_d: Shadow,
) -> None:
    """The tool wrote the file once, when it ran: what was written there before is not its own."""
    repo = shadow_d.repo
    agent = Untimed(shadow_d, "gemini")
    given = {"file_path": str(repo.root / "a"), "old_string": "2", "new_string": "2X"}
    call = agent.before("replace", given)
    mine = ten_lines("a").replace("line 9", "line 9 PERSON")
    repo.write("a", mine)
    think(shadow_d)
    repo.write("a", mine.replace("line 2\n", "line 2X\n"))
    agent.after(call, {"llmContent": "ok"})
    first, last = rows_at(shadow_d, "a")
    assert (first["confidence"], first["call"]) == ("low", None)
    assert (last["confidence"], last["agent"]) == ("certain", "gemini")
    shadow_d.oops()
    assert repo.read("a") == mine.encode()
    same_after_reindex(shadow_d)


def test_a_persons_file_is_theirs_when_the_transcript_has_the_duration(
    shadow: Shadow, tmp_path: Path
) -> None:
    """Codex writes it there before it runs the hook of the call's end."""
    repo = shadow.repo
    agent = Untimed(shadow, "codex")
    agent.transcript = tmp_path / "rollout.jsonl"
    call = agent.before("Bash", {"command": "make"})
    repo.write("b", ten_lines("b") + "PERSON\n")
    think(shadow)
    agent.run("echo agent > a")
    item = {
        "type": "CommandExecution",
        "id": "call_1",
        "aggregated_output": "",
        "duration": {"secs": 0, "nanos": 10_000_000},
    }
    other = {**item, "id": "call_0", "duration": {"secs": 3600, "nanos": 0}}
    lines = [
        json.dumps({"type": "event_msg", "payload": {"item": one}})
        for one in (item, other)
    ]
    agent.transcript.write_text("\n".join(["not JSON call_1", *lines, ""]))
    agent.after(call, "")
    (row,) = rows_at(shadow, "b")
    assert (row["confidence"], row["call"]) == ("low", None)
    (row,) = rows_at(shadow, "a")
    assert (row["confidence"], row["call"]) == ("medium", "call_1")
    same_after_reindex(shadow)


def test_a_persons_line_stays_when_a_patch_says_how_long_it_took(
    shadow_d: Shadow,
) -> None:
    repo = shadow_d.repo
    agent = Untimed(shadow_d, "codex")
    patch = (
        f"*** Begin Patch\n*** Update File: {repo.root}/a\n@@\n-2\n+2X\n*** End Patch\n"
    )
    call = agent.before("apply_patch", {"command": patch})
    repo.write("a", ten_lines("a") + "PERSON\n")
    think(shadow_d)
    repo.write("a", ten_lines("a") + "PERSON\nagent\n")
    agent.after(call, "Exit code: 0\nWall time: 0 seconds\nOutput:\nSuccess.\n")
    first, last = rows_at(shadow_d, "a")
    assert (first["confidence"], first["call"]) == ("low", None)
    assert (last["confidence"], last["call"]) == ("certain", "call_1")


@pytest.mark.parametrize("name", ["codex", "gemini"])
def test_a_persons_file_is_theirs_when_a_file_tool_was_refused(
    shadow: Shadow, name: str
) -> None:
    """These agents report the end of each tool that ran, and nothing of one that did not."""
    repo = shadow.repo
    agent = Untimed(shadow, name)
    path = repo.root / "a"
    if name == "codex":
        patch = (
            f"*** Begin Patch\n*** Update File: {path}\n@@\n-2\n+2X\n*** End Patch\n"
        )
        agent.before("apply_patch", {"command": patch})
    else:
        agent.before("write_file", {"file_path": str(path), "content": "x"})
    repo.write("a", "mine\n")
    agent.send(_STOP[name])
    (row,) = rows_at(shadow, "a")
    assert (row["confidence"], row["call"]) == ("low", None)
    shadow("oops", "--yes")
    assert repo.read("a") == b"mine\n"
    same_after_reindex(shadow)
