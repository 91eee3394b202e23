"""Tools declared as data: a table of a configuration file, or `_meta` of a trusted server.

::

    class = "reversible"
    capture = { tool = "crm.get", arguments = { id = "$arguments.id" } }
    inverse = { tool = "crm.set", arguments = { id = "$arguments.id", name = "$captured.name" } }

Invariant: an unknown key or an unfit value is refused with its name, never passed over.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple, cast

from gitshadow.sdk.turns import templates
from gitshadow.sdk.turns.errors import RegistrationError
from gitshadow.sdk.turns.tool import RENAMED, BuildInverse, Call, Capture, ToolOptions
from gitshadow.sdk.turns.values import Inverse, JsonObject, Reversibility

_BEFORE = frozenset({"arguments"})
_AFTER = frozenset(templates.SOURCES)
_TEXTS = ("residue", "follow_up")
_NAMES = ("secrets", "paths")
_NUMBERS = ("delay_s",)
_FLAGS = (
    *("idempotent", "after_files", "files_only", "verify"),
    *("hold", "pivot", "allow_duplicates"),
)


class ServerOrigin(NamedTuple):
    """The server of declared tools: its name in inverses, and how to call it.

    `repeatable` are tools that do no harm when an inverse calls them twice.
    """

    server: str
    call: Call
    repeatable: frozenset[str] = frozenset()


class Template(NamedTuple):
    """One call to be made: a tool of the server, arguments to be filled in."""

    tool: str
    arguments: JsonObject

    def filled(self, scene: JsonObject) -> JsonObject:
        """Return the arguments with the scene's values in them.

        Raises:
            TemplateError: a name has no value.
        """
        return {
            key: templates.fill(value, scene) for key, value in self.arguments.items()
        }


def options_of(
    name: str, table: JsonObject, origin: ServerOrigin | None
) -> ToolOptions:
    """Return what a table declares.

    Args:
        name: Of the tool, for errors.
        table: JSON or TOML.
        origin: Whose tool it is; None where nobody can be called.

    Raises:
        RegistrationError: it declares what nobody understands, or names nobody to call.
    """
    return _Reader(name, table, origin).read()


class _Reader:
    def __init__(
        self, name: str, table: JsonObject, origin: ServerOrigin | None
    ) -> None:
        self._name, self._origin = name, origin
        self._table = {RENAMED.get(key, key): value for key, value in table.items()}

    def read(self) -> ToolOptions:
        readers: dict[str, Callable[[str], object]] = {
            **dict.fromkeys(_TEXTS, self._text),
            **dict.fromkeys(_NAMES, self._names),
            **dict.fromkeys(_NUMBERS, self._number),
            **dict.fromkeys(_FLAGS, self._flag),
            "undo_for": self._table.__getitem__,
            "on_capture_failure": self._manner,
            "class": self._class,
            "capture": self._reader,
            "fingerprint": self._reader,
            "inverse": self._inverse,
        }
        unknown = sorted(self._table.keys() - readers.keys())
        if unknown:
            raise self._wrong(f"{unknown[0]} is not a key of a declaration")
        # A TypedDict cannot be built with computed keys, but each reader returns the type of its
        # own.
        options = {
            "reversibility" if key == "class" else key: read(key)
            for key, read in readers.items()
            if key in self._table
        }
        return cast(ToolOptions, options)

    def _names(self, key: str) -> tuple[str, ...]:
        found = self._table[key]
        if not isinstance(found, list) or not all(
            isinstance(one, str) for one in found
        ):
            raise self._wrong(f"{key} must be a list of argument names")
        return tuple(found)

    def _number(self, key: str) -> float:
        found = self._table[key]
        if isinstance(found, bool) or not isinstance(found, int | float):
            raise self._wrong(f"{key} must be a number")
        return float(found)

    def _class(self, key: str) -> Reversibility:
        try:
            return Reversibility(self._text(key))
        except ValueError as error:
            known = ", ".join(Reversibility)
            raise self._wrong(f"its class must be one of {known}") from error

    def _manner(self, key: str) -> str:
        found = self._text(key)
        if found not in ("refuse", "record"):
            raise self._wrong("on_capture_failure must be refuse or record")
        return found

    def _reader(self, key: str) -> Capture:
        template, call = self._template(key, _BEFORE), self._someone().call

        def read(arguments: JsonObject, /) -> object:
            return call(template.tool, template.filled({"arguments": arguments}))

        return read

    def _inverse(self, key: str) -> BuildInverse:
        template, origin = self._template(key, _AFTER), self._someone()

        def build(
            arguments: JsonObject, captured: object, result: object, /
        ) -> Inverse:
            scene = {"arguments": arguments, "captured": captured, "result": result}
            arguments = template.filled(scene)
            made = Inverse.mcp(origin.server, template.tool, **arguments)
            is_repeatable = template.tool in origin.repeatable
            return made.repeatable() if is_repeatable else made

        return build

    def _template(self, key: str, allowed: frozenset[str]) -> Template:
        found = self._table[key]
        if not isinstance(found, Mapping) or found.keys() - {"tool", "arguments"}:
            raise self._wrong(f"{key} must be a table of tool and arguments")
        tool, arguments = found.get("tool"), found.get("arguments", {})
        if not isinstance(tool, str) or not isinstance(arguments, Mapping):
            raise self._wrong(f"{key} names no tool, or its arguments are not a table")
        strange = sorted(templates.names(arguments) - allowed)
        if strange:
            raise self._wrong(f"{key} names ${strange[0]}, which it does not have")
        return Template(tool, arguments)

    def _someone(self) -> ServerOrigin:
        if self._origin is None:
            raise self._wrong("it names calls, but no tool can be called here")
        return self._origin

    def _text(self, key: str) -> str:
        found = self._table[key]
        if not isinstance(found, str):
            raise self._wrong(f"{key} must be a string")
        return found

    def _flag(self, key: str) -> bool:
        found = self._table[key]
        if not isinstance(found, bool):
            raise self._wrong(f"{key} must be true or false")
        return found

    def _wrong(self, why: str) -> RegistrationError:
        return RegistrationError(f"cannot declare {self._name}: {why}")
