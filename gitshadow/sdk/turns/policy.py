"""What a call must pass before it runs: guards, confirmation, limits.

One guard that denies is enough, and the first guard that asks decides the question.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, TypeAlias

from gitshadow.sdk.turns.inverse_kinds import Allowed
from gitshadow.sdk.turns.option_checks import (
    OptionCheck,
    at_least,
    check_fields,
    function,
    functions,
    instance_of,
    one_of,
    optional,
    seconds,
    text,
    unfit,
)
from gitshadow.sdk.turns.values import JsonObject, Reversibility
from gitshadow.words import did_you_mean

_RANKS = tuple(Reversibility)


class VerdictKind(StrEnum):
    """A guard's decision about a call."""

    ALLOW = "allow"
    CONFIRM = "confirm"
    DENY = "deny"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A guard's decision about a call, with its reason."""

    kind: VerdictKind
    text: str = ""

    def __post_init__(self) -> None:
        check_fields(self, _VERDICT)

    @classmethod
    def allow(cls) -> "Verdict":
        """Return that the call may run."""
        return cls(VerdictKind.ALLOW)

    @classmethod
    def confirm(cls, question: str) -> "Verdict":
        """Return that somebody must be asked first."""
        return cls(VerdictKind.CONFIRM, question)

    @classmethod
    def deny(cls, reason: str) -> "Verdict":
        """Return that the call must not run."""
        return cls(VerdictKind.DENY, reason)


@dataclass(frozen=True, slots=True)
class Proposal:
    """A call that wants to run, as guards and confirmation handlers see it."""

    call_id: str
    tool: str
    arguments: JsonObject
    reversibility: Reversibility
    question: str = ""


Guard: TypeAlias = "Callable[[Proposal], Verdict | Awaitable[Verdict | None] | None]"
"""Judge a call; None is no opinion, and anything but None or a `Verdict` denies the call.

It runs before every call, in the order given.
"""

ConfirmHandler: TypeAlias = "Callable[[Proposal], bool | Awaitable[bool]]"
"""Ask somebody; only True runs the call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bound one turn; None is no bound. Counters start at zero in every turn.

    A rollback waits `rollback_wait_s` seconds for calls that still run.

    Raises:
        UsageError: a bound is no number, or negative.
    """

    tool_calls: int | None = 100
    round_trips: int | None = 50
    seconds: float | None = None
    rollback_wait_s: float = 5.0

    def __post_init__(self) -> None:
        check_fields(self, _LIMITS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The rules for a session's calls.

    Args:
        non_reversible: What happens to tools that cannot be undone, undeclared ones among
            them: `ask` through `confirm` (and deny where nobody can be asked), `deny`, `allow`.
        min_reversibility: Tools of a worse class are denied, whatever else is said; undeclared
            ones are of the worst. None is no floor.
        duplicates: What happens to a call that a rewind hid and that was not undone, if a model
            makes it again: `refuse`, or `allow`.
        guards: Asked before every call.
        confirm: Who is asked: a handler, or `prompt` for a question that `answer()` settles.
        confirm_timeout_s: A question without an answer after this time is a no.
        limits: Bounds of one turn.
        inverses: Which commands, requests and tools of servers an undo may use without a question;
            others are asked of `confirm`, where that is a handler, and declined where not.

    Raises:
        UsageError: a value is none of those that its option may have.
    """

    non_reversible: Literal["ask", "deny", "allow"] = "ask"
    min_reversibility: Reversibility | None = None
    duplicates: Literal["refuse", "allow"] = "refuse"
    guards: tuple[Guard, ...] = ()
    confirm: ConfirmHandler | Literal["prompt"] | None = None
    confirm_timeout_s: float | None = 45.0
    limits: Limits = field(default_factory=Limits)
    inverses: Allowed = field(default_factory=Allowed)

    def __post_init__(self) -> None:
        check_fields(self, _POLICY)

    def verdict_on(self, reversibility: Reversibility, tool: str) -> Verdict:
        """Return what the policy itself thinks of a tool."""
        # The floor comes first, because it counts whatever else the policy allows.
        floor = self.min_reversibility
        if floor is not None and _RANKS.index(reversibility) < _RANKS.index(floor):
            word = reversibility.value
            return Verdict.deny(
                f"{tool} is {word}: tools here must be at least {floor}"
            )
        is_undone = reversibility is not Reversibility.NON_REVERSIBLE
        if is_undone or self.non_reversible == "allow":
            return Verdict.allow()
        said = f"{tool} cannot be undone"
        asks = self.non_reversible == "ask"
        return Verdict.confirm(said) if asks else Verdict.deny(said)


def _confirm(option: str, value: object) -> None:
    if isinstance(value, str) and value != "prompt":
        near = did_you_mean(value.lower(), ("prompt",))
        raise unfit(option, "'prompt' or a function", value, hint=near)
    if value != "prompt":
        function(option, value)


_VERDICT: Mapping[str, OptionCheck] = {
    "kind": instance_of(VerdictKind, "a VerdictKind"),
    "text": text,
}
_LIMITS: Mapping[str, OptionCheck] = {
    "tool_calls": optional(at_least(0)),
    "round_trips": optional(at_least(0)),
    "seconds": optional(seconds),
    "rollback_wait_s": seconds,
}
_POLICY: Mapping[str, OptionCheck] = {
    "non_reversible": one_of("ask", "deny", "allow"),
    "min_reversibility": optional(one_of(*Reversibility)),
    "duplicates": one_of("refuse", "allow"),
    "guards": functions,
    "confirm": optional(_confirm),
    "confirm_timeout_s": optional(seconds),
    "limits": instance_of(Limits, "a Limits"),
    "inverses": instance_of(Allowed, "an Allowed"),
}


def verdict_of(value: object, who: str) -> Verdict | None:
    """Return what a function of the program thinks; what is no verdict is a no that says so."""
    if value is None or isinstance(value, Verdict):
        return value
    kind = type(value).__name__
    return Verdict.deny(f"{who} must return a Verdict or None, not a value of {kind}")


def strictest(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the first deny, else the first question, else allow."""
    found = list(verdicts)
    for kind in (VerdictKind.DENY, VerdictKind.CONFIRM):
        for verdict in found:
            if verdict.kind is kind:
                return verdict
    return Verdict.allow()
