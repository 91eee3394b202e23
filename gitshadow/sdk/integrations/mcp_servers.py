"""The MCP servers of a user's file, started when an undo needs one of them.

Invariant: only servers of the file are started, with the commands of the file.
"""

import asyncio
from collections.abc import Mapping

from mcp import Client, MCPError, StdioServerParameters
from mcp_types import CONNECTION_CLOSED

from gitshadow.errors import UsageError
from gitshadow.sdk.integrations import mcp_results
from gitshadow.sdk.integrations.mcp_config import ServerSpec
from gitshadow.sdk.turns.declarations import ServerOrigin
from gitshadow.sdk.turns.errors import ToolFailure
from gitshadow.sdk.turns.inverse_kinds import Allowed
from gitshadow.sdk.turns.json_values import in_words
from gitshadow.sdk.turns.mcp_tools import Forward
from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.values import JsonObject, Outcome


class Servers:
    """Call servers for inverses and for values that they read; `Host(mcp=...)`, async front only.

    Args:
        specs: The user's servers by name.
        environ: Their environment, to which each server's `env` is added.
    """

    def __init__(
        self, specs: Mapping[str, ServerSpec], environ: Mapping[str, str]
    ) -> None:
        self._specs, self._environ = specs, environ
        self._loop: asyncio.AbstractEventLoop | None = None
        self._open: dict[str, _Connection] = {}

    @property
    def allowed(self) -> Allowed:
        """Return what an undo may call without confirmation: every tool of the servers."""
        return Allowed(mcp=tuple(self._specs))

    def registry(self) -> ToolRegistry:
        """Return the tools that the file declares, under the names of their servers.

        Raises:
            RegistrationError: a declaration is wrong.
        """
        tools = ToolRegistry()
        for spec in self._specs.values():
            reader = _Reader(self, spec)
            origin = ServerOrigin(spec.name, reader.read, spec.repeatable)
            for name in spec.tools:
                options = spec.options(name, origin)
                tools.domain(spec.name).add(name, Forward(name, reader.read), **options)
        return tools

    async def call(
        self,
        server: str,
        tool: str,
        arguments: JsonObject,
        idempotency_key: str,
    ) -> Outcome:
        """Call a tool to undo an effect.

        Raises:
            ToolFailure: the server could not be started, so nothing was done.
            ServerError: the server reports an error, and the effect is unknown.
            MCPError, TimeoutError: there was no valid answer.
        """
        spec = self._specs.get(server)
        if spec is None:
            raise ToolFailure(f"no server {server} is declared")
        key = spec.key_argument(tool)
        given = {**arguments, key: idempotency_key} if key else dict(arguments)
        return await self.ask(spec, tool, given)

    async def ask(self, spec: ServerSpec, tool: str, arguments: JsonObject) -> Outcome:
        """Call a tool of a server; start the server first if it does not run."""
        client = await self._connected(spec)
        try:
            found = await client.call_tool(
                tool, dict(arguments), read_timeout_seconds=spec.timeout_s
            )
        except MCPError as error:
            if error.error.code == CONNECTION_CLOSED:
                await self._end(spec)
            return mcp_results.refused(error.error.code, error.error.message)
        return mcp_results.outcome_of(
            found.model_dump(mode="json", by_alias=True),
            is_harmless=spec.does_nothing_on_errors(tool),
        )

    async def _connected(self, spec: ServerSpec) -> Client:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self._open = loop, {}
        if spec.name not in self._open:
            self._open[spec.name] = _Connection(self._parameters(spec))
        try:
            async with asyncio.timeout(spec.timeout_s):
                return await asyncio.shield(self._open[spec.name].client)
        except TimeoutError as error:
            await self._end(spec)
            said = f"no answer in {spec.timeout_s:g} seconds"
            raise ToolFailure(f"could not start {spec.name}: {said}") from error
        except Exception as error:  # what ends a server at once comes in groups
            await self._end(spec)
            said = in_words(_first(error))
            raise ToolFailure(f"could not start {spec.name}: {said}") from error

    async def _end(self, spec: ServerSpec) -> None:
        """End a server that has stopped or does not answer; the next call starts it again."""
        if spec.name in self._open:
            task = self._open.pop(spec.name).task
            task.cancel()
            # The end of the loop would cancel it again, and leave the process there.
            await asyncio.wait([task])

    def _parameters(self, spec: ServerSpec) -> StdioServerParameters:
        if not spec.command:
            raise ToolFailure(f"no command is declared for the server {spec.name}")
        try:
            return parameters(spec, self._environ)
        except UsageError as error:
            raise ToolFailure(str(error)) from error


def parameters(spec: ServerSpec, environ: Mapping[str, str]) -> StdioServerParameters:
    """Return the parameters to start a server.

    Raises:
        UsageError: a variable that its settings name does not exist.
    """
    program, *rest = spec.command
    return StdioServerParameters(
        command=program, args=rest, env=spec.environment(environ), cwd=spec.cwd
    )


class _Reader:
    """Read values through one server, for `capture` and `fingerprint`."""

    def __init__(self, servers: Servers, spec: ServerSpec) -> None:
        self._servers, self._spec = servers, spec

    async def read(self, tool: str, arguments: JsonObject) -> object:
        outcome = await self._servers.ask(self._spec, tool, arguments)
        if not outcome.ok:
            raise ToolFailure(outcome.text)
        return outcome.content


class _Connection:
    """One server that runs as long as its event loop."""

    def __init__(self, parameters: StdioServerParameters) -> None:
        self.client: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        # The end of the loop cancels the task, which closes the server's input and waits for it.
        self.task = asyncio.create_task(self._keep(parameters))

    async def _keep(self, parameters: StdioServerParameters) -> None:
        try:
            async with Client(parameters) as client:
                self.client.set_result(client)
                await asyncio.Event().wait()
        except Exception as error:
            if self.client.done():
                raise
            self.client.set_exception(error)


def _first(error: Exception) -> Exception:
    """Return the first error in groups of errors."""
    return _first(error.exceptions[0]) if isinstance(error, ExceptionGroup) else error
