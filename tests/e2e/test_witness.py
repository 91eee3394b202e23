"""Attribution by the kernel's reports, with real processes; needs privilege."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.agent_process import (
    Agent,
    begin_shell,
    end_shell,
    say,
    sdk_program,
)
from tests.support.claude import Claude
from tests.support.shadow import Document, Shadow
from tests.support.waiting import until
from tests.support.witness_service import need_kernel

# Only the kernel of Linux reports who wrote.
pytestmark = [
    pytest.mark.usefixtures("untouched"),
    pytest.mark.process,
    pytest.mark.linux,
]


@pytest.fixture
def witnessed(shadow: Shadow, untouched: Callable[[], None], tmp_path: Path) -> None:
    """Turn the kernel's reports on; skip where this user may not read them."""
    need_kernel(tmp_path)
    shadow.repo.git("config", "agent-undo.witness", "true")
    untouched()


def newest(shadow: Shadow, path: str) -> Document:
    """Return the newest row of a path."""
    return shadow.log("--", path)[0]


def who(row: Document) -> tuple[object, ...]:
    """Return whose a row is."""
    return row["confidence"], row["call"], row.get("candidates", [])


@pytest.mark.usefixtures("witnessed")
def test_a_persons_save_during_a_shell_is_not_the_agents(
    shadow: Shadow, running: Agent
) -> None:
    process, agent, repo = running("claude"), Claude(shadow), shadow.repo
    begin_shell(process, agent)
    repo.write("b", "p\n")
    say(process, "echo agent > a; echo new > made; sed -i s/agent/shell/ a")
    repo.write("new", "p\n")
    for path in ("b", "new"):
        row = newest(shadow, path)
        assert who(row) == ("unknown", None, []), row
        assert str(row["reason"]).startswith("the kernel reported the write"), row
    for path in ("a", "made"):
        row = newest(shadow, path)
        assert who(row) == ("certain", "call-s1", []), row
        assert "which claude-code started" in str(row["reason"])
    end_shell(process, agent)
    shadow("oops", "--yes")
    assert (repo.read("b"), repo.read("new")) == (b"p\n", b"p\n")
    assert not (repo.root / "made").exists()


@pytest.mark.usefixtures("witnessed")
def test_the_shells_of_two_agents_are_told_apart(
    shadow: Shadow, running: Agent
) -> None:
    first, second = running("claude"), running("claude")
    one, other = Claude(shadow), Claude(shadow, session="s2")
    begin_shell(first, one)
    begin_shell(second, other)
    for number in range(3):
        say(first, f"echo one > one{number}")
        say(second, f"echo two > two{number}")
    say(first, "rm b")
    say(second, "mv a moved")
    for number in range(3):
        row = newest(shadow, f"one{number}")
        assert who(row) == ("certain", "call-s1", []), row
        row = newest(shadow, f"two{number}")
        assert who(row) == ("certain", "call-s2", []), row
    assert who(newest(shadow, "b")) == ("certain", "call-s1", [])
    assert who(newest(shadow, "moved")) == ("certain", "call-s2", [])


@pytest.mark.usefixtures("witnessed")
def test_a_person_who_deletes_and_renames_is_not_an_agent(
    shadow: Shadow, running: Agent
) -> None:
    process, agent, root = running("claude"), Claude(shadow), shadow.repo.root
    begin_shell(process, agent)
    (root / "b").unlink()
    (root / "a").rename(root / "moved")
    for path in ("b", "moved"):
        assert who(newest(shadow, path)) == ("unknown", None, [])


@pytest.mark.usefixtures("witnessed")
def test_nothing_is_reported_of_what_was_written_while_no_daemon_ran(
    shadow: Shadow, running: Agent
) -> None:
    process, agent = running("claude"), Claude(shadow)
    begin_shell(process, agent)
    say(process, "echo agent > a")
    assert who(newest(shadow, "a")) == ("certain", "call-s1", [])
    (daemon,) = shadow.daemons()
    os.kill(daemon, signal.SIGKILL)
    until(lambda: daemon not in shadow.daemons())
    shadow.repo.write("b", "p\n")
    say(process, "echo agent > made")
    for path in ("b", "made"):
        assert not str(newest(shadow, path)["reason"]).startswith("the kernel"), path
    end_shell(process, agent)
    until(lambda: bool(shadow.daemons()))
    again = {"tool_name": "Bash", "tool_input": {"command": "make"}}
    say(process, json.dumps(agent.payload("PreToolUse", tool_use_id="2", **again)))
    # The first barrier of the new daemon begins to read, the second one is covered.
    shadow.ok("flush")
    shadow.ok("flush")
    say(process, "echo again > a")
    shadow.repo.write("b", "person\n")
    assert who(newest(shadow, "a")) == ("certain", "2", [])
    assert who(newest(shadow, "b")) == ("unknown", None, [])


@pytest.mark.usefixtures("witnessed")
def test_what_a_shell_left_running_writes_for_its_turn(
    shadow: Shadow, running: Agent
) -> None:
    process, agent = running("claude"), Claude(shadow)
    os.mkfifo(shadow.repo.root.parent / "go")
    begin_shell(process, agent)
    say(process, "setsid -f sh -c 'read x < ../go; echo late > a; echo > ../go' >&2")
    end_shell(process, agent)
    turn = shadow.ok("turns", "--json").rows()[0]["id"]
    (shadow.repo.root.parent / "go").write_text("x\n")
    (shadow.repo.root.parent / "go").read_text()
    row = newest(shadow, "a")
    assert (*who(row), row["turn"]) == ("certain", None, [], turn), row


@pytest.mark.usefixtures("witnessed")
def test_what_a_person_writes_to_a_file_that_a_tool_names_is_not_the_tools(
    shadow: Shadow, running: Agent
) -> None:
    process, agent = running("claude"), Claude(shadow)
    say(process, json.dumps(agent.payload("UserPromptSubmit", prompt="go")))
    edit = {
        "tool_name": "Write",
        "tool_input": {"file_path": str(shadow.repo.root / "a"), "content": "x"},
    }
    say(process, json.dumps(agent.payload("PreToolUse", tool_use_id="edit", **edit)))
    shadow.repo.write("a", "person\n")
    assert who(newest(shadow, "a")) == ("unknown", None, []), json.dumps(
        newest(shadow, "a")
    )


def test_the_kernel_is_not_asked_unless_a_person_wants_it(
    shadow: Shadow, running: Agent
) -> None:
    process, agent = running("claude"), Claude(shadow)
    begin_shell(process, agent)
    say(process, "echo agent > a")
    row = newest(shadow, "a")
    assert who(row) == ("medium", "call-s1", []), row
    assert "by timing only" in str(row["reason"])


@pytest.mark.usefixtures("witnessed")
def test_what_a_program_of_ours_writes_itself_is_its_calls(shadow: Shadow) -> None:
    """It says which process it is; what others write may be a container's that works for it."""
    shadow.ok("flush")
    with sdk_program(shadow) as process:
        shadow.repo.write("b", "person\n")
        rows = {path: newest(shadow, path) for path in ("a", "b")}
        assert (rows["a"]["agent"], rows["a"]["confidence"]) == ("own", "certain"), rows
        assert (rows["b"]["agent"], rows["b"]["confidence"]) == ("own", "medium"), rows
        process.communicate(b"\n")
