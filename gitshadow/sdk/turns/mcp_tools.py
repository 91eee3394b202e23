"""Tools of an MCP server as tools of a registry: hints are hints, classes are declared.

Nothing of the `mcp` package is needed: a `tools/list` result is JSON, or an object that can be
dumped as JSON by the protocol's own names.
Invariant: what an untrusted server says of its tools changes nothing about how they are judged.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from gitshadow.sdk.turns.declarations import ServerOrigin, options_of
from gitshadow.sdk.turns.errors import RegistrationError
from gitshadow.sdk.turns.tool import Call, ToolOptions
from gitshadow.sdk.turns.values import Json, JsonObject, Reversibility

META_KEY = "gitshadow/undo"


class Offered(NamedTuple):
    """One tool as a server describes it; `is_shaped` is set if its results have a schema."""

    name: str
    description: str
    schema: Mapping[str, Json]
    hints: JsonObject
    declared: JsonObject | None
    is_shaped: bool = False

    def options(self, *, trusted: bool, origin: ServerOrigin | None) -> ToolOptions:
        """Return how the tool is to be registered as far as the server's word counts.

        Raises:
            RegistrationError: the declaration in a trusted server's `_meta` is wrong.
        """
        options: ToolOptions = {"description": self.description, "schema": self.schema}
        if not trusted:
            return options
        if self.hints.get("readOnlyHint") is True:
            options["reversibility"] = Reversibility.READ_ONLY
        # It says that a second call does no harm, and nothing about undoing the first one.
        if self.hints.get("idempotentHint") is True:
            options["idempotent"] = True
        if self.declared is not None:
            options |= options_of(self.name, self.declared, origin)
        return options


def offered(listed: object) -> Iterator[Offered]:
    """Return the tools in a `tools/list` result.

    Args:
        listed: The result as JSON, or as a value of the `mcp` package.

    Raises:
        RegistrationError: it is no such result.
    """
    dump = getattr(listed, "model_dump", None)
    if dump is not None:
        listed = dump(mode="json", by_alias=True)
    tools = listed.get("tools") if isinstance(listed, Mapping) else None
    if not isinstance(tools, list):
        raise RegistrationError("cannot import tools: it is not a tools/list result")
    yield from map(_offered, tools)


def declared(
    server: str | None,
    listed: object,
    *,
    trusted: bool,
    overrides: Mapping[str, ToolOptions],
    call: Call | None,
) -> Iterator[tuple[str, "Forward", ToolOptions]]:
    """Yield what `ToolRegistry.import_mcp` adds: name, function and options of each tool.

    Args:
        server: The name by which inverses reach the server; None where they cannot.
        listed: See `offered`.
        trusted: Whether the server's word counts.
        overrides: Options that count more than the server's word, by tool name.
        call: Calls a tool of the server.

    Raises:
        RegistrationError: an override names no listed tool, or the result is none.
    """
    found = list(offered(listed))
    unknown = sorted(overrides.keys() - {tool.name for tool in found})
    if unknown:
        raise RegistrationError(
            f"cannot import {unknown[0]}: the server lists no such tool"
        )
    origin = ServerOrigin(server, call or _elsewhere) if server is not None else None
    for tool in found:
        options = tool.options(trusted=trusted, origin=origin)
        options |= overrides.get(tool.name, {})
        yield as_name(tool.name), Forward(tool.name, call or _elsewhere), options


def as_name(name: str) -> str:
    """Return the name of a tool of others as one to register, which has no blanks."""
    return "".join(one if one.isprintable() and one != " " else "_" for one in name)


def _elsewhere(name: str, arguments: JsonObject) -> object:
    """The function of a tool that cannot be called here.

    Raises:
        RegistrationError: always.
    """
    raise RegistrationError(
        f"cannot call {name}: it was imported without call=",
        hint="pass import_mcp a function that calls the server",
    )


class Forward:
    """Call one tool of a server with whatever arguments come."""

    def __init__(self, name: str, call: Call) -> None:
        self._name, self._call = name, call

    def __call__(self, /, **arguments: object) -> object:
        """Return the tool's value, or an awaitable of it."""
        return self._call(self._name, arguments)


def _offered(tool: object) -> Offered:
    name = tool.get("name") if isinstance(tool, Mapping) else None
    if not isinstance(tool, Mapping) or not isinstance(name, str) or not name:
        raise RegistrationError("cannot import tools: one of them has no name")
    meta = _table(tool.get("_meta")) or {}
    return Offered(
        name=name,
        description=str(tool.get("description") or ""),
        schema=_table(tool.get("inputSchema")) or {},
        hints=_table(tool.get("annotations")) or {},
        declared=_table(meta.get(META_KEY)),
        is_shaped=_table(tool.get("outputSchema")) is not None,
    )


def _table(value: object) -> Mapping[str, Json] | None:
    return value if isinstance(value, dict) else None
