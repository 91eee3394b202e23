"""The MCP proxy between an official client and an official server, in this process (AN-40)."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import anyio
import pytest
from mcp import Client, MCPError
from mcp.client._memory import InMemoryTransport
from mcp.shared.memory import MessageStream, create_client_server_memory_streams
from mcp_types import CallToolResult, ImageContent, TextContent

from gitshadow.sdk.integrations import mcp_config
from gitshadow.sdk.integrations.mcp_link import McpLink
from gitshadow.sdk.integrations.mcp_proxy import ProxyOptions, serve
from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.session import AgentUndo
from tests.sdk.integrations.mcp_toy import PNG, config, server_of
from tests.sdk.integrations.toy import SCRIPT, SagaRow, in_process, row_of
from tests.sdk.turns.world import World
from tests.support.waiting import HANGS_S

Mode = Literal["legacy", "auto"]
NEVER_S = 3600.0


@dataclass
class Through:
    """A client behind which the proxy and the toy server stand."""

    place: Path
    world: World
    notes: list[str] = field(default_factory=list)
    extra: str = ""
    trusted: bool = False
    idle_s: float = NEVER_S
    non_reversible: Literal["allow", "deny"] = "allow"

    @property
    def options(self) -> ProxyOptions:
        text = config(self.world.root, trusted=self.trusted, extra=self.extra)
        return ProxyOptions(
            root=str(self.place),
            session="m-1",
            server=mcp_config.parse(text)["toy"],
            idle_s=self.idle_s,
            non_reversible=self.non_reversible,
            note=self.notes.append,
        )

    @asynccontextmanager
    async def client(
        self, mode: Mode = "legacy", **more: object
    ) -> AsyncIterator[Client]:
        """Return a client; at the end the connection is closed as a client closes it."""
        async with (
            InMemoryTransport(server_of(self.world)) as server,
            create_client_server_memory_streams() as (ours, theirs),
            anyio.create_task_group() as tasks,
        ):
            link = McpLink(*theirs, *server, self.notes.append)
            tasks.start_soon(serve, link, self.options)
            with anyio.fail_after(HANGS_S):
                async with Client(_pipe(ours), mode=mode, **more) as client:  # type: ignore[arg-type]
                    yield client
                await ours[1].aclose()

    def session(self) -> AgentUndo:
        """Open the session that the proxy left."""
        return AgentUndo.open(str(self.place), session="m-1", tools=ToolRegistry())

    def rows(self, turn: str = "t-1") -> list[SagaRow]:
        """Return what the log says, in the words of a program without a proxy."""
        with self.session() as au:
            return [_plain(row_of(call)) for call in au.calls(turn)]


@asynccontextmanager
async def _pipe(streams: MessageStream) -> AsyncIterator[MessageStream]:
    """Be a transport for the official client."""
    yield streams


def _plain(row: SagaRow) -> SagaRow:
    """Return a row without the server's name."""
    row = row._replace(
        tool=row.tool.removeprefix("toy."),
        description=row.description.replace("Executed toy.", "Executed "),
    )
    if row.handler != "mcp":
        return row
    assert isinstance(row.inverse, dict)
    assert row.inverse["server"] == "toy"
    tool, arguments = row.inverse["tool"], row.inverse["arguments"]
    return row._replace(handler=tool, inverse=arguments)


@pytest.fixture
def through(place: Path) -> Through:
    """Return the way through the proxy."""
    return Through(place, World.make(place / "world"))


def text(result: CallToolResult) -> str:
    """Return the text of a result."""
    (block,) = result.content
    assert isinstance(block, TextContent)
    return block.text


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_toy_script_leaves_the_log_that_it_leaves_in_process(
    through: Through, mode: Mode
) -> None:
    """AN-40: the same script, the same saga log; in both eras of the protocol."""
    async with through.client(mode) as client:
        for step in SCRIPT:
            await client.call_tool(step.tool, dict(step.arguments))
    assert through.rows() == in_process(through.place)
    assert through.notes == []


async def test_a_connection_is_one_session_and_its_end_ends_the_turn(
    through: Through,
) -> None:
    async with through.client() as client:
        await client.call_tool("draft.create", {"title": "A"})
        with through.session() as au:
            assert [turn.status for turn in au.turns()] == ["open"]
    with through.session() as au:
        (turn,) = au.turns()
    assert (turn.status, turn.agent, turn.label) == ("committed", "mcp", "toy (MCP)")


