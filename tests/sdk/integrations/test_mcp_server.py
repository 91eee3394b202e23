"""`git agent-undo mcp` with an official client over stdio: an agent's own work and nothing else."""

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp_types import TextContent

from tests.support.claude import Claude
from tests.support.shadow import COMMAND, Result, Shadow
from tests.support.waiting import HANGS_S

Document = dict[str, Any]

# A process that plays another agent: it delivers the hooks that it reads, and lives on.
_ANOTHER = """
import subprocess, sys
for line in sys.stdin:
    subprocess.run([sys.argv[1], "hook", "claude-code"], input=line.encode(), check=True)
    print("done", flush=True)
"""


class Another(Claude):
    """An agent in a process of its own."""

    process: subprocess.Popen[str]

    def _hook(self, payload: Mapping[str, object]) -> Result:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(payload) + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"
        return Result(("hook",), 0, b"", "")


@pytest.fixture
def another(shadow: Shadow) -> Iterator[Claude]:
    """Return another agent, in another process."""
    with subprocess.Popen(
        [sys.executable, "-c", _ANOTHER, COMMAND],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=shadow.environment(),
        cwd=shadow.repo.root,
        text=True,
    ) as process:
        made = Another(shadow, session="s2")
        made.process = process
        yield made


@asynccontextmanager
async def served(shadow: Shadow) -> AsyncIterator[Client]:
    """Return an official client of the server, started by the process that plays the agent."""
    started = StdioServerParameters(
        command=COMMAND,
        args=["mcp"],
        # What an agent writes into its own settings counts for nothing.
        env={**shadow.environment(), "GITSHADOW_SESSION": "s2"},
        cwd=shadow.repo.root,
    )
    async with Client(started, read_timeout_seconds=HANGS_S) as client:
        yield client


async def answer(client: Client, tool: str, **arguments: object) -> Document:
    """Call a tool that succeeds and return its document."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result
    found: Document = result.structured_content
    return found


async def refusal(client: Client, tool: str, **arguments: object) -> str:
    """Call a tool that does not succeed and return what the model reads."""
    result = await client.call_tool(tool, arguments)
    (block,) = result.content
    assert isinstance(block, TextContent)
    assert result.is_error, block
    return block.text


async def test_an_agent_looks_after_its_own_work_and_reaches_nobody_elses(
    shadow: Shadow, agent: Claude, another: Claude
) -> None:
    """The whole way, with the daemon and without; hostile arguments among it."""
    repo = shadow.repo
    # Before the agent begins: this process plays it, too.
    repo.write("z", "a person's\n")
    shadow("flush")
    agent.start()
    agent.prompt("write x")
    agent.write("x", "mine\n")
    another.start()
    another.prompt("write y")
    theirs = another.write("y", "theirs\n")
    shadow("flush")
    async with served(shadow) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        own = await answer(client, "my_session")
        # A file that is looked at right after it was opened has one row more.
        rows = (await answer(client, "my_changes"))["rows"]
        assert {row["path"] for row in rows} == {"x"}
        (call,) = {row["call"] for row in rows}
        for target in (theirs, "s2", "z"):
            await refusal(client, "plan_undo", target=target)
            await refusal(client, "undo", target=target, token="x")
        outside = await refusal(client, "plan_undo", target="session", paths=["../q"])
        chosen = await refusal(client, "plan_undo", target="session", paths=["z"])
        plan = await answer(client, "plan_undo", target=call)
        stale = await refusal(client, "undo", target=call, token="0")
        assert repo.read("x") == b"mine\n"
        done = await answer(client, "undo", target=call, token=plan["token"])
        (undone,) = (await answer(client, "my_undone"))["rows"]
    assert set(tools) == {
        *("my_session", "my_changes", "my_undone", "plan_undo", "undo"),
    }
    assert all(
        "session" not in tool.input_schema["properties"] for tool in tools.values()
    )
    assert own["native_id"] == "s1"
    assert "outside" in outside
    assert "none of its paths is selected" in chosen
    assert "cannot apply plan" in stale
    assert (plan["status"], done["status"]) == ("planned", "reversed")
    assert (undone["op_id"], undone["by"]) == (done["op_id"], "you")
    assert not repo.exists("x")
    assert (repo.read("y"), repo.read("z")) == (b"theirs\n", b"a person's\n")


async def test_an_agent_without_hooks_is_told_what_it_lacks(shadow_n: Shadow) -> None:
    shadow_n.repo.write("x", "1\n")
    async with served(shadow_n) as client:
        said = await refusal(client, "my_changes")
    assert "cannot identify the current session; agent hooks report it" in said


def test_a_request_that_cannot_be_read_has_an_answer(shadow_n: Shadow) -> None:
    """JavaScript writes half of a surrogate pair as it is; a client would wait for ever."""
    with subprocess.Popen(
        [COMMAND, "mcp"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=shadow_n.environment(),
        cwd=shadow_n.repo.root,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        target = {"name": "plan_undo", "arguments": {"target": "\ud83d"}}
        call = {"jsonrpc": "2.0", "method": "tools/call", "id": 7, "params": target}
        ping = {"jsonrpc": "2.0", "method": "ping", "id": 8}
        for line in ("no JSON", json.dumps(call), json.dumps(ping)):
            print(line, file=process.stdin, flush=True)
        first = json.loads(process.stdout.readline())
        assert json.loads(process.stdout.readline())["id"] == 8
    assert (first["id"], first["error"]["code"]) == (7, -32700)
    assert "could not read the request: Invalid JSON" in first["error"]["message"]
