"""Rows from commits: what one commit of a chain says happened, and whom and what it names.

The rows are a pure function of the commit, its diff and the modes before it: equal commits give
equal rows. Sessions, turns, calls, bursts and ops that the journal knows already keep what only the
journal knows (ends, prompts, pids).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from gitshadow.errors import StoreError
from gitshadow.model import (
    PLAIN_MODES,
    Actor,
    Attribution,
    Baseline,
    Burst,
    Call,
    CommitEvent,
    Confidence,
    Event,
    EventKind,
    FileVersion,
    HeadChange,
    Oid,
    Op,
    OpStatus,
    PathChange,
    RepoPath,
    Session,
    ToolClass,
    Turn,
    git_mode,
    has_hidden_mode,
    micro,
)
from gitshadow.store import refs
from gitshadow.store.journal import bursts, corrections, ops, sessions, turns
from gitshadow.store.journal.corrections import Correction
from gitshadow.store.journal.db import Db
from gitshadow.store.journal.switches import kind_of, recorded
from gitshadow.store.refs import ShadowCommit, parse_rows
from gitshadow.store.trees import Entry, TreeChange

BASELINE_REASON = "first snapshot of the session"
ROW_KINDS = frozenset({"write", "restore", "head", "coverage"})
_FIXED = {"restore": EventKind.RESTORE, "coverage": EventKind.COVERAGE}


@dataclass(slots=True)
class KnownModes:
    """The exact mode of every path of one worktree; stored only if it is not plain.

    All chains of the worktree share it: what one session chmods, the next one finds.
    """

    plain: tuple[int, int] = PLAIN_MODES
    odd: dict[RepoPath, int] = field(default_factory=dict)

    def of(self, path: RepoPath, entry: Entry) -> int:
        """Return the exact mode of what a tree has at a path."""
        # A Git tree knows 100644 and 100755 only. A known mode that does not fit the entry is
        # older.
        known = self.odd.get(path)
        # The tree decides: another chain may have changed the mode in between.
        if known is not None and git_mode(known) == entry[0]:
            return known
        return refs.exact_mode(entry[0], self.plain)

    def root(self, commit: ShadowCommit) -> None:
        """Start at a baseline, which names every path that is not plain."""
        self.plain = commit.modes or PLAIN_MODES
        self.odd = {note.path: note.mode for note in commit.paths}

    def note(self, path: RepoPath, mode: int | None) -> None:
        """Store one path's new mode; None if the path is gone."""
        plain = None if mode is None else refs.exact_mode(git_mode(mode), self.plain)
        if mode is None or mode == plain:
            self.odd.pop(path, None)
        else:
            self.odd[path] = mode


@dataclass(slots=True)
class ChainModes:
    """The modes along one chain: its own plain modes, and its worktree's exact ones."""

    known: KnownModes = field(default_factory=KnownModes)
    plain: tuple[int, int] = PLAIN_MODES

    def take(self, commit: ShadowCommit, changes: Iterable[TreeChange]) -> None:
        """Move on to the state after a commit."""
        if commit.kind == "baseline":
            self.plain = commit.modes or PLAIN_MODES
            self.known.root(commit)
            return
        noted = {note.path: note.mode for note in commit.paths}
        for change in changes:
            mode = change.new and refs.exact_mode(change.new[0], self.plain)
            self.known.note(change.path, noted.pop(change.path, mode))
        # A path with a note and without a change in the tree got a mode that Git does not store.
        for path, mode in noted.items():
            self.known.note(path, mode)


class CommitContext(NamedTuple):
    """What rows need besides a commit's message.

    `changes` is its diff to the parent; `entry_of` returns what its tree has at a path; `modes` are
    those before it.
    """

    commit: Oid
    changes: Sequence[TreeChange]
    entry_of: Callable[[RepoPath], Entry | None]
    modes: ChainModes
    actor: Actor


class RowedChange(NamedTuple):
    """Store one change of a commit that is to be a row."""

    path: RepoPath
    old_path: RepoPath | None
    before: FileVersion | None
    after: FileVersion | None


