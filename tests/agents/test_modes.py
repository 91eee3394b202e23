"""Real agents in their modes: servers of tools, background tasks, permissions, later sessions."""

import json
import os
import re
import shlex
import signal
import sqlite3
import subprocess
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

import pytest

from tests.agents.drivers import DRIVERS
from tests.agents.judge import (
    Expected,
    check_healthy,
    check_turns,
    check_views,
    check_writes,
    expected,
)
from tests.agents.mcp_servers import SERVERS, add_note_server
from tests.agents.scripts import INNER_AGENT
from tests.agents.studio import AgentStudio
from tests.agents.test_agents import follows, turn_of
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
BEHIND = ("claude-code", "copilot", "droid", "grok", "kimi", "qwen")
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

RESUMES = {
    "claude-code": ("--continue", ("--resume", "ID")),
    "codex": ("--last", ("ID",)),
}
"""The word that continues the last session, and those that name a session by its id."""
_THREE_DAYS_NS = 3 * 86_400 * 1_000_000_000
_TIMES = {
    "sessions": ("started_ns", "ended_ns", "last_seen_ns"),
    "turns": ("started_ns", "ended_ns"),
    "calls": ("opened_ns", "closed_ns"),
    "call_runs": ("began_ns",),
    "bursts": ("started_ns", "ended_ns"),
    "events": ("ts_ns",),
}
ASKS = {
    "claude-code": (("--permission-mode=default",), "Do you want to proceed?"),
    "codex": (
        ("-a", "on-request", "-m", "gpt-5-codex", "--dangerously-bypass-hook-trust"),
        "Would you like to run",
    ),
    "gemini": (
        ("-m", "gemini-2.5-pro", "--approval-mode=default", "-i"),
        "Allow execution",
    ),
}
"""How an agent is started at a terminal that asks before each command, and its question."""
_PROMPTED = "".join(
    f'prefix_rule(pattern=["{one}"], decision="prompt")\n'
    for one in ("/bin/bash", "bash", "echo")
)
"""Codex asks only for what its sandbox forbids, or its rules name."""


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
    assert studio.changes() == set()


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
    # Gemini keeps the call open until the command has ended.
    expected = "low" if row["call"] is None else "medium"
    assert (row["session"], row["confidence"]) == (session["id"], expected), row
    if studio.driver.turns:
        turns = {str(one["id"]): one for one in studio.rows("turns", "--json")}
        assert f"[[{script} " in str(turns[str(row["turn"])]["prompt"])
    studio.command("oops", "--yes", "--include-low")
    assert studio.changes() == set()


@pytest.mark.parametrize("agent", BEHIND)
def test_a_subagent_in_the_background_writes_for_the_turn_that_started_it(
    agent: str, studio: AgentStudio
) -> None:
    studio.record_hooks()
    studio.prepare()
    turn = studio.turn("behind", more=studio.driver.subagents or ())
    assert turn.code == 0, turn.printed[-2000:]
    until(lambda: studio.repo.exists("sub.txt"))
    until(lambda: "sub.txt" in studio.writes())
    wanted = expected(studio, "behind")
    check_writes(studio, wanted)
    check_turns(studio, wanted, views=False)
    if studio.driver.turns:
        check_views(studio, "parent.txt", studio.reported("behind"))
    check_healthy(studio)
    studio.command("oops", "--yes")
    assert studio.changes() == set()


@pytest.mark.parametrize(
    ("agent", "other"), [("claude-code", "codex"), ("codex", "claude-code")]
)
def test_an_agent_in_the_shell_of_another_one_works_for_its_turn(
    agent: str, other: str, studio: AgentStudio, other_studio: AgentStudio
) -> None:
    studio.prepare()
    other_studio.prepare()
    variables = [f"{k}={v}" for k, v in other_studio.environment().items()]
    words = other_studio.words("second", *other_studio.driver.turn)
    inner = studio.repo.root / INNER_AGENT
    # Nothing of the outer agent is in its environment.
    inner.write_text(
        f"#!/bin/sh\nexec env -i {shlex.join([*variables, *words])}"
        f" < /dev/null > {inner}.txt 2>&1\n"
    )
    inner.chmod(0o755)
    turn = studio.turn("outer")
    assert turn.code == 0, turn.printed[-2000:]
    found = {path: rows[-1] for path, rows in studio.writes().items()}
    assert {path: (row["agent"], row["confidence"]) for path, row in found.items()} == {
        "second.txt": (other, "certain"),
        "list.txt": (other, "medium"),
        "after.txt": (agent, "medium"),
    }
    outer = found["after.txt"]["turn"]
    assert str(found["list.txt"]["turn"]).startswith(f"{outer}/")
    studio.command("oops", "--yes")
    assert studio.changes() == set()


@pytest.mark.parametrize("agent", ["claude-code", "gemini", "copilot", "vibe"])
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


