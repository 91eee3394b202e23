"""Tools declared as data: a table of a configuration file, or `_meta` of a trusted server.

::

    class = "reversible"
    capture = { tool = "crm.get", arguments = { id = "$arguments.id" } }
    inverse = { tool = "crm.set", arguments = { id = "$arguments.id", name = "$captured.name" } }

Invariant: an unknown key or an unfit value is refused with its name, never passed over.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from gitshadow.sdk.turns import templates
from gitshadow.sdk.turns.errors import RegistrationError
from gitshadow.sdk.turns.tool import BuildInverse, Call, Capture, ToolOptions
from gitshadow.sdk.turns.values import Inverse, JsonObject, Reversibility

_BEFORE = frozenset({"arguments"})
_AFTER = frozenset(templates.SOURCES)
_KEYS = frozenset(
    {
        *("class", "inverse", "capture", "observe", "verify", "residue", "follow_up"),
        *("idempotent", "undo_for_s", "undo_for", "after_files", "on_capture_failure"),
        *("secrets", "paths", "files_only", "hold", "delay_s", "pivot"),
        "allow_duplicates",
    }
)


class ServerOrigin(NamedTuple):
    """Say whose tools are declared: the server that inverses name, and how to call it.

    `repeatable` are tools that do no harm when an inverse calls them twice.
    """

    server: str
    call: Call
    repeatable: frozenset[str] = frozenset()


class Template(NamedTuple):
    """Hold one call to be made: a tool of the server, arguments to be filled in."""

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
        self._name, self._table, self._origin = name, table, origin

    def read(self) -> ToolOptions:
        unknown = sorted(self._table.keys() - _KEYS)
        if unknown:
            raise self._wrong(f"{unknown[0]} is not a key of a declaration")
        options: ToolOptions = {}
        self._words(options)
        self._flags(options)
        if "class" in self._table:
            options["reversibility"] = self._class()
        if "capture" in self._table:
            options["capture"] = self._reader("capture")
        if "observe" in self._table:
            options["observe"] = self._reader("observe")
        if "inverse" in self._table:
            options["inverse"] = self._inverse()
        return options

    def _words(self, options: ToolOptions) -> None:
        if "residue" in self._table:
            options["residue"] = self._text("residue")
        if "follow_up" in self._table:
            options["follow_up"] = self._text("follow_up")
        if "undo_for" in self._table:
            options["undo_for"] = self._text("undo_for")
        if "secrets" in self._table:
            options["secrets"] = self._names("secrets")
        if "paths" in self._table:
            options["paths"] = self._names("paths")
        if "undo_for_s" in self._table:
            options["undo_for_s"] = self._number("undo_for_s")
        if "delay_s" in self._table:
            options["delay_s"] = self._number("delay_s")

    def _flags(self, options: ToolOptions) -> None:
        if "idempotent" in self._table:
            options["idempotent"] = self._flag("idempotent")
        if "after_files" in self._table:
            options["after_files"] = self._flag("after_files")
        if "files_only" in self._table:
            options["files_only"] = self._flag("files_only")
        if "verify" in self._table:
            options["verify"] = self._flag("verify")
        if "hold" in self._table:
            options["hold"] = self._flag("hold")
        if "pivot" in self._table:
            options["pivot"] = self._flag("pivot")
        if "allow_duplicates" in self._table:
            options["allow_duplicates"] = self._flag("allow_duplicates")
        if "on_capture_failure" in self._table:
            options["on_capture_failure"] = self._manner()

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

    def _class(self) -> Reversibility:
        try:
            return Reversibility(self._text("class"))
        except ValueError as error:
            known = ", ".join(Reversibility)
            raise self._wrong(f"its class must be one of {known}") from error

    def _manner(self) -> Literal["refuse", "record"]:
        found = self._text("on_capture_failure")
        if found == "refuse":
            return "refuse"
        if found == "record":
            return "record"
        raise self._wrong("on_capture_failure must be refuse or record")

    def _reader(self, key: str) -> Capture:
        template, call = self._template(key, _BEFORE), self._someone().call

        def read(arguments: JsonObject, /) -> object:
            return call(template.tool, template.filled({"arguments": arguments}))

        return read

    def _inverse(self) -> BuildInverse:
        template, origin = self._template("inverse", _AFTER), self._someone()

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