def rows_of(message: ShadowCommit, scene: CommitContext) -> list[CommitEvent]:
    """Return the rows of a commit, in order of seq.

    Raises:
        StoreError: its sequence numbers do not fit its changes.
    """
    if message.seqs is None:
        return []
    if message.kind == "baseline":
        return [baseline_row(message, scene.actor, scene.commit)]
    # Syncs, pins and corrections have no rows: what they contain was written elsewhere.
    if message.kind not in ROW_KINDS:
        return []
    who, changed = author_of(message, scene.actor), list(_changes(message, scene))
    listed, modes = changed, scene.modes.plain
    is_head = message.kind == "head"
    if is_head:
        # What Git switched at other paths is in the trees, with its modes.
        listed = [
            one
            for one in changed
            if one.old_path is not None or has_hidden_mode(one.before, one.after, modes)
        ]
    # A tree or a message that was damaged is noticed instead of shifting all later rows.
    (first, last), numbered = message.seqs, len(listed) + is_head
    if numbered != last - first + 1 or message.files not in (None, len(changed)):
        raise StoreError(
            f"cannot replay commit {scene.commit}: {numbered} rows do not fit"
            f" {first}-{last}"
        )
    said = replace(message, files=len(changed))
    return change_rows(said, who, scene.commit, listed, modes)


def change_rows(
    message: ShadowCommit,
    who: Attribution,
    commit: Oid,
    listed: Iterable[RowedChange],
    modes: tuple[int, int],
) -> list[CommitEvent]:
    """Return the rows of a commit that says how many files it changed, in order of seq.

    `listed` are the changes that get rows, `modes` what 100644 and 100755 stand for.
    """
    first = message.seqs[0] if message.seqs else 0
    rows: list[CommitEvent] = []
    if message.kind == "head":
        where = (first, message.time_ns, message.worktree)
        files, used = message.files or 0, modes if message.files else PLAIN_MODES
        rows.append(HeadChange(*where, who, commit, message.note, files, used))
    for seq, one in enumerate(listed, first + len(rows)):
        change = PathChange(
            seq=seq,
            ts_ns=message.time_ns,
            worktree=message.worktree,
            kind=_kind(message, one),
            path=one.path,
            attribution=who,
            commit=commit,
            old_path=one.old_path,
            before=one.before,
            after=one.after,
            burst=message.burst,
            op=message.op,
            offline="offline" in message.flags,
            switched="switched" in message.flags,
            moved_in="moved_in" in message.flags,
            inexact="inexact" in message.flags,
        )
        rows.append(change)
    return rows


def author_of(message: ShadowCommit, actor: Actor) -> Attribution:
    """Return who wrote the rows of a commit, as the commit says."""
    return Attribution(
        actor=actor,
        session=message.session or "",
        agent=message.agent,
        turn=message.turn,
        call=message.call,
        tool=message.tool,
        confidence=message.confidence or Confidence.UNKNOWN,
        reason=message.reason or "",
        candidates=message.candidates,
    )


def _changes(message: ShadowCommit, scene: CommitContext) -> Iterator[RowedChange]:
    """Yield what the commit changed, by path bytes, renames as one."""
    modes = scene.modes
    notes = {note.path: note for note in message.paths}
    moved = {note.old_path for note in message.paths if note.old_path is not None}
    diff = {path: (recorded(old), recorded(new)) for path, old, new in scene.changes}
    # The recorder numbers rows by path bytes, so the same order gives the same numbers.
    for path in sorted(diff.keys() | notes.keys()):
        note, (old, new) = notes.get(path), diff.get(path, (None, None))
        # A note without a difference in the tree: the exact mode changed, but Git's mode did not.
        if path not in diff:
            old = new = scene.entry_of(path)
        # The old path of a rename has no row of its own.
        if (path in moved and new is None) or (old is None and new is None):
            continue
        source = path
        if note is not None and note.old_path is not None:
            source = note.old_path
            old = diff.get(source, (None, None))[0]
        after = new and (note.mode if note else refs.exact_mode(new[0], modes.plain))
        yield RowedChange(
            path=path,
            old_path=note.old_path if note else None,
            before=old and FileVersion(old[1], modes.known.of(source, old)),
            after=FileVersion(new[1], after) if new and after else None,
        )


