"""The recorder: the only writer of snapshots.

Takes drafts with their attribution, publishes each write as a commit, then a row. One recorder per
worktree, used by one thread under the writer lock.
Invariant: objects, then ref, then one journal transaction with rows, states and the tree.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import groupby

from gitshadow.capture.commit_plan import (
    AttributedDraft,
    CommitStep,
    Frame,
    Group,
    correction_of,
    group_of,
    split_writes,
    step_of,
    switch_of,
)
from gitshadow.capture.drafts import Draft
from gitshadow.capture.publishing import Batch, LostObject, Publisher
from gitshadow.capture.states import StateTable
from gitshadow.errors import JournalError, StoreError
from gitshadow.model import (
    Attribution,
    Burst,
    Chain,
    CommitEvent,
    FileState,
    Gap,
    Oid,
    Op,
    PathChange,
    RepoPath,
    Session,
    Turn,
    micro,
)
from gitshadow.store.files import WorkFiles
from gitshadow.store.journal import bursts, corrections, events, sessions, state, turns
from gitshadow.store.journal.corrections import Correction
from gitshadow.store.journal.db import Db
from gitshadow.store.journal.state import WorktreeRow
from gitshadow.store.refs import parse_rows
from gitshadow.store.repo import Repo

# Five minutes: without turns, a longer pause separates two pieces of work.
DEFAULT_IDLE_GAP_NS = 300_000_000_000
# A prompt may have whole files pasted into it, and each goes into a commit message.
_MOST_OF_PROMPT = 1 << 16


class Recorder:
    """Write the snapshots of one worktree.

    `behind` is set if there may be commits without rows: catch up before the next;
    `tells_prompts` has the first commit of each burst say what its turn was asked.
    """

    def __init__(
        self,
        repo: Repo,
        files: WorkFiles,
        db: Db,
        row: WorktreeRow,
        states: StateTable,
        machine: str | None,
    ) -> None:
        self._repo = repo
        self._db = db
        self._row = row
        self._stored = row
        self._states = states
        self.idle_gap_ns = DEFAULT_IDLE_GAP_NS
        self.tells_prompts = False
        self._publisher = Publisher(repo, files, db, row.id, states, machine)
        self.behind = False

    @property
    def row(self) -> WorktreeRow:
        """Return the worktree's row as last written: its tree and HEAD."""
        return self._row

    @property
    def tree(self) -> Oid:
        """Return the tree that is the working tree as last recorded."""
        return self._row.tree or self._repo.write_tree(b"")

    @property
    def modes(self) -> tuple[int, int]:
        """Return the permissions that 100644 and 100755 stand for here."""
        return self._publisher.modes

    def record(self, claimed: Sequence[AttributedDraft]) -> list[CommitEvent]:
        """Publish ordinary writes; return their rows in order of seq.

        Raises:
            StoreError: nothing of a failing session's part was published, what the others wrote
                was; the caller journals a gap.
            JournalError: there may be commits without rows; catch-up adds them.
        """
        return self._publish([group_of(part) for part in split_writes(claimed)])

    def record_head(
        self,
        note: str,
        attribution: Attribution,
        switched: Sequence[Draft],
        now_ns: int,
        row: WorktreeRow | None = None,
        trees: tuple[Oid, Oid] | None = None,
    ) -> list[CommitEvent]:
        """Publish one move of HEAD with the paths that Git itself switched; it is one row.

        Args:
            note: What moved, in a sentence.
            attribution: Who moved it.
            switched: What Git switched.
            now_ns: When.
            row: The worktree's row with the new HEAD, stored together with the move.
            trees: Those of HEAD before and after, if Git switched all that differs.
        """
        group = switch_of(note, attribution, switched, self.modes)._replace(trees=trees)
        return self._publish([group], now_ns, row)

    def record_coverage(
        self, note: str, attribution: Attribution, drafts: Sequence[Draft]
    ) -> list[CommitEvent]:
        """Publish paths that enter or leave because coverage itself changed."""
        ordered = tuple(sorted(drafts, key=lambda draft: draft.path))
        return self._publish([Group("coverage", attribution, (), ordered, note)])

    def record_restore(
        self, op: Op, attribution: Attribution, drafts: Sequence[Draft]
    ) -> list[CommitEvent]:
        """Publish a restore as one commit on the chain of the session that ran it."""
        ordered = tuple(sorted(drafts, key=lambda draft: draft.path))
        return self._publish([Group("restore", attribution, (), ordered, None, op)])

    def correct(self, found: Mapping[PathChange, Attribution], now_ns: int) -> None:
        """Publish the corrected authors of some rows, on the chains that hold them.

        Args:
            found: Rows of ordinary writes, each with its new attribution.
            now_ns: When that was found out.

        Raises:
            StoreError: nothing of it was published.
            JournalError: there may be commits that the journal does not know; catch-up adds them.
        """
        parts: dict[tuple[str, Attribution, str | None], list[PathChange]] = {}
        for row in sorted(found, key=lambda row: row.seq):
            known, who = row.attribution, found[row]
            same = (known.session, known.turn) == (who.session, who.turn)
            chain = corrections.holder(self._db, row.seq, known.session)
            parts.setdefault((chain, who, row.burst if same else None), []).append(row)
        batch = Batch(self.tree, self._row)
        with self._noticing():
            for _, who, _ in parts:
                # The new author's chain needs a baseline first: `reindex` reads the session from
                # there.
                if self._publisher.chain(who.session, batch) is None:
                    session = self._session(who.session, batch)
                    self._publisher.append(session, [], batch)
            for (chain, who, kept), rows in parts.items():
                self._correct(chain, who, kept, rows, batch, now_ns)
            self._store(batch)

    def _correct(
        self,
        chain: str,
        who: Attribution,
        kept: str | None,
        rows: Sequence[PathChange],
        batch: Batch,
        now_ns: int,
    ) -> None:
        moment = max(row.ts_ns for row in rows)
        seqs = rows[0].seq, rows[-1].seq
        burst = (
            self._joined(who, moment, seqs, batch)
            if kept is None
            else bursts.get(self._db, kept)
        )
        seq = events.reserve(self._db, 1)
        step = correction_of(who, rows, self._frame(who, seq, burst, now_ns))
        self._publisher.append(self._session(chain, batch), [step], batch)
        runs = parse_rows(step.message.corrects)
        name = burst.id if burst is not None else None
        batch.corrections.append(Correction(chain, runs, who, name))

    def ensure_baseline(self, session: Session, *, synced: bool = False) -> Chain:
        """Return a session's chain, created if needed, so that its starting point is reachable.

        Where it has one, `synced` has that bring in the present.
        """
        chain = sessions.get_chain(self._db, session.id, self._row.id)
        if chain is not None and (chain.tree == self.tree or not synced):
            return chain
        batch = Batch(self.tree, self._row)
        with self._noticing():
            chain = self._publisher.append(session, [], batch)
            self._store(batch)
        return chain

    def publish_pin(self, name: str, ref: str, now_ns: int) -> Oid:
        """Publish the present as one commit on a ref of its own.

        Raises:
            StoreError: the ref exists or could not be written.
        """
        return self._publisher.pin(name, ref, Batch(self.tree, self._row), now_ns)

    def gap(self, note: str, now_ns: int, path: RepoPath | None = None) -> Gap:
        """Journal that capture is known to be incomplete."""
        seq = events.reserve(self._db, 1)
        row = Gap(seq, micro(now_ns), self._row.id, note, path)
        with self._db.write():
            events.insert(self._db, [row])
        return row

    def take_findings(self) -> list[LostObject]:
        """Return what publishing found to be gone since the last call: each is a gap."""
        found, self._publisher.findings = self._publisher.findings, []
        return found

    def restat(self, states: Mapping[RepoPath, FileState]) -> None:
        """Remember new stat fields of files whose bytes are the same."""
        if self._states.apart:
            self._states.remember(states, ())
        else:
            with self._states.consistent(), self._db.write():
                self._states.update(states, ())

    def set_tree(
        self, tree: Oid, head: Oid | None, head_ref: str | None, mark: str | None = None
    ) -> None:
        """Remember the working tree's tree and HEAD without a commit of ours.

        Without a `mark`, HEAD's reflog is read on from where it was.
        """
        mark = self._row.head_mark if mark is None else mark
        row = replace(
            self._row, tree=tree, head=head, head_ref=head_ref, head_mark=mark
        )
        with self._db.write():
            state.put_worktree(self._db, row, self._stored)
        self._row = self._stored = row

    def note_mark(self, mark: str) -> None:
        """Remember how far HEAD's reflog was read; it is stored with what comes next."""
        self._row = replace(self._row, head_mark=mark)

    def use_modes(self, modes: tuple[int, int]) -> None:
        """Set what 100644 and 100755 stand for in the chains of this worktree."""
        self._publisher.modes = modes

    def reset(self) -> None:
        """Forget the working tree's tree, so that it gets a new root."""
        self._row = WorktreeRow(id=self._row.id, path=self._row.path)

    def settled(self, walked_ns: int) -> None:
        """Remember that everything written before a moment has been recorded."""
        self._row = replace(self._row, walked_ns=walked_ns)
        if self._states.apart:
            return
        # The next process only knows less where this cannot be stored (a full disk).
        with suppress(JournalError):
            with self._db.write():
                state.put_worktree(self._db, self._row, self._stored)
            self._stored = self._row

    def _publish(
        self,
        groups: Sequence[Group],
        head_ns: int | None = None,
        row: WorktreeRow | None = None,
    ) -> list[CommitEvent]:
        if not groups:
            return []
        # A move of HEAD comes with its own row, so that both are stored or neither.
        row = row or self._row
        batch = Batch(row.tree or self.tree, row)
        with self._noticing():
            failure = self._append_all(groups, head_ns, batch)
            if failure is not None:  # what was published all the same gets its rows
                batch.row = self._row
            self._store(batch)
        if failure is not None:
            raise failure
        return batch.rows

    def _append_all(
        self, groups: Sequence[Group], head_ns: int | None, batch: Batch
    ) -> StoreError | None:
        """Publish groups; where one session's part fails, those of the others go on."""
        failed: dict[str, StoreError] = {}
        for name in dict.fromkeys(group.attribution.session for group in groups):
            if self._publisher.chain(name, batch) is None:
                self._try_append(name, [], batch, failed)
        # Numbers are reserved before commits are made: a crash leaves a hole, never a number twice.
        seq = events.reserve(self._db, sum(group.rows for group in groups))
        for name, run in groupby(groups, lambda group: group.attribution.session):
            # Bursts are extended while steps are planned; a failed append must not leave them
            # longer.
            known, ended = batch.bursts.copy(), batch.ended.copy()
            steps: list[CommitStep] = []
            for group in run:
                steps.append(self._step(group, seq, batch, head_ns))
                seq += group.rows
            self._try_append(name, steps, batch, failed)
            if name in failed:
                batch.bursts, batch.ended = known, ended
        return next(iter(failed.values()), None)

    def _try_append(
        self,
        name: str,
        steps: Sequence[CommitStep],
        batch: Batch,
        failed: dict[str, StoreError],
    ) -> None:
        if name in failed:
            return
        try:
            self._publisher.append(self._session(name, batch), steps, batch)
        except StoreError as error:
            failed[name] = error

    @contextmanager
    def _noticing(self) -> Iterator[None]:
        """Remember where the block fails: a ref may have moved that the journal knows not of."""
        try:
            yield
        except BaseException:
            # Any error may come after the ref moved and before its rows were stored.
            self.behind = True
            raise

    def _store(self, batch: Batch) -> None:
        row = replace(batch.row, tree=batch.tree)
        with self._states.consistent(), self._db.write():
            events.insert(self._db, batch.rows)
            for chain in batch.chains.values():
                sessions.put_chain(self._db, chain)
            for burst in (*batch.ended, *batch.bursts.values()):
                bursts.put(self._db, burst)
            for correction in batch.corrections:
                corrections.apply(self._db, correction)
            self._states.update(batch.put, batch.drop)
            state.put_worktree(self._db, row, self._stored)
        self._row = self._stored = row

    def _step(
        self, group: Group, seq: int, batch: Batch, head_ns: int | None
    ) -> CommitStep:
        burst = self._burst(group, seq, batch)
        return step_of(group, self._frame(group.attribution, seq, burst, head_ns))

    def _frame(
        self, who: Attribution, seq: int, burst: Burst | None, at_ns: int | None
    ) -> Frame:
        turn = turns.get_turn(self._db, who.session, who.turn) if who.turn else None
        return Frame(
            worktree=self._row.id,
            modes=self.modes,
            seq=seq,
            burst=burst,
            turn=turn,
            prompt=self._told(turn, burst, seq),
            call=turns.get_call(self._db, who.session, who.call) if who.call else None,
            head_ns=at_ns,
        )

    def _told(self, turn: Turn | None, burst: Burst | None, seq: int) -> str | None:
        """Return the prompt for the commit with a burst's first event."""
        begins = burst is not None and burst.first_seq == seq
        if turn is None or not turn.prompt or not begins or not self.tells_prompts:
            return None
        return turn.prompt[:_MOST_OF_PROMPT]

    def _burst(self, group: Group, seq: int, batch: Batch) -> Burst | None:
        """Return the burst that a group's events belong to, extended by them."""
        # Restores, coverage and moves of HEAD are no work that an undo of a burst may revert.
        if group.kind != "write":
            return None
        # The commit's own time: a burst's is rebuilt from its commits.
        moment = micro(max(draft.end_ns for draft in group.drafts))
        seqs = seq, seq + group.rows - 1
        return self._joined(group.attribution, moment, seqs, batch)

    def _joined(
        self, who: Attribution, moment: int, seqs: tuple[int, int], batch: Batch
    ) -> Burst:
        """Return the burst that rows of an author join, extended by them."""
        # Bursts of the batch are not in the journal yet, so they are looked up here first.
        key = (who.session, who.turn)
        known = batch.bursts.get(key)
        if known is not None and self._is_over(known, moment):
            batch.ended.append(replace(known, open=False))
            known = None
        if known is None:
            known = bursts.assign(
                self._db,
                session=who.session,
                worktree=self._row.id,
                turn=who.turn,
                idle_since_ns=moment - self.idle_gap_ns,
                pending=(*batch.ended, *batch.bursts.values()),
            )
        grown = replace(
            known,
            started_ns=min(known.started_ns or moment, moment),
            ended_ns=max(known.ended_ns, moment),
            first_seq=min(known.first_seq or seqs[0], seqs[0]),
            last_seq=max(known.last_seq, seqs[1]),
        )
        batch.bursts[key] = grown
        return grown

    def _is_over(self, burst: Burst, moment_ns: int) -> bool:
        """Return whether the idle gap has passed since the last event of a burst without a turn."""
        return burst.turn is None and moment_ns - burst.ended_ns > self.idle_gap_ns

    def _session(self, session_id: str, batch: Batch) -> Session:
        if session_id not in batch.writers:
            session = sessions.get(self._db, session_id)
            if session is None:
                raise JournalError(f"cannot find session {session_id} in the journal")
            batch.writers[session_id] = session
        return batch.writers[session_id]
