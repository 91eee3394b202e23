"""Classify the owner of a line as agent, human or unknown, and name the evidence.

Blame, shares, checks and exports all use this classification. If Git names only a commit, the
journals of other machines are searched for the write that it contains.
Invariant: reads only. What is not at least `medium` evidence of an agent is unknown. An answer of
another machine is a write that was recorded there.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from gitshadow.attribution.commits import agent_named
from gitshadow.blame.file_blame import BlameQuery, Blaming
from gitshadow.blame.owners import Origin, OriginSource, Owner
from gitshadow.errors import StoreError, UsageError
from gitshadow.model import Actor, Confidence, Oid, PathChange, RepoPath
from gitshadow.recording.context import Others
from gitshadow.store.journal import blame
from gitshadow.store.journal.blame import WHOLE_COMMIT, ClaimRow
from gitshadow.store.journal.db import Db
from gitshadow.store.repo import Repo

OLDER = "from before recording, or not made here; author from git blame"
NAMED = "its commit names {agent}, but not which lines it wrote"
CLAIMED = "{source} claims that {agent} wrote it; this was not recorded here"
CHECKPOINT = (
    "its commit names checkpoint {session} of Entire, but not which lines it wrote"
)


class Foreign:
    """Find the recorded write behind a line of a commit in the journals of other machines."""

    def __init__(self, others: Others) -> None:
        self._others = others
        self._lines: dict[tuple[str, Oid, RepoPath], Mapping[int, Origin]] = {}
        self._machines: dict[int, tuple[PathChange, str]] = {}

    def event(self, origin: Origin) -> PathChange | None:
        """Return the recorded write that brought a line of a commit; None for none known."""
        return self._asked(origin, frozenset())

    def machine(self, event: PathChange) -> str | None:
        """Return where a write was recorded; None for here."""
        found = self._machines.get(id(event))
        return None if found is None else found[1]

    def _asked(self, origin: Origin, asked: frozenset[str]) -> PathChange | None:
        """Ask each machine once; what one has of another, as a commit too, is asked there."""
        owner = origin.owner
        if owner.source is not OriginSource.COMMIT or owner.commit is None:
            return None
        for machine in self._others.who_wrote(owner.path):
            # Two machines may name each other's commits, so each is asked once per line.
            if machine in asked:
                continue
            theirs = self._of(machine, owner.commit, owner.path).get(origin.line)
            if theirs is None:
                continue
            if (
                theirs.owner.source is OriginSource.EVENT
                and theirs.owner.event is not None
            ):
                event = theirs.owner.event
                # The event is kept, so that its id stays its own.
                self._machines[id(event)] = event, machine
                return event
            found = self._asked(theirs, asked | {machine})
            if found is not None:
                return found
        return None

    def _of(self, machine: str, commit: Oid, path: RepoPath) -> Mapping[int, Origin]:
        key = machine, commit, path
        if key not in self._lines:
            context = self._others.context(machine)
            try:
                vector = (
                    Blaming(context, BlameQuery(path=path, commit=commit))
                    .answer()
                    .vector
                )
            except (StoreError, UsageError):
                vector = []
            self._lines[key] = dict(enumerate(vector, 1))
        return self._lines[key]


@dataclass(frozen=True, slots=True, kw_only=True)
class Credit:
    """Store who is credited with lines, how sure that is and why.

    `agent`, `session`, `turn`, `call` and `tool` are those of a recorded write of which somebody
    at `medium` or better made; `session` also where it is a person's. `candidates` are sessions
    that may have made it. `event` is the recorded write, `commit` a commit of the user's,
    `claim` what somebody else says of a line of which we have no evidence. `machine` is where the
    write was recorded, None for here.
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
    event: PathChange | None = None
    commit: Oid | None = None
    claim: ClaimRow | None = None
    machine: str | None = None


BY_GIT = Credit(actor=Actor.HUMAN, confidence=Confidence.MEDIUM, reason=OLDER)
"""Lines of commits of which none names an agent, whichever commit that is."""


