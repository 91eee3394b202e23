"""An MCP server for an agent about its own work: list, plan, undo.

The agent's own session is found from the processes above this one, never from an argument.
Invariant: an agent has no argument to change the work of another one.
"""

import os
import threading

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations

from gitshadow import __version__
from gitshadow.attribution.process import ancestors
from gitshadow.errors import ShadowError
from gitshadow.messages.codec import JsonObject
from gitshadow.model import JsonValue
from gitshadow.service.client import answer
from gitshadow.store.layout import Layout

_LOOKS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_WRITES = ToolAnnotations(
    read_only_hint=False,
    destructive_hint=True,
    idempotent_hint=False,
    open_world_hint=False,
)
_INSTRUCTIONS = """\
Every change in this repository is recorded with its author. These tools manage the changes of your
own session: list them, see what was undone of them, plan an undo of some, and undo them. Changes by
people and other agents cannot be undone; where they edited the same file later, their lines are
kept. Files only: effects outside the file tree are not undone here."""


class OwnWork:
    """The work of the session to which this process belongs."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._above = [list(one) for one in ancestors(os.getpid())]
        # The recorder has one writer; two calls at once would block each other.
        self._one_at_a_time = threading.Lock()

    def ask(self, verb: str, **params: JsonValue) -> JsonObject:
        """Return the answer of a verb.

        Raises:
            ToolError: it failed; the text is for a model.
        """
        told = {**params, "ancestors": self._above, "cwd": self._layout.root}
        try:
            with self._one_at_a_time:
                found = answer(self._layout, verb, told)
        except ShadowError as error:
            raise ToolError(_said(str(error), error.hint)) from error
        if isinstance(found.get("error"), str):
            hint = found.get("hint")
            raise ToolError(_said(str(found["error"]), str(hint) if hint else None))
        return found


def make(layout: Layout) -> MCPServer:
    """Return the server for one working tree."""
    server = MCPServer(
        "gitshadow",
        version=__version__,
        instructions=_INSTRUCTIONS,
        log_level="WARNING",
    )
    work = OwnWork(layout)

    @server.tool(annotations=_LOOKS)
    def my_session() -> JsonObject:
        """Return the recorded session that is yours."""
        return work.ask("own_session")

    @server.tool(annotations=_LOOKS)
    def my_changes(paths: list[str] | None = None, limit: int = 100) -> JsonObject:
        """List your changes to files, newest first, and the undo of each that was undone.

        Args:
            paths: Only these files, or files below these directories.
            limit: The largest number of rows.
        """
        return work.ask("own_changes", paths=paths or [], limit=limit)

    @server.tool(annotations=_LOOKS)
    def my_undone() -> JsonObject:
        """List the undos of your work that are in effect, and who ran them."""
        return work.ask("own_undone")

    @server.tool(annotations=_LOOKS)
    def plan_undo(target: str, paths: list[str] | None = None) -> JsonObject:
        """Plan an undo of your own work; nothing is changed.

        Args:
            target: A seq, call, turn or burst of `my_changes`, or `session` for all your changes.
            paths: Only these files.
        """
        return work.ask("own_undo", target=target, paths=paths or [])

    @server.tool(annotations=_WRITES)
    def undo(target: str, token: str, paths: list[str] | None = None) -> JsonObject:
        """Undo your own work as planned; the report lists what was restored and what was not.

        Args:
            target: As in the plan.
            token: The plan's token; if the files have changed since, nothing is done.
            paths: As in the plan.
        """
        return work.ask("own_undo", target=target, paths=paths or [], token=token)

    return server


def _said(message: str, hint: str | None) -> str:
    return f"{message}; {hint}" if hint else message