@pytest.mark.parametrize("agent", ["claude-code", "codex", "kimi"])
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
    assert studio.changes() == {"?? second.txt", " M list.txt"}


@pytest.mark.parametrize("agent", RESUMES)
def test_a_session_is_resumed_days_later_on_a_machine_that_was_restarted(
    agent: str, studio: AgentStudio
) -> None:
    studio.prepare()
    follows(studio, "basic")
    days_later(studio)
    studio.repo.write("person.txt", "while nothing ran\n")
    follows(studio, "second")
    days_later(studio)
    (session,) = (row for row in studio.rows("sessions", "--json") if row["agent"])
    before, after = DRIVERS[agent].again or ((), ())
    last, by_id = RESUMES[agent]
    words = [by_id if word == last else (word,) for word in before]
    before = [part for word in words for part in word]
    named = [str(session["native_id"]) if one == "ID" else one for one in before]
    turn = studio.start("parallel", named, after)
    assert turn.code == 0, turn.printed[-2000:]
    wanted = expected(studio, "basic", "second", "parallel")
    wanted["person.txt"] = Expected("second", None, ("modify",))
    check_writes(studio, wanted)
    check_turns(studio, wanted, views=False)
    studio.command("doctor")
    studio.command("oops", "--yes")
    studio.command("undo", turn_of(studio, "basic"), "--yes")
    assert studio.changes() == {" M person.txt", "?? second.txt", " M list.txt"}


def days_later(studio: AgentStudio) -> None:
    """Let the journal say that all was three days ago, before the machine was restarted."""
    studio.command("stop")
    journal = studio.repo.common_dir / "agent-undo" / "journal.db"
    with closing(sqlite3.connect(journal)) as db, db:
        db.execute("UPDATE meta SET value = 'another' WHERE key = 'boot_id'")
        # Processes have other numbers after a restart.
        db.execute("UPDATE sessions SET pid_started = pid_started + 1000000")
        for table, columns in _TIMES.items():
            shifted = ", ".join(f"{one} = {one} - {_THREE_DAYS_NS}" for one in columns)
            db.execute(f"UPDATE {table} SET {shifted}")


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
    assert studio.changes() == set()


@pytest.mark.parametrize("agent", ["claude-code"])
def test_what_a_person_writes_after_escape_is_theirs(
    agent: str, studio: AgentStudio
) -> None:
    studio.record_hooks()
    studio.prepare()
    rights = ("--permission-mode=acceptEdits", "--allowedTools=Bash")
    with at_a_terminal(studio, "long", *rights) as terminal:
        until(lambda: studio.repo.exists("half.txt"))
        terminal.type(b"\x1b")
        until(lambda: not left_of(studio, b"sleep\x0060\x00"))
        until(lambda: "half.txt" in studio.writes())
        time.sleep(_SEEN_S)
        studio.repo.write("mine.txt", "by a person\n")
        until(lambda: "mine.txt" in studio.writes())
    (row,) = studio.writes()["mine.txt"]
    assert row["actor"] != "agent", row
    studio.command("oops", "--yes")
    assert studio.changes() == {"?? mine.txt"}


@pytest.mark.parametrize("agent", ASKS)
def test_what_a_person_saves_while_a_command_waits_for_a_yes_is_theirs(
    agent: str, studio: AgentStudio
) -> None:
    studio.record_hooks()
    studio.prepare()
    with asked(studio) as terminal:
        terminal.type(b"\r")
        until(lambda: terminal.shows("I was allowed to"))
        saved(studio, "later.txt")
    found = studio.writes()
    authors = {
        path: [(row["kind"], row["actor"], row["agent"]) for row in rows]
        for path, rows in found.items()
    }
    theirs, agents = ("create", "unknown", None), ("agent", agent)
    assert authors == {
        "mine.txt": [theirs],
        "asked.txt": [theirs, ("modify", *agents)],
        "made.txt": [("create", *agents)],
        "later.txt": [theirs],
    }
    assert {
        found["asked.txt"][1]["confidence"],
        found["made.txt"][0]["confidence"],
    } == {"medium"}
    studio.command("oops", "--yes")
    assert studio.changes() == {"?? mine.txt", "?? asked.txt", "?? later.txt"}
    assert studio.repo.read("asked.txt") == b"by a person\n"


@pytest.mark.parametrize("agent", ASKS)
def test_nothing_is_an_agents_when_a_person_says_no_to_its_command(
    agent: str, studio: AgentStudio
) -> None:
    studio.record_hooks()
    studio.prepare()
    with asked(studio) as terminal:
        terminal.type(b"\x1b")
        time.sleep(_SEEN_S)
        saved(studio, "later.txt", "asked.txt")
    rows = [row for rows in studio.writes().values() for row in rows]
    assert {row["actor"] for row in rows} == {"unknown"}, rows
    studio.run([COMMAND, "oops", "--yes"])
    assert studio.changes() == {"?? mine.txt", "?? asked.txt", "?? later.txt"}


