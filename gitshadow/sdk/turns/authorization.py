"""The gate before a call: guards, the policy, the person who is asked, and repeated effects.

No answer counts as a no. A model may repeat an effect that a rewind has hidden, since it forgot it:
two calls are the same if their tool and their arguments are. Secret arguments do not count, so that
no digest depends on them. A framework that goes back to an old checkpoint replays a call: then the
origin, the framework's name for that one call, is the same too. Without a rewind or a replay no
call is a duplicate.
"""

import json
from contextlib import suppress
from dataclasses import replace
from typing import Literal

from gitshadow.sdk.turns import call_outcome, events, json_values
from gitshadow.sdk.turns.call_outcome import CallKnowledge
from gitshadow.sdk.turns.commands import (
    Event,
    Invoke,
    Procedure,
    Raised,
    ask,
    demand,
)
from gitshadow.sdk.turns.external_inverses import refusal_in
from gitshadow.sdk.turns.policy import (
    ConfirmHandler,
    Proposal,
    VerdictKind,
    strictest,
    verdict_of,
)
from gitshadow.sdk.turns.protocols import SessionStore, in_store
from gitshadow.sdk.turns.redaction import Secrets
from gitshadow.sdk.turns.tool import Tool
from gitshadow.sdk.turns.turn import Question, TurnCore
from gitshadow.sdk.turns.values import JsonObject, Reversibility
from gitshadow.store.digests import digest
from gitshadow.store.journal.saga_rows import Effect, SagaCall


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
            wait = Invoke(question.wait, (timeout_s,), blocking=True)
            return (yield from ask(wait))
        return (yield from ask(Invoke(confirm, (proposal,), timeout_s=timeout_s)))
    finally:
        turn.questions.remove(question)
        # A cancelled task leaves a thread that waits for the answer.
        question.answer(False)


def repeats(
    turn: TurnCore, tool: Tool, arguments: JsonObject, origin: str | None
) -> Procedure[str | None]:
    """Return the message to a model about a call that still has its effect, or None."""
    if turn.setting.policy.duplicates == "allow" or not _counts(tool):
        return None
    if tool.options.get("allow_duplicates", False):
        return None
    session = turn.row.session
    digest = _digest(tool, arguments)
    found = yield from in_store(lambda means: _hidden(means.store, session, digest))
    if found is not None:
        return _said(found, "It was removed from the conversation")
    if origin is None:
        return None
    digest = _digest(tool, arguments, origin)
    found = yield from in_store(
        lambda means: means.store.standing(
            session, digest, -1, means.store.last_seq(session)
        )
    )
    return None if found is None else _said(found, "This is a replay of that call")


def _hidden(store: SessionStore, session: str, digest: str) -> SagaCall | None:
    """Return a call that a rewind hid and that was not undone, or None."""
    # A model repeats only what it no longer sees, so only the hidden events are searched.
    for gap in events.hidden(store.markers(session)):
        found = store.standing(session, digest, gap.first, gap.last)
        if found is not None:
            return found
    return None


def begun(
    call: SagaCall,
    tool: Tool,
    arguments: JsonObject,
    origin: str | None = None,
) -> list[Effect]:
    """Return the rows by which a later call is known to be the same."""
    if not _counts(tool):
        return []
    digests = [_digest(tool, arguments)]
    digests += [] if origin is None else [_digest(tool, arguments, origin)]
    return [Effect(call.session, one, call.turn, call.id) for one in digests]


def _counts(tool: Tool) -> bool:
    """Return whether doing it twice is more than doing it once."""
    if tool.effective is Reversibility.READ_ONLY:
        return False
    # A rewind restores files, so a tool that writes only files has to run again.
    options = tool.options
    return not (options.get("idempotent", False) or options.get("files_only", False))


def _digest(tool: Tool, arguments: JsonObject, origin: str | None = None) -> str:
    secrets = Secrets.of(arguments, tool.options.get("secrets", ()))
    shown = secrets.without(arguments)
    said = [tool.name, shown, *([] if origin is None else [origin])]
    plain = json_values.storable(secrets.hide_text(_text(said)))
    return digest(plain)


def _text(said: object) -> str:
    """Return a text that another value hardly has."""
    # A value that is no JSON stands for itself by its repr: one that names an address is never
    # the same twice, which lets the call through. Keys of several types cannot be sorted, a value
    # may contain itself, and some have no repr either.
    with suppress(Exception):
        return json.dumps(said, sort_keys=True, default=repr)
    with suppress(Exception):
        return repr(said)
    return json_values.lenient(said)


def _said(call: SagaCall, why: str) -> str:
    named = f"Duplicate: {call.tool} with these arguments"
    if call.outcome == "held":
        return (
            f"{named} is already waiting to be sent ({call.id}); a rewind does not"
            f" stop that. It was not held again."
        )
    done = "was already made"
    if call_outcome.from_row(call) is CallKnowledge.UNKNOWN:
        done = "was started before, and it is unknown whether it happened"
    return (
        f"{named} {done} ({call.id}). {why}, but its effect was not undone."
        " It was not run again."
    )
