"""Messages between one MCP client and one MCP server, passed on unchanged.

Only a `tools/call` is read: it goes to a `Taker`, which sends it to the server with `ask`. Later
additions to the protocol pass as well, because no other message is interpreted.
Invariant: a client's request keeps its id, and each request gets one answer, also one that cannot
be read.
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from os import urandom
from typing import Protocol, TypeAlias

import anyio
from anyio.abc import TaskGroup
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse
from pydantic import ValidationError

from gitshadow.adapters.payload import Payload
from gitshadow.sdk.integrations.mcp_results import ServerError
from gitshadow.sdk.turns.values import JsonObject

Answer: TypeAlias = JSONRPCResponse | JSONRPCError
Message: TypeAlias = JSONRPCRequest | JSONRPCNotification | Answer
Id: TypeAlias = int | str

_INTERNAL_ERROR = -32603
_PARSE_ERROR = -32700
_ID_BYTES = 4
_RESERVED = "io.modelcontextprotocol/"


class Reads(Protocol):
    """A stream of incoming messages."""

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message; raise anyio's `EndOfStream` at the end."""
        ...


class Writes(Protocol):
    """A stream of outgoing messages."""

    async def send(self, item: SessionMessage, /) -> None:
        """Send a message."""
        ...


class GoneError(ServerError):
    """The server has stopped."""


Taker: TypeAlias = Callable[[JSONRPCRequest], Awaitable[Answer]]
"""Handles a client's `tools/call` and returns the answer to the client."""


@dataclass(slots=True)
class _Asked:
    """A request that waits for the server's answer."""

    there: anyio.Event = field(default_factory=anyio.Event)
    answer: Answer | None = None
    is_cancelled: bool = False


@dataclass(slots=True)
class McpLink:
    """Pass messages on until one side ends."""

    from_client: Reads
    to_client: Writes
    from_server: Reads
    to_server: Writes
    note: Callable[[str], None]
    client_name: str | None = None
    lists_changed: int = 0
    _asked: dict[Id, _Asked] = field(default_factory=dict)
    _numbers: "count[int]" = field(default_factory=count)
    # The server gets the client's requests and ours, so no id of ours may be one of the client's.
    _prefix: str = field(
        default_factory=lambda: f"gitshadow-{urandom(_ID_BYTES).hex()}"
    )
    _reading: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    _is_gone: bool = False

    async def run(self, take: Taker, end: Callable[[], Awaitable[None]]) -> bool:
        """Pass messages on until one side ends; return whether it was the client.

        Running calls are then abandoned. `end` runs after them; if the client ended, the server
        still answers requests.
        """
        async with anyio.create_task_group() as tasks:
            async with anyio.create_task_group() as calls:
                tasks.start_soon(self._pass_down, calls.cancel_scope)
                with self._reading:
                    await self._pass_up(take, calls)
                calls.cancel_scope.cancel()
            await end()
            tasks.cancel_scope.cancel()
        return not self._is_gone

    def stop(self) -> None:
        """End as if the client had ended."""
        self._reading.cancel()

    async def ask(self, request: JSONRPCRequest) -> Answer:
        """Send a request to the server and return its answer, without a time limit.

        Raises:
            GoneError: the server has stopped.
        """
        asked = self._asked[request.id] = _Asked()
        try:
            if not self._is_gone:
                await put(self.to_server, request)
                await asked.there.wait()
        finally:
            del self._asked[request.id]
        if asked.answer is None:
            raise GoneError("the server has stopped")
        return asked.answer

    async def request(
        self, method: str, params: JsonObject, like: JSONRPCRequest | None
    ) -> Answer:
        """Send a request of our own, in the protocol version of one of the client's requests.

        Raises:
            GoneError: the server has stopped.
        """
        meta = {} if like is None else _envelope(like)
        told = {**params, "_meta": meta} if meta else dict(params)
        name = f"{self._prefix}-{next(self._numbers)}"
        return await self.ask(
            JSONRPCRequest(jsonrpc="2.0", id=name, method=method, params=told)
        )

    def gave_up(self, request: JSONRPCRequest) -> bool:
        """Whether the client has cancelled a request that waits for its answer."""
        asked = self._asked.get(request.id)
        return asked is not None and asked.is_cancelled

    def _look(self, message: Message) -> None:
        """Read the client's name and the requests that it cancels."""
        params = Payload(getattr(message, "params", None) or {})
        if isinstance(message, JSONRPCRequest):
            known = params.object("_meta").fields
            info = params.value("clientInfo") or known.get(f"{_RESERVED}clientInfo")
            if isinstance(info, dict) and self.client_name is None:
                self.client_name = str(info.get("name"))
            return
        given_up = params.value("requestId")
        method = getattr(message, "method", None)
        if method == "notifications/cancelled" and isinstance(given_up, int | str):
            asked = self._asked.get(given_up)
            if asked is not None:
                asked.is_cancelled = True

    async def _pass_up(self, take: Taker, calls: TaskGroup) -> None:
        """Handle calls, and pass everything else to the server, until the client ends."""

        async def take_one(request: JSONRPCRequest) -> None:
            await put(self.to_client, await take(request))

        stream, back = self.from_client, self.to_client
        async for message in self._messages(stream, back, "client"):
            self._look(message)
            if isinstance(message, JSONRPCRequest) and message.method == "tools/call":
                calls.start_soon(take_one, message)
            else:
                await put(self.to_server, message)

    async def _pass_down(self, calls: anyio.CancelScope) -> None:
        """Pass answers to waiting calls, all else to the client, until the server ends."""
        stream, back = self.from_server, self.to_server
        async for message in self._messages(stream, back, "server"):
            if isinstance(message, JSONRPCResponse | JSONRPCError):
                # An error has no id if the server could not read the request (JSON-RPC 2.0, 5).
                asked = self._asked.get("" if message.id is None else message.id)
                if asked is not None:
                    asked.answer = message
                    asked.there.set()
                    continue
            elif message.method == "notifications/tools/list_changed":
                self.lists_changed += 1
            await put(self.to_client, message)
        self._is_gone = True
        for one in self._asked.values():
            one.there.set()
        calls.cancel()

    async def _messages(
        self, stream: Reads, back: Writes, side: str
    ) -> AsyncIterator[Message]:
        """Yield messages until the stream ends; note anything else.

        An answer that cannot be read is an error, and a request that cannot be read gets one.
        """
        while True:
            try:
                found = await stream.receive()
            except (anyio.EndOfStream, anyio.ClosedResourceError):
                return
            if isinstance(found, SessionMessage):
                yield found.message
            else:
                self.note(f"could not read a message of the {side}: {found}")
                if (error := unread(found)) is None:
                    continue
                if error.error.code == _PARSE_ERROR:
                    await put(back, error)
                else:
                    yield error


