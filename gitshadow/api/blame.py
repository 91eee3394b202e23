"""blame, stats: who wrote each line of a file, and how many lines are whose."""

import base64
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

from gitshadow.blame.classification import Credit, Crediting, Foreign, by_event
from gitshadow.blame.file_blame import Blamed, BlameQuery, Blaming
from gitshadow.blame.line_owners import Owning
from gitshadow.blame.line_sets import Portions, Shares, Skipped
from gitshadow.blame.owners import Origin, OriginSource, Owner, split_lines
from gitshadow.blame.replay import Removal
from gitshadow.blame.scope import lines_named, scope_of
from gitshadow.errors import StoreError, UsageError
from gitshadow.messages.blame import (
    AgentShare,
    BlameAnswer,
    BlameRequest,
    ClaimedBy,
    ClaimShare,
    ClassShare,
    ModelShare,
    OwnerRow,
    RemovedLine,
    ScopeRow,
    SessionShare,
    SkippedFile,
    StatsAnswer,
    StatsRequest,
    UnknownShare,
)
from gitshadow.model import Actor, PathChange
from gitshadow.query.moments import moment_of, version_at
from gitshadow.query.params import typed_path
from gitshadow.query.rows import rfc3339
from gitshadow.recording.context import RecorderContext
from gitshadow.review.check import line_key
from gitshadow.store import marks
from gitshadow.store.journal import sessions, turns
from gitshadow.store.journal.db import Db
from gitshadow.store.objects import OUR_EMAIL, OUR_NAME, CommitInfo
from gitshadow.store.refs import display_path


def blame(context: RecorderContext, request: BlameRequest) -> BlameAnswer:
    """Return content, owners and the origin of each line of a file."""
    context.observer.settle()
    wish = _wish(context, request)
    blamed = Blaming(context, wish).answer()
    chosen = lines_named(context, wish.path, blamed.data, request.ranges, wish.commit)
    described = _Owners(context, blamed, facts=request.facts)
    origins = [(number, blamed.vector[number - 1]) for number in chosen]
    lines = tuple((number, described.index(one), one.line) for number, one in origins)
    removed = tuple(described.removal(one) for one in blamed.removals if _foreign(one))
    unreviewed: tuple[int, ...] = ()
    if request.unreviewed:
        known = marks.list_marks(context.workspace.repo)
        reviewed = {item.digest for mark in known for item in mark.items}
        texts = split_lines(blamed.data)
        unreviewed = tuple(
            number
            for number, one in origins
            if (credit := described.credit(one)).actor is Actor.AGENT
            and line_key(credit, wish.path, texts[number - 1]) not in reviewed
        )
    return BlameAnswer(
        path=display_path(wish.path),
        content_base64=base64.b64encode(blamed.data).decode("ascii"),
        lines=lines,
        owners=tuple(described.rows),
        removed=removed,
        no_commit=context.workspace.repo.format.null,
        unreviewed=unreviewed,
    )


def _wish(context: RecorderContext, request: BlameRequest) -> BlameQuery:
    ws = context.workspace
    path = typed_path(ws.layout, request.cwd, request.path)
    at, rev = request.at, request.commit
    if at is not None and rev is not None:
        raise UsageError("cannot use both a time and a commit")
    wish = BlameQuery(
        path=path,
        ignore_space=request.ignore_space,
        copies=request.copies,
        removed=request.removed,
    )
    if rev is not None:
        commit = ws.repo.resolve(rev)
        if commit is None:
            raise UsageError(f"cannot find commit {rev}", hint="git log")
        return replace(wish, commit=commit)
    if at is None or at == "now":
        return wish
    moment = moment_of(context, at)
    content = version_at(context, path, moment)
    if content is None:
        name = display_path(path) or "."
        raise UsageError(
            f"cannot find {name} at that time",
            hint=f"git agent-undo log -- {shlex.quote(name)}",
        )
    return replace(wish, seq=moment.seq, content=content)


