"""The gate before a call: guards, the policy, and whoever is asked.

Invariant: no answer is a no.
"""

from dataclasses import replace

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
from gitshadow.sdk.turns.policy import Proposal, Verdict, VerdictKind, strictest
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
    """Tell whether somebody who can be asked says yes; whatever goes wrong with it is a no."""
    if turn.setting.policy.confirm is None:
        return False
    return _is_yes((yield from _asked(turn, proposal)))


def _confirm(turn: TurnCore, proposal: Proposal) -> Procedure[str | None]:
    """Have somebody asked; return why the answer is no, or None."""
    if turn.setting.policy.confirm is None:
        return f"{proposal.question}, but there is no one to ask"
    event = yield from _asked(turn, proposal)
    if isinstance(event, Raised):
        raise event.error
    if isinstance(event, TimedOut):
        return f"{proposal.question}: no answer after {event.seconds:g} s"
    return None if _is_yes(event) else f"{proposal.question}: declined"


def _asked(turn: TurnCore, proposal: Proposal) -> Procedure[Event]:
    policy = turn.setting.policy
    question = Question(proposal)
    turn.questions.append(question)
    try:
        if isinstance(policy.confirm, str):
            return Returned(
                (yield from told(Answer(question, policy.confirm_timeout_s)))
            )
        assert policy.confirm is not None, "asked before"
        handler = Invoke(
            policy.confirm, (proposal,), timeout_s=policy.confirm_timeout_s
        )
        return (yield from ask(handler))
    finally:
        turn.questions.remove(question)


def _is_yes(event: Event) -> bool:
    return isinstance(event, Returned) and event.value is True
