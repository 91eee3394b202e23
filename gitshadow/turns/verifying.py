"""Did the inverse do what it says? The world is read again, where the tool can read it.

A handler's answer is a claim: one that returns and did nothing must not count as taken back.
Invariant: what cannot be looked at is believed; what was to be looked at and could not be is not.
"""

from collections.abc import Mapping
from typing import NamedTuple

from gitshadow.store.journal.saga_rows import SagaCall
from gitshadow.turns import drift, records
from gitshadow.turns.call_rows import key_of
from gitshadow.turns.registry import Tool
from gitshadow.turns.steps import Invoke, Procedure, Raised, Returned, ask
from gitshadow.turns.values import Reversibility


class Finding(NamedTuple):
    """Say why an inverse does not count as done; `sure`: the world was seen as the call left it."""

    text: str
    sure: bool


def still_there(tool: Tool | None, call: SagaCall) -> Procedure[Finding | None]:
    """Look whether the effect of a call is still there after its inverse; None: it is not."""
    verify = tool.options.get("verify") if tool is not None else None
    if tool is None or verify is False:
        return None
    if verify is None or verify is True:
        return (yield from _observed(tool, call, strict=verify is True))
    intent = records.intent(call.intent)
    if intent.get("altered") is not None:
        return _unread(intent["altered"])
    event = yield from ask(
        Invoke(
            verify,
            (intent.get("arguments"), intent.get("capture")),
            tool.extras("verify", key_of(call, "do")),
        )
    )
    if isinstance(event, Returned) and event.value is True:
        return None
    if isinstance(event, Returned) and event.value is False:
        return Finding("the inverse returned, and the effect is still there", sure=True)
    return _unread(event.error if isinstance(event, Raised) else "no yes or no")


def _observed(tool: Tool, call: SagaCall, *, strict: bool) -> Procedure[Finding | None]:
    """Compare what the tool observes with what it saw before and after the call."""
    observe, arguments = tool.options.get("observe"), _arguments(call)
    before, after = drift.images(call)
    if observe is None or before is None or after is None or arguments is None:
        return _unread("nothing was observed before the call") if strict else None
    extras = tool.extras("observe", key_of(call, "do"))
    event = yield from ask(Invoke(observe, (arguments,), extras))
    if not isinstance(event, Returned):
        why = event.error if isinstance(event, Raised) else "no answer"
        return _unread(why) if strict else None
    seen = records.lenient(event.value)
    if strict and seen != before:
        return Finding(f"there was {before}, and now there is {seen}", seen == after)
    erases = call.klass == Reversibility.REVERSIBLE
    if not strict and erases and seen == after != before:
        return Finding(f"the inverse returned, and there is still {seen}", sure=True)
    return None


def _arguments(call: SagaCall) -> Mapping[str, object] | None:
    """Return what `observe` was given; None where a part of that is not kept."""
    intent = records.intent(call.intent)
    found = intent["arguments"]
    if not isinstance(found, Mapping) or intent.get("altered_arguments"):
        return None
    if records.REDACTED in found.values():
        return None
    return found


def _unread(why: object) -> Finding:
    said = records.in_words(why) if isinstance(why, Exception) else why
    return Finding(f"whether the inverse worked could not be seen: {said}", sure=False)