def _foreign(one: Removal) -> bool:
    """Return whether somebody else removed a recorded line."""
    theirs, ours = one.origin.owner.event, one.event.attribution
    if theirs is None or one.origin.owner.source is not OriginSource.EVENT:
        return False
    return theirs.attribution.session != ours.session


class _Owners:
    """Describe owners as rows, each once."""

    def __init__(
        self, context: RecorderContext, blamed: Blamed, *, facts: bool
    ) -> None:
        self._ws = context.workspace
        self._others = context.others
        self._crediting = Crediting(self._ws.repo, self._ws.db, Foreign(context.others))
        self._blamed = blamed
        self._facts = facts
        self._at: dict[tuple[int, int], int] = {}
        self.rows: list[OwnerRow] = []

    def index(self, origin: Origin) -> int:
        """Return the number of the row of a line's owner; make the row if it is new."""
        # Owners are shared by many lines. By identity: to compare their contents per line would
        # cost more than the rest of the answer.
        credit = self.credit(origin)
        key = id(origin.owner), id(credit)
        if key not in self._at:
            self._at[key] = len(self.rows)
            self.rows.append(self._row(origin.owner, credit))
        return self._at[key]

    def credit(self, origin: Origin) -> Credit:
        """Return who is credited with a line."""
        return self._crediting.of(origin)

    def removal(self, one: Removal) -> RemovedLine:
        """Describe a line that somebody removed: its author, and who removed it."""
        return RemovedLine(
            text=one.text.decode("utf-8", "backslashreplace"),
            owner=self.index(one.origin),
            by=self._credited(by_event(one.event)),
            seq=one.event.seq,
        )

    def _row(self, owner: Owner, credit: Credit) -> OwnerRow:
        row = self._credited(credit)._replace(
            source=owner.source.value, path=display_path(owner.path)
        )
        if credit.event is not None:
            return self._shadow(row, credit.event)
        return row if owner.commit is None else self._committed(row, owner)

    def _credited(self, credit: Credit) -> OwnerRow:
        event, claim = credit.event, credit.claim
        row = OwnerRow(
            actor=credit.actor.value,
            confidence=credit.confidence.value,
            reason=credit.reason,
            seq=None if event is None else event.seq,
            ts=None if event is None else rfc3339(event.ts_ns),
            machine=credit.machine,
            candidates=tuple(credit.candidates),
            claimed=None
            if claim is None
            else ClaimedBy(claim.source, claim.agent, claim.model, claim.session),
        )
        if credit.session is None:
            return row
        return row._replace(
            agent=credit.agent,
            session=credit.session,
            turn=credit.turn,
            call=credit.call,
            tool=credit.tool,
            prompt=self._prompt(credit),
        )

    def _prompt(self, credit: Credit) -> str | None:
        if credit.session is None or credit.turn is None:
            return None
        db = self._ws.db
        if credit.machine is not None:
            db = self._others.context(credit.machine).workspace.db
        found = turns.get_turn(db, credit.session, credit.turn)
        return found.prompt if found is not None else None

    def _shadow(self, row: OwnerRow, event: PathChange) -> OwnerRow:
        """Add the commit of an event and, if asked, what Git's porcelain prints of it."""
        row = row._replace(commit=event.commit)
        if not self._facts:
            return row
        try:
            info = self._ws.repo.commit(event.commit)
        except StoreError:
            return row
        row = row._replace(git=_facts(info))
        if info.parents and event.before is not None:
            old = display_path(event.path_before)
            row = row._replace(previous=(info.parents[0], old))
        return row

    def _committed(self, row: OwnerRow, owner: Owner) -> OwnerRow:
        row = row._replace(commit=owner.commit)
        said = self._blamed.ground.said(owner)
        if said is None:
            return row
        words = {
            key: value.decode("utf-8", "backslashreplace")
            for key, value in said.facts.words.items()
        }
        row = row._replace(git=words, author=words.get("author"))
        time = words.get("author-time", "")
        if time.isdigit():
            row = row._replace(ts=rfc3339(int(time) * 1_000_000_000))
        if said.previous is not None:
            commit, path = said.previous
            row = row._replace(previous=(commit, display_path(path)))
        return row


