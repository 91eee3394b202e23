"""The outcome of a call from the answer of an MCP server to `tools/call`: pure.

Invariant: only an answer that reports success counts as done, and only one that excludes any effect
counts as not done; after any other answer the effect of the call is unknown.
"""

import json
from collections.abc import Mapping

from gitshadow.sdk.turns.values import Outcome, OutcomeKind

Json = dict[str, object]
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


def outcome_of(result: Mapping[str, object], *, is_harmless: bool) -> Outcome:
    """Return the outcome of a result.

    Args:
        result: The result of `tools/call`, with the names of the protocol.
        is_harmless: Whether a call that reports an error certainly did nothing.

    Raises:
        ServerError: it reports an error, or unfinished work.
    """
    if result.get("resultType") == "input_required":
        return Outcome.failed("the server asks for more input first")
    if isinstance(result.get("task"), Mapping):
        raise ServerError(
            "it continues as a task of the server, which does not report its end"
        )
    if result.get("isError") is not True:
        return Outcome.success(value_of(result))
    if not is_harmless:
        raise ServerError(text_of(result))
    return Outcome.failed(text_of(result))


def value_of(result: Mapping[str, object]) -> object:
    """Return the value from which inverses are built.

    It is the structured content, without the `result` wrapper that the official server puts around
    other values than objects. Without structured content it is the text, parsed if it is JSON.
    """
    structured = result.get("structuredContent")
    if isinstance(structured, Mapping) and structured.keys() == {"result"}:
        inner: object = structured["result"]
        return inner
    if structured is not None:
        return structured
    text = text_of(result)
    try:
        found: object = json.loads(text)
    except ValueError:
        return text
    return found


def text_of(result: Mapping[str, object]) -> str:
    """Return the texts of a result, one per line."""
    blocks = result.get("content")
    found = blocks if isinstance(blocks, list) else []
    return "\n".join(
        str(block["text"])
        for block in found
        if isinstance(block, Mapping) and "text" in block
    )


def answer_of(outcome: Outcome, *, is_shaped: bool) -> Json:
    """Return the result for a model about a call that was denied or is held.

    If results have a schema (`is_shaped`), only an error may be a text alone.
    """
    content = [{"type": "text", "text": outcome.text}]
    is_error = is_shaped or outcome.kind is not OutcomeKind.HELD
    return {"content": content, "isError": is_error, "resultType": "complete"}
