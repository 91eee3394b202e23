"""An MCP server that runs another one: each tool call of the client is part of a turn.

The client is on our own input and output, the server is our child.
Invariant: the client gets the server's answer unchanged, and only after it was journaled; the turn
has ended and the server has stopped before this process ends.
"""

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, NoReturn

import anyio
import anyio.to_thread
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.server.stdio import stdio_server
from mcp_types import JSONRPCError, JSONRPCRequest

from gitshadow.adapters.payload import Payload
from gitshadow.attribution.process import ancestors
from gitshadow.errors import ShadowError
from gitshadow.messages.codec import decode, encode
from gitshadow.messages.own_session import OWN_ABOVE, OwnSessionRequest
from gitshadow.sdk.integrations import mcp_link, mcp_results
from gitshadow.sdk.integrations.mcp_config import ServerSpec
from gitshadow.sdk.integrations.mcp_link import Answer, McpLink
from gitshadow.sdk.integrations.mcp_results import ServerError
from gitshadow.sdk.integrations.mcp_servers import parameters
from gitshadow.sdk.turns.async_session import AsyncAgentUndo, AsyncTurn
from gitshadow.sdk.turns.declarations import ServerOrigin
from gitshadow.sdk.turns.errors import RegistrationError
from gitshadow.sdk.turns.host import Host
from gitshadow.sdk.turns.mcp_tools import Forward, Offered, as_name, offered
from gitshadow.sdk.turns.policy import Limits, Policy
from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.tool import ToolOptions
from gitshadow.sdk.turns.values import JsonObject, Outcome, Reversibility
from gitshadow.service.client import answer
from gitshadow.store.layout import Layout

_PASSING: ContextVar["Passing"] = ContextVar("passing")
TURN_KEY = "gitshadow/turn"
_AGENT_CHARS = 64
# A server whose cursors never end must not keep the first call waiting for ever.
_MOST_PAGES = 100
_ID_BYTES = 3
_NAME_CHARS = 16
_SIGNALLED = 128
_SERVER_ENDED = 1


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
    """The session of a connection, its current turn, and the newest call of the client.

    A turn is open while a call is running that the client has not cancelled.
    """

    # The protocol has calls, but no prompts, so a turn ends after some time without a call, when
    # the client names another turn, or with the connection.

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
            # A turn that ends just now ends before its session is closed.
            async with self._lock:
                try:
                    await self._end()
                finally:
                    session, self._session = self._session, None
                    if session is not None:
                        session.close()

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
            # A connection that closes cancels what watches it, also while that ends a turn.
            with anyio.CancelScope(shield=True):
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
                agent=(self._link.client_name or "mcp")[:_AGENT_CHARS],
                tools=self.registry,
                policy=Policy(non_reversible=options.non_reversible, limits=limits),
                host=Host(files=False if hooks_tell else None),
            )
        return self._session

    def _beat(self) -> None:
        self._pulse.set()
        self._pulse = anyio.Event()


def hooks_tell(layout: Layout) -> bool:
    """Return whether an agent above this process reports through hooks."""
    above = tuple((one.pid, one.started) for one in ancestors(os.getpid()))
    request = OwnSessionRequest(above)
    try:
        found = answer(layout, OWN_ABOVE.name, encode(request))
    except ShadowError:
        return False
    return bool(decode(OWN_ABOVE.answer, found).sessions)


def run(
    options: ProxyOptions, environ: Mapping[str, str], leave: Callable[[int], NoReturn]
) -> NoReturn:
    """Serve until the client, the server or a signal ends it.

    Args:
        options: The options of the proxy.
        environ: Our own environment, which the server gets as its table says.
        leave: Ends this process with a code: 0 for the client, 1 for the server, 128 and the
            number of a signal.

    Raises:
        UsageError: a variable that the server's settings name does not exist.
    """
    anyio.run(_run, options, parameters(options.server, environ), leave)
    raise AssertionError("leave() does not return")


