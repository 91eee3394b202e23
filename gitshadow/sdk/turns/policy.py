"""What a call must pass before it runs: guards, confirmation, limits.

One guard that denies is enough, and the first guard that asks decides the question.
"""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, TypeAlias

from gitshadow.sdk.turns.inverse_kinds import Allowed
from gitshadow.sdk.turns.values import JsonObject, Reversibility

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
"""Judge a call; None is no opinion. It runs before every call, in the order given."""

ConfirmHandler: TypeAlias = "Callable[[Proposal], bool | Awaitable[bool]]"
"""Ask somebody; True runs the call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bound one turn; None is no bound. Counters start at zero in every turn.

    A rollback waits `rollback_wait_s` seconds for calls that still run.
    """

    tool_calls: int | None = 100
    round_trips: int | None = 50
    seconds: float | None = None
    rollback_wait_s: float = 5.0


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
    """

    non_reversible: Literal["ask", "deny", "allow"] = "ask"
    min_reversibility: Reversibility | None = None
    duplicates: Literal["refuse", "allow"] = "refuse"
    guards: tuple[Guard, ...] = ()
    confirm: ConfirmHandler | Literal["prompt"] | None = None
    confirm_timeout_s: float | None = 45.0
    limits: Limits = field(default_factory=Limits)
    inverses: Allowed = field(default_factory=Allowed)

    def verdict_on(self, reversibility: Reversibility, tool: str) -> Verdict:
        """Return what the policy itself thinks of a tool."""
        # The floor comes first, because it counts whatever else the policy allows.
        floor = self.min_reversibility
        if floor is not None and _RANKS.index(reversibility) < _RANKS.index(floor):
            word = reversibility.value
            return Verdict.deny(
                f"{tool} is {word}: tools here must be at least {floor}"
            )
        if reversibility is not Reversibility.NON_REVERSIBLE:
            return Verdict.allow()
        said = f"{tool} cannot be undone"
        if self.non_reversible == "ask":
            return Verdict.confirm(said)
        return Verdict.deny(said) if self.non_reversible == "deny" else Verdict.allow()


def strictest(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the first deny, else the first question, else allow."""
    found = list(verdicts)
    for kind in (VerdictKind.DENY, VerdictKind.CONFIRM):
        for verdict in found:
            if verdict.kind is kind:
                return verdict
    return Verdict.allow()
