"""The toy world behind an MCP server, and the user's file that declares its tools.

Run as a program it serves on stdio: `python mcp_toy.py WORLD`.
"""

import sys
from pathlib import Path

import anyio
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp_types import CallToolResult, TextContent, ToolAnnotations

from tests.sdk.turns.world import Toys, World

KEY = "k-0"
PNG = b"\x89PNG\r\n\x1a\n"
HINTS = ToolAnnotations(read_only_hint=True)


def config(root: Path, *, trusted: bool = False, extra: str = "") -> str:
    """Return the user's file for a world."""
    command = [sys.executable, str(Path(__file__)), str(root)]
    return f"""
[servers.toy]
command = {command!r}
env = {{ PYTHONPATH = {str(Path(__file__).parents[3])!r} }}
trusted = {str(trusted).lower()}

[servers.toy.tools]
"notes.read" = {{ class = "read_only" }}
"toy.soft_fail" = {{ class = "read_only" }}
"mail.send" = {{ class = "non_reversible", follow_up = "write to the reader" }}
"crm.restore" = {{ key_argument = "idempotency_key" }}
"draft.delete" = {{ key_argument = "idempotency_key" }}
"cal.cancel" = {{ key_argument = "idempotency_key" }}

[servers.toy.tools."crm.update"]
class = "reversible"
capture = {{ tool = "crm.get", arguments = {{ id = "$arguments.id", field = "$arguments.field" }} }}

[servers.toy.tools."crm.update".fingerprint]
tool = "crm.get"
arguments = {{ id = "$arguments.id", field = "$arguments.field" }}

[servers.toy.tools."crm.update".inverse]
tool = "crm.restore"
arguments = {{ id = "$arguments.id", field = "$arguments.field", value = "$captured" }}

[servers.toy.tools."draft.create"]
class = "reversible"
inverse = {{ tool = "draft.delete", arguments = {{ id = "$result.id" }} }}

[servers.toy.tools."cal.invite"]
class = "compensable"
residue = "the guest was sent a cancellation notice"
inverse = {{ tool = "cal.cancel", arguments = {{ id = "$result.id" }} }}

[servers.toy.tools."card.charge"]
class = "compensable"
inverse = {{ tool = "card.refund", arguments = {{ charge_id = "$result.charge_id" }} }}
{extra}
"""


def server_of(world: World) -> MCPServer:
    """Return a server whose tools change a world."""
    server = MCPServer("toy")
    _script_tools(server, Toys(world))
    _inverse_tools(server, Toys(world))
    _odd_tools(server, world)

    @server.resource("toy://world")
    def resource() -> str:
        return world.text.decode()

    @server.prompt()
    def greet(name: str) -> str:
        return f"Greet {name}"

    return server


def _script_tools(server: MCPServer, toys: Toys) -> None:
    @server.tool("notes.read", annotations=HINTS)
    def notes_read(note: str) -> str:
        return toys.notes_read(note)

    @server.tool("crm.get", annotations=HINTS)
    def crm_get(id: int, field: str) -> str | None:
        return toys.world.crm_get({"id": id, "field": field})

    @server.tool("crm.update")
    def crm_update(id: int, field: str, value: str) -> str:
        return toys.crm_update(id, field, value, idempotency_key=KEY)

    @server.tool("draft.create")
    def draft_create(title: str) -> dict[str, int]:
        return toys.draft_create(title, idempotency_key=KEY)

    @server.tool("cal.invite")
    def cal_invite(who: str) -> dict[str, str]:
        return toys.cal_invite(who, idempotency_key=KEY)

    @server.tool("card.charge")
    def card_charge(amount: int) -> dict[str, str]:
        return toys.card_charge(amount, idempotency_key=KEY)

    @server.tool("mail.send")
    def mail_send(to: str) -> str:
        return toys.mail_send(to)

    # It lies: a post is not read-only.
    @server.tool("slack.post", annotations=HINTS)
    def slack_post(text: str) -> None:
        toys.slack_post(text)

    @server.tool("toy.soft_fail")
    def soft_fail() -> CallToolResult:
        content = TextContent(text=toys.soft_fail().text)
        return CallToolResult(content=[content], is_error=True)


def _inverse_tools(server: MCPServer, toys: Toys) -> None:
    @server.tool("crm.restore")
    def crm_restore(
        id: int, field: str, value: str | None, idempotency_key: str
    ) -> None:
        toys.crm_restore(id, field, value, idempotency_key=idempotency_key)

    @server.tool("draft.delete")
    def draft_delete(id: int, idempotency_key: str) -> None:
        toys.draft_delete(id, idempotency_key=idempotency_key)

    @server.tool("cal.cancel")
    def cal_cancel(id: str, idempotency_key: str) -> None:
        toys.cal_cancel(id, idempotency_key=idempotency_key)

    @server.tool("card.refund")
    def card_refund(charge_id: str) -> None:
        toys.card_refund(charge_id, idempotency_key=charge_id)


def _odd_tools(server: MCPServer, world: World) -> None:
    @server.tool("toy.picture")
    def picture() -> list[Image | str]:
        return [Image(data=PNG, format="png"), "a picture"]

    @server.tool("toy.slow")
    async def slow(ctx: Context) -> str:
        await ctx.report_progress(1, 2, "half")
        return "done"

    @server.tool("toy.hang")
    async def hang() -> None:
        world.called("toy.hang", None)
        await anyio.sleep_forever()

    @server.tool("toy.boom")
    def boom() -> None:
        world.called("toy.boom", None)
        raise ValueError("boom")

    @server.tool("toy.grow")
    async def grow(ctx: Context) -> str:
        server.add_tool(lambda: "new", name="toy.new")
        await ctx.session.send_tool_list_changed()
        return "grown"

    @server.tool("toy.write")
    def write(path: str, text: str) -> str:
        Path(path).write_text(text)
        return "written"


if __name__ == "__main__":
    root = Path(sys.argv[1])
    server_of(World(root)).run()
