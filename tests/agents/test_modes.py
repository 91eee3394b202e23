"""Real agents in their modes: servers of tools, background tasks, permissions, later sessions."""

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.agents.judge import check_healthy, check_turns, check_writes, expected
from tests.agents.mcp_servers import SERVERS, add_note_server
from tests.agents.studio import AgentStudio
from tests.agents.test_agents import follows, status, turn_of
from tests.support.shadow import COMMAND
from tests.support.waiting import until

LEFT_RUNNING = (
    # Their shells have a flag for the background; those of others wait for the command.
    *((agent, "background") for agent in ("claude-code", "gemini", "grok")),
    *(
        (one, "detached")
        for one in ("claude-code", "codex", "gemini", "copilot", "grok")
    ),
    ("pi", "detached"),
)
_SEEN_S = 2.5
"""The daemon looks at the agent's processes twice a second, on a busy machine more rarely."""
REFUSED = {
    "claude-code": (
        ("-p",),
        (
            "--permission-mode=acceptEdits",
            "--settings",
            '{"permissions": {"deny": ["Edit(refused.txt)"]}}',
            "--output-format=stream-json",
            "--verbose",
        ),
    ),
    "codex": (
        ("exec", "-s", "read-only", "--dangerously-bypass-hook-trust", "--json"),
        (),
    ),
    "copilot": (("-p",), ("--allow-all-paths", "--deny-tool=write", "--no-color")),
}
"""How a run begins and ends in which a write is refused."""


@pytest.mark.parametrize("agent", SERVERS)
def test_a_file_that_an_mcp_server_writes_is_the_calls_and_is_undone(
    agent: str, studio: AgentStudio
) -> None:
    studio.record_hooks()
    studio.prepare()
    turn = studio.turn("note", more=add_note_server(studio))
    assert turn.code == 0, turn.printed[-2000:]
    said = studio.model.requests[-1].answer
    assert "no tool for" not in said, said
    wanted = expected(studio, "note")
    check_writes(studio, wanted)
    check_turns(studio, wanted)
    check_healthy(studio)
    (row,) = studio.writes()["note.txt"]
    assert "write_note" in str(row["tool"])
    studio.command("oops", "--yes")
    assert status(studio) == ""


@pytest.mark.parametrize(("agent", "script"), LEFT_RUNNING)
def test_what_is_left_running_writes_for_the_turn_that_started_it(
    agent: str, script: str, studio: AgentStudio
) -> None:
    studio.prepare()
    turn = studio.turn(script)
    assert turn.code == 0, turn.printed[-2000:]
    until(lambda: studio.repo.exists("late.txt"))
    (session,) = (row for row in studio.rows("sessions", "--json") if row["agent"])
    (row,) = studio.writes()["late.txt"]
    assert (row["session"], row["confidence"]) == (session["id"], "low"), row
    if studio.driver.turns:
        turns = {str(one["id"]): one for one in studio.rows("turns", "--json")}
        assert f"[[{script} " in str(turns[str(row["turn"])]["prompt"])
    studio.command("oops", "--yes", "--include-low")
    assert status(studio) == ""


@pytest.mark.parametrize("agent", ["claude-code", "gemini", "copilot"])
def test_hooks_of_a_user_and_a_project_record_once(
    agent: str, studio: AgentStudio
) -> None:
    studio.record_hooks()
    studio.prepare()
    studio.command("hooks", "install", "--project", agent, "--yes")
    studio.repo.commit("with hooks of the project")
    turn = studio.turn("basic", more=studio.driver.project or ())
    assert turn.code == 0, turn.printed[-2000:]
    wanted = expected(studio, "basic")
    found = studio.writes()
    for path, one in wanted.items():
        assert tuple(row["kind"] for row in found[path]) == one.kinds, found[path]
        assert {row["agent"] for row in found[path]} == {agent}
    if studio.driver.turns:
        assert len(studio.rows("turns", "--json")) == 1
    assert len([r for r in studio.rows("sessions", "--json") if r["agent"]]) == 1
    studio.command("oops", "--yes")
    assert not studio.repo.exists("made.txt")
    if studio.driver.told and studio.driver.again is not None:
        asked = len(studio.model.requests)
        again = studio.turn("look", more=studio.driver.project or ())
        assert again.code == 0, again.printed[-2000:]
        bodies = [one.body for one in studio.model.requests[asked:]]
        told = "gitshadow: work of this session was undone"
        assert max(body.count(told) for body in bodies) == 1


