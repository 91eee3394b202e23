"""The session and the turn of one MCP connection.

The protocol tells of calls, never of prompts, so where a turn ends is our decision: when nothing
was called for a while, when the client names another one, or with the connection.
Invariant: a turn is open while a call is under way that the client has not given up.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import anyio
import anyio.to_thread
from mcp_types import JSONRPCRequest

from gitshadow.errors import ShadowError
from gitshadow.sdk.integrations.mcp_config import ServerSpec
from gitshadow.sdk.integrations.mcp_link import Answer, McpLink
from gitshadow.sdk.turns.async_session import AsyncAgentUndo, AsyncTurn
from gitshadow.sdk.turns.host import Host
from gitshadow.sdk.turns.policy import Limits, Policy
from gitshadow.sdk.turns.registry import ToolRegistry

TURN_KEY = "gitshadow/turn"
_NAME_CHARS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyOptions:
    """Say what a proxy stands for.

    Args:
        root: The working tree whose journal is written.
        session: The id of the session.
        server: What the user says of the server.
        idle_s: After so many seconds without a call the turn ends.
        non_reversible: Whether tools that nothing takes back may run.
        note: Where to tell people of troubles.
        hooks_tell: Whether the hooks of the agent that calls tell the recorder of its calls; asked
            once, at the first call. Two who claim a file would leave it to neither.
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
    """Hold one call of the client on its way."""

    request: JSONRPCRequest
    scope: anyio.CancelScope
    is_sent: bool = False
    answer: Answer | None = None

    @property
    def params(self) -> Mapping[str, object]:
        """Return the parameters of the request."""
        return self.request.params or {}

    @property
    def tool(self) -> str:
        """Return the name of the tool, as the server knows it."""
        return str(self.params.get("name"))

    @property
    def arguments(self) -> Mapping[str, object]:
        """Return the arguments; none where they are no object."""
        found = self.params.get("arguments")
        return found if isinstance(found, Mapping) else {}

    @property
    def turn(self) -> str | None:
        """Return the turn that the client names, if it does."""
        meta = self.params.get("_meta")
        found = meta.get(TURN_KEY) if isinstance(meta, Mapping) else None
        return found if isinstance(found, str) else None


class Turns:
    """Keep the session, and the turn at hand while there is one."""

    def __init__(self, link: McpLink, options: ProxyOptions) -> None:
        self.registry = ToolRegistry()
        self._link, self._options = link, options
        self._session: AsyncAgentUndo | None = None
        self._turn: AsyncTurn | None = None
        self._named: str | None = None
        self._passing: list[Passing] = []
        self._latest: JSONRPCRequest | None = None
        self._lock = anyio.Lock()
        self._pulse = anyio.Event()

    @property
    def latest(self) -> JSONRPCRequest:
        """Return the newest call of the client; there is one before anything is asked."""
        assert self._latest is not None
        return self._latest

    @contextmanager
    def holding(self, passing: Passing) -> Iterator[None]:
        """Keep the turn open for a block."""
        self._latest = passing.request
        self._passing.append(passing)
        self._beat()
        try:
            yield
        finally:
            self._passing.remove(passing)
            self._beat()

    async def current(self, named: str | None) -> AsyncTurn:
        """Return the turn at hand; begin one where there is none or another one is named.

        Raises:
            SessionBusy: somebody takes something of this session back.
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
        """End the turn each time that it was silent for long enough."""
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
        """End the turn and the session; what is under way is in doubt from now on."""
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
