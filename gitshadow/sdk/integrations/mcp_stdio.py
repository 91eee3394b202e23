"""The proxy as a program: a client on our own input and output, a server as our child.

Invariant: the turn has ended and the server is gone before this process is.
"""

import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NoReturn

import anyio
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.server.stdio import stdio_server

from gitshadow.attribution.process import ancestors
from gitshadow.errors import ShadowError
from gitshadow.sdk.integrations.mcp_config import ServerSpec
from gitshadow.sdk.integrations.mcp_link import McpLink
from gitshadow.sdk.integrations.mcp_proxy import serve
from gitshadow.sdk.integrations.mcp_turns import ProxyOptions
from gitshadow.service.client import answer
from gitshadow.store.layout import Layout

_ID_BYTES = 3
_NAME_CHARS = 16
_SIGNALLED = 128
_SERVER_ENDED = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxying:
    """Say what is to be proxied; without a session, a new one."""

    layout: Layout
    server: ServerSpec
    session: str | None
    idle_s: float
    denies: bool
    environ: Mapping[str, str]

    def options(self, note: Callable[[str], None]) -> ProxyOptions:
        """Return what the proxy is told."""
        return ProxyOptions(
            root=self.layout.root,
            session=self.session or new_session(self.server.name),
            server=self.server,
            idle_s=self.idle_s,
            non_reversible="deny" if self.denies else "allow",
            note=note,
            hooks_tell=self._hooks_tell,
        )

    def _hooks_tell(self) -> bool:
        """Tell whether an agent above this process has hooks that speak."""
        above = [list(one) for one in ancestors(os.getpid())]
        params = {"ancestors": above, "cwd": self.layout.root}
        try:
            found = answer(self.layout, "own_above", params)
        except ShadowError:
            return False
        return bool(found.get("sessions"))

    def parameters(self) -> StdioServerParameters:
        """Return how the server is started: in our place, so with all that we were given.

        Raises:
            UsageError: a variable that its settings name is not there.
        """
        program, *rest = self.server.command
        return StdioServerParameters(
            command=program,
            args=rest,
            env=self.server.environment(self.environ),
            cwd=self.server.cwd,
        )


def run(
    proxying: Proxying,
    *,
    note: Callable[[str], None],
    leave: Callable[[int], NoReturn],
) -> NoReturn:
    """Serve until the client, the server or a signal ends it.

    Args:
        proxying: What is to be proxied.
        note: Where to tell people of troubles.
        leave: Ends this process with a code: 0 for the client, 1 for the server, 128 and the
            number of a signal.

    Raises:
        UsageError: a variable that the server's settings name is not there.
    """
    parameters = proxying.parameters()
    anyio.run(_run, proxying.options(note), parameters, leave)
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