def new_session(server: str) -> str:
    """Return the id of a new session."""
    day = datetime.now(UTC).strftime("%Y%m%d")
    name = server.lower().replace("_", "-")[:_NAME_CHARS]
    return f"mcp-{name}-{day}-{os.urandom(_ID_BYTES).hex()}"


async def _run(
    options: ProxyOptions,
    parameters: StdioServerParameters,
    leave: Callable[[int], NoReturn],
) -> None:
    async with stdio_server() as (from_client, to_client):
        try:
            async with stdio_client(parameters) as (from_server, to_server):
                link = McpLink(
                    from_client, to_client, from_server, to_server, options.note
                )
                code = await _served(link, options)
        except OSError as error:
            options.note(f"could not start {options.server.name}: {error}")
            code = _SERVER_ENDED
        leave(code)


async def _served(link: McpLink, options: ProxyOptions) -> int:
    """Serve and return the exit code."""
    signalled: list[int] = []
    async with anyio.create_task_group() as tasks:

        async def watch_signals() -> None:
            wanted = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
            with anyio.open_signal_receiver(*wanted) as received:
                async for number in received:
                    signalled.append(number)
                    link.stop()

        tasks.start_soon(watch_signals)
        by_client = await serve(link, options)
        tasks.cancel_scope.cancel()
    if signalled:
        return _SIGNALLED + signalled[0]
    if not by_client:
        options.note(f"{options.server.name} has stopped")
    return 0 if by_client else _SERVER_ENDED


class _Proxy:
    """Run the calls of one connection."""

    def __init__(self, link: McpLink, options: ProxyOptions) -> None:
        self._link, self._options = link, options
        self.turns = Turns(link, options)
        self._tools = _Listing(self.turns.registry, options, self._forward, self._read)

    async def take(self, request: JSONRPCRequest) -> Answer:
        """Run one call in the current turn and return the answer to the client."""
        with anyio.CancelScope() as scope:
            passing = Passing(request, scope)
            with self.turns.holding(passing):
                return await self._taken(passing)
        return mcp_link.error(request, "the call was abandoned")

    async def _taken(self, passing: Passing) -> Answer:
        try:
            outcome = await self._called(passing)
        except ServerError as error:
            outcome = Outcome.failed(str(error))
        except ShadowError as error:
            self._options.note(f"{passing.tool}: {error}")
            outcome = Outcome.failed(f"gitshadow refused to run it: {error}")
        if passing.answer is not None:
            return passing.answer
        is_shaped = self._tools.is_shaped(passing.tool)
        told = mcp_results.answer_of(outcome, is_shaped=is_shaped)
        return mcp_link.result(passing.request, told)

    async def _called(self, passing: Passing) -> Outcome:
        name = as_name(f"{self._options.server.name}.{passing.tool}")
        if self._tools.is_stale(self._link, name):
            await self._tools.learn(self._link, passing.request)
        turn = await self.turns.current(passing.turn)
        # Only now: the end of the previous turn sends its held calls, which are not this call.
        _PASSING.set(passing)
        return await turn.call(name, passing.arguments)

    async def _forward(self, name: str, arguments: JsonObject) -> Outcome:
        """Send the client's own request; a held call is sent as a new request."""
        passing = _PASSING.get(None)
        if passing is None or passing.is_sent:
            return self._judged(name, await self._asked(name, arguments))
        passing.is_sent = True
        passing.answer = await self._link.ask(passing.request)
        if isinstance(passing.answer, JSONRPCError) and self._link.gave_up(
            passing.request
        ):
            raise ServerError("it was cancelled; what it did is unknown")
        return self._judged(name, passing.answer)

    async def _read(self, name: str, arguments: JsonObject) -> object:
        """Call a tool ourselves, to read a value before the client's call."""
        outcome = self._judged(name, await self._asked(name, arguments))
        if not outcome.ok:
            raise ServerError(outcome.text)
        return outcome.content

    async def _asked(self, name: str, arguments: JsonObject) -> Answer:
        params = {"name": name, "arguments": dict(arguments)}
        with anyio.fail_after(self._options.server.timeout_s):
            return await self._link.request("tools/call", params, self.turns.latest)

    def _judged(self, name: str, answer: Answer) -> Outcome:
        if isinstance(answer, JSONRPCError):
            return mcp_results.refused(answer.error.code, answer.error.message)
        return mcp_results.outcome_of(
            answer.result, is_harmless=self._tools.is_harmless(name)
        )


