"""Attribution from running processes only, with real processes."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.agent_process import (
    Agent,
    begin_shell,
    end_shell,
    say,
    sdk_program,
    shell_payload,
)
from tests.support.claude import Claude
from tests.support.counted import is_counted
from tests.support.repo import Repo
from tests.support.shadow import Document, Shadow
from tests.support.waiting import until

pytestmark = [
    pytest.mark.usefixtures("untouched"),
    pytest.mark.both_modes,
    pytest.mark.process,
]

_SEEN_S = 2.5
"""The daemon looks at the agent's processes twice a second, on a busy machine more rarely."""


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


@pytest.mark.linux  # only its counters show that the shell did not write
def test_a_persons_file_is_theirs_after_they_cancelled_a_shell(
    shadow: Shadow, running: Agent
) -> None:
    """Claude Code reports nothing when a person presses Escape."""
    process, agent = running("claude"), Claude(shadow)
    begin_shell(process, agent)
    say(process, "echo agent > a")
    time.sleep(_SEEN_S)
    shadow.repo.write("b", "person\n")
    time.sleep(_SEEN_S)
    (row,) = shadow.log("--", "b")
    # Without a daemon nobody looks at the processes in between.
    expected = ("unknown", None) if shadow.daemon else ("medium", "call-s1")
    assert (row["confidence"], row["call"]) == expected
    (row,) = shadow.log("--", "a")
    assert (row["confidence"], row["call"]) == ("medium", "call-s1")


# One that ends during the test may have written anything.
_QUIET = "sleep 60 > /dev/null 2>&1 & echo $! > ../quiet"


def end_quiet(repo: Repo) -> None:
    """End what `_QUIET` began."""
    os.kill(int((repo.root.parent / "quiet").read_text()), signal.SIGKILL)


@pytest.mark.linux  # only its counters show that the shell did not write
def test_a_persons_save_during_a_quiet_shell_is_not_the_agents(
    shadow: Shadow, running: Agent
) -> None:
    """The processes of the agent wrote fewer bytes than the files need."""
    process, agent, repo = running("claude"), Claude(shadow), shadow.repo
    begin_shell(process, agent)
    say(process, f"echo agent > a; {_QUIET}")
    until(lambda: repo.read("a") == b"agent\n")
    repo.write("b", "person\n" * 40)
    repo.write("new", "person\n" * 40)
    # Without a daemon nobody counts the bytes in between.
    expected = ("unknown", None) if shadow.daemon else ("medium", "call-s1")
    for path in ("b", "new"):
        (row,) = shadow.log("--", path)
        assert (row["confidence"], row["call"]) == expected, row
        assert ("fewer bytes" in str(row["reason"])) is shadow.daemon
    (row,) = shadow.log("--", "a")
    assert (row["confidence"], row["call"]) == ("medium", "call-s1")
    end_shell(process, agent)
    end_quiet(repo)
    shadow("oops", "--yes")
    assert (repo.read("b") == b"person\n" * 40) is shadow.daemon
    assert repo.read("a") != b"agent\n"


@pytest.mark.linux  # only its counters show that the shell did not write
def test_a_persons_new_file_during_a_shell_that_prints_is_not_the_agents(
    shadow: Shadow, running: Agent
) -> None:
    """It printed more than the file needs, but made no page of any file dirty."""
    process, agent, repo = running("claude"), Claude(shadow), shadow.repo
    begin_shell(process, agent)
    say(process, "head -c 20000 /dev/urandom | cat > /dev/null")
    repo.write("new", "person\n")
    # Without a daemon nobody counts in between.
    expected = ("unknown", None) if shadow.daemon else ("medium", "call-s1")
    (row,) = shadow.log("--", "new")
    assert (row["confidence"], row["call"]) == expected, row
    say(process, "echo agent > made")
    (row,) = shadow.log("--", "made")
    assert (row["confidence"], row["call"]) == ("medium", "call-s1"), row


@pytest.mark.parametrize("variable", ["CLAUDE_CODE_SESSION_ID=s1", "CLAUDECODE=1"])
@pytest.mark.sampled
def test_what_a_shell_has_detached_is_not_taken_for_a_person(
    shadow: Shadow, running: Agent, variable: str
) -> None:
    """It is below the agent no more, and ends when it has written; nobody else counts it."""
    process, agent, repo = running("claude"), Claude(shadow), shadow.repo
    begin_shell(process, agent)
    # It is found by a variable that the agent sets for its shells: its session, or its name alone.
    mark = f"env -u CLAUDECODE -u CLAUDE_CODE_SESSION_ID {variable}"
    say(process, f"{mark} setsid -f sh -c 'sleep 2.5; echo late > late' > /dev/null")
    until(lambda: repo.exists("late"))
    (row,) = shadow.log("--", "late")
    assert row["agent"] == "claude-code", row["reason"]


