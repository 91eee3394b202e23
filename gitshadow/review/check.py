"""Collect facts about a change: whose lines it adds, which events made it, and what is open.

Invariant: after a barrier where there is a worktree; nothing is written. What is unknown is left
out: a fact is never a guess. If the old content was never recorded, no event counts as part of the
change, because older events would be counted too.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from itertools import groupby

from gitshadow.attribution.lifecycle import SILENCE_NS
from gitshadow.attribution.process import ProcessScan
from gitshadow.blame.classification import Credit, by_event
from gitshadow.model import (
    GITLINK_MODE,
    Actor,
    EventKind,
    FileVersion,
    Gap,
    Oid,
    PathChange,
    RepoPath,
    Session,
    Turn,
)
from gitshadow.recording.context import RecorderContext
from gitshadow.review.changes import Added, Additions, ChangeKind, ReviewedChange
from gitshadow.review.rules import (
    FileFacts,
    LineRun,
    LineWriter,
    OpenTurnFact,
    RecordingGap,
)
from gitshadow.store.git import TreeDelta
from gitshadow.store.journal import events, sessions, turns
from gitshadow.store.journal.events import EventFilter
from gitshadow.store.marks import ReviewMark, file_digest, line_digest
from gitshadow.undo.effective import Undone

_ASIDE = frozenset({EventKind.COVERAGE, EventKind.RESTORE, EventKind.BASELINE})
TOO_LARGE = "too large to check"
_NO_LINES = (0, 0)


def led_here(
    history: Sequence[PathChange],
    names: Collection[RepoPath],
    old: Oid | None,
    new: Oid | None,
    *,
    whole: bool,
) -> list[PathChange]:
    """Return the writes between two contents of a file, in order.

    Args:
        history: The events of one worktree about the file, oldest first.
        names: What the file was and is called.
        old: Its content before, None where there was no such file.
        new: Its content after.
        whole: Whether events up to the last one count where the new content was never
            recorded: it may be part of what was recorded.
    """
    rows = [row for row in history if row.path in names or row.old_path in names]
    after = [at for at, row in enumerate(rows) if _is(row.after, new)]
    if not after and not whole:
        return []
    # The same content may come several times; the last time leads to what is there now.
    end = after[-1] + 1 if after else len(rows)
    start: int | None = None
    for at, row in enumerate(rows[:end]):
        if _is(row.before, old) and row.path in names:
            start = at
        if _is(row.after, old) and at + 1 < end:
            start = at + 1
    if start is None:
        return []
    return [
        row for row in rows[start:end] if not row.switched and row.kind not in _ASIDE
    ]


def _is(version: FileVersion | None, oid: Oid | None) -> bool:
    return (None if version is None else version.oid) == oid


def own_sessions(context: RecorderContext, pid: int | None) -> frozenset[str]:
    """Return the sessions that a process may belong to, with all of their families."""
    known = sessions.all_sessions(context.workspace.db)
    live = [one for one in known if one.actor is Actor.AGENT and one.ended_ns is None]
    found = ProcessScan().sessions_of(pid, live) if pid is not None and live else ()
    parents = {one.id: one.parent for one in known}
    roots = {_root(one, parents) for one in found}
    return frozenset(one for one in parents if _root(one, parents) in roots)


def _root(session: str, parents: dict[str, str | None]) -> str:
    # A parent may be named wrongly in imported rows; the loop must end all the same.
    seen: set[str] = set()
    above = parents.get(session)
    while above is not None and session not in seen:
        seen.add(session)
        session, above = above, parents.get(above)
    return session


class Inspection:
    """Gather the facts of one change."""

    def __init__(
        self,
        context: RecorderContext,
        change: ReviewedChange,
        own: frozenset[str],
        marks: Sequence[ReviewMark],
    ) -> None:
        self._context = context
        self._ws = context.workspace
        self._change = change
        self._own = own
        self._additions = Additions(context, change)
        self._reviewed = {item.digest for mark in marks for item in mark.items}
        self._prompts: dict[tuple[str, str], str | None] = {}

    def files(self) -> list[FileFacts]:
        """Return the facts of each file, in the order of the change."""
        return [self._facts(one) for one in self._change.files if _is_file(one)]

    def _facts(self, one: TreeDelta) -> FileFacts:
        added = self._additions.to(one)
        history = self._history(one)
        led = self._led(one, history)
        runs = tuple(self._runs(one, added, history))
        touched = self._touched(led, runs)
        return FileFacts(
            path=one.path,
            runs=runs,
            touched=touched,
            turns=tuple(self._open_turns(one)),
            gaps=tuple(self._gaps(one, runs, touched)),
            reviewed=added is not None
            and file_digest(one.path, added.data) in self._reviewed,
            old_path=one.old_path if one.old_path != one.path else None,
        )

    def _runs(
        self, one: TreeDelta, added: Added | None, history: Sequence[PathChange]
    ) -> Iterator[LineRun]:
        if added is None:
            if one.new is not None:
                yield LineRun(_NO_LINES, LineWriter(Actor.UNKNOWN, TOO_LARGE))
        elif added.is_binary:
            if added.numbers:
                newest = max(
                    (added.credits[at - 1] for at in added.numbers), key=_newest
                )
                yield LineRun(_NO_LINES, self.writer(newest))
        else:
            yield from self._runs_of(one, added, history)

    def _runs_of(
        self, one: TreeDelta, added: Added, history: Sequence[PathChange]
    ) -> Iterator[LineRun]:
        taken = self._additions.taken_back(history, added)
        for numbers in added.stretches(added.numbers):
            kinds = [(self._kind(one, added, at), taken.get(at)) for at in numbers]
            for (kind, op), rows in groupby(
                zip(kinds, numbers, strict=True), key=lambda row: row[0]
            ):
                lines = [at for _, at in rows]
                yield LineRun((lines[0], lines[-1]), kind[0], kind[1], op)

    def _kind(self, one: TreeDelta, added: Added, at: int) -> tuple[LineWriter, bool]:
        credit = added.credits[at - 1]
        # A mark is of a line by its event, so it stays valid while the line moves in the file.
        key = line_key(credit, one.path, added.lines[at - 1])
        return self.writer(credit), key in self._reviewed

    def _history(self, one: TreeDelta) -> list[PathChange]:
        # A commit may have been made of work in another worktree; the index has only this one's.
        here = None if self._change.tip is not None else self._ws.layout.worktree
        return events.history(self._ws.db, here, (one.path, one.old_path), 0)

    def _led(self, one: TreeDelta, history: Sequence[PathChange]) -> list[PathChange]:
        by_worktree: dict[str, list[PathChange]] = defaultdict(list)
        for row in history:
            by_worktree[row.worktree].append(row)
        old = None if one.old is None else one.old[1]
        new = None if one.new is None else one.new[1]
        names = {one.path, one.old_path}
        # With `git add -p` the index has a content that was never on the disk, so no row has it.
        staged = self._change.kind is ChangeKind.STAGED
        found: list[PathChange] = []
        for rows in by_worktree.values():
            found += led_here(rows, names, old, new, whole=staged)
        return found

    def _touched(
        self, led: Sequence[PathChange], runs: Sequence[LineRun]
    ) -> tuple[LineWriter, ...]:
        # Writes count, too, whose lines are gone again: the agent has changed the file.
        writers = [self.writer(by_event(row)) for row in led]
        writers += [run.writer for run in runs]
        agents = {
            one.session: one for one in reversed(writers) if one.actor is Actor.AGENT
        }
        return tuple(sorted(agents.values(), key=lambda one: one.session or ""))

    def _open_turns(self, one: TreeDelta) -> Iterator[OpenTurnFact]:
        for session, turn in self._turns_of_others:
            if self._writes(session, turn, one):
                writer = self._writer_of(session, turn)
                yield OpenTurnFact(writer, turn.started_ns)

    @cached_property
    def _turns_of_others(self) -> list[tuple[Session, Turn]]:
        """Return the open turns of other sessions; one that reports nothing has expired."""
        # A turn that is open now says nothing about a commit that was made before.
        if self._change.kind is not ChangeKind.STAGED:
            return []
        now_ns = self._ws.clock.now_ns()
        found: list[tuple[Session, Turn]] = []
        for session in sessions.live(self._ws.db):
            if session.actor is not Actor.AGENT or session.id in self._own:
                continue
            turn = turns.open_turn_of(self._ws.db, session.id)
            heard_ns = session.last_seen_ns or session.started_ns
            at_work = bool(turns.open_calls(self._ws.db, session.id))
            if turn is not None and (at_work or now_ns - heard_ns <= SILENCE_NS):
                found.append((session, turn))
        return found

    def _writes(self, session: Session, turn: Turn, one: TreeDelta) -> bool:
        names, here = {one.path, one.old_path}, self._ws.layout.worktree
        for call in turns.open_calls(self._ws.db, session.id):
            if call.worktree == here and names.intersection(call.paths):
                return True
        wanted = EventFilter(
            sessions=(session.id,),
            turn=turn.id,
            paths=tuple(names),
            worktree=here,
        )
        rows = events.changes(self._ws.db, wanted)
        return any(
            (row.path in names or row.old_path in names)
            and row.kind is not EventKind.RESTORE
            and by_event(row).actor is Actor.AGENT
            and self._undone.by(row) is None
            for row in rows
        )

    @cached_property
    def _undone(self) -> Undone:
        return Undone(self._ws.db, self._ws.layout.worktree)

    def _gaps(
        self, one: TreeDelta, runs: Sequence[LineRun], touched: Sequence[LineWriter]
    ) -> Iterator[RecordingGap]:
        for row in self._gap_rows:
            if row.path is not None and row.path in (one.path, one.old_path):
                yield RecordingGap(row.seq, row.note or "not recorded")
            # A gap without a path may hide any write of a session that was at work then.
            if row.path is None:
                for who in touched:
                    if who.session is not None and self._ran_at(who.session, row.ts_ns):
                        yield RecordingGap(row.seq, row.note or "not recorded", who)

    @cached_property
    def _gap_rows(self) -> list[Gap]:
        wanted = EventFilter(kinds=(EventKind.GAP,), since_ns=self._change.base_ns)
        rows = events.rows(self._ws.db, wanted)
        return [row for row in rows if isinstance(row, Gap)]

    def _ran_at(self, session_id: str, moment_ns: int) -> bool:
        session = sessions.get(self._ws.db, session_id)
        if session is None or moment_ns < session.started_ns:
            return False
        return session.ended_ns is None or moment_ns <= session.ended_ns

    def writer(self, credit: Credit) -> LineWriter:
        """Return the author of a credit, with the prompt."""
        prompt = None
        if credit.session is not None and credit.turn is not None:
            prompt = self._prompt(credit.session, credit.turn)
        return LineWriter(
            actor=credit.actor,
            reason=credit.reason,
            agent=credit.agent,
            session=credit.session,
            turn=credit.turn,
            prompt=prompt,
            candidates=tuple(credit.candidates),
        )

    def _writer_of(self, session: Session, turn: Turn) -> LineWriter:
        return LineWriter(
            actor=session.actor,
            agent=session.agent,
            session=session.id,
            turn=turn.id,
            prompt=turn.prompt,
        )

    def _prompt(self, session: str, turn: str) -> str | None:
        key = session, turn
        if key not in self._prompts:
            found = turns.get_turn(self._ws.db, session, turn)
            self._prompts[key] = None if found is None else found.prompt
        return self._prompts[key]


def line_key(credit: Credit, path: RepoPath, text: bytes) -> bytes:
    """Return the digest under which a line is marked as reviewed."""
    event = credit.event
    if event is None:
        return line_digest(None, path, text)
    return line_digest((event.attribution.session, event.seq), path, text)


def _newest(credit: Credit) -> int:
    return credit.event.seq if credit.event is not None else 0


def _is_file(one: TreeDelta) -> bool:
    ends = [end for end in (one.old, one.new) if end is not None]
    return any(end[0] != GITLINK_MODE for end in ends)
