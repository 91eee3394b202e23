"""What a tool observes before an inverse (drift?) and after it (is the effect gone?).

What was observed at the call decides what is compared, never what is registered today: if it was
observed and cannot be compared now, that counts as drift. A handler may return without having done
anything, so its return is not enough for an undo. An effect that was not observed counts as gone;
one whose check fails does not.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from gitshadow.sdk.turns import json_values
from gitshadow.sdk.turns.call_records import key_of
from gitshadow.sdk.turns.commands import Invoke, Procedure, Raised, Returned, ask
from gitshadow.sdk.turns.json_values import NOT_OBSERVED, NotStorableError, Observation
from gitshadow.sdk.turns.kept_secrets import KnownArguments
from gitshadow.sdk.turns.redaction import NO_SECRETS, REDACTED, Secrets
from gitshadow.sdk.turns.settings import TurnSettings
from gitshadow.sdk.turns.tool import Tool
from gitshadow.sdk.turns.values import JsonObject, Reversibility
from gitshadow.store.journal.saga_rows import SagaCall

_UNSEEN = "it was settled by a probe, so what it left was not seen"


class Comparison(NamedTuple):
    """How the world compares with what a call left; without either, its inverse may run.

    `moved` says in words how it differs, or why it cannot be compared. `undone`: an attempt to undo
    the call failed, and yet the world is as it was before the call.
    """

    moved: str | None = None
    undone: bool = False


class VerificationFinding(NamedTuple):
    """Why an inverse does not count as done; `sure`: the world is as the call left it."""

    text: str
    sure: bool


class _NotingReads(dict[str, object]):
    """Arguments that note which of them are read by name: they say which thing is observed."""

    def __init__(self, arguments: JsonObject) -> None:
        super().__init__(arguments)
        self.read: dict[str, object] = {}

    def __getitem__(self, name: str) -> object:
        self.read[name] = super().__getitem__(name)
        return self.read[name]

    def get(self, name: str, default: object = None) -> object:
        """Return an argument, and note it."""
        self.read[name] = super().get(name, default)
        return self.read[name]


def observed(
    tool: Tool,
    call: SagaCall,
    arguments: JsonObject,
    secrets: Secrets,
    said: Callable[[BaseException], str] = json_values.in_words,
) -> Procedure[Observation]:
    """Return what a tool observes as a text, or why there is none; both without secrets.

    `said` returns an error of the tool in words.
    """
    observe, text, trouble = tool.options.get("fingerprint"), None, None
    if observe is None:
        return NOT_OBSERVED
    extras = tool.extras("fingerprint", key_of(call, "do"))
    event = yield from ask(Invoke(observe, (arguments,), extras))
    try:
        if isinstance(event, Returned):
            text = json_values.observation_text(event.value, secrets)
        else:
            error = event.error if isinstance(event, Raised) else TimeoutError()
            trouble = said(error)
    except NotStorableError as error:
        trouble = f"what fingerprint returned is {error}"
    except Exception as error:  # noqa: BLE001 - it runs code of the host's own classes
        trouble = said(error)
    return Observation(text, trouble and secrets.hide_text(trouble))


class Recorded(NamedTuple):
    """One call as the journal has it, read once; `before` and `after` are what was observed."""

    call: SagaCall
    tool: Tool | None
    intent: JsonObject
    given: KnownArguments
    before: Observation
    after: Observation

    def compared(self, seen: str) -> Comparison:
        """Return how what is seen compares with what the call found and left."""
        if seen == self.after.text:
            return Comparison()
        attempts = self.call.attempts
        if seen == self.before.text:
            return Comparison(undone=attempts > 0)
        tried = " and an undo of it failed" if attempts else ""
        return Comparison(f"it left {self.after.text}{tried}, but now there is {seen}")


@dataclass(slots=True)
class Drift:
    """Compare the world with what one call left or, for a plan, several calls, newest first."""

    setting: TurnSettings
    _thing: object = None
    _looked: tuple[object, str, str] | None = None
    _expected: list[tuple[object, str, str]] = field(default_factory=list)

    def look(
        self, call: SagaCall, attempted: str | None = None
    ) -> Procedure[Comparison]:
        """Return how the world compares with what the call left.

        `attempted` is what a failed attempt at its inverse in this very undo left.
        """
        one, self._looked = self.recorded(call), None
        seen = yield from self._left(one)
        if seen.text is None:
            return Comparison(seen.trouble)
        # A plan runs nothing, so an older call would see the work of newer ones as drift. What
        # those left is read as what they had found, unless it is another thing of the same value.
        shown = [seen.text]
        for thing, left, before in self._expected:
            if thing == self._thing and left == shown[-1]:
                shown.append(before)
        possible = [one.compared(text) for text in reversed(shown)]
        fitting = (each for each in possible if each.moved is None)
        found = yield from self._checked(one, next(fitting, possible[0]))
        if one.before.text and one.after.text:
            self._looked = self._thing, one.after.text, one.before.text
        is_ours = found.moved is not None and seen.text == attempted
        return Comparison() if is_ours else found

    def expect(self) -> None:
        """Look at older calls as if the one that was looked at last had been undone."""
        if self._looked is not None:
            self._expected.append(self._looked)

    def seen(self, one: Recorded) -> Procedure[Observation]:
        """Return what the call's tool observes now, or why that cannot be compared."""
        call, tool, secrets = one.call, one.tool, one.given.secrets
        shown = f"{one.before.text}{one.after.text}"
        if tool is None:
            why = f"{call.tool} is not registered"
        elif "fingerprint" not in tool.options:
            why = f"{call.tool} has no fingerprint"
        elif secrets is None and REDACTED in shown:
            return Observation(
                trouble="what it left cannot be compared: it held a secret"
            )
        elif one.intent.get("altered_arguments"):
            why = "its arguments are not JSON"
        else:
            arguments = one.given.arguments
            if isinstance(arguments, dict):
                arguments = _NotingReads(arguments)
            found = yield from observed(tool, call, arguments, secrets or NO_SECRETS)
            self._thing = call.tool, getattr(arguments, "read", {})
            if found.trouble is None:
                return found
            why = self._hidden(one, found.trouble)
        return Observation(trouble=f"it could not be observed: {why}")

    def still_there(self, call: SagaCall) -> Procedure[VerificationFinding | None]:
        """Return why the effect of a call may still exist after its inverse; None: it is gone."""
        one = self.recorded(call)
        tool, before, after = one.tool, one.before, one.after
        was_asked_for = one.intent.get("verify") is True
        if tool is None:
            said = f"{call.tool} is not registered"
            return _unread(said) if was_asked_for else None
        is_asked_for = was_asked_for and before != NOT_OBSERVED
        verify = tool.options.get("verify", is_asked_for)
        if callable(verify):
            return (yield from self._verified(one, tool))
        if verify is True:
            return (yield from self._is_as_before(one))
        # Without `verify` only the clear case counts: the world is exactly as the call left it. A
        # compensation may leave what is observed as it is.
        erases = call.klass == Reversibility.REVERSIBLE
        changes = None not in (before.text, after.text) and before.text != after.text
        if not (erases and changes) or tool.options.get("verify") is False:
            return None
        seen = yield from self.seen(one)
        if seen.text != after.text:
            return None
        said = f"the inverse returned, but there is still {seen.text}"
        return VerificationFinding(said, sure=True)

    def recorded(self, call: SagaCall) -> Recorded:
        """Read the row of a call."""
        intent = json_values.intent(call.intent)
        inverse = json_values.stored_inverse(call.inverse or "")
        return Recorded(
            call,
            self.setting.registry.find(call.tool),
            intent,
            self.setting.given.of(call, intent),
            _before(intent),
            Observation(inverse.after, inverse.unseen),
        )

    def _left(self, one: Recorded) -> Procedure[Observation]:
        """Return what is to be compared with what a call left; neither: it was not observed."""
        if one.before == one.after == NOT_OBSERVED:
            return NOT_OBSERVED
        if one.after.text is None:
            why = one.after.trouble or _UNSEEN
            return Observation(
                trouble=f"the result of the call could not be observed: {why}"
            )
        return (yield from self.seen(one))

    def _checked(self, one: Recorded, found: Comparison) -> Procedure[Comparison]:
        """Return a comparison; where `verify` still sees an effect, the inverse runs again."""
        tool = one.tool
        if found.undone and tool is not None and callable(tool.options.get("verify")):
            # Recorded again, because `fingerprint` may have changed its arguments.
            effect = yield from self._verified(self.recorded(one.call), tool)
            return found if effect is None else Comparison()
        return found

    def _is_as_before(self, one: Recorded) -> Procedure[VerificationFinding | None]:
        if one.before.text is None:
            why = one.before.trouble or "nothing was observed before the call"
            return _unread(why)
        seen = yield from self.seen(one)
        if seen.text is None:
            return _unread(seen.trouble or "")
        if seen.text == one.before.text:
            return None
        said = f"there was {one.before.text}, now there is {seen.text}"
        return VerificationFinding(said, sure=seen.text == one.after.text)

    def _verified(
        self, one: Recorded, tool: Tool
    ) -> Procedure[VerificationFinding | None]:
        """Ask the function `verify` of a tool."""
        verify = tool.options.get("verify")
        assert callable(verify)
        if one.intent.get("altered") is not None:
            return _unread(str(one.intent["altered"]))
        event = yield from ask(
            Invoke(
                verify,
                (one.given.arguments, one.intent.get("capture")),
                tool.extras("verify", key_of(one.call, "do")),
            )
        )
        if isinstance(event, Returned) and event.value is True:
            return None
        if isinstance(event, Returned) and event.value is False:
            return VerificationFinding(
                "the inverse returned, but the effect is still there", sure=True
            )
        why = (
            json_values.in_words(event.error)
            if isinstance(event, Raised)
            else "no yes or no"
        )
        return _unread(self._hidden(one, why))

    def _hidden(self, one: Recorded, why: str) -> str:
        """Return an error without the secrets of a call and those that its inverse names."""
        inverse = json_values.stored_inverse(one.call.inverse or "")
        return one.given.hide_text(inverse.hide_text(why, self.setting.host.secret))


def settled_late(intent: JsonObject, tool: Tool) -> Observation:
    """Return what is known of the world that a call left which its probe settled."""
    is_observed = _before(intent) != NOT_OBSERVED or "fingerprint" in tool.options
    return Observation(trouble=_UNSEEN) if is_observed else NOT_OBSERVED


def _before(intent: JsonObject) -> Observation:
    """Return what the tool observed before a call."""
    found = [intent.get(name) for name in ("before", "unseen")]
    return Observation(*(one if isinstance(one, str) else None for one in found))


def _unread(why: str) -> VerificationFinding:
    return VerificationFinding(
        f"could not check whether the inverse worked: {why}", sure=False
    )