class Crediting:
    """Credit the origins of lines of one repository."""

    def __init__(self, repo: Repo, db: Db, elsewhere: Foreign) -> None:
        self._repo = repo
        self._db = db
        self._elsewhere = elsewhere
        self._named: dict[Oid, str | None] = {}
        self._claimed: frozenset[Oid] | None = None
        self._claims: dict[Oid, list[ClaimRow]] = {}
        self._known: dict[tuple[int, ClaimRow | None], tuple[Owner, Credit]] = {}
        self._fetched: dict[int, Credit] = {}

    def of(self, origin: Origin) -> Credit:
        """Return who is credited with a line; equal lines of one owner get one value."""
        owner = origin.owner
        # A recorded write of another machine is evidence; a claim is not.
        fetched = self._elsewhere.event(origin)
        if fetched is not None:
            return self._by_fetched(fetched)
        claim = self._claim_of(origin)
        key = id(owner), claim
        if key not in self._known:
            self._known[key] = owner, self._credit(owner, claim)
        return self._known[key][1]

    def claimed(self) -> frozenset[Oid]:
        """Return the commits of which somebody claims something."""
        if self._claimed is None:
            self._claimed = frozenset(blame.claimed_commits(self._db))
        return self._claimed

    def _credit(self, owner: Owner, claim: ClaimRow | None) -> Credit:
        if owner.source is OriginSource.EVENT and owner.event is not None:
            return by_event(owner.event)
        if claim is not None:
            return _by_claim(claim, owner.commit)
        if owner.source is OriginSource.COMMIT and owner.commit is not None:
            return self._by_commit(owner.commit)
        return _unknown(owner.note or "", owner.commit)

    def _by_fetched(self, event: PathChange) -> Credit:
        """Return who is credited with a write that another machine recorded."""
        if id(event) not in self._fetched:
            where = self._elsewhere.machine(event)
            self._fetched[id(event)] = replace(by_event(event), machine=where)
        return self._fetched[id(event)]

    def _claim_of(self, origin: Origin) -> ClaimRow | None:
        """Return what is claimed of a line that a commit brought: of the line, else of all."""
        owner, commit = origin.owner, origin.owner.commit
        if (
            commit is None
            or commit not in self.claimed()
            or owner.source is OriginSource.EVENT
        ):
            return None
        if commit not in self._claims:
            self._claims[commit] = blame.claims_of(self._db, commit)
        whole: ClaimRow | None = None
        for row in self._claims[commit]:
            # That a person wrote a line is no claim that changes the answer of Git.
            if row.actor is not Actor.AGENT:
                continue
            if row.path == WHOLE_COMMIT:
                # A claim about the line itself is more exact, so the search goes on.
                whole = whole or row
            elif row.path == owner.path and row.first <= origin.line <= row.last:
                return row
        return whole

    def _by_commit(self, commit: Oid) -> Credit:
        agent = self.agent_of(commit)
        if agent is not None:
            return _unknown(NAMED.format(agent=agent), commit)
        return Credit(
            actor=Actor.HUMAN, confidence=Confidence.MEDIUM, reason=OLDER, commit=commit
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


def _unknown(reason: str, commit: Oid | None) -> Credit:
    return Credit(
        actor=Actor.UNKNOWN,
        confidence=Confidence.UNKNOWN,
        reason=reason,
        commit=commit,
    )


def _by_claim(claim: ClaimRow, commit: Oid | None) -> Credit:
    """Return what a claim is worth: no more than the lowest rung, whatever its source."""
    if claim.path == WHOLE_COMMIT:
        reason = CHECKPOINT.format(session=claim.session)
        return replace(_unknown(reason, commit), claim=claim)
    who = claim.agent or "an agent"
    return Credit(
        actor=Actor.UNKNOWN,
        confidence=Confidence.LOW,
        reason=CLAIMED.format(
            source=claim.source, agent=f"{who} ({claim.model})" if claim.model else who
        ),
        commit=commit,
        claim=claim,
    )


def by_event(event: PathChange) -> Credit:
    """Return who is credited with a recorded write."""
    claim = event.attribution
    if claim.is_maybe:  # a gap is acceptable, a wrong author is not
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
