"""The gate before a call: guards, the policy, and whoever is asked.

Invariant: no answer is a no.
"""

from dataclasses import replace

from gitshadow.turns.policy import Proposal, Verdict, VerdictKind, strictest
from gitshadow.turns.steps import (
    Answer,
    Invoke,
    Procedure,
    Question,
    Raised,
    TimedOut,
    ask,
    demand,
    told,
)
from gitshadow.turns.turn import TurnCore


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


def _confirm(turn: TurnCore, proposal: Proposal) -> Procedure[str | None]:
    """Have somebody asked; return why the answer is no, or None."""
    policy = turn.setting.policy
    if policy.confirm is None:
        return f"{proposal.question}, and nobody can be asked"
    question = Question(proposal)
    turn.questions.append(question)
    try:
        if isinstance(policy.confirm, str):
            yes = yield from told(Answer(question, policy.confirm_timeout_s))
            return None if yes else f"{proposal.question}: declined"
        timeout_s = policy.confirm_timeout_s
        handler = Invoke(policy.confirm, (proposal,), timeout_s=timeout_s)
        event = yield from ask(handler)
    finally:
        turn.questions.remove(question)
    if isinstance(event, Raised):
        raise event.error
    if isinstance(event, TimedOut):
        return f"{proposal.question}: no answer after {event.seconds:g} s"
    return None if event.value is True else f"{proposal.question}: declined"