@pytest.mark.parametrize("agent", REFUSED)
def test_a_refused_write_claims_nothing_that_a_person_writes_there(
    agent: str, studio: AgentStudio
) -> None:
    studio.prepare()
    turn = studio.start("refused", *REFUSED[agent])
    assert turn.code == 0, turn.printed[-2000:]
    (row,) = studio.writes()["refused.txt"]
    assert row["actor"] != "agent", row
    assert row["confidence"] in ("low", "unknown"), row
    studio.run([COMMAND, "oops", "--yes"])
    assert studio.repo.read("refused.txt") == b"by a person\n"


@pytest.mark.parametrize("agent", ["claude-code"])
def test_nothing_is_written_while_an_agent_plans(
    agent: str, studio: AgentStudio
) -> None:
    studio.prepare()
    studio.start("basic", ("-p",), ("--permission-mode=plan",))  # it may exit with 1
    assert studio.writes() == {}
    assert len(studio.rows("turns", "--json")) == 1


@pytest.mark.parametrize("agent", ["claude-code", "codex"])
def test_a_session_goes_on_after_the_daemon_was_stopped(
    agent: str, studio: AgentStudio
) -> None:
    studio.prepare()
    follows(studio, "basic")
    studio.command("stop")
    follows(studio, "second")
    wanted = expected(studio, "basic", "second")
    check_writes(studio, wanted)
    check_turns(studio, wanted, views=False)
    studio.command("stop")
    studio.command("undo", turn_of(studio, "basic"), "--yes")
    assert set(status(studio).split()) == {"??", "second.txt", "M", "list.txt"}


@pytest.mark.parametrize("agent", ["claude-code"])
def test_a_session_goes_on_after_its_conversation_was_compacted(
    agent: str, studio: AgentStudio
) -> None:
    studio.prepare()
    follows(studio, "basic", "look")
    before, after = studio.driver.again or ((), ())
    compacted = studio.run([studio.surroundings().program, *before, "/compact", *after])
    assert compacted.returncode == 0, compacted.stdout
    follows(studio, "second")
    wanted = expected(studio, "basic", "second")
    check_writes(studio, wanted)
    check_turns(studio, wanted, views=False)
    assert len([r for r in studio.rows("sessions", "--json") if r["agent"]]) == 1
    studio.command("oops", "--yes")
    studio.command("undo", turn_of(studio, "basic"), "--yes")
    assert status(studio) == ""


@pytest.mark.parametrize("agent", ["claude-code"])
def test_what_a_person_writes_after_escape_is_theirs(
    agent: str, studio: AgentStudio
) -> None:
    studio.record_hooks()
    studio.prepare()
    rights = ("--permission-mode=acceptEdits", "--allowedTools=Bash")
    with at_a_terminal(studio, "long", *rights) as keys:
        until(lambda: studio.repo.exists("half.txt"))
        os.write(keys, b"\x1b")
        until(lambda: not left_of(studio, b"sleep\x0060\x00"))
        until(lambda: "half.txt" in studio.writes())
        time.sleep(_SEEN_S)
        studio.repo.write("mine.txt", "by a person\n")
        until(lambda: "mine.txt" in studio.writes())
    (row,) = studio.writes()["mine.txt"]
    assert row["actor"] != "agent", row
    studio.command("oops", "--yes")
    assert status(studio) == "?? mine.txt"


def left_of(studio: AgentStudio, command: bytes) -> list[str]:
    """Return the processes with a command line that run in the repository."""
    found: list[str] = []
    for process in os.listdir("/proc"):
        try:
            with open(f"/proc/{process}/cmdline", "rb") as file:
                is_it = file.read() == command
            where = os.readlink(f"/proc/{process}/cwd")
        except OSError:
            continue
        if is_it and where == str(studio.repo.root):
            found.append(process)
    return found


@contextmanager
def at_a_terminal(studio: AgentStudio, script: str, *arguments: str) -> Iterator[int]:
    """Run Claude Code at a terminal; give the end at which a person types."""
    settings = {
        "hasCompletedOnboarding": True,
        "theme": "dark",
        "customApiKeyResponses": {"approved": ["sk-dummy"], "rejected": []},
        "projects": {str(studio.repo.root): {"hasTrustDialogAccepted": True}},
    }
    (studio.home / ".claude.json").write_text(json.dumps(settings))
    leader, follower = os.openpty()
    running = subprocess.Popen(
        studio.words(script, arguments),
        cwd=studio.repo.root,
        env={**studio.environment(), "TERM": "xterm"},
        stdin=follower,
        stdout=follower,
        stderr=follower,
        start_new_session=True,
    )
    os.close(follower)
    threading.Thread(target=drain, args=(leader,), daemon=True).start()
    try:
        yield leader
    finally:
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()


def drain(leader: int) -> None:
    """Read what a program draws, else it would wait."""
    try:
        while os.read(leader, 65536):
            pass
    except OSError:
        os.close(leader)
