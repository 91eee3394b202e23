"""What the optional loop sends to a model and gets from it: values, and the provider's shape.

Invariant: a request is made of values alone, so that equal histories make equal requests.
"""

from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Protocol, TypeAlias

from gitshadow.sdk.turns.events import Message
from gitshadow.sdk.turns.tool import Tool
from gitshadow.sdk.turns.values import Json, JsonObject


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the model's answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    """What the model wants to be called; ids are unique in a turn."""

    id: str
    name: str
    arguments: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Usage:
    """What a request cost, in the provider's own terms."""

    report: JsonObject


ModelEvent: TypeAlias = TextDelta | ToolCall | Usage


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """The definition of a tool for a model."""

    name: str
    description: str
    schema: Mapping[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """One request: who the model is, its instructions, the conversation, what it can call."""

    persona: str
    directives: tuple[str, ...]
    context: Mapping[str, str]
    messages: tuple[Message, ...]
    tools: tuple[ToolDefinition, ...]

    def to_json(self) -> JsonObject:
        """Return the request as a JSON object."""
        return asdict(self)


class ModelProvider(Protocol):
    """A model, or a substitute for one."""

    def stream(
        self, request: ModelRequest
    ) -> Iterator[ModelEvent] | AsyncIterator[ModelEvent]:
        """Answer a request, piece by piece; what it raises ends the turn."""
        ...


def definition(tool: Tool) -> ToolDefinition:
    """Return the description of a tool for a model."""
    schema: object = tool.options.get("schema")
    shown = schema if isinstance(schema, Mapping) else {}
    return ToolDefinition(tool.name, tool.options.get("description", ""), shown)


def schema_warnings(tool: Tool) -> list[str]:
    """Return in words what is wrong with a tool's schema; a tool without one is fine."""
    if "schema" not in tool.options:
        return []
    schema: object = tool.options["schema"]
    if not isinstance(schema, Mapping):
        return [f"{tool.name}: the schema is not an object"]
    found = []
    if schema.get("type") != "object":
        found.append(f"{tool.name}: the schema's type is not object")
    properties = schema.get("properties", {})
    if not isinstance(properties, Mapping):
        return [*found, f"{tool.name}: properties is not an object"]
    required = schema.get("required", [])
    missing = [str(name) for name in required if name not in properties]
    if missing:
        found.append(f"{tool.name}: required but not described: {', '.join(missing)}")
    return found
