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
    ask,
    demand,
    told,
)
from gitshadow.sdk.turns.external_inverses import refusal_in
from gitshadow.sdk.turns.policy import (
    ConfirmHandler,
    Proposal,
    VerdictKind,
    strictest,
    verdict_of,
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
        verdict = verdict_of((yield from demand(Invoke(guard, (proposal,)))), "a guard")
        verdicts += [] if verdict is None else [verdict]
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
    return refusal_in((yield from _asked(turn, proposal, confirm))) is None


def _confirm(turn: TurnCore, proposal: Proposal) -> Procedure[str | None]:
    """Ask for confirmation; return why the answer is no, or None."""
    confirm = turn.setting.policy.confirm
    if confirm is None:
        said = f"{proposal.question}, but there is no one to ask"
        tool = turn.setting.registry.find(proposal.tool)
        asks = turn.setting.policy.non_reversible == "ask"
        if tool is not None and tool.holds and asks:
            said += "; holding it needs Policy(non_reversible='allow') or confirm="
        return said
    event = yield from _asked(turn, proposal, confirm)
    if isinstance(event, Raised):
        raise event.error
    no = refusal_in(event)
    return None if no is None else f"{proposal.question}: {no}"


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
