"""The registry of a proxy, as the server lists its tools and the user declares them.

Invariant: a tool is judged by the newest list, and one whose declaration is wrong is undeclared.
"""

from collections.abc import Callable, Mapping

import anyio
from mcp_types import JSONRPCError, JSONRPCRequest

from gitshadow.sdk.integrations.mcp_link import McpLink
from gitshadow.sdk.integrations.mcp_turns import ProxyOptions
from gitshadow.sdk.turns.declarations import ServerOrigin
from gitshadow.sdk.turns.errors import RegistrationError
from gitshadow.sdk.turns.mcp_tools import Forward, Offered, offered
from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.tool import ToolOptions
from gitshadow.sdk.turns.values import Reversibility

_MOST_PAGES = 100


class ToolListing:
    """Keep the registry as the server lists its tools."""

    def __init__(
        self,
        registry: ToolRegistry,
        options: ProxyOptions,
        forward: Callable[[str, Mapping[str, object]], object],
        read: Callable[[str, Mapping[str, object]], object],
    ) -> None:
        self._registry, self._options, self._forward = registry, options, forward
        spec = options.server
        self._origin = ServerOrigin(spec.name, read, spec.repeatable)
        self._listed: int | None = None
        self._shaped: set[str] = set()
        self._lock = anyio.Lock()

    def is_stale(self, link: McpLink, name: str) -> bool:
        """Tell whether the server must be asked before a tool can be judged."""
        return self._listed != link.lists_changed or self._registry.find(name) is None

    def is_harmless(self, name: str) -> bool:
        """Tell whether a tool that reports an error has surely done nothing."""
        tool = self._registry.find(f"{self._options.server.name}.{name}")
        reads = tool is not None and tool.effective is Reversibility.READ_ONLY
        return reads or self._options.server.does_nothing_on_errors(name)

    def is_shaped(self, name: str) -> bool:
        """Tell whether a tool's results have a schema, which errors alone need not fit."""
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
        params: dict[str, object] = {}
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
        self._registry.remove(f"{spec.name}.{tool.name}")
        try:
            self._add(tool, self._said(tool))
        except RegistrationError as error:
            self._options.note(f"{error}; {tool.name} counts as non-reversible")
            self._add(tool, {})

    def _said(self, tool: Offered) -> ToolOptions:
        spec = self._options.server
        options = tool.options(trusted=spec.trusted, origin=self._origin)
        return options | spec.options(tool.name, self._origin)

    def _add(self, tool: Offered, options: ToolOptions) -> None:
        function = Forward(tool.name, self._forward)
        view = self._registry.domain(self._options.server.name)
        view.add(tool.name, function, **options)