async def put(stream: Writes, message: Message) -> None:
    """Send a message, unless that side is gone."""
    # The reader of that side notices its end too, and ends the link.
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        await stream.send(SessionMessage(message))


def unread(found: Exception) -> JSONRPCError | None:
    """Return the error for a message that could not be read, if it has an id.

    Its code is that of a parse error for a request, that of an internal error for an answer.
    """
    # pydantic refuses half of a surrogate pair, which other languages write.
    if not isinstance(found, ValidationError):
        return None
    why = found.errors()[0]["msg"]
    for line in (one["input"] for one in found.errors()):
        try:
            fields = json.loads(line) if isinstance(line, str) else line
        except (ValueError, RecursionError):
            continue
        name = fields.get("id") if isinstance(fields, dict) else None
        if isinstance(name, int | str) and "jsonrpc" in fields:
            if "method" in fields:
                return _error(name, _PARSE_ERROR, f"could not read the request: {why}")
            return _error(name, _INTERNAL_ERROR, f"could not read the answer: {why}")
    return None


def _envelope(request: JSONRPCRequest) -> JsonObject:
    """Return the protocol fields of a request; older versions have none."""
    meta = Payload(request.params or {}).object("_meta").fields
    return {key: value for key, value in meta.items() if key.startswith(_RESERVED)}


def error(request: JSONRPCRequest, message: str) -> JSONRPCError:
    """Return an error as the answer to a request."""
    return _error(request.id, _INTERNAL_ERROR, message)


def _error(name: Id, code: int, message: str) -> JSONRPCError:
    error = {"code": code, "message": message}
    return JSONRPCError.model_validate({"jsonrpc": "2.0", "id": name, "error": error})


def result(request: JSONRPCRequest, value: JsonObject) -> JSONRPCResponse:
    """Return a result as the answer to a request."""
    return JSONRPCResponse(jsonrpc="2.0", id=request.id, result=dict(value))
