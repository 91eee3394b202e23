"""Attribution from running processes only, with real processes."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.claude import Claude
from tests.support.shadow import COMMAND, Document, Shadow
from tests.support.waiting import until

pytestmark = [
    pytest.mark.usefixtures("untouched"),
    pytest.mark.both_modes,
    pytest.mark.process,
]

PROGRAM = f"""
import subprocess, sys
print(0, flush=True)
for line in sys.stdin:
    is_hook = line.startswith("{{")
    words = [{COMMAND!r}, "hook", "claude-code"] if is_hook else ["sh", "-c", line]
    done = subprocess.run(words, input=line, text=True)
    print(done.returncode, flush=True)
"""
_SEEN_S = 2.5
"""The daemon looks at the agent's processes twice a second, on a busy machine more rarely."""
Agent = Callable[[str], "subprocess.Popen[bytes]"]


@pytest.fixture
def running(shadow: Shadow, tmp_path: Path) -> Iterator[Agent]:
    """Return a function that starts a program of some name in R."""
    with ExitStack() as stack:

        def start(name: str) -> subprocess.Popen[bytes]:
            program = tmp_path / name
            if not program.exists():
                program.symlink_to(sys.executable)
            process = subprocess.Popen(
                [program, "-c", PROGRAM],
                cwd=shadow.repo.root,
                env=shadow.environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            assert process.stdout is not None
            process.stdout.readline()
            return process

        yield start


def the_write(shadow: Shadow) -> Document:
    """Do H(a) and return its newest row."""
    shadow.repo.append("a", "somebody\n")
    return shadow.log("a")[0]


def test_agent_without_hooks_is_named_weakly(shadow: Shadow, running: Agent) -> None:
    """ATT-16, ATT-19: `low`, with the reason; one session for one process."""
    process = running("aider")
    row = the_write(shadow)
    assert (row["actor"], row["agent"], row["confidence"]) == ("unknown", None, "low")
    assert row["candidates"] == [row["session"]]
    assert "aider" in str(row["reason"])
    assert (row["turn"], row["call"]) == (None, None)
    assert "process heuristics" in str(row["reason"])
    again = the_write(shadow)
    assert again["session"] == row["session"]
    (known,) = [
        one
        for one in shadow.ok("sessions", "--json").rows()
        if one["id"] == row["session"]
    ]
    assert str(known["native_id"]).startswith(f"pid-{process.pid}-")


def test_oops_takes_what_nobody_claimed_but_a_process_alone(
    shadow: Shadow, running: Agent
) -> None:
    """UNDO-22: `oops` works without any hooks installed."""
    before = shadow.repo.read("a")
    running("aider")
    the_write(shadow)
    assert "no agent reported these changes" in shadow("oops", "--dry-run").out
    assert shadow.oops()["status"] == "reversed"
    assert shadow.repo.read("a") == before


@pytest.mark.parametrize("other", ["codex", "nano"])
def test_nobody_is_named_when_another_one_may_have_written(
    shadow: Shadow, running: Agent, other: str
) -> None:
    running("aider")
    running(other)
    assert the_write(shadow)["confidence"] == "unknown"


def test_nobody_is_named_when_hooks_speak_of_an_idle_session(
    shadow: Shadow, running: Agent
) -> None:
    """ATT-16: a live session without a turn."""
    Claude(shadow).start()
    running("claude")
    assert the_write(shadow)["confidence"] == "unknown"


def test_nobody_is_named_when_the_process_has_reported_the_end_of_its_session(
    shadow: Shadow, running: Agent
) -> None:
    """It may take a second to exit, and what is written then is not its work."""
    process = running("claude")
    for event in ("SessionStart", "SessionEnd"):
        say(process, json.dumps(Claude(shadow).payload(event, source="startup")))
    row = the_write(shadow)
    assert row["confidence"] == "unknown"
    known = {one["native_id"] for one in shadow.ok("sessions", "--json").rows()}
    assert not any(str(one).startswith("pid-") for one in known)


def say(process: "subprocess.Popen[bytes]", line: str) -> None:
    """Let a program deliver a payload, or run a shell, as its child does."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{line}\n".encode())
    process.stdin.flush()
    assert process.stdout.readline() == b"0\n"


def test_a_persons_file_is_theirs_after_they_cancelled_a_shell(
    shadow: Shadow, running: Agent
) -> None:
    """Claude Code reports nothing when a person presses Escape."""
    process, agent = running("claude"), Claude(shadow)
    say(process, json.dumps(agent.payload("UserPromptSubmit", prompt="go")))
    call = {"tool_name": "Bash", "tool_input": {"command": "make"}}
    payload = agent.payload("PreToolUse", tool_use_id="call", **call)
    say(process, json.dumps(payload))
    say(process, "echo agent > a")
    time.sleep(_SEEN_S)
    shadow.repo.write("b", "person\n")
    time.sleep(_SEEN_S)
    (row,) = shadow.log("--", "b")
    # Without a daemon nobody looks at the processes in between.
    expected = ("low", None) if shadow.daemon else ("high", "call")
    assert (row["confidence"], row["call"]) == expected
    (row,) = shadow.log("--", "a")
    assert (row["confidence"], row["call"]) == ("high", "call")


def test_what_outlives_its_agent_writes_for_the_turn_that_started_it(
    shadow: Shadow, running: Agent
) -> None:
    """ATT-17: the session has ended, and the command ends with its write."""
    process, agent = running("claude"), Claude(shadow)
    agent.prompt_id = "p1"
    call = {"tool_name": "Bash", "tool_input": {"command": "make &"}}
    late = "until [ -e ../go ]; do sleep 0.02; done; echo late > a"
    for line in (
        json.dumps(agent.payload("UserPromptSubmit", prompt="go")),
        json.dumps(agent.payload("PreToolUse", tool_use_id="call", **call)),
        f"CLAUDE_CODE_SESSION_ID=s1 sh -c '{late}' > /dev/null 2>&1 &",
        json.dumps(agent.payload("PostToolUse", tool_use_id="call", **call)),
        json.dumps(agent.payload("Stop")),
        json.dumps(agent.payload("SessionEnd", reason="other")),
    ):
        say(process, line)
    process.kill()
    process.wait()
    (shadow.repo.root.parent / "go").touch()
    until(lambda: shadow.repo.read("a") == b"late\n")
    (row,) = shadow.log("--", "a")
    # Without a daemon nobody remembers the command.
    expected = ("p1", "low") if shadow.daemon else (None, "unknown")
    assert (row["turn"], row["confidence"]) == expected
    (session,) = [one for one in shadow.ok("sessions", "--json").rows() if one["agent"]]
    assert (row["session"] == session["id"]) is shadow.daemon
    shadow.repo.write("b", "person\n")
    assert shadow.log("--", "b")[0]["confidence"] == "unknown"


def test_session_of_a_process_ends_with_it(shadow: Shadow, running: Agent) -> None:
    """ATT-08: a dead agent claims nothing."""
    process = running("aider")
    guessed = the_write(shadow)["session"]
    process.kill()
    process.wait()
    assert the_write(shadow)["confidence"] == "unknown"
    (known,) = [
        one for one in shadow.ok("sessions", "--json").rows() if one["id"] == guessed
    ]
    assert known["ended"] is not None


def test_session_of_a_process_ends_when_its_hooks_speak(
    shadow: Shadow, running: Agent
) -> None:
    running("aider")
    guessed = the_write(shadow)["session"]
    Claude(shadow).write("b", "agent\n")
    row = the_write(shadow)
    assert row["session"] != guessed


HOLD = """
import os, sys
os.setsid()
if os.fork():
    os._exit(0)
handle = open(sys.argv[1], "a", buffering=1)
print(os.getpid(), flush=True)
for line in sys.stdin:
    handle.write("served" + chr(10))
    print("done", flush=True)
"""


@pytest.fixture
def server(shadow: Shadow) -> Iterator["subprocess.Popen[bytes]"]:
    """Start a person's server that keeps `a` open and writes into it when it is told to."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, shadow.repo.root / "a"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(0.05)  # start times are counted in ticks
    yield process
    assert process.stdin is not None
    process.stdin.close()
    process.stdout.close()
    process.wait()


def serve(server: "subprocess.Popen[bytes]") -> None:
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(b"go\n")
    server.stdin.flush()
    server.stdout.readline()


def test_file_that_a_strangers_process_holds_open_is_not_the_shells(
    shadow: Shadow, server: "subprocess.Popen[bytes]"
) -> None:
    """A process outside the session's tree speaks for somebody else."""
    claude = Claude(shadow)
    call = claude.pre("Bash", {"command": "make"})
    serve(server)
    shadow.repo.append("b", "made\n")
    claude.post(call)
    held, made = shadow.log("a")[0], shadow.log("b")[0]
    assert (held["confidence"], held["agent"]) == ("ambiguous", None)
    assert "has the file open" in str(held["reason"])
    assert (made["confidence"], made["call"]) == ("high", call)