def _kind(message: ShadowCommit, one: RowedChange) -> EventKind:
    if message.kind in _FIXED:
        return _FIXED[message.kind]
    if one.old_path is not None:
        return EventKind.RENAME
    return kind_of(one.before, one.after)


def baseline_row(message: ShadowCommit, actor: Actor, commit: Oid) -> Baseline:
    """Return the row of a baseline."""
    who = Attribution(
        actor=actor,
        session=message.session or "",
        agent=message.agent,
        confidence=Confidence.CERTAIN,
        reason=BASELINE_REASON,
    )
    seq = message.seqs[0] if message.seqs else 0
    return Baseline(seq, micro(message.time_ns), message.worktree, who, commit)


class People:
    """What replayed commits name: sessions, turns, calls, bursts, ops.

    `store` writes those that grow over several commits.
    """

    def __init__(self, db: Db, *, resumed: bool) -> None:
        """Begin with what the journal knows.

        Args:
            db: The journal.
            resumed: Whether it goes on from here, so that unknown turns and bursts stay open.
        """
        self._db = db
        self._resumed = resumed
        self._actors: dict[str, Actor] = {}
        self._turns: dict[tuple[str, str], Turn] = {}
        self._calls: set[tuple[str, str]] = set()
        self._bursts: dict[str, Burst] = {}
        self._ordinals: dict[tuple[str, str], int] = {}

    def actor(self, message: ShadowCommit) -> Actor:
        """Return the class of actor of a commit's session."""
        session = message.session or ""
        if session not in self._actors:
            known = sessions.get(self._db, session)
            self._actors[session] = known.actor if known else _actor(message)
        return self._actors[session]

    def take(self, message: ShadowCommit, rows: Sequence[Event]) -> None:
        """Add what a commit with these rows names."""
        session = message.session
        if session is None or not rows:
            return
        if message.kind == "baseline":
            # Hooks may have written more of the session to the journal than its baseline has.
            if sessions.get(self._db, session) is None:
                sessions.put(self._db, _session(message, session, self.actor(message)))
            return
        self._take_named(message, session, (rows[0].seq, rows[-1].seq))

    def take_op(self, message: ShadowCommit, commit: Oid) -> None:
        """Store the op of a restore, unless the journal has it."""
        if message.op is None or message.op_kind is None or message.session is None:
            return
        # An op that is still `applying` is finished by the undo itself, which knows its steps.
        if ops.get(self._db, message.op) is not None:
            return
        op = Op(
            id=message.op,
            kind=message.op_kind,
            ts_ns=message.time_ns,
            worktree=message.worktree,
            session=message.session,
            target=message.target or "",
            undoes=message.undoes,
            status=OpStatus.DONE,
            token=message.token or "",
            commit=commit,
        )
        ops.put(self._db, op)

    def correct(self, message: ShadowCommit) -> int:
        """Change the authors of rows as a correction says; return its own number.

        Raises:
            StoreError: it names no author, or no rows.
        """
        runs = parse_rows(message.corrects)
        if (
            message.session is None
            or message.owner is None
            or not (runs and message.seqs)
        ):
            raise StoreError("cannot replay a correction: it names no rows")
        who = _owner(message, sessions.get(self._db, message.owner))
        self._take_named(message, message.owner, (runs[0][0], runs[-1][1]))
        self._flush()
        correction = Correction(message.session, runs, who, message.burst)
        corrections.apply(self._db, correction)
        return message.seqs[1]

    def restore(self, message: ShadowCommit, seqs: Sequence[int]) -> None:
        """Set the authors of rows to that of their commit."""
        session, burst = message.session or "", message.burst
        if burst is not None and bursts.get(self._db, burst) is None:
            key = (session, message.worktree)
            self._ordinals[key] = bursts.next_ordinal(self._db, *key, seqs[0])
            self._take_burst(message, session, burst, (seqs[0], seqs[-1]))
            self._flush()
        who = author_of(message, self.actor(message))
        corrections.restore(self._db, seqs, who, burst)

    def store(self) -> None:
        """Write turns and bursts; call it inside `db.write()`."""
        for turn in self._turns.values():
            turns.put_turn(self._db, turn)
        for burst in self._bursts.values():
            bursts.put(self._db, burst)

    def _flush(self) -> None:
        """Store turns and bursts, and forget bursts: the journal changes them next."""
        self.store()
        self._bursts.clear()
        self._ordinals.clear()

    def _take_named(
        self, message: ShadowCommit, session: str, seqs: tuple[int, int]
    ) -> None:
        if message.turn is not None and message.turn_ordinal is not None:
            self._take_turn(message, session, message.turn)
        if message.call is not None and message.tool_class is not None:
            self._take_call(message, session, message.call)
        if message.burst is not None:
            self._take_burst(message, session, message.burst, seqs)

    def _take_turn(self, message: ShadowCommit, session: str, turn: str) -> None:
        key = (session, turn)
        known = self._turns.get(key) or turns.get_turn(self._db, session, turn)
        if known is None:
            known = Turn(
                id=turn,
                session=session,
                ordinal=message.turn_ordinal or 0,
                started_ns=message.turn_started_ns or message.time_ns,
            )
        if known.prompt is None and message.prompt is not None:
            known = replace(known, prompt=message.prompt)
        # After a rebuild nobody knows when a turn ended, so it ends with its last write. In a
        # resumed journal its end is still to come.
        if not self._resumed:
            ended = max(known.ended_ns or known.started_ns, message.time_ns)
            known = replace(known, ended_ns=ended)
        self._turns[key] = known

    def _take_call(self, message: ShadowCommit, session: str, call: str) -> None:
        key = (session, call)
        if key in self._calls:
            return
        self._calls.add(key)
        # The row of the hook has the outcome and the end of the call, which no commit has.
        if turns.get_call(self._db, session, call) is not None:
            return
        opened = message.call_opened_ns or message.time_ns
        fresh = Call(
            id=call,
            session=session,
            turn=message.turn,
            tool=message.tool or "",
            tool_class=message.tool_class or ToolClass.OTHER,
            opened_ns=opened,
            closed_ns=max(opened, message.time_ns),
            worktree=message.worktree,
        )
        turns.open_call(self._db, fresh)

    def _take_burst(
        self,
        message: ShadowCommit,
        session: str,
        burst: str,
        seqs: tuple[int, int],
    ) -> None:
        (first, last), time_ns = seqs, message.time_ns
        known = self._bursts.get(burst) or bursts.get(self._db, burst)
        if known is None:
            known = Burst(
                id=burst,
                session=session,
                worktree=message.worktree,
                turn=message.turn,
                ordinal=self._next_ordinal(session, message.worktree),
                started_ns=time_ns,
                ended_ns=time_ns,
                first_seq=first,
                last_seq=last,
                open=self._resumed,
            )
        self._bursts[burst] = replace(
            known,
            started_ns=min(known.started_ns, time_ns),
            ended_ns=max(known.ended_ns, time_ns),
            first_seq=min(known.first_seq, first),
            last_seq=max(known.last_seq, last),
        )

    def _next_ordinal(self, session: str, worktree: str) -> int:
        key = (session, worktree)
        if key not in self._ordinals:
            self._ordinals[key] = bursts.next_ordinal(self._db, session, worktree)
        ordinal = self._ordinals[key]
        self._ordinals[key] += 1
        return ordinal


def _actor(message: ShadowCommit) -> Actor:
    """Return the actor of a baseline, or what can be inferred without one."""
    if message.actor is not None:
        return message.actor
    return Actor.UNKNOWN if message.agent is None else Actor.AGENT


def _owner(message: ShadowCommit, session: Session | None) -> Attribution:
    """Return the author that a correction names."""
    return replace(
        author_of(message, message.actor or Actor.UNKNOWN),
        session=message.owner or "",
        agent=session.agent if session is not None else None,
    )


def _session(message: ShadowCommit, session: str, actor: Actor) -> Session:
    return Session(
        id=session,
        native_id=message.native or "",
        actor=actor,
        agent=message.agent,
        parent=message.parent,
        started_ns=message.started_ns or message.time_ns,
    )
