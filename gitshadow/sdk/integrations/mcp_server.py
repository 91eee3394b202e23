"""An MCP server for an agent about its own work: list, plan, undo.

The agent's own session is found from the processes above this one, never from an argument.
Invariant: an agent has no argument to change the work of another one.
"""

import os
import threading

import anyio
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp_types import ToolAnnotations

from gitshadow import __version__
from gitshadow.attribution.process import ancestors
from gitshadow.errors import ShadowError
from gitshadow.messages.codec import A, JsonObject, Q, Verb, encode
from gitshadow.messages.own_session import (
    OWN_CHANGES,
    OWN_SESSION,
    OWN_UNDO,
    OWN_UNDONE,
    OwnChangesRequest,
    OwnSessionRequest,
    OwnUndoRequest,
)
from gitshadow.sdk.integrations.mcp_link import put, unread
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
        self.above = tuple((one.pid, one.started) for one in ancestors(os.getpid()))
        # The recorder has one writer; two calls at once would block each other.
        self._one_at_a_time = threading.Lock()

    def ask(self, verb: Verb[Q, A], request: Q) -> JsonObject:
        """Return the document that answers a verb.

        Raises:
            ToolError: it failed; the text is for a model.
        """
        try:
            with self._one_at_a_time:
                found = answer(self._layout, verb.name, encode(request))
        except ShadowError as error:
            raise ToolError(_said(str(error), error.hint)) from error
        if isinstance(found.get("error"), str):
            hint = found.get("hint")
            raise ToolError(_said(str(found["error"]), str(hint) if hint else None))
        return found

    def undo(
        self, target: str, paths: list[str] | None, token: str | None
    ) -> JsonObject:
        """Return the plan of an undo, or with its token the report."""
        return self.ask(
            OWN_UNDO,
            OwnUndoRequest(
                target, self.above, tuple(paths or ()), token, self._layout.root
            ),
        )


class _Server(MCPServer):
    """A server that answers requests which it cannot read; the package mcp drops them."""

    async def run_stdio_async(self) -> None:
        """Run on stdio."""
        server = self._lowlevel_server
        into, readable = anyio.create_memory_object_stream[SessionMessage | Exception]()
        async with (
            stdio_server() as (reads, writes),
            anyio.create_task_group() as tasks,
        ):

            async def read() -> None:
                async with into:
                    async for found in reads:
                        if not isinstance(found, Exception):
                            await into.send(found)
                        elif (error := unread(found)) is not None:
                            await put(writes, error)

            tasks.start_soon(read)
            await server.run(readable, writes, server.create_initialization_options())
            tasks.cancel_scope.cancel()


def make(layout: Layout) -> MCPServer:
    """Return the server for one working tree."""
    server = _Server(
        "gitshadow",
        version=__version__,
        instructions=_INSTRUCTIONS,
        log_level="WARNING",
    )
    work = OwnWork(layout)

    @server.tool(annotations=_LOOKS)
    def my_session() -> JsonObject:
        """Return your recorded session."""
        return work.ask(OWN_SESSION, OwnSessionRequest(work.above))

    @server.tool(annotations=_LOOKS)
    def my_changes(paths: list[str] | None = None, limit: int = 100) -> JsonObject:
        """List your changes to files, newest first; an undone change has the id of its undo.

        Args:
            paths: Only these files, or files below these directories.
            limit: The maximum number of rows, at most 1000.
        """
        return work.ask(
            OWN_CHANGES,
            OwnChangesRequest(work.above, tuple(paths or ()), limit, layout.root),
        )

    @server.tool(annotations=_LOOKS)
    def my_undone() -> JsonObject:
        """List the undos of your work that are in effect, and who ran them."""
        return work.ask(OWN_UNDONE, OwnSessionRequest(work.above))

    @server.tool(annotations=_LOOKS)
    def plan_undo(target: str, paths: list[str] | None = None) -> JsonObject:
        """Plan an undo of your own work: return the plan and its token; no file is changed.

        Args:
            target: A seq, call, turn or burst from `my_changes`, or `session` for all your changes.
            paths: Only these files.
        """
        return work.undo(target, paths, None)

    @server.tool(annotations=_WRITES)
    def undo(target: str, token: str, paths: list[str] | None = None) -> JsonObject:
        """Undo your own work as planned; the report lists what was restored and what was skipped.

        Args:
            target: The target of the plan.
            token: The token of the plan; if the files have changed since, nothing is done.
            paths: The paths of the plan.
        """
        return work.undo(target, paths, token)

    return server


def _said(message: str, hint: str | None) -> str:
    return f"{message}; {hint}" if hint else message
