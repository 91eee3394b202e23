"""The inverse of a call that had its effect, built at once or when a probe has settled the call."""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from gitshadow.sdk.turns import json_values
from gitshadow.sdk.turns.call_records import key_of
from gitshadow.sdk.turns.commands import Invoke, Procedure, Raised, Returned, ask
from gitshadow.sdk.turns.json_values import NotStorableError, Observation
from gitshadow.sdk.turns.kept_secrets import ArgumentNotKeptError
from gitshadow.sdk.turns.redaction import Secrets
from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.tool import Tool
from gitshadow.sdk.turns.values import Inverse, JsonObject, OutcomeKind
from gitshadow.store.journal.saga_rows import SagaCall


class InverseParts(NamedTuple):
    """What an inverse is made of: values from before the call, its result, what it left.

    `trouble` says why no inverse can be made of them. `look_up` returns a secret by name.
    """

    arguments: JsonObject
    captured: object
    result: object
    after: Observation
    secrets: Secrets
    trouble: str | None = None
    look_up: Callable[[str], str] | None = None


def trouble_in(intent: JsonObject) -> str | None:
    """Return why no inverse can be made from what was written down before a call, or None."""
    if intent.get("altered") is not None:
        return f"the inverse was not made: {intent['altered']}"
    trouble = intent.get("trouble")
    return None if trouble is None else str(trouble)


def bound(
    call: SagaCall,
    tool: Tool,
    parts: InverseParts,
    registry: ToolRegistry,
    since_ns: int,
) -> Procedure[SagaCall]:
    """Return the row of a call that had its effect, with its inverse; it is not saved.

    `since_ns` is when its undo window begins.
    """
    inverse, trouble = yield from _built(call, tool, parts, registry)
    return replace(
        call,
        outcome=OutcomeKind.SUCCESS.value,
        inverse=inverse,
        expires_ns=tool.expires_ns(since_ns),
        undo="none" if inverse is None else "planned",
        error=trouble,
    )


def _built(
    call: SagaCall, tool: Tool, parts: InverseParts, registry: ToolRegistry
) -> Procedure[tuple[str | None, str | None]]:
    """Return the inverse as it is stored, or why there is none."""
    build = tool.options.get("inverse")
    if build is None or parts.trouble is not None:
        return None, parts.trouble
    event = yield from ask(
        Invoke(
            build,
            (parts.arguments, parts.captured, parts.result),
            tool.extras("inverse", key_of(call, "do")),
        )
    )
    if not isinstance(event, Returned) or not isinstance(event.value, Inverse):
        error = event.error if isinstance(event, Raised) else None
        why = "no inverse" if error is None else json_values.in_words(error)
        if isinstance(error, ArgumentNotKeptError):
            why = f"the inverse was not made: {error}"
        return None, parts.secrets.hide_text(why)
    inverse = event.value
    if inverse.residue is None and "residue" in tool.options:
        inverse = inverse.leaving(tool.options["residue"])
    try:
        text = json_values.inverse_text(
            inverse,
            tool.retry,
            parts.secrets,
            after=parts.after,
            after_files=tool.options.get("after_files", False),
            version=registry.version_of(inverse.handler),
        )
    except NotStorableError as error:
        return None, f"the inverse was not stored: {error}"
    if parts.after.trouble is not None and parts.look_up is not None:
        text = json_values.without_secrets(text, parts.look_up)
    return text, None