def _facts(info: CommitInfo) -> dict[str, str]:
    """Return the facts of one of our commits under the keys of git-blame(1)."""
    name, _, mail = info.author.rpartition(b" ")
    return {
        "author": name.decode("utf-8", "backslashreplace"),
        "author-mail": mail.decode("utf-8", "backslashreplace"),
        "author-time": str(info.author_time),
        "author-tz": "+0000",
        "committer": OUR_NAME.decode(),
        "committer-mail": f"<{OUR_EMAIL.decode()}>",
        "committer-time": str(info.committer_time),
        "committer-tz": "+0000",
        "summary": info.message.split(b"\n", 1)[0].decode("utf-8", "backslashreplace"),
    }


_T = TypeVar("_T")


def stats(context: RecorderContext, request: StatsRequest) -> StatsAnswer:
    """Return the shares of agents, models, sessions, people and unknown authors."""
    context.observer.settle()
    scope = scope_of(context, request)
    db = context.workspace.db
    shares = Shares(model_of=lambda event: _model(db, event))
    skipped: list[SkippedFile] = []
    for part in scope.parts(Portions(context, Owning(context))):
        if isinstance(part, Skipped):
            skipped.append(SkippedFile(display_path(part.path), part.why))
        else:
            shares.add(part)
    return StatsAnswer(
        scope=ScopeRow(scope.kind.value, scope.commit, scope.base),
        lines=shares.lines,
        files=shares.files,
        classes=tuple(
            ClassShare(actor.value, *_part(shares.classes[actor], shares))
            for actor in Actor
        ),
        agents=tuple(_agents(shares)),
        sessions=tuple(_sessions(db, shares)),
        unknown=tuple(
            UnknownShare(reason, *_part(lines, shares))
            for reason, lines in _ranked(shares.unknown)
        ),
        claimed=tuple(
            ClaimShare(*claim, *_part(lines, shares))
            for claim, lines in _ranked(shares.claimed)
        ),
        not_by_line=tuple(skipped),
    )


def _model(db: Db, event: PathChange) -> str | None:
    return sessions.model_at(db, event.attribution.session, event.ts_ns)


def _part(lines: int, shares: Shares) -> tuple[int, float]:
    """Return a number of lines with its share of all lines."""
    return lines, round(lines / shares.lines, 4) if shares.lines else 0.0


def _agents(shares: Shares) -> Iterator[AgentShare]:
    """Yield agents, each with its models."""
    agents: Counter[str] = Counter()
    by_model: dict[str, Counter[str | None]] = {}
    for writer, lines in shares.writers.items():
        agents[writer.agent] += lines
        by_model.setdefault(writer.agent, Counter())[writer.model] += lines
    for agent, lines in _ranked(agents):
        found = tuple(
            ModelShare(model, *_part(count, shares))
            for model, count in _ranked(by_model[agent])
        )
        yield AgentShare(agent, *_part(lines, shares), found)


def _sessions(db: Db, shares: Shares) -> Iterator[SessionShare]:
    """Yield sessions, those with most lines first, with their first prompt."""
    found: Counter[tuple[str, str]] = Counter()
    for writer, lines in shares.writers.items():
        found[writer.session, writer.agent] += lines
    for (session, agent), lines in _ranked(found):
        prompt = turns.first_prompt(db, session)
        yield SessionShare(session, agent, *_part(lines, shares), prompt)


def _ranked(counts: Mapping[_T, int]) -> list[tuple[_T, int]]:
    return sorted(counts.items(), key=lambda one: (-one[1], str(one[0])))
