"""A program that stands for an agent: its hooks and its shells are its children."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.support.claude import Claude
from tests.support.shadow import COMMAND, Shadow

PROGRAM = f"""
import subprocess, sys
print(0, flush=True)
for line in sys.stdin:
    is_hook = line.startswith("{{")
    words = [{COMMAND!r}, "hook", "claude-code"] if is_hook else ["sh", "-c", line]
    done = subprocess.run(words, input=line, text=True)
    print(done.returncode, flush=True)
"""

SDK_PROGRAM = """
import sys
from gitshadow.sdk.turns.host import Host
from gitshadow.sdk.turns.policy import Policy
from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.reversibility import Reversibility
from gitshadow.sdk.turns.session import AgentUndo

tools = ToolRegistry()

@tools.tool("own.work", reversibility=Reversibility.REVERSIBLE, files_only=True)
def work():
    open("a", "w").write("agent\\n")
    print("wrote", flush=True)
    sys.stdin.readline()

host = Host(writes_below="alone" in sys.argv)
with AgentUndo.open(".", session="s", agent="own", tools=tools, host=host) as au:
    try:
        with au.turn("go") as turn:
            turn.call("own.work")
            raise ValueError
    except ValueError:
        print("undone", flush=True)
"""
"""A turn of a program with one call, which writes `a` and waits for a line; then the turn fails.

With the argument `alone` the program says that all its files are written below it.
"""


@contextmanager
def sdk_program(shadow: Shadow, *arguments: str) -> "Iterator[subprocess.Popen[bytes]]":
    """Run `SDK_PROGRAM` in R until it has written; it waits then, and its end is awaited."""
    with subprocess.Popen(
        [sys.executable, "-c", SDK_PROGRAM, *arguments],
        cwd=shadow.repo.root,
        env=shadow.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"wrote\n"
        yield process


Agent = Callable[[str], "subprocess.Popen[bytes]"]
"""Starts a program of some name in R."""


def say(process: "subprocess.Popen[bytes]", line: str) -> None:
    """Let a program deliver a payload, or run a shell, as its child does."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{line}\n".encode())
    process.stdin.flush()
    assert process.stdout.readline() == b"0\n"


def shell_payload(agent: Claude, event: str) -> str:
    """Return what a hook of a shell call says; the call is named after the session."""
    payload = agent.payload(
        event,
        tool_use_id=f"call-{agent.session}",
        tool_name="Bash",
        tool_input={"command": "make"},
    )
    return json.dumps(payload)


def begin_shell(process: "subprocess.Popen[bytes]", agent: Claude) -> None:
    """Open a turn and a shell call of an agent."""
    say(process, json.dumps(agent.payload("UserPromptSubmit", prompt="go")))
    say(process, shell_payload(agent, "PreToolUse"))


def end_shell(process: "subprocess.Popen[bytes]", agent: Claude) -> None:
    """Close the shell call."""
    say(process, shell_payload(agent, "PostToolUse"))
