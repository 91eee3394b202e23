"""Did the inverse do what it says? The world is read again, where the tool can read it.

A handler's answer is a claim: one that returns and did nothing must not count as taken back.
Invariant: what cannot be looked at is believed; what was to be looked at and could not be is not.
"""

from collections.abc import Iterable
from typing import NamedTuple

from gitshadow.sdk.turns import drift, json_values
from gitshadow.sdk.turns.call_records import key_of
from gitshadow.sdk.turns.commands import Invoke, Procedure, Raised, Returned, ask
from gitshadow.sdk.turns.kept_secrets import KeptSecrets
from gitshadow.sdk.turns.tool import Tool
from gitshadow.sdk.turns.values import Reversibility
from gitshadow.store.journal.saga_rows import SagaCall


class VerificationFinding(NamedTuple):
    """Say why an inverse does not count as done; `sure`: the world was seen as the call left it."""

    text: str
    sure: bool


def still_there(
    tool: Tool | None, call: SagaCall, given: KeptSecrets
) -> Procedure[VerificationFinding | None]:
    """Look whether the effect of a call is still there after its inverse; None: it is not."""
    verify = tool.options.get("verify") if tool is not None else None
    if tool is None or verify is False:
        return None
    if verify is None or verify is True:
        return (yield from _observed(tool, call, given, strict=verify is True))
    intent = json_values.intent(call.intent)
    if intent.get("altered") is not None:
        return _unread(intent["altered"])
    event = yield from ask(
        Invoke(
            verify,
            (given.of(call), intent.get("capture")),
            tool.extras("verify", key_of(call, "do")),
        )
    )
    if isinstance(event, Returned) and event.value is True:
        return None
    if isinstance(event, Returned) and event.value is False:
        return VerificationFinding(
            "the inverse returned, but the effect is still there", sure=True
        )
    why = event.error if isinstance(event, Raised) else "no yes or no"
    return _unread(why, given.secrets_of(call, tool) or ())


def _observed(
    tool: Tool, call: SagaCall, given: KeptSecrets, *, strict: bool
) -> Procedure[VerificationFinding | None]:
    """Compare what the tool observes with what it saw before and after the call."""
    observe, altered = tool.options.get("observe"), _is_altered(call)
    before, after = drift.images(call)
    if observe is None or before is None or after is None or altered:
        return _unread("nothing was observed before the call") if strict else None
    secrets = given.secrets_of(call, tool) or ()
    extras = tool.extras("observe", key_of(call, "do"))
    event = yield from ask(Invoke(observe, (given.of(call),), extras))
    if not isinstance(event, Returned):
        why = event.error if isinstance(event, Raised) else "no answer"
        return _unread(why, secrets) if strict else None
    seen = json_values.redact(json_values.lenient(event.value), secrets)
    if strict and seen != before:
        return VerificationFinding(
            f"there was {before}, now there is {seen}", seen == after
        )
    erases = call.klass == Reversibility.REVERSIBLE
    if not strict and erases and seen == after != before:
        return VerificationFinding(
            f"the inverse returned, but there is still {seen}", sure=True
        )
    return None


def _is_altered(call: SagaCall) -> bool:
    return bool(json_values.parse(call.intent).get("altered_arguments"))


def _unread(why: object, secrets: Iterable[str] = ()) -> VerificationFinding:
    said = json_values.in_words(why) if isinstance(why, Exception) else str(why)
    said = json_values.redact(said, secrets)
    return VerificationFinding(
        f"could not check whether the inverse worked: {said}", sure=False
    )
