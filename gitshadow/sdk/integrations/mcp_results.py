"""What an answer of an MCP server to `tools/call` means for the log: pure.

Invariant: only an answer that says so counts as done, and only one that cannot mean anything else
counts as not done; between the two the call has raised, and nobody knows what it did.
"""

import json
from collections.abc import Mapping

from gitshadow.sdk.turns.values import Outcome, OutcomeKind

Json = dict[str, object]
# JSON-RPC: the request was refused before any tool ran.
_REFUSED = frozenset({-32600, -32601, -32602})


class ServerError(Exception):
    """Report an answer after which nobody knows what the call did."""


def refused(code: int, message: str) -> Outcome:
    """Return the outcome of a request that the server answered with an error.

    Raises:
        ServerError: the tool may have run.
    """
    if code not in _REFUSED:
        raise ServerError(message)
    return Outcome.failed(message)


def outcome_of(result: Mapping[str, object], *, is_harmless: bool) -> Outcome:
    """Return the outcome that a result stands for.

    Args:
        result: Of `tools/call`, by the protocol's own names.
        is_harmless: Whether a call that reports an error has surely done nothing.

    Raises:
        ServerError: it reports an error, or work that goes on.
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
    """Return the value that inverses are built from.

    Structured content where there is any, without the wrapping that the official server puts
    around what is no object; else the text, read as JSON if it is JSON.
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
    """Return the result that tells a model of a call that did not run: a no, or not yet.

    Where results have a schema (`is_shaped`), a text alone may be sent as an error only.
    """
    content = [{"type": "text", "text": outcome.text}]
    is_error = is_shaped or outcome.kind is not OutcomeKind.HELD
    return {"content": content, "isError": is_error, "resultType": "complete"}
