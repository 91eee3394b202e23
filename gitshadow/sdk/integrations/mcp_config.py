"""The user's file about MCP servers: their commands and the inverses of their tools.

::

    [servers.crm]
    command = ["crm-server", "--stdio"]
    env = { CRM_TOKEN = "env:CRM_TOKEN" }

    [servers.crm.tools.update]
    class = "reversible"
    capture = { tool = "get", arguments = { id = "$arguments.id" } }
    inverse = { tool = "update", arguments = { id = "$arguments.id", name = "$captured.name" } }

Invariant: an undo starts only commands of this file; the journal has names of servers and tools.
"""

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field

from gitshadow.errors import UsageError
from gitshadow.sdk.turns.declarations import ServerOrigin, options_of
from gitshadow.sdk.turns.tool import ToolOptions
from gitshadow.sdk.turns.values import JsonObject

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}")
_SERVER_KEYS = frozenset({"command", "cwd", "env", "trusted", "timeout_s", "tools"})
# The keys of a tool's table that other declarations do not have.
_OWN_KEYS = frozenset({"key_argument", "errors"})
_TIMEOUT_S = 30.0
_FROM_ENVIRONMENT = "env:"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSpec:
    """The user's table about one server; `env` values may be `env:NAME`."""

    name: str
    command: tuple[str, ...] = ()
    cwd: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    trusted: bool = False
    timeout_s: float = _TIMEOUT_S
    tools: Mapping[str, JsonObject] = field(default_factory=dict)

    @property
    def repeatable(self) -> frozenset[str]:
        """Return the tools that an inverse may call twice."""
        return frozenset(
            name
            for name, table in self.tools.items()
            if table.get("idempotent") is True or "key_argument" in table
        )

    def key_argument(self, tool: str) -> str | None:
        """Return the name of a tool's argument for an idempotency key, or None."""
        found = self.tools.get(tool, {}).get("key_argument")
        return None if found is None else str(found)

    def does_nothing_on_errors(self, tool: str) -> bool:
        """Whether a tool that reports an error certainly did nothing."""
        return self.tools.get(tool, {}).get("errors") == "nothing_done"

    def options(self, tool: str, origin: ServerOrigin) -> ToolOptions:
        """Return the declaration of a tool; empty if there is none.

        Raises:
            RegistrationError: the declaration is wrong.
        """
        table = self.tools.get(tool, {})
        known = {key: value for key, value in table.items() if key not in _OWN_KEYS}
        return options_of(tool, known, origin)

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of the server.

        Raises:
            UsageError: a variable to copy from the environment does not exist.
        """
        found = dict(environ)
        for name, value in self.env.items():
            found[name] = self._looked_up(value, environ)
        return found

    def _looked_up(self, value: str, environ: Mapping[str, str]) -> str:
        if not value.startswith(_FROM_ENVIRONMENT):
            return value
        name = value.removeprefix(_FROM_ENVIRONMENT)
        if name not in environ:
            raise UsageError(
                f"could not start {self.name}: {name} is not in the environment"
            )
        return environ[name]


Servers = Mapping[str, ServerSpec]


def parse(text: str) -> dict[str, ServerSpec]:
    """Return the servers of a file by name.

    Raises:
        UsageError: it is not TOML, or a key or value is unknown.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"could not read the servers: {error}") from error
    servers = document.get("servers")
    if not isinstance(servers, dict) or document.keys() != {"servers"}:
        raise UsageError("could not read the servers: only [servers.NAME] is known")
    return {name: _server(name, table) for name, table in servers.items()}


def read(path: str, root: str) -> dict[str, ServerSpec]:
    """Return the servers of a file outside the working tree.

    Raises:
        UsageError: it is inside the working tree, cannot be read, or is wrong.
    """
    real = os.path.realpath(path)
    if os.path.commonpath([real, os.path.realpath(root)]) == os.path.realpath(root):
        raise UsageError(
            f"cannot use {path}: it is in the repository, where agents can write",
            hint="keep it in your own configuration directory",
        )
    try:
        with open(real, encoding="utf-8") as stream:
            return parse(stream.read())
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"could not read {path}: {error}") from error


def _server(name: str, table: object) -> ServerSpec:
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"could not read the server {name!r}: a name may contain letters, digits, - and _"
        )
    if not isinstance(table, dict):
        raise _wrong(name, "it is not a table")
    unknown = sorted(table.keys() - _SERVER_KEYS)
    if unknown:
        raise _wrong(name, f"{unknown[0]} is unknown")
    cwd, trusted = table.get("cwd"), table.get("trusted", False)
    timeout = table.get("timeout_s", _TIMEOUT_S)
    if not isinstance(cwd, str | None) or not isinstance(trusted, bool):
        raise _wrong(name, "cwd must be a string, trusted must be true or false")
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        raise _wrong(name, "timeout_s must be a number")
    return ServerSpec(
        name=name,
        command=_command(name, table.get("command", [])),
        cwd=cwd,
        env=_env(name, table.get("env", {})),
        trusted=trusted,
        timeout_s=float(timeout),
        tools=_tools(name, table.get("tools", {})),
    )


def _command(name: str, found: object) -> tuple[str, ...]:
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise _wrong(name, "command must be a list of strings")
    return tuple(found)


def _env(name: str, found: object) -> dict[str, str]:
    if not isinstance(found, dict):
        raise _wrong(name, "env must be a table of strings")
    if not all(isinstance(value, str) for value in found.values()):
        raise _wrong(name, "env must be a table of strings")
    return found


def _tools(name: str, found: object) -> dict[str, JsonObject]:
    if not isinstance(found, dict):
        raise _wrong(name, "tools must be a table of tables")
    for tool, table in found.items():
        if not isinstance(table, dict):
            raise _wrong(name, f"tools.{tool} is not a table")
        if table.get("errors", "unknown") not in ("unknown", "nothing_done"):
            raise _wrong(name, f"errors of {tool} must be unknown or nothing_done")
        if not isinstance(table.get("key_argument", ""), str):
            raise _wrong(name, f"key_argument of {tool} is not a string")
    return found


def _wrong(name: str, why: str) -> UsageError:
    return UsageError(f"could not read the server {name}: {why}")
