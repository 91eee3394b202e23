"""What a tool observes before an inverse (drift?) and after it (is the effect gone?).

A handler may return without having done anything, so its return is not enough for an undo. Only a
tool with `observe` can show drift; if `observe` fails, that counts as drift. An effect that no tool
can observe counts as gone; one whose check fails does not.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from gitshadow.sdk.turns import json_values
from gitshadow.sdk.turns.call_records import key_of
from gitshadow.sdk.turns.commands import Invoke, Procedure, Raised, Returned, ask
from gitshadow.sdk.turns.kept_secrets import KeptSecrets
from gitshadow.sdk.turns.redaction import NO_SECRETS, REDACTED, Secrets
from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.tool import Tool
from gitshadow.sdk.turns.values import Reversibility
from gitshadow.store.journal.saga_rows import SagaCall


@dataclass(slots=True)
class Drift:
    """Look for drift, of one call or, for a plan, of several newest first."""

    registry: ToolRegistry
    given: KeptSecrets
    _undone: list[tuple[str, str, str]] = field(default_factory=list)

    def look(self, call: SagaCall) -> Procedure[str | None]:
        """Return in words how the world differs from what the call left, or None."""
        seen, trouble = yield from self._present(call)
        return trouble if seen is None else _difference(call, seen)

    def predict(self, call: SagaCall) -> Procedure[str | None]:
        """As `look`, as if the earlier calls had been undone already."""
        seen, trouble = yield from self._present(call)
        if seen is None:
            return trouble
        # A plan runs nothing, so an older call would see the work of newer ones as drift. What
        # those left is read as what they had found.
        for tool, left, found in self._undone:
            if tool == call.tool and left == seen:
                seen = found
        said = _difference(call, seen)
        before, after = images(call)
        if said is None and before is not None and after is not None:
            self._undone.append((call.tool, after, before))
        return said

    def _present(self, call: SagaCall) -> Procedure[tuple[str | None, str | None]]:
        """Return what the tool observes now, or why it could not look; neither: nothing to compare.

        After an earlier attempt only that it can look counts: the call may be undone in part.
        """
        inverse = json_values.stored_inverse(call.inverse) if call.inverse else None
        if inverse is not None and inverse.unseen is not None:
            said = "the result of the call could not be observed"
            return None, f"{said}: {inverse.unseen}"
        tool = self.registry.find(call.tool)
        observe = tool.options.get("observe") if tool is not None else None
        after = inverse.after if inverse is not None else None
        if tool is None or observe is None or after is None:
            return None, None
        secrets = self.given.secrets_of(call)
        if secrets is None and REDACTED in after:
            return None, "what it left cannot be compared: it held a secret"
        if json_values.parse(call.intent).get("altered_arguments"):
            return None, "it could not be observed: its arguments are not JSON"
        extras = tool.extras("observe", key_of(call, "do"))
        event = yield from ask(Invoke(observe, (self.given.of(call),), extras))
        if isinstance(event, Returned):
            seen = json_values.lenient(event.value, secrets or NO_SECRETS)
            return None if call.attempts else seen, None
        why = (
            json_values.in_words(event.error)
            if isinstance(event, Raised)
            else "no answer"
        )
        said = (secrets or NO_SECRETS).hide_text(why)
        return None, f"it could not be observed: {said}"


def images(call: SagaCall) -> tuple[str | None, str | None]:
    """Return what the tool observed before and after a call."""
    before = json_values.parse(call.intent).get("before")
    after = json_values.stored_inverse(call.inverse).after if call.inverse else None
    return (before if isinstance(before, str) else None), after


def _difference(call: SagaCall, seen: str) -> str | None:
    before, after = images(call)
    if seen in (before, after):
        return None
    return f"it left {after}, but now there is {seen}"


class VerificationFinding(NamedTuple):
    """Why an inverse does not count as done; `sure`: the world is as the call left it."""

    text: str
    sure: bool


def still_there(
    tool: Tool | None, call: SagaCall, given: KeptSecrets
) -> Procedure[VerificationFinding | None]:
    """Return why the effect of a call may still exist after its inverse; None: it is gone."""
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
    return _unread(why, given.secrets_of(call) or NO_SECRETS)


def _observed(
    tool: Tool, call: SagaCall, given: KeptSecrets, *, strict: bool
) -> Procedure[VerificationFinding | None]:
    """Compare what the tool observes with what it saw before and after the call."""
    observe, altered = tool.options.get("observe"), _is_altered(call)
    before, after = images(call)
    if observe is None or before is None or after is None or altered:
        return _unread("nothing was observed before the call") if strict else None
    secrets = given.secrets_of(call) or NO_SECRETS
    extras = tool.extras("observe", key_of(call, "do"))
    event = yield from ask(Invoke(observe, (given.of(call),), extras))
    if not isinstance(event, Returned):
        why = event.error if isinstance(event, Raised) else "no answer"
        return _unread(why, secrets) if strict else None
    seen = json_values.lenient(event.value, secrets)
    if strict and seen != before:
        return VerificationFinding(
            f"there was {before}, now there is {seen}", seen == after
        )
    # Without `verify` only the clear case counts: the world is exactly as the call left it. A
    # compensation may leave what is observed as it is.
    erases = call.klass == Reversibility.REVERSIBLE
    if not strict and erases and seen == after != before:
        return VerificationFinding(
            f"the inverse returned, but there is still {seen}", sure=True
        )
    return None


def _is_altered(call: SagaCall) -> bool:
    return bool(json_values.parse(call.intent).get("altered_arguments"))


def _unread(why: object, secrets: Secrets = NO_SECRETS) -> VerificationFinding:
    said = json_values.in_words(why) if isinstance(why, Exception) else str(why)
    return VerificationFinding(
        f"could not check whether the inverse worked: {secrets.hide_text(said)}",
        sure=False,
    )
