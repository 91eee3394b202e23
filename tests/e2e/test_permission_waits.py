"""A call that waits for a person: its window is the time in which its tool ran."""

import json
import time

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
    repo.write("a", ten_lines("a").replace("line 2", "line 2X"))
    agent.post(call)
    (row,) = rows_at(shadow, "b")
    assert (row["confidence"], row["call"]) == ("low", None)
    (row,) = rows_at(shadow, "a")
    assert (row["confidence"], row["call"]) == ("high", call)
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


def test_a_denied_call_keeps_no_write_of_a_person(agent: Claude) -> None:
    shadow, repo = agent.shadow, agent.shadow.repo
    agent.prompt("go")
    path = str(repo.root / "a")
    tool_input = {"file_path": path, "content": "x"}
    call = agent.pre("Write", tool_input)
    repo.write("a", "mine\n")
    think(shadow)
    agent.send(
        "PermissionDenied",
        tool_name="Write",
        tool_input=tool_input,
        tool_use_id=call,
        reason="no",
    )
    (row,) = rows_at(shadow, "a")
    assert (row["confidence"], row["call"]) == ("low", None)
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
    repo.write("a", "agent\n")
    agent.post(waiting)
    (row,) = rows_at(shadow, "n")
    assert (row["confidence"], row["call"]) == ("high", call)
    (row,) = rows_at(shadow, "a")
    assert (row["confidence"], row["call"]) == ("high", waiting)
    same_after_reindex(shadow)


@pytest.mark.parametrize("duration", [-5, 1e300, None, "12", 10**9])
def test_a_window_stays_as_it_was_when_the_duration_is_absurd(
    agent: Claude, duration: object
) -> None:
    shadow, repo = agent.shadow, agent.shadow.repo
    tool_input = {"file_path": str(repo.root / "a"), "content": "x"}
    call = agent.pre("Write", tool_input)
    repo.write("a", "x")
    agent.send(
        "PostToolUse",
        tool_name="Write",
        tool_input=tool_input,
        tool_response={},
        tool_use_id=call,
        duration_ms=duration,
    )
    (row,) = rows_at(shadow, "a")
    assert (row["confidence"], row["call"]) == ("certain", call)


def test_an_edit_told_of_afterwards_is_its_agents_when_it_is_recorded_already(
    shadow: Shadow,
) -> None:
    """Cursor says what it edited, and nothing before it."""
    repo = shadow.repo
    repo.write("a", "x\n")
    payload = {
        "hook_event_name": "afterFileEdit",
        "conversation_id": "c1",
        "generation_id": "g1",
        "file_path": str(repo.root / "a"),
        "edits": [{"old_string": "a1", "new_string": "x"}],
        "workspace_roots": [str(repo.root)],
        "cursor_version": "1.7.2",
    }
    shadow.ok("hook", "cursor", stdin=json.dumps(payload).encode())
    (row,) = rows_at(shadow, "a")
    assert (row["agent"], row["confidence"]) == ("cursor", "certain")
    shadow.ok("oops", "--yes")
    assert repo.read("a") == ten_lines("a").encode()
    same_after_reindex(shadow)
