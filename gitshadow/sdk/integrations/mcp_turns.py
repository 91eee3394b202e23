"""The session and the turn of one MCP connection.

The protocol has calls, but no prompts, so a turn ends after some time without a call, when the
client names another turn, or with the connection.
Invariant: a turn is open while a call is running that the client has not cancelled.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import anyio
import anyio.to_thread
from mcp_types import JSONRPCRequest

from gitshadow.adapters.payload import Payload
from gitshadow.errors import ShadowError
from gitshadow.sdk.integrations.mcp_config import ServerSpec
from gitshadow.sdk.integrations.mcp_link import Answer, McpLink
from gitshadow.sdk.turns.async_session import AsyncAgentUndo, AsyncTurn
from gitshadow.sdk.turns.host import Host
from gitshadow.sdk.turns.policy import Limits, Policy
from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.values import JsonObject

TURN_KEY = "gitshadow/turn"
_NAME_CHARS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyOptions:
    """Options of a proxy.

    Args:
        root: The working tree whose journal is written.
        session: The id of the session.
        server: The user's table about the server.
        idle_s: The turn ends after so many seconds without a call.
        non_reversible: Whether tools without an inverse may run.
        note: Shows a problem to people.
        hooks_tell: Whether the hooks of the calling agent report its calls to the recorder; called
            once, at the first call. A file with two claims would be ambiguous.
    """

    root: str
    session: str
    server: ServerSpec
    idle_s: float
    non_reversible: Literal["allow", "deny"]
    note: Callable[[str], None]
    hooks_tell: Callable[[], bool] = lambda: False


@dataclass(slots=True)
class Passing:
    """One running call of the client."""

    request: JSONRPCRequest
    scope: anyio.CancelScope
    is_sent: bool = False
    answer: Answer | None = None

    @property
    def _params(self) -> Payload:
        return Payload(self.request.params or {})

    @property
    def tool(self) -> str:
        """Return the server's name of the tool."""
        return str(self._params.value("name"))

    @property
    def arguments(self) -> JsonObject:
        """Return the arguments; empty if they are not an object."""
        found = self._params.value("arguments")
        return found if isinstance(found, dict) else {}

    @property
    def turn(self) -> str | None:
        """Return the turn that the client names, or None."""
        found = self._params.object("_meta").value(TURN_KEY)
        return found if isinstance(found, str) else None


class Turns:
    """The session of a connection, its current turn, and the newest call of the client."""

    def __init__(self, link: McpLink, options: ProxyOptions) -> None:
        self.registry = ToolRegistry()
        self._link, self._options = link, options
        self._session: AsyncAgentUndo | None = None
        self._turn: AsyncTurn | None = None
        self._named: str | None = None
        self._passing: list[Passing] = []
        self.latest: JSONRPCRequest | None = None
        self._lock = anyio.Lock()
        self._pulse = anyio.Event()

    @contextmanager
    def holding(self, passing: Passing) -> Iterator[None]:
        """Keep the turn open during a block."""
        self.latest = passing.request
        self._passing.append(passing)
        self._beat()
        try:
            yield
        finally:
            self._passing.remove(passing)
            self._beat()

    async def current(self, named: str | None) -> AsyncTurn:
        """Return the current turn; begin one if there is none or another one is named.

        Raises:
            SessionBusy: an undo of this session is running.
            ShadowError: the journal cannot be used.
        """
        async with self._lock:
            if named != self._named and len(self._passing) == 1:
                await self._end()
            if self._turn is None:
                session = await self._opened()
                turn = session.turn(named or f"{self._options.server.name} (MCP)")
                await turn.__aenter__()
                self._turn, self._named = turn, named
            return self._turn

    async def watch(self) -> None:
        """End the turn each time that it had no call for `idle_s`."""
        while True:
            pulse = self._pulse
            with anyio.move_on_after(self._options.idle_s):
                await pulse.wait()
                continue
            async with self._lock:
                if all(self._link.gave_up(one.request) for one in self._passing):
                    await self._end()
                    await self._send_what_is_due()

    async def close(self) -> None:
        """End the turn and the session; running calls are in doubt from now on."""
        with anyio.CancelScope(shield=True):
            try:
                await self._end()
            finally:
                if self._session is not None:
                    self._session.close()

    async def _send_what_is_due(self) -> None:
        """Send held calls whose delay is over; no turn is open."""
        if self._session is None:
            return
        try:
            await self._session.release()
        except ShadowError as error:
            self._options.note(f"could not send what is due: {error}")

    async def _end(self) -> None:
        for passing in self._passing:
            if self._link.gave_up(passing.request):
                passing.scope.cancel()
        turn, self._turn, self._named = self._turn, None, None
        if turn is None:
            return
        try:
            await turn.__aexit__(None, None, None)
        except ShadowError as error:
            self._options.note(f"could not end {turn.id}: {error}")

    async def _opened(self) -> AsyncAgentUndo:
        if self._session is None:
            options = self._options
            hooks_tell = await anyio.to_thread.run_sync(options.hooks_tell)
            limits = Limits(tool_calls=None, round_trips=None)
            self._session = AsyncAgentUndo.open(
                options.root,
                session=options.session,
                agent=(self._link.client_name or "mcp")[:_NAME_CHARS],
                tools=self.registry,
                policy=Policy(non_reversible=options.non_reversible, limits=limits),
                host=Host(files=False if hooks_tell else None),
            )
        return self._session

    def _beat(self) -> None:
        self._pulse.set()
        self._pulse = anyio.Event()
