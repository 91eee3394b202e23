"""Credit: which of the three classes the owner of a line belongs to, by what evidence.

The one place that turns an owner into agent, human or unknown; blame, shares, checks and exports
all say what stands here.
Invariant: reads only; what is not at least `medium` evidence of an agent is unknown.
"""

from dataclasses import dataclass

from gitshadow.attribution.identities import agent_named
from gitshadow.blame.owners import Owner, Source
from gitshadow.errors import StoreError
from gitshadow.model import Actor, Confidence, Event, Oid
from gitshadow.store.repo import Repo

OLDER = "older than the recording, or not made here: Git names the author"
NAMED = "its commit names {agent}, and not which lines are whose"


@dataclass(frozen=True, slots=True, kw_only=True)
class Credit:
    """Say who is credited with lines, how sure that is and why.

    `agent`, `session`, `turn`, `call` and `tool` are those of a recorded write of which somebody
    at `medium` or better made; `session` also where it is a person's. `candidates` are sessions
    that may have made it. `event` is the recorded write, `commit` a commit of the user's.
    """

    actor: Actor
    confidence: Confidence
    reason: str
    agent: str | None = None
    session: str | None = None
    turn: str | None = None
    call: str | None = None
    tool: str | None = None
    candidates: tuple[str, ...] = ()
    event: Event | None = None
    commit: Oid | None = None


BY_GIT = Credit(actor=Actor.HUMAN, confidence=Confidence.MEDIUM, reason=OLDER)
"""Lines of commits of which none names an agent, whichever commit that is."""


class Crediting:
    """Credit the owners of one repository."""

    def __init__(self, repo: Repo) -> None:
        self._repo = repo
        self._named: dict[Oid, str | None] = {}

    def of(self, owner: Owner) -> Credit:
        """Return who an owner stands for."""
        if owner.source is Source.EVENT and owner.event is not None:
            return by_event(owner.event)
        if owner.source is Source.COMMIT and owner.commit is not None:
            return self._by_commit(owner.commit)
        return Credit(
            actor=Actor.UNKNOWN,
            confidence=Confidence.UNKNOWN,
            reason=owner.note or "",
            commit=owner.commit,
        )

    def _by_commit(self, commit: Oid) -> Credit:
        agent = self.agent_of(commit)
        if agent is None:
            return Credit(
                actor=Actor.HUMAN,
                confidence=Confidence.MEDIUM,
                reason=OLDER,
                commit=commit,
            )
        return Credit(
            actor=Actor.UNKNOWN,
            confidence=Confidence.UNKNOWN,
            reason=NAMED.format(agent=agent),
            commit=commit,
        )

    def agent_of(self, commit: Oid) -> str | None:
        """Return the agent that a commit names; None for none, or a commit that is gone."""
        if commit not in self._named:
            try:
                info = self._repo.commit(commit)
                self._named[commit] = agent_named(info.author, info.message)
            except StoreError:
                self._named[commit] = None
        return self._named[commit]


def by_event(event: Event) -> Credit:
    """Return who is credited with a recorded write."""
    claim = event.attribution
    if claim is None:
        return Credit(
            actor=Actor.UNKNOWN,
            confidence=Confidence.UNKNOWN,
            reason=event.note or "",
            event=event,
        )
    if claim.actor is Actor.AGENT and claim.confidence is Confidence.LOW:
        # A person is as likely then: a gap is acceptable, a wrong author is not.
        return Credit(
            actor=Actor.UNKNOWN,
            confidence=claim.confidence,
            reason=claim.reason,
            candidates=(claim.session,),
            event=event,
        )
    return Credit(
        actor=claim.actor,
        confidence=claim.confidence,
        reason=claim.reason,
        agent=claim.agent,
        session=claim.session,
        turn=claim.turn,
        call=claim.call,
        tool=claim.tool,
        candidates=claim.candidates,
        event=event,
    )
