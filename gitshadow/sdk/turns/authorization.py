"""The gate before a call: guards, the policy, and the person who is asked.

No answer counts as a no.
"""

from dataclasses import replace
from typing import Literal

from gitshadow.sdk.turns.commands import (
    Answer,
    Event,
    Invoke,
    Procedure,
    Question,
    Raised,
    Returned,
    TimedOut,
    ask,
    demand,
    told,
)
from gitshadow.sdk.turns.policy import (
    ConfirmHandler,
    Proposal,
    Verdict,
    VerdictKind,
    strictest,
)
from gitshadow.sdk.turns.turn import TurnCore


def refusal(turn: TurnCore, proposal: Proposal) -> Procedure[str | None]:
    """Return why a call must not run, or None.

    Raises:
        Exception: what a guard or a handler raised; the turn should end with it.
    """
    policy = turn.setting.policy
    verdicts = []
    for guard in policy.guards:
        value = yield from demand(Invoke(guard, (proposal,)))
        verdicts += [value] if isinstance(value, Verdict) else []
    own = policy.verdict_on(proposal.reversibility, proposal.tool)
    verdict = strictest([*verdicts, own])
    if verdict.kind is VerdictKind.DENY:
        return verdict.text
    if verdict.kind is VerdictKind.ALLOW:
        return None
    return (yield from _confirm(turn, replace(proposal, question=verdict.text)))


def consents(turn: TurnCore, proposal: Proposal) -> Procedure[bool]:
    """Return whether somebody who can be asked says yes; any failure is a no."""
    confirm = turn.setting.policy.confirm
    if confirm is None:
        return False
    return _is_yes((yield from _asked(turn, proposal, confirm)))


def _confirm(turn: TurnCore, proposal: Proposal) -> Procedure[str | None]:
    """Ask for confirmation; return why the answer is no, or None."""
    confirm = turn.setting.policy.confirm
    if confirm is None:
        return f"{proposal.question}, but there is no one to ask"
    event = yield from _asked(turn, proposal, confirm)
    if isinstance(event, Raised):
        raise event.error
    if isinstance(event, TimedOut):
        return f"{proposal.question}: no answer after {event.seconds:g} s"
    return None if _is_yes(event) else f"{proposal.question}: declined"


def _asked(
    turn: TurnCore, proposal: Proposal, confirm: ConfirmHandler | Literal["prompt"]
) -> Procedure[Event]:
    timeout_s = turn.setting.policy.confirm_timeout_s
    question = Question(proposal)
    turn.questions.append(question)
    try:
        if isinstance(confirm, str):
            return Returned((yield from told(Answer(question, timeout_s))))
        return (yield from ask(Invoke(confirm, (proposal,), timeout_s=timeout_s)))
    finally:
        turn.questions.remove(question)


def _is_yes(event: Event) -> bool:
    return isinstance(event, Returned) and event.value is True