CALLS: tuple[tuple[str, dict[str, object]], ...] = (
    ("toy.picture", {}),
    ("draft.create", {"title": "A"}),
    ("crm.get", {"id": 7, "field": "none"}),
    ("toy.boom", {}),
    ("toy.soft_fail", {}),
    ("notes.read", {"nope": 1}),
)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_results_reach_the_client_as_the_server_gave_them(
    through: Through, mode: Mode
) -> None:
    direct = World.make(through.place / "direct")
    async with (
        through.client(mode) as client,
        Client(InMemoryTransport(server_of(direct)), mode=mode) as other,
    ):
        for name, arguments in CALLS:
            assert await client.call_tool(name, arguments) == (
                await other.call_tool(name, arguments)
            )
        picture = (await client.call_tool("toy.picture")).content[0]
    assert isinstance(picture, ImageContent)
    assert picture.data == "iVBORw0KGgo="
    assert PNG


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_everything_that_is_no_call_passes(through: Through, mode: Mode) -> None:
    direct = World.make(through.place / "direct")
    async with (
        through.client(mode) as client,
        Client(InMemoryTransport(server_of(direct)), mode=mode) as other,
    ):
        assert await client.list_tools() == await other.list_tools()
        assert await client.list_resources() == await other.list_resources()
        assert await client.read_resource("toy://world") == (
            await other.read_resource("toy://world")
        )
        assert await client.get_prompt("greet", {"name": "ann"}) == (
            await other.get_prompt("greet", {"name": "ann"})
        )
        assert client.server_info == other.server_info
        with pytest.raises(MCPError, match="Unknown resource"):
            await client.read_resource("toy://none")
    with through.session() as au:
        assert au.turns() == []


async def test_prompts_of_a_server_reach_no_file(through: Through) -> None:
    """KEEP-14: the protocol's own prompts pass; a turn is not named after one."""
    async with through.client() as client:
        await client.get_prompt("greet", {"name": "Zebulon"})
        await client.call_tool("notes.read", {"note": "n"})
        assert holders(through.place, b"Zebulon") == []
    assert holders(through.place, b"Zebulon") == []
    assert holders(through.place, b"notes.read")


def holders(top: Path, text: bytes) -> list[Path]:
    """Return the files below a directory that have a text in them."""
    return [
        path for path in top.rglob("*") if path.is_file() and text in path.read_bytes()
    ]


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_progress_of_a_call_passes(through: Through, mode: Mode) -> None:
    told = []

    async def progress(
        progress: float, total: float | None, message: str | None
    ) -> None:
        told.append((progress, total, message))

    async with through.client(mode) as client:
        result = await client.call_tool("toy.slow", progress_callback=progress)
        assert text(result) == "done"
    assert told == [(1.0, 2.0, "half")]


async def test_a_tool_that_reports_an_error_may_have_done_something(
    through: Through,
) -> None:
    """REP: what nobody knows is named in the report, never passed over."""
    async with through.client() as client:
        await client.call_tool("toy.boom")
    (row,) = through.rows()
    assert (row.tool, row.klass, row.outcome) == ("toy.boom", "undeclared", "raised")
    with through.session() as au:
        (item,) = au.undo("t-1").items
    assert (item.tool, item.call_id) == ("toy.toy.boom", "t-1.1")
    assert item.reason == "in_doubt"
    assert "boom" in str(item.error)


async def test_the_user_may_say_that_an_error_means_nothing_was_done(
    through: Through,
) -> None:
    through.extra = '[servers.toy.tools."toy.boom"]\nerrors = "nothing_done"\n'
    async with through.client() as client:
        await client.call_tool("toy.boom")
    assert [row.outcome for row in through.rows()] == ["failed"]


async def test_a_tool_whose_prior_value_cannot_be_read_is_not_called(
    through: Through,
) -> None:
    """INV-07."""
    async with through.client() as client:
        result = await client.call_tool("crm.update", {"id": "no number"})
    assert result.is_error
    assert text(result).startswith("cannot prepare to undo toy.crm.update")
    assert [row.outcome for row in through.rows()] == ["failed"]
    assert through.world.names == []


async def test_a_tool_that_the_server_does_not_list_is_not_called(
    through: Through,
) -> None:
    """EN-08, OUT-05."""
    async with through.client() as client:
        result = await client.call_tool("no.such")
    assert (result.is_error, text(result)) == (True, "Unknown tool: toy.no.such")
    assert [row.outcome for row in through.rows()] == ["unknown_tool"]


async def test_a_server_that_lies_about_a_tool_is_not_believed(
    through: Through,
) -> None:
    """AN-20."""
    async with through.client() as client:
        await client.call_tool("slack.post", {"text": "x"})
    assert [row.klass for row in through.rows()] == ["undeclared"]


async def test_a_trusted_server_is_believed(through: Through) -> None:
    """AN-20."""
    through.trusted = True
    async with through.client() as client:
        await client.call_tool("slack.post", {"text": "x"})
        await client.call_tool("draft.create", {"title": "A"})
    assert [row.klass for row in through.rows()] == ["read_only", "reversible"]


async def test_tools_that_nothing_takes_back_can_be_denied(through: Through) -> None:
    """AN-18, as an outcome that the model reads."""
    through.non_reversible = "deny"
    async with through.client() as client:
        result = await client.call_tool("mail.send", {"to": "ann"})
        await client.call_tool("draft.create", {"title": "A"})
    assert (result.is_error, text(result)) == (
        True,
        "toy.mail.send cannot be undone",
    )
    assert [row.outcome for row in through.rows()] == ["denied", "success"]
    assert through.world.names == ["draft.create"]