async def serve(link: McpLink, options: ProxyOptions) -> bool:
    """Pass messages until one side ends; return whether it was the client."""
    proxy = _Proxy(link, options)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(proxy.turns.watch)
        by_client = await link.run(proxy.take, proxy.turns.close)
        tasks.cancel_scope.cancel()
    return by_client


class _Listing:
    """Declare the tools that the server lists, as the user's file describes them.

    A tool is judged by the newest list; one with a wrong declaration counts as undeclared.
    """

    def __init__(
        self,
        registry: ToolRegistry,
        options: ProxyOptions,
        forward: Callable[[str, JsonObject], object],
        read: Callable[[str, JsonObject], object],
    ) -> None:
        self._registry, self._options, self._forward = registry, options, forward
        spec = options.server
        self._origin = ServerOrigin(spec.name, read, spec.repeatable)
        self._listed: int | None = None
        self._shaped: set[str] = set()
        self._lock = anyio.Lock()

    def is_stale(self, link: McpLink, name: str) -> bool:
        """Whether the server must list its tools before this one can be judged."""
        return self._listed != link.lists_changed or self._registry.find(name) is None

    def is_harmless(self, name: str) -> bool:
        """Whether a tool that reports an error certainly did nothing."""
        tool = self._registry.find(as_name(f"{self._options.server.name}.{name}"))
        reads = tool is not None and tool.effective is Reversibility.READ_ONLY
        return reads or self._options.server.does_nothing_on_errors(name)

    def is_shaped(self, name: str) -> bool:
        """Whether a tool's results have a schema; only errors need not match it."""
        return name in self._shaped

    async def learn(self, link: McpLink, like: JSONRPCRequest) -> None:
        """Ask the server for its tools and declare each."""
        async with self._lock:
            changed = link.lists_changed
            listed = await self._list(link, like)
            if listed is None:
                return
            self._listed = changed
            tools = list(offered({"tools": listed}))
            self._shaped = {tool.name for tool in tools if tool.is_shaped}
            for tool in tools:
                self._declare(tool)

    async def _list(self, link: McpLink, like: JSONRPCRequest) -> list[object] | None:
        found: list[object] = []
        params: JsonObject = {}
        for _ in range(_MOST_PAGES):
            answer = await link.request("tools/list", params, like)
            if isinstance(answer, JSONRPCError):
                self._options.note(f"cannot list tools: {answer.error.message}")
                return None
            tools = answer.result.get("tools")
            found += tools if isinstance(tools, list) else []
            cursor = answer.result.get("nextCursor")
            if not cursor:
                break
            params = {"cursor": cursor}
        return found

    def _declare(self, tool: Offered) -> None:
        spec = self._options.server
        self._registry.remove(as_name(f"{spec.name}.{tool.name}"))
        try:
            options = tool.options(trusted=spec.trusted, origin=self._origin)
            self._add(tool, options | spec.options(tool.name, self._origin))
        except RegistrationError as error:
            self._options.note(f"{error}; {tool.name} counts as non-reversible")
            self._add(tool, {})

    def _add(self, tool: Offered, options: ToolOptions) -> None:
        function = Forward(tool.name, self._forward)
        view = self._registry.domain(self._options.server.name)
        view.add(as_name(tool.name), function, **options)