@contextmanager
def asked(studio: AgentStudio) -> Iterator["Terminal"]:
    """Run an agent that asks for a command, and save two files while it waits for the answer."""
    arguments, question = ASKS[studio.name]
    if studio.name == "codex":
        rules = studio.home / ".codex" / "rules" / "default.rules"
        rules.parent.mkdir()
        rules.write_text(_PROMPTED)
    with at_a_terminal(studio, "asked", *arguments) as terminal:
        until(lambda: terminal.shows(question))
        saved(studio, "mine.txt", "asked.txt")
        # Nobody saves a file and answers in another window within half a second.
        time.sleep(1)
        yield terminal


def saved(studio: AgentStudio, *paths: str) -> None:
    """Save files as a person, and wait until each is recorded."""
    for path in paths:
        known = len(studio.writes().get(path, ()))
        with (studio.repo.root / path).open("a") as file:
            file.write("by a person\n")
        until(lambda: len(studio.writes().get(path, ())) > known)  # noqa: B023


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


_WHERE_IS_THE_CURSOR = b"\x1b[6n"


@dataclass
class Terminal:
    """A terminal with a program: what a person types into it, and all that was drawn."""

    leader: int
    running: "subprocess.Popen[bytes]"
    drawn: bytes = b""

    def type(self, keys: bytes) -> None:
        """Press keys."""
        os.write(self.leader, keys)

    def shows(self, text: str) -> bool:
        """Return whether a text was drawn, wherever the program put its spaces."""
        assert self.running.poll() is None, self.drawn[-2000:]
        plain = re.sub(
            rb"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*|.)|\s", b"", self.drawn
        )
        return text.replace(" ", "").encode() in plain

    def drain(self) -> None:
        """Read what the program draws, else it would wait."""
        try:
            while read := os.read(self.leader, 65536):
                self.drawn += read
                if _WHERE_IS_THE_CURSOR in read:
                    os.write(self.leader, b"\x1b[1;1R")
        except OSError:
            os.close(self.leader)


@contextmanager
def at_a_terminal(
    studio: AgentStudio, script: str, *arguments: str
) -> Iterator[Terminal]:
    """Run an agent at a terminal."""
    if studio.name == "claude-code":
        settings = {
            "hasCompletedOnboarding": True,
            "theme": "dark",
            "customApiKeyResponses": {"approved": ["sk-dummy"], "rejected": []},
            "projects": {str(studio.repo.root): {"hasTrustDialogAccepted": True}},
        }
        (studio.home / ".claude.json").write_text(json.dumps(settings))
    leader, follower = os.openpty()
    termios.tcsetwinsize(leader, (40, 120))
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
    terminal = Terminal(leader, running)
    threading.Thread(target=terminal.drain, daemon=True).start()
    try:
        yield terminal
    finally:
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()
        (studio.top / "drawn.txt").write_bytes(terminal.drawn)


COMMANDS = {"claude-code": "/oops", "codex": "$oops"}
"""How a person calls the command of an undo in the agent."""


@pytest.mark.parametrize(
    "agent", [pytest.param("claude-code", marks=pytest.mark.quick), "codex"]
)
def test_its_own_last_turn_is_undone_by_a_command_in_the_agent(
    agent: str, studio: AgentStudio
) -> None:
    studio.prepare()
    before = set(studio.home.rglob("*"))
    studio.command("hooks", "install", agent, "--with", "all", "--yes")
    installed = {one for one in studio.home.rglob("*") if one.is_file()} - before
    follows(studio, "basic")
    basic = studio.changes()
    studio.repo.write("person.txt", "a line of the person\n")
    again = studio.driver.again
    assert again is not None
    words = f"{COMMANDS[agent]} yes {studio.prompt('oops')}"
    program = studio.surroundings().program
    done = studio.run([program, *again[0], words, *again[1]])
    assert done.returncode == 0, done.stdout[-2000:]
    assert basic
    assert studio.changes() == {" M person.txt"}
    asked = "".join(one.body for one in studio.model.requests)
    assert "asks you to undo the files" in asked
    if agent == "claude-code":
        (listed,) = re.findall(r'"slash_commands":\[[^]]*\]', done.stdout)[:1]
        assert '"oops"' in listed
        assert '"who"' in listed
    said = studio.command("show", turn_of(studio, "basic"), "--transcript")
    for text in (studio.prompt("basic"), "made.txt", "All done."):
        assert text in said
    assert "It is undone." not in said
    (op,) = studio.rows("ops", "--json")
    assert op["status"] == "done"
    studio.command("hooks", "uninstall", agent, "--yes")
    assert [one for one in installed if one.exists() and "oops" in str(one)] == []
