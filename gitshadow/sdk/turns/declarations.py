"""Tools declared as data: a table of a configuration file, or `_meta` of a trusted server.

::

    class = "reversible"
    capture = { tool = "crm.get", arguments = { id = "$arguments.id" } }
    inverse = { tool = "crm.set", arguments = { id = "$arguments.id", name = "$captured.name" } }

A text that begins with `$` names a value: `$arguments`, `$captured` or `$result`, then keys and
numbers after dots; `$$` begins an ordinary text with a dollar. Nothing else is understood, so a
declaration can never run code.
Invariant: an unknown key is refused with its name, never passed over. What a text names is there,
or the whole template is refused; nothing becomes null.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, cast

from gitshadow.sdk.turns.errors import RegistrationError
from gitshadow.sdk.turns.tool import BuildInverse, Call, Capture, ToolOptions
from gitshadow.sdk.turns.values import Inverse, JsonObject
from gitshadow.words import did_you_mean

SOURCES = ("arguments", "captured", "result")
_BEFORE = frozenset({"arguments"})
_AFTER = frozenset(SOURCES)
_PLAIN = (
    *("residue", "follow_up", "undo_for", "delay_s", "secrets", "paths"),
    *("idempotent", "after_files", "files_only", "verify", "on_capture_failure"),
    *("hold", "pivot", "allow_duplicates"),
)
"""Options whose values are taken as they are: `ToolRegistry.add` checks them."""


class TemplateError(ValueError):
    """Report a template that names what is not there; the text says what."""


def fill(template: object, scene: JsonObject) -> object:
    """Return a template with the values of a scene in it.

    Args:
        template: JSON.
        scene: What the names stand for.

    Raises:
        TemplateError: a name has no value.
    """
    if isinstance(template, str):
        return _text(template, scene)
    if isinstance(template, Mapping):
        return {key: fill(value, scene) for key, value in template.items()}
    if isinstance(template, Sequence):
        return [fill(value, scene) for value in template]
    return template


def names(template: object) -> set[str]:
    """Return the first words of all names in a template, known ones or not."""
    if isinstance(template, str):
        is_name = template.startswith("$") and not template.startswith("$$")
        return {template[1:].partition(".")[0]} if is_name else set()
    if isinstance(template, Mapping):
        return set().union(*map(names, template.values()))
    if isinstance(template, Sequence):
        return set().union(*map(names, template))
    return set()


def _text(text: str, scene: JsonObject) -> object:
    if text.startswith("$$"):
        return text[1:]
    if not text.startswith("$"):
        return text
    found: object = scene
    for step in text[1:].split("."):
        found = _inside(found, step, text)
    return found


def _inside(value: object, step: str, text: str) -> object:
    if isinstance(value, Mapping) and step in value:
        inner: object = value[step]
        return inner
    if isinstance(value, list | tuple) and step.isdecimal() and int(step) < len(value):
        item: object = value[int(step)]
        return item
    raise TemplateError(f"there is no {text}")


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
        return {key: fill(value, scene) for key, value in self.arguments.items()}


def options_of(
    name: str, table: JsonObject, origin: ServerOrigin | None
) -> ToolOptions:
    """Return what a table declares; whether its values fit, the registry checks.

    Args:
        name: Of the tool, for errors.
        table: JSON or TOML.
        origin: Whose tool it is; None where nobody can be called.

    Raises:
        RegistrationError: it has an unknown key, a wrong call, or names nobody to call.
    """
    return _Reader(name, table, origin).read()


class _Reader:
    def __init__(
        self, name: str, table: JsonObject, origin: ServerOrigin | None
    ) -> None:
        self._name, self._origin = name, origin
        self._table = table

    def read(self) -> ToolOptions:
        readers: dict[str, Callable[[str], object]] = {
            **dict.fromkeys((*_PLAIN, "class"), self._plain),
            "capture": self._reader,
            "fingerprint": self._reader,
            "inverse": self._inverse,
        }
        for key in self._table.keys() - readers.keys():
            near = did_you_mean(key, readers)
            raise self._wrong(f"{key} is not a key of a declaration", hint=near)
        # A TypedDict cannot be built with computed keys.
        options = {
            "reversibility" if key == "class" else key: readers[key](key)
            for key in self._table
        }
        return cast(ToolOptions, options)

    def _plain(self, key: str) -> object:
        found = self._table[key]
        return tuple(found) if isinstance(found, list) else found

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
        strange = sorted(names(arguments) - allowed)
        if strange:
            raise self._wrong(f"{key} names ${strange[0]}, which it does not have")
        return Template(tool, arguments)

    def _someone(self) -> ServerOrigin:
        if self._origin is None:
            raise self._wrong("it names calls, but no tool can be called here")
        return self._origin

    def _wrong(self, why: str, hint: str | None = None) -> RegistrationError:
        return RegistrationError(f"cannot declare {self._name}: {why}", hint=hint)
