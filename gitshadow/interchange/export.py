"""What is exported: commits with their files and the lines of each writer, or whole sessions.

Invariant: only lines whose owner is known are given away; what a format cannot name is named.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from gitshadow.blame.classification import Credit
from gitshadow.blame.line_owners import Owning
from gitshadow.blame.line_sets import Part, Portion, Portions
from gitshadow.blame.scope import LineScope, ScopeKind, named_range
from gitshadow.interchange.claims import FileSpans, SpanWriter, runs
from gitshadow.model import Actor, Oid
from gitshadow.query.resolve import session_of
from gitshadow.query.rows import rfc3339
from gitshadow.recording.context import RecorderContext
from gitshadow.store.journal import sessions

Seqs = Collection[int]
"""Numbers of events."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """Store what is to be exported: sessions (none: all) and commits.

    `commits` is None where no range was named: what was committed since recording began.
    """

    sessions: frozenset[str]
    commits: tuple[Oid, ...] | None


@dataclass(frozen=True, slots=True)
class CommitChange:
    """Store what one commit brought (None: what is not committed), and when that was written."""

    commit: Oid | None
    ts_ns: int
    files: Sequence[FileSpans]

    @property
    def timestamp(self) -> str:
        """Return the time as documents have it."""
        return rfc3339(self.ts_ns) or ""


def chosen(context: RecorderContext, words: Iterable[str]) -> Chosen:
    """Return what the words name: sessions by id, commits by revision or range.

    Raises:
        UsageError: a word names neither.
    """
    ws = context.workspace
    found: set[str] = set()
    commits: dict[Oid, None] = {}
    ranges = False
    for word in words:
        known = sessions.by_prefix(ws.db, word)
        scope = None if known else named_range(context, word)
        if scope is None:
            found.add(session_of(ws.db, word).id)
        else:
            ranges = True
            commits.update(dict.fromkeys(_commits(context, scope)))
    return Chosen(frozenset(found), tuple(commits) if ranges else None)


def _commits(context: RecorderContext, scope: LineScope) -> list[Oid]:
    if scope.commit is None:
        return []
    if scope.kind is ScopeKind.ADDED:
        return [scope.commit]
    return context.workspace.git.commits_between(scope.base, scope.commit)


class Exporting:
    """Find the lines of writers, commit by commit."""

    def __init__(self, context: RecorderContext, wanted: Chosen) -> None:
        self._ws = context.workspace
        self._wanted = wanted
        self._owning = Owning(context)
        self._portions = Portions(context, self._owning)

    def commits(self) -> Iterator[tuple[Oid, CommitChange]]:
        """Yield each commit that brought a line of a known author, oldest first."""
        for commit in self._listed():
            info = self._ws.repo.commit(commit)
            person = info.author.decode("utf-8", "replace")
            parts = self._portions.added_by(commit, ())
            files = list(self._files(parts, person))
            if files:
                ts_ns = info.author_time * 1_000_000_000
                yield commit, CommitChange(commit, ts_ns, files)

    def uncommitted(self) -> CommitChange | None:
        """Return what is not committed yet; None for nothing, or where commits were named."""
        if self._wanted.commits is not None:
            return None
        newest = 0
        files: list[FileSpans] = []
        for part in self._portions.uncommitted():
            files += self._files([part], "")
            if isinstance(part, Portion):
                events = [credit.event for credit in part.owned.credits]
                newest = max([newest, *(e.ts_ns for e in events if e is not None)])
        return CommitChange(None, newest, files) if files else None

    def seqs(self) -> Seqs:
        """Return the events of which a line stands in the named commits."""
        found: set[int] = set()
        for commit in self._listed():
            for part in self._portions.added_by(commit, ()):
                if isinstance(part, Portion):
                    credits = (part.owned.credits[line - 1] for line in part.lines)
                    found.update(c.event.seq for c in credits if c.event is not None)
        return found

    def _listed(self) -> Sequence[Oid]:
        if self._wanted.commits is not None:
            return self._wanted.commits
        head = self._ws.repo.head()[1]
        if head is None:
            return ()
        return self._ws.git.commits_between(self._owning.recorded_since(), head)

    def _files(
        self, parts: Iterator[Part] | Sequence[Part], person: str
    ) -> Iterator[FileSpans]:
        for part in parts:
            if not isinstance(part, Portion):
                continue
            found: dict[SpanWriter, list[int]] = {}
            for line in part.lines:
                writer = self._writer(part.owned.credits[line - 1], person)
                if writer is not None:
                    found.setdefault(writer, []).append(line)
            if found:
                spans = [(writer, runs(lines)) for writer, lines in found.items()]
                yield FileSpans(part.owned.path, part.owned.data, spans)

    def _writer(self, credit: Credit, person: str) -> SpanWriter | None:
        """Return who is to be named for a line: an agent, or a person who was there."""
        event, session = credit.event, credit.session
        if event is None or session is None or credit.actor is Actor.UNKNOWN:
            return None
        if self._wanted.sessions and session not in self._wanted.sessions:
            return None
        if credit.actor is Actor.HUMAN:
            return SpanWriter(person=person)
        known = sessions.get(self._ws.db, session)
        return SpanWriter(
            agent=credit.agent,
            session=session,
            native=known.native_id if known is not None else session,
            model=sessions.model_at(self._ws.db, session, event.ts_ns),
            part=credit.call or credit.turn,
            confidence=credit.confidence.value,
            person=person,
        )
