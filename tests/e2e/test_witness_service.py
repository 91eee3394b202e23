"""Attribution by the installed witness service, for a user without privilege; needs root."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.agent_process import PROGRAM, say
from tests.support.shadow import COMMAND, Document
from tests.support.waiting import until
from tests.support.witness_service import USER, Machine, machine

# Only the kernel of Linux reports who wrote.
pytestmark = [pytest.mark.process, pytest.mark.linux]


@dataclass(frozen=True, slots=True)
class Person:
    """An ordinary user with a repository whose daemon runs, and an agent in it."""

    machine: Machine
    root: Path
    agent: "subprocess.Popen[bytes]"

    def run(self, *words: str) -> str:
        """Run a command as this user, in the repository."""
        return run(self.machine, self.root, *words)

    def write(self, path: str, text: str) -> None:
        """Save a file from an editor: by a process that no agent started."""
        self.run("sh", "-c", f"printf %s '{text}' > {path}")

    def hook(self, event: str, **fields: object) -> None:
        """Deliver a payload from the agent's process."""
        payload = {"session_id": "s1", "cwd": str(self.root), "hook_event_name": event}
        say(self.agent, json.dumps({**payload, **fields}))

    def shell(self, event: str, call: str) -> None:
        """Open or close a shell call."""
        command = {"command": "make"}
        self.hook(event, tool_use_id=call, tool_name="Bash", tool_input=command)

    def newest(self, path: str) -> Document:
        """Return the newest row of a path."""
        out = self.run(COMMAND, "log", "--json", "--", path)
        row = json.loads(out.splitlines()[0])
        assert isinstance(row, dict)
        return row


def words(where: Machine, root: Path, *command: str) -> tuple[str, ...]:
    """Return a command as it runs for the user."""
    environ = {
        "HOME": str(root.parent),
        "PATH": os.environ["PATH"],
        "LANG": "C.UTF-8",
        "GIT_CONFIG_NOSYSTEM": "1",
    }
    return where.words_of(USER, root, command, environ)


def run(where: Machine, root: Path, *command: str) -> str:
    """Run a command as the user."""
    done = subprocess.run(
        words(where, root, *command),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def person() -> Iterator[Person]:
    with ExitStack() as stack:
        where = stack.enter_context(machine())
        root = where.place / "home" / "repo"
        root.mkdir(parents=True)
        (root / "a").write_text("one\n")
        (root / "b").write_text("one\n")
        program = root.parent / "claude"
        program.symlink_to(sys.executable)
        for path in (root.parent, root, root / "a", root / "b", program):
            os.chown(path, USER, USER, follow_symlinks=False)
        root.chmod(0o700)
        root.parent.chmod(0o700)
        run(where, root, "git", "init", "-q")
        run(where, root, "git", "config", "agent-undo.witness", "true")
        run(where, root, COMMAND, "init")
        stack.callback(run, where, root, COMMAND, "stop")
        agent = stack.enter_context(
            subprocess.Popen(
                words(where, root, str(program), "-c", PROGRAM),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
        )
        stack.callback(agent.kill)
        assert agent.stdout is not None
        agent.stdout.readline()
        yield Person(where, root, agent)


def is_witnessed(row: Document) -> bool:
    """Return whether the kernel's report decided whose a row is."""
    return str(row["reason"]).startswith("the kernel reported the write")


def test_a_daemon_without_privilege_knows_who_wrote(person: Person) -> None:
    person.hook("UserPromptSubmit", prompt="go")
    person.shell("PreToolUse", "call-1")
    person.write("b", "person")
    say(person.agent, "echo agent > a; echo new > 'odd\tname'")
    by_agent, by_person = person.newest("a"), person.newest("b")
    assert (by_agent["confidence"], by_agent["call"]) == ("certain", "call-1")
    assert is_witnessed(by_agent)
    assert (by_person["confidence"], by_person["call"]) == ("unknown", None)
    assert is_witnessed(by_person)
    odd = person.newest("odd\tname")
    assert (odd["confidence"], odd["call"]) == ("certain", "call-1")


def test_a_service_that_is_killed_makes_no_wrong_author(person: Person) -> None:
    person.hook("UserPromptSubmit", prompt="go")
    person.shell("PreToolUse", "call-1")
    say(person.agent, "echo agent > a")
    assert is_witnessed(person.newest("a"))
    person.machine.stop(signal.SIGKILL)
    person.write("b", "longer text that no agent wrote")
    say(person.agent, "echo again >> a")
    by_person, by_agent = person.newest("b"), person.newest("a")
    assert not is_witnessed(by_person)
    assert not is_witnessed(by_agent)
    assert by_person["confidence"] != "certain"
    person.shell("PostToolUse", "call-1")
    person.machine.start()
    calls = iter(range(2, 1000))

    def write_again() -> None:
        call = f"call-{next(calls)}"
        person.shell("PreToolUse", call)
        say(person.agent, f"echo {call} >> a")
        person.shell("PostToolUse", call)

    until(lambda: is_witnessed(person.newest("a")), between=write_again)
    assert person.newest("a")["confidence"] == "certain"
