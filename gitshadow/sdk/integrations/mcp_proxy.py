"""An MCP server that is another one, with every tool call in a turn.

Invariant: what the server answers reaches the client unchanged, and only after it was written down.
"""

from collections.abc import Mapping
from contextvars import ContextVar

import anyio
from mcp_types import JSONRPCError, JSONRPCRequest

from gitshadow.errors import ShadowError
from gitshadow.sdk.integrations import mcp_link, mcp_results
from gitshadow.sdk.integrations.mcp_link import Answer, McpLink
from gitshadow.sdk.integrations.mcp_listing import ToolListing
from gitshadow.sdk.integrations.mcp_results import ServerError
from gitshadow.sdk.integrations.mcp_turns import Passing, ProxyOptions, Turns
from gitshadow.sdk.turns.values import Outcome

_PASSING: ContextVar[Passing] = ContextVar("passing")


class Proxy:
    """Take the calls of one connection."""

    def __init__(self, link: McpLink, options: ProxyOptions) -> None:
        self._link, self._options = link, options
        self._turns = Turns(link, options)
        self._tools = ToolListing(
            self._turns.registry, options, self._forward, self._read
        )

    async def take(self, request: JSONRPCRequest) -> Answer:
        """Run one call in the turn at hand and return what the client is told."""
        with anyio.CancelScope() as scope:
            passing = Passing(request, scope)
            with self._turns.holding(passing):
                return await self._taken(passing)
        return mcp_link.error(request, "the call was abandoned")

    async def watch(self) -> None:
        """End turns in which nothing is called any more."""
        await self._turns.watch()

    async def close(self) -> None:
        """End the turn and the session."""
        await self._turns.close()

    async def _taken(self, passing: Passing) -> Answer:
        outcome = None
        try:
            outcome = await self._called(passing)
        except ServerError as error:
            outcome = Outcome.failed(str(error))
        except ShadowError as error:
            self._options.note(f"{passing.tool}: {error}")
            outcome = Outcome.failed(f"gitshadow refused to run it: {error}")
        if passing.answer is not None:
            return passing.answer
        assert outcome is not None
        is_shaped = self._tools.is_shaped(passing.tool)
        told = mcp_results.answer_of(outcome, is_shaped=is_shaped)
        return mcp_link.result(passing.request, told)

    async def _called(self, passing: Passing) -> Outcome:
        name = f"{self._options.server.name}.{passing.tool}"
        if self._tools.is_stale(self._link, name):
            await self._tools.learn(self._link, passing.request)
        turn = await self._turns.current(passing.turn)
        # Not before: what the turn before held is sent when that ends, and is no call of now.
        _PASSING.set(passing)
        return await turn.call(name, passing.arguments)

    async def _forward(self, name: str, arguments: Mapping[str, object]) -> Outcome:
        """Let the client's own request through; what was held is asked anew."""
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

    async def _read(self, name: str, arguments: Mapping[str, object]) -> object:
        """Call a tool on our own, to know a value before the client's call."""
        outcome = self._judged(name, await self._asked(name, arguments))
        if not outcome.ok:
            raise ServerError(outcome.text)
        return outcome.content

    async def _asked(self, name: str, arguments: Mapping[str, object]) -> Answer:
        params = {"name": name, "arguments": dict(arguments)}
        with anyio.fail_after(self._options.server.timeout_s):
            return await self._link.request("tools/call", params, self._turns.latest)

    def _judged(self, name: str, answer: Answer) -> Outcome:
        if isinstance(answer, JSONRPCError):
            return mcp_results.refused(answer.error.code, answer.error.message)
        return mcp_results.outcome_of(
            answer.result, is_harmless=self._tools.is_harmless(name)
        )


async def serve(link: McpLink, options: ProxyOptions) -> bool:
    """Stand between a client and a server until one of them ends; True: the client did."""
    proxy = Proxy(link, options)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(proxy.watch)
        by_client = await link.run(proxy.take, proxy.close)
        tasks.cancel_scope.cancel()
    return by_client