@pytest.mark.linux  # only its counters show that the shell did not write
def test_a_persons_save_is_not_the_agents_when_its_first_event_is_a_shells(
    shadow: Shadow, running: Agent
) -> None:
    """Before that event, nobody knew the process whose bytes are to be counted."""
    process, agent, repo = running("claude"), Claude(shadow), shadow.repo
    say(process, shell_payload(agent, "PreToolUse"))
    say(process, "true")
    repo.write("b", "person\n" * 40)
    (row,) = shadow.log("--", "b")
    # Without a daemon nobody counts the bytes in between.
    expected = ("unknown", None) if shadow.daemon else ("medium", "call-s1")
    assert (row["confidence"], row["call"]) == expected, row


@pytest.mark.linux  # only its counters show that the shell did not write
@pytest.mark.parametrize("is_touched", [False, True])
@pytest.mark.sampled
def test_a_persons_save_by_rename_during_a_quiet_shell_is_not_the_agents(
    shadow: Shadow, running: Agent, is_touched: bool
) -> None:
    """Neither is the end of the temporary file, which no bytes exclude.

    An editor may set the permissions last: then the file looks younger than that end.
    """
    process, agent, repo = running("claude"), Claude(shadow), shadow.repo
    repo.write("b", "old\n" * 40)
    shadow("flush")
    begin_shell(process, agent)
    say(process, _QUIET)
    repo.write("b.tmp", "person\n" * 40)
    (row,) = shadow.log("--", "b.tmp")
    assert row["confidence"] == ("unknown" if shadow.daemon else "medium"), row
    os.rename(repo.path("b.tmp"), repo.path("b"))
    if is_touched:
        os.chmod(repo.path("b"), 0o644)
    for path in ("b", "b.tmp"):
        row = shadow.log("--", path)[0]
        expected = ("unknown", None) if shadow.daemon else ("medium", "call-s1")
        assert (row["confidence"], row["call"]) == expected, row
    end_quiet(repo)


def test_no_bytes_are_counted_when_the_ledger_is_off(
    shadow: Shadow, running: Agent, untouched: Callable[[], None]
) -> None:
    shadow.repo.git("config", "agent-undo.ledger", "false")
    untouched()
    process, agent = running("claude"), Claude(shadow)
    begin_shell(process, agent)
    shadow.repo.write("b", "person\n" * 40)
    (row,) = shadow.log("--", "b")
    assert (row["confidence"], row["call"]) == ("medium", "call-s1"), row


@pytest.mark.linux  # only its counters show that the shell did not write
def test_what_a_shell_wrote_when_it_started_does_not_count_later(
    shadow: Shadow, running: Agent
) -> None:
    """Some agents' shells write kilobytes before their command runs."""
    process, agent, repo = running("claude"), Claude(shadow), shadow.repo
    begin_shell(process, agent)
    say(process, "head -c 20000 /dev/zero | cat > /dev/null")
    assert process.stdin is not None
    process.stdin.write(b"until [ -e ../end ]; do sleep 0.1; done\n")
    process.stdin.flush()
    for number in range(60):
        time.sleep(1)  # the daemon counts now and then
        repo.write("b", f"person {number}\n" * 40)
        row = shadow.log("--", "b")[0]
        if row["confidence"] == "unknown" or not shadow.daemon:
            break
    (repo.root.parent / "end").touch()
    # Without a daemon nobody counts the bytes in between.
    expected = ("unknown", None) if shadow.daemon else ("medium", "call-s1")
    assert (row["confidence"], row["call"]) == expected, row


