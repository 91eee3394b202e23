"""The outcome of a call from the answer of an MCP server to `tools/call`: pure.

Invariant: only an answer that reports success counts as done, and only one that excludes any effect
counts as not done; after any other answer the effect of the call is unknown.
"""

import json

from gitshadow.adapters.payload import Payload
from gitshadow.model import JsonObject
from gitshadow.sdk.turns.values import Outcome, OutcomeKind

# JSON-RPC: the request was refused before any tool ran.
_REFUSED = frozenset({-32600, -32601, -32602})


class ServerError(Exception):
    """An answer that leaves the effect of the call unknown."""


def refused(code: int, message: str) -> Outcome:
    """Return the outcome of a request that the server answered with an error.

    Raises:
        ServerError: the tool may have run.
    """
    if code not in _REFUSED:
        raise ServerError(message)
    return Outcome.failed(message)


def outcome_of(answer: JsonObject, *, is_harmless: bool) -> Outcome:
    """Return the outcome of a result.

    Args:
        answer: The result of `tools/call`, with the names of the protocol.
        is_harmless: Whether a call that reports an error certainly did nothing.

    Raises:
        ServerError: it reports an error, or unfinished work.
    """
    result = Payload(answer)
    if result.value("resultType") == "input_required":
        return Outcome.failed("the server asks for more input first")
    if isinstance(result.value("task"), dict):
        raise ServerError(
            "it continues as a task of the server, which does not report its end"
        )
    if result.value("isError") is not True:
        return Outcome.success(_value_of(result))
    if not is_harmless:
        raise ServerError(_text_of(result))
    return Outcome.failed(_text_of(result))


def _value_of(result: Payload) -> object:
    """Return the value from which inverses are built: structured content, else JSON, else text."""
    # The official server wraps values that are no objects in an object with `result`.
    structured = result.value("structuredContent")
    if isinstance(structured, dict) and structured.keys() == {"result"}:
        return structured["result"]
    if structured is not None:
        return structured
    text = _text_of(result)
    try:
        found: object = json.loads(text)
    except ValueError:
        return text
    return found


def _text_of(result: Payload) -> str:
    """Return the texts of a result, one per line."""
    blocks = (block for block in result.objects("content") if "text" in block)
    return "\n".join(str(block.value("text")) for block in blocks)


def answer_of(outcome: Outcome, *, is_shaped: bool) -> JsonObject:
    """Return the result for a model about a call that was denied or is held.

    If results have a schema (`is_shaped`), only an error may be a text alone.
    """
    content = [{"type": "text", "text": outcome.text}]
    is_error = is_shaped or outcome.kind is not OutcomeKind.HELD
    return {"content": content, "isError": is_error, "resultType": "complete"}