async def test_a_call_that_the_client_gave_up_is_in_doubt(through: Through) -> None:
    """AN-01: nobody knows what it did, and it holds no turn open."""
    through.idle_s = 0.05
    async with through.client() as client:
        with anyio.move_on_after(HANGS_S) as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_hang, client)
                while "toy.hang" not in through.world.names:
                    await anyio.sleep(0.01)
                scope.cancel()
        await _until(lambda: _statuses(through) == ["committed"])
    (row,) = through.rows()
    assert row.outcome != "success"
    with through.session() as au:
        report = au.undo("t-1")
    named = [item.reason for item in report.items] + list(report.not_covered)
    assert len(named) == 1


async def test_a_silent_turn_ends_and_the_next_call_begins_another(
    through: Through,
) -> None:
    through.idle_s = 0.05
    async with through.client() as client:
        await client.call_tool("draft.create", {"title": "A"})
        await _until(lambda: _statuses(through) == ["committed"])
        await client.call_tool("draft.create", {"title": "B"})
    assert _statuses(through) == ["committed", "committed"]
    assert [row.arguments for row in through.rows("t-2")] == [{"title": "B"}]


async def test_a_client_may_name_its_turns(through: Through) -> None:
    async with through.client() as client:
        for name in ("one", "one", "two"):
            meta = {"gitshadow/turn": name}
            await client.call_tool("draft.create", {"title": "A"}, meta=meta)  # type: ignore[arg-type]
    with through.session() as au:
        assert [turn.label for turn in au.turns()] == ["one", "two"]
        assert [len(au.calls(turn.id)) for turn in au.turns()] == [2, 1]


HELD = """
[servers.toy.tools."slack.post"]
class = "non_reversible"
hold = true
[servers.toy.tools."toy.picture"]
class = "non_reversible"
hold = true
"""


async def test_a_held_call_is_made_when_the_connection_ends(through: Through) -> None:
    """AN-19: the turn commits while the server is still there."""
    through.extra = HELD
    async with through.client() as client:
        result = await client.call_tool("slack.post", {"text": "x"})
        assert through.world.state["posts"] == []
        free = await client.call_tool("toy.picture")
    # Only an error may be without the structure that `slack.post` has promised.
    assert (result.is_error, text(result)[:5]) == (True, "Held:")
    assert (free.is_error, text(free)[:5]) == (False, "Held:")
    assert through.world.state["posts"] == ["x"]
    assert [row.outcome for row in through.rows()] == ["success", "success"]


async def test_what_a_turn_held_is_sent_before_the_next_one_begins(
    through: Through,
) -> None:
    through.extra = HELD
    async with through.client() as client:
        one, two = {"gitshadow/turn": "one"}, {"gitshadow/turn": "two"}
        await client.call_tool("slack.post", {"text": "x"}, meta=one)  # type: ignore[arg-type]
        made = await client.call_tool("draft.create", {"title": "A"}, meta=two)  # type: ignore[arg-type]
        assert made.structured_content == {"id": 9}
        assert through.world.names == ["slack.post", "draft.create"]
    assert through.world.names == ["slack.post", "draft.create"]


async def test_tools_that_appear_later_are_known(through: Through) -> None:
    async with through.client() as client:
        await client.call_tool("toy.grow")
        assert text(await client.call_tool("toy.new")) == "new"
    assert [(row.tool, row.outcome) for row in through.rows()] == [
        ("toy.grow", "success"),
        ("toy.new", "success"),
    ]


async def test_overlapping_calls_are_undone_by_the_order_of_their_starts(
    through: Through,
) -> None:
    """AN-08."""
    async with through.client() as client, anyio.create_task_group() as tasks:
        for number in range(8):
            tasks.start_soon(client.call_tool, "draft.create", {"title": str(number)})
    assert [row.arguments for row in through.rows()] == [
        {"title": str(number)} for number in range(8)
    ]


async def test_a_wrong_declaration_is_noted_and_the_tool_counts_as_undeclared(
    through: Through,
) -> None:
    through.extra = '[servers.toy.tools."toy.write"]\nclass = "undoable"\n'
    async with through.client() as client:
        await client.call_tool("toy.write", {"path": "/dev/null", "text": ""})
    assert [row.klass for row in through.rows()] == ["undeclared"]
    assert "toy.write: there is no class 'undoable'" in through.notes[0]


async def test_nothing_runs_while_something_of_the_session_is_taken_back(
    through: Through,
) -> None:
    async with through.client() as client:
        with through.session() as au, au.runtime.locked():
            result = await client.call_tool("draft.create", {"title": "A"})
    assert result.is_error
    assert "refused to run it: cannot use session m-1" in text(result)
    assert through.world.names == []


async def _hang(client: Client) -> None:
    await client.call_tool("toy.hang")


async def _until(condition: Callable[[], bool]) -> None:
    while not condition():
        await anyio.sleep(0.01)


def _statuses(through: Through) -> list[str]:
    with through.session() as au:
        return [turn.status for turn in au.turns()]
