"""`git agent-undo mcp proxy` between an official client and a toy server, all real processes."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError, StdioServerParameters

from gitshadow.commands.effects import need_mcp
from gitshadow.errors import UnsupportedError
from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.session import AgentUndo
from tests.sdk.integrations.mcp_toy import config
from tests.sdk.integrations.toy import SCRIPT
from tests.sdk.turns.test_secrets import VERBS, everything, found
from tests.sdk.turns.world import World
from tests.support.claude import Claude
from tests.support.shadow import COMMAND, Shadow
from tests.support.waiting import HANGS_S, until


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Return a world outside the repository."""
    return World.make(tmp_path / "world")


@pytest.fixture
def servers(tmp_path: Path, world: World) -> Path:
    """Return the user's file, outside the repository."""
    path = tmp_path / "mcp.toml"
    path.write_text(config(world.root))
    return path


@asynccontextmanager
async def proxied(shadow: Shadow, *args: object) -> AsyncIterator[Client]:
    """Return an official client of a proxy that was started as a client starts it."""
    started = StdioServerParameters(
        command=COMMAND,
        args=["mcp", "proxy", *map(str, args)],
        env=shadow.environment(),
        cwd=shadow.repo.root,
    )
    async with Client(started, read_timeout_seconds=HANGS_S) as client:
        yield client


async def test_a_turn_through_the_proxy_is_taken_back_from_the_command_line(
    shadow_n: Shadow, servers: Path, world: World
) -> None:
    """AN-40, ENG-08, REP: proxy, server and client are gone when the undo runs."""
    before = world.state
    async with proxied(shadow_n, "--tools", servers, "--session", "m-1") as client:
        for step in SCRIPT:
            await client.call_tool(step.tool, dict(step.arguments))
        written = await client.call_tool("toy.write", {"path": "new", "text": "x\n"})
        assert not written.is_error
    assert world.state["crm"]["7"]["name"] == "Z"
    args = ("--session", "m-1", "--tools", str(servers), "--yes", "--json")
    done = shadow_n("undo", "t-1", *args)
    report = done.json()
    assert done.code == 4, done
    items = report["items"]
    assert isinstance(items, list)
    assert {item["tool"]: item["state"] for item in items if item.get("tool")} == {
        "toy.notes.read": "no_effect",
        "toy.crm.update": "reversed",
        "toy.draft.create": "reversed",
        "toy.cal.invite": "compensated",
        "toy.card.charge": "compensated",
        "toy.mail.send": "not_reversed",
        "toy.slack.post": "not_reversed",
        "toy.toy.write": "not_reversed",
    }
    assert world.state == {
        **before,
        "invites": {"ann": "cancelled"},
        "notices": ["cancelled: ann"],
        "charges": ["ch_1"],
        "refunds": ["ch_1"],
        "sent": ["bob"],
        "posts": ["hello"],
    }


async def test_a_file_that_a_tool_writes_is_its_calls_and_comes_back_with_it(
    shadow_n: Shadow, servers: Path
) -> None:
    with servers.open("a") as file:
        file.write('[servers.toy.tools."toy.write"]\nclass = "reversible"\n')
        file.write('files_only = true\npaths = ["path"]\n')
    async with proxied(shadow_n, "--tools", servers) as client:
        await client.call_tool("draft.create", {"title": "A"})
        await client.call_tool("toy.write", {"path": "new", "text": "x\n"})
    (row,) = [row for row in shadow_n("log", "--json").rows() if row["path"] == "new"]
    assert (row["turn"], row["call"], row["tool"]) == ("t-1", "t-1.2", "toy.toy.write")
    (turn,) = shadow_n("saga", "turns", "--json").rows()
    assert str(turn["session"]).startswith("mcp-toy-")
    done = shadow_n("undo", "t-1", "--tools", str(servers), "--yes", "--json")
    assert (done.code, done.json()["status"]) == (0, "reversed")
    assert not shadow_n.repo.exists("new")


