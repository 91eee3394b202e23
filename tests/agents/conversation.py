"""What a request says, whichever of the four protocols it speaks.

Shapes: Anthropic Messages, OpenAI Chat Completions and Responses, Gemini generateContent, as
their public references had them in 2026.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

Protocol = Literal["messages", "chat", "responses", "gemini"]
Json = Mapping[str, object]

MARK = re.compile(r"\[\[(\w+) cwd=([^\] ]+)\]\]")

_END = re.compile(r"`(echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT)`")
_SUBAGENT = re.compile(r"\\n- (general-purpose|general|worker|coder): ")


@dataclass(frozen=True)
class Item:
    """One step of the conversation: what was said, called or answered by a tool."""

    kind: Literal["user", "call", "result"]
    text: str


@dataclass(frozen=True)
class DeclaredTool:
    """A tool that the agent offers: its name, the schema of its input, how it is called."""

    name: str
    schema: Json
    custom: bool = False
    namespace: str | None = None


@dataclass(frozen=True)
class Conversation:
    """The items of a request in their order, and the tools that it declares."""

    items: tuple[Item, ...]
    tools: Mapping[str, DeclaredTool]
    by_text: bool = False
    """The agent asks for changes as SEARCH/REPLACE blocks in words: it has no tools."""
    kind_of_subagent: str = "general-purpose"
    """The subagent that has all tools, by the name in the list that the request has of them."""
    ends_by: str | None = None
    """The command that ends a turn, where words alone do not (mini-swe-agent)."""

    def last_mark(self) -> tuple[int, str, str] | None:
        """Return where the newest prompt with a script is, the script and the directory."""
        found = None
        for at, item in enumerate(self.items):
            if item.kind == "user":
                for match in MARK.finditer(item.text):
                    found = (at, match[1], match[2].rstrip('"\\'))
        return found


def protocol(path: str) -> Protocol | None:
    """Return the protocol of a URL path, None for one that is no request to a model."""
    bare = path.split("?", 1)[0]
    if bare.endswith("/messages"):
        return "messages"
    if bare.endswith("/chat/completions"):
        return "chat"
    if bare.endswith("/responses"):
        return "responses"
    if bare.endswith((":generateContent", ":streamGenerateContent")):
        return "gemini"
    return None


def read(spoken: Protocol, body: Json) -> Conversation:
    """Read a request's body."""
    items = {
        "messages": _messages,
        "chat": _messages,
        "responses": _responses,
        "gemini": _gemini,
    }[spoken](body)
    tools = {tool.name: tool for tool in _tools(_list(body.get("tools")))}
    text = json.dumps(body)
    by_text = not tools and "SEARCH/REPLACE" in text
    listed = _SUBAGENT.search(text)
    kind = listed[1] if listed is not None else "general-purpose"
    ending = _END.search(text)
    ends_by = ending[1] if ending is not None else None
    return Conversation(tuple(items), tools, by_text, kind, ends_by)


def _list(value: object) -> list[Json]:
    found = value if isinstance(value, list) else []
    return [one for one in found if isinstance(one, dict)]


def _map(value: object) -> Json:
    return value if isinstance(value, dict) else {}


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, dict):
        return json.dumps(content)
    return "".join(str(part.get("text", "")) for part in _list(content))


def _messages(body: Json) -> Iterator[Item]:
    for message in _list(body.get("messages")):
        role, content = message.get("role"), message.get("content")
        if role == "user":
            yield from _said(content)
        elif role == "assistant":
            for part in _list(content):
                if part.get("type") == "tool_use":
                    yield Item("call", str(part["name"]))
            for call in _list(message.get("tool_calls")):
                yield Item("call", str(_map(call.get("function")).get("name")))
        elif role == "tool":
            yield Item("result", _text(content))


def _said(content: object) -> Iterator[Item]:
    if isinstance(content, str):
        yield Item("user", content)
    for part in _list(content):
        if part.get("type") == "tool_result":
            yield Item("result", _text(part.get("content")))
        elif part.get("type") == "text":
            yield Item("user", str(part.get("text")))


def _responses(body: Json) -> Iterator[Item]:
    given = body.get("input")
    if isinstance(given, str):
        yield Item("user", given)
    for item in _list(given):
        kind = str(item.get("type", "message"))
        if kind == "message" and item.get("role") == "user":
            yield Item("user", _text(item.get("content")))
        elif kind in ("function_call", "custom_tool_call", "local_shell_call"):
            yield Item("call", str(item.get("name")))
        elif kind.endswith("_output"):
            yield Item("result", _text(item.get("output")))


def _gemini(body: Json) -> Iterator[Item]:
    for content in _list(body.get("contents")):
        for part in _list(content.get("parts")):
            if "functionCall" in part:
                yield Item("call", str(_map(part["functionCall"]).get("name")))
            elif "functionResponse" in part:
                yield Item("result", json.dumps(part["functionResponse"]))
            elif "text" in part and content.get("role") != "model":
                yield Item("user", str(part["text"]))


def _tools(
    declared: list[Json], namespace: str | None = None
) -> Iterator[DeclaredTool]:
    for tool in declared:
        functions = _list(tool.get("functionDeclarations"))
        if functions:
            yield from _tools(functions)
        elif tool.get("type") == "namespace":
            yield from _tools(_list(tool.get("tools")), str(tool.get("name")))
        else:
            inner = _map(tool.get("function")) or tool
            if inner.get("name"):
                schema = (
                    inner.get("input_schema")
                    or inner.get("parametersJsonSchema")
                    or inner.get("parameters")
                )
                yield DeclaredTool(
                    str(inner["name"]),
                    _map(schema),
                    tool.get("type") == "custom",
                    namespace,
                )