def runs(pid: int) -> bool:
    """Return whether a process has not ended; a zombie has no command line."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes() != b""
    except OSError:
        return False


def test_what_outlives_its_agent_writes_for_the_turn_that_started_it(
    shadow: Shadow, running: Agent
) -> None:
    """ATT-17: the session has ended, and the command ends with its write."""
    process, agent = running("claude"), Claude(shadow)
    agent.prompt_id = "p1"
    call = {"tool_name": "Bash", "tool_input": {"command": "make &"}}
    late = "echo $$ > ../pid; until [ -e ../go ]; do sleep 0.02; done; echo late > a"
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
    (shadow.repo.root.parent / "end").touch()
    # Without a daemon nobody remembers the command.
    expected = ("p1", "low") if shadow.daemon else (None, "unknown")
    assert (row["turn"], row["confidence"]) == expected, row
    (session,) = [one for one in shadow.ok("sessions", "--json").rows() if one["agent"]]
    assert (row["session"] == session["id"]) is shadow.daemon
    # What still runs may write: only then is the person's write nobody else's.
    until(lambda: not runs(int((shadow.repo.root.parent / "pid").read_text())))
    time.sleep(_SEEN_S)
    shadow.repo.write("b", "person\n")
    assert shadow.log("--", "b")[0]["confidence"] == "unknown"


def test_a_background_command_makes_another_agents_shell_less_certain(
    shadow: Shadow, running: Agent, untouched: Callable[[], None]
) -> None:
    """Its agent reports that the command goes on, and its turn has not ended."""
    shadow.repo.git("config", "agent-undo.ledger", "false")
    untouched()
    first, second = Claude(shadow), Claude(shadow, "s2")
    first.prompt_id, second.prompt_id = "p1", "p2"
    call = {"tool_name": "Bash", "tool_input": {"command": "make"}}
    waits = "until [ -e ../{0} ]; do sleep 0.02; done"
    late = f"{waits.format('go')}; echo late > a; {waits.format('end')}"
    response = {"stdout": "", "backgroundTaskId": "b1"}
    ended = {**call, "tool_use_id": "c1", "tool_response": response}
    process = running("claude")
    for line in (
        json.dumps(first.payload("UserPromptSubmit", prompt="go")),
        json.dumps(first.payload("PreToolUse", tool_use_id="c1", **call)),
        f"CLAUDE_CODE_SESSION_ID=s1 sh -c '{late}' > /dev/null 2>&1 &",
        json.dumps(first.payload("PostToolUse", **ended)),
    ):
        say(process, line)
    other = running("claude")
    say(other, json.dumps(second.payload("UserPromptSubmit", prompt="go")))
    say(other, json.dumps(second.payload("PreToolUse", tool_use_id="c2", **call)))
    (shadow.repo.root.parent / "go").touch()
    until(lambda: shadow.repo.read("a") == b"late\n")
    (row,) = shadow.log("--", "a")
    (shadow.repo.root.parent / "end").touch()
    # Without a daemon nobody remembers the command.
    assert row["confidence"] == "medium", row
    assert ("of another session ran" in str(row["reason"])) is shadow.daemon


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


@pytest.mark.linux  # only it shows which process can write to an open file
def test_file_that_a_strangers_process_holds_open_is_not_the_shells(
    shadow: Shadow, server: "subprocess.Popen[bytes]", untouched: Callable[[], None]
) -> None:
    """A process outside the session's tree speaks for somebody else."""
    shadow.repo.git("config", "agent-undo.ledger", "false")
    untouched()
    claude = Claude(shadow)
    call = claude.pre("Bash", {"command": "make"})
    serve(server)
    shadow.repo.append("b", "made\n")
    claude.post(call)
    held, made = shadow.log("a")[0], shadow.log("b")[0]
    assert (held["confidence"], held["agent"]) == ("ambiguous", None)
    assert "has the file open" in str(held["reason"])
    assert (made["confidence"], made["call"]) == ("medium", call)


def test_a_session_that_is_started_for_a_process_is_its_alone(
    shadow: Shadow, running: Agent
) -> None:
    process, repo = running("worker"), shadow.repo
    shadow.ok("session", "start", "--agent", "own", "--pid", str(process.pid))
    say(process, "echo agent > a")
    repo.write("b", "person\n" * 40)
    (row,) = shadow.log("--", "a")
    assert (row["agent"], row["confidence"]) == ("own", "medium"), row
    # Elsewhere nobody counts the bytes in between.
    expected = (None, "unknown") if is_counted(shadow) else ("own", "medium")
    (row,) = shadow.log("--", "b")
    assert (row["agent"], row["confidence"]) == expected, row
    shadow.ok("session", "end")


def test_no_session_is_started_for_a_process_that_is_gone(shadow: Shadow) -> None:
    with subprocess.Popen(["true"]) as gone:
        pass
    run = shadow("session", "start", "--pid", str(gone.pid))
    assert run.code == 2
    assert "is gone" in run.err
    for option in ("--pid", "--agent"):
        assert shadow("session", "start", "--human", option, "2").code == 2


def test_a_persons_save_during_a_call_of_a_program_survives_its_rollback(
    shadow: Shadow,
) -> None:
    """The program says that all its files are written by itself and what it starts."""
    repo = shadow.repo
    before = repo.read("a")
    with sdk_program(shadow, "alone") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        repo.write("b", "person\n" * 5000)
        shadow.ok("flush")
        process.stdin.write(b"\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"undone\n"
    assert repo.read("a") == before
    # Elsewhere nobody counts the bytes in between; what is taken for the program's is not lost.
    assert (repo.read("b") == b"person\n" * 5000) is is_counted(shadow)
    (saved,) = [row for row in shadow.log("--", "b") if row["kind"] == "modify"]
    kept = shadow.ok("cat", "--at", str(saved["seq"]), "b").raw
    assert kept == b"person\n" * 5000


@pytest.mark.kinds("sha1-files", "sha256-files")
def test_nothing_is_concluded_of_a_program_that_records_itself(
    shadow_n: Shadow,
) -> None:
    """Nobody counts before its turn ends, and what it writes to record is no tool's."""
    repo = shadow_n.repo
    with sdk_program(shadow_n, "alone") as process:
        repo.write("b", "person\n" * 5000)
        rows = {str(row["path"]): row for row in shadow_n.log()}
        process.communicate(b"\n")
    for path in ("a", "b"):
        assert "by timing only" in str(rows[path]["reason"]), rows[path]