async def test_no_value_of_a_secret_argument_is_anywhere(
    shadow_n: Shadow, servers: Path
) -> None:
    """The result, the fingerprint and an error repeat it."""
    declared = servers.read_text().replace(
        '"crm.update"]\n', '"crm.update"]\nsecrets = ["value"]\n'
    )
    servers.write_text(
        f"""{declared}
[servers.toy.tools."toy.write"]
secrets = ["path"]
"""
    )
    value, path = "alpha-secret-4711", "beta-secret-4711"
    with AgentUndo.open(shadow_n.repo.root, session="m-1", tools=ToolRegistry()) as au:
        async with proxied(shadow_n, "--tools", servers, "--session", "m-1") as client:
            given = {"id": 7, "field": "name", "value": value}
            assert not (await client.call_tool("crm.update", given)).is_error
            # A path that is no text: the server refuses it and repeats it.
            wrong = {"path": [path], "text": "x"}
            assert path in str(await client.call_tool("toy.write", wrong))
        outcomes = [call.outcome for call in au.calls("t-1")]
        assert outcomes == ["success", "raised"]
        args = ("--session", "m-1", "--tools", str(servers), "--yes")
        said = [shadow_n("undo", "t-1", *args, "--on-drift", "overwrite")]
        said += [shadow_n(*line) for line in VERBS]
        texts = [f"{one.out}{one.err}" for one in said]
        texts += [everything(Path(shadow_n.repo.root, ".git", "agent-undo"))]
    assert found((value, path), "\n".join(texts)) == []


async def test_where_an_agents_hooks_speak_the_file_is_that_agents(
    shadow_n: Shadow, servers: Path
) -> None:
    """Two who claim a write would leave it to neither; the effects are in the log all the same."""
    agent = Claude(shadow_n)
    agent.start()
    agent.prompt("write a file")
    async with proxied(shadow_n, "--tools", servers) as client:
        call = agent.pre("mcp__toy__write", {"path": "new"})
        await client.call_tool("toy.write", {"path": "new", "text": "x\n"})
        agent.post(call)
    (row,) = [row for row in shadow_n("log", "--json").rows() if row["path"] == "new"]
    assert (row["agent"], row["call"], row["confidence"]) == (
        "claude-code",
        call,
        "medium",
    )
    (turn,) = shadow_n("saga", "turns", "--json").rows()
    assert turn["entries"] == 1


async def test_a_proxy_that_is_told_to_stop_ends_its_turn_and_its_server(
    shadow_n: Shadow, servers: Path, world: World
) -> None:
    """AN-01: nothing stays open that somebody would have to clear up."""
    async with proxied(shadow_n, "--tools", servers, "--session", "m") as client:
        await client.call_tool("draft.create", {"title": "A"})
        (proxy,) = shadow_n.running("mcp", "proxy")
        os.kill(proxy, signal.SIGTERM)
        with pytest.raises(MCPError, match="closed"):
            await client.call_tool("toy.hang")
    until(lambda: not shadow_n.running(str(world.root)))
    with AgentUndo.open(
        str(shadow_n.repo.root), session="m", tools=ToolRegistry()
    ) as au:
        assert [turn.status for turn in au.turns()] == ["committed"]


# A server that answers each request with half of a surrogate pair.
_HALF = """
import json, sys
for line in sys.stdin:
    answer = {"jsonrpc": "2.0", "id": json.loads(line)["id"], "result": {"a": chr(0xD83D)}}
    print(json.dumps(answer), flush=True)
"""


def test_a_message_that_cannot_be_read_leaves_nobody_waiting(shadow_n: Shadow) -> None:
    """JavaScript writes half of a surrogate pair as it is, in requests and in answers."""
    with subprocess.Popen(
        [COMMAND, "mcp", "proxy", "--", sys.executable, "-c", _HALF],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=shadow_n.environment(),
        cwd=shadow_n.repo.root,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        found: list[dict[str, Any]] = []
        for name in ("\ud83d", "whole"):
            asked = {"jsonrpc": "2.0", "id": len(found), "method": "prompts/get"}
            print(json.dumps({**asked, "params": {"name": name}}), file=process.stdin)
            process.stdin.flush()
            found.append(json.loads(process.stdout.readline()))
    assert [one["id"] for one in found] == [0, 1]
    assert [one["error"]["code"] for one in found] == [-32700, -32603]
    assert "could not read the answer: Invalid JSON" in found[1]["error"]["message"]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--", "no-such-program"], "cannot find the program no-such-program"),
        ([], "several servers: choose one with --server"),
        (["--tools", "in.toml"], "it is in the repository, where agents can write"),
        (["--tools", "../none.toml"], "could not read ../none.toml"),
        (["--tools", "../mcp.toml", "--server", "x"], "cannot find the server x"),
    ],
)
def test_what_cannot_be_proxied_is_one_plain_error(
    shadow_n: Shadow, servers: Path, args: list[str], said: str
) -> None:
    (shadow_n.repo.root / "in.toml").write_text(servers.read_text())
    done = shadow_n("mcp", "proxy", *args)
    assert (done.code, done.raw) == (2, b"")
    assert said in done.err.splitlines()[0]


def test_without_the_extra_there_is_one_plain_error_with_the_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UnsupportedError) as found:
        need_mcp()
    assert (
        str(found.value) == "cannot run an MCP server: the package mcp is not installed"
    )
    assert found.value.hint == "pip install 'gitshadow[mcp]'"
