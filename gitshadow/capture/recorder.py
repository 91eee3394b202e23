"""The recorder: the only writer of snapshots.

Takes drafts with their attribution, publishes each write as a commit, then a row. One recorder per
worktree, used by one thread under the writer lock.
Invariant: objects, then ref, then one journal transaction with rows, states and the tree.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby

from gitshadow.capture.chains import (
    DEFAULT_MODES,
    ChainGoneError,
    ChainWriter,
    Ground,
    Link,
    Published,
)
from gitshadow.capture.drafts import Draft
from gitshadow.capture.presence import prove
from gitshadow.capture.states import StateTable
from gitshadow.capture.steps import (
    Claimed,
    Frame,
    Group,
    Step,
    group_of,
    is_odd,
    micro,
    split_writes,
    step_of,
)
from gitshadow.errors import JournalError, StoreError
from gitshadow.model import (
    Attribution,
    Burst,
    Chain,
    Confidence,
    Event,
    EventKind,
    FileState,
    Oid,
    Op,
    RepoPath,
    Session,
)
from gitshadow.store.files import WorkFiles
from gitshadow.store.journal import bursts, events, sessions, state, turns
from gitshadow.store.journal.db import Db
from gitshadow.store.journal.state import WorktreeRow
from gitshadow.store.repo import Repo

DEFAULT_IDLE_GAP_NS = 300_000_000_000


@dataclass(slots=True)
class _Batch:
    """Collect what one call of the recorder puts into the journal in one transaction.

    `row` is what the worktree's row becomes, but for its tree.
    """

    tree: Oid
    row: WorktreeRow
    rows: list[Event] = field(default_factory=list)
    chains: dict[str, Chain] = field(default_factory=dict)
    bursts: dict[tuple[str, str | None], Burst] = field(default_factory=dict)
    put: dict[RepoPath, FileState] = field(default_factory=dict)
    drop: set[RepoPath] = field(default_factory=set)


class Recorder:
    """Write the snapshots of one worktree.

    `behind` tells that commits may stand whose rows are missing: catch up before the next.
    """

    def __init__(
        self,
        repo: Repo,
        files: WorkFiles,
        db: Db,
        row: WorktreeRow,
        states: StateTable,
    ) -> None:
        self._repo = repo
        self._files = files
        self._db = db
        self._row = row
        self._states = states
        self.idle_gap_ns = DEFAULT_IDLE_GAP_NS
        self._chains = ChainWriter(repo, row.id)
        self._modes = DEFAULT_MODES
        self._odd: dict[RepoPath, int] | None = None
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
        return self._modes

    # -- recording -------------------------------------------------------------------------

    def record(self, claimed: Sequence[Claimed]) -> list[Event]:
        """Publish ordinary writes; return their rows in order of seq.

        Raises:
            StoreError: nothing of a failing session's part was published, what the others wrote
                was; the caller journals a gap.
            JournalError: commits may stand whose rows are missing; catch-up adds them.
        """
        return self._publish(
            [group_of("write", part) for part in split_writes(claimed)]
        )

    def record_head(
        self,
        note: str,
        attribution: Attribution,
        switched: Sequence[Draft],
        now_ns: int,
        row: WorktreeRow | None = None,
    ) -> list[Event]:
        """Publish one move of HEAD with the paths that Git itself switched.

        Args:
            note: What moved, in a sentence.
            attribution: Who moved it.
            switched: What Git switched.
            now_ns: When.
            row: The worktree's row with the new HEAD, stored together with the move.
        """
        ordered = tuple(sorted(switched, key=lambda draft: draft.path))
        group = Group("head", attribution, False, ordered, note)
        return self._publish([group], now_ns, row)

    def record_coverage(
        self, note: str, attribution: Attribution, drafts: Sequence[Draft]
    ) -> list[Event]:
        """Publish paths that enter or leave because coverage itself changed."""
        ordered = tuple(sorted(drafts, key=lambda draft: draft.path))
        return self._publish([Group("coverage", attribution, False, ordered, note)])

    def record_restore(
        self, op: Op, attribution: Attribution, drafts: Sequence[Draft]
    ) -> list[Event]:
        """Publish a restore as one commit on the chain of whoever ran it."""
        ordered = tuple(sorted(drafts, key=lambda draft: draft.path))
        return self._publish([Group("restore", attribution, False, ordered, None, op)])

    def ensure_baseline(self, session: Session) -> Chain:
        """Give a session a chain, so that what it starts from is reachable."""
        chain = sessions.get_chain(self._db, session.id, self._row.id)
        if chain is not None:
            return chain
        batch = _Batch(self.tree, self._row)
        with self._noticing():
            chain = self._append(session, [], batch)
            self._store(batch)
        return chain

    def publish_pin(self, name: str, ref: str, now_ns: int) -> Oid:
        """Publish the present as one commit on a ref of its own.

        Raises:
            StoreError: the ref exists or could not be written.
        """
        ground = Ground(self.tree, self._row.head, self._modes, self._odd_modes())
        return self._chains.publish_pin(name, ref, ground, now_ns)

    def gap(self, note: str, now_ns: int, path: RepoPath | None = None) -> Event:
        """Journal that capture is known to be incomplete."""
        seq = events.reserve(self._db, 1)
        row = Event(
            seq=seq,
            ts_ns=micro(now_ns),
            worktree=self._row.id,
            kind=EventKind.GAP,
            path=path,
            note=note,
        )
        with self._db.write():
            events.insert(self._db, [row])
        return row

    def restat(self, states: Mapping[RepoPath, FileState]) -> None:
        """Remember new stat fields of files whose bytes are the same."""
        if states:
            with self._states.consistent(), self._db.write():
                self._states.update(states, ())

    def set_tree(self, tree: Oid, head: Oid | None, head_ref: str | None) -> None:
        """Remember the working tree's tree and HEAD without a commit of ours."""
        row = replace(self._row, tree=tree, head=head, head_ref=head_ref)
        with self._db.write():
            state.put_worktree(self._db, row)
        self._row = row

    def use_modes(self, modes: tuple[int, int]) -> None:
        """Say what 100644 and 100755 stand for in the chains of this worktree."""
        self._modes = modes
        self._odd = None

    def reset(self) -> None:
        """Forget the working tree's tree, so that it is rooted anew."""
        self._row = WorktreeRow(id=self._row.id, path=self._row.path)
        self._odd = None

    def settled(self, walked_ns: int) -> None:
        """Remember that everything written before a moment has been recorded."""
        self._row = replace(self._row, walked_ns=walked_ns)
        # The next process only knows less where this cannot be stored (a full disk).
        with suppress(JournalError), self._db.write():
            state.put_worktree(self._db, self._row)

    # -- publishing ------------------------------------------------------------------------

    def _publish(
        self,
        groups: Sequence[Group],
        head_ns: int | None = None,
        row: WorktreeRow | None = None,
    ) -> list[Event]:
        if not groups:
            return []
        row = row or self._row
        batch = _Batch(row.tree or self.tree, row)
        with self._noticing():
            failure = self._append_all(groups, head_ns, batch)
            if failure is not None:  # what was published all the same gets its rows
                batch.row = self._row
            self._store(batch)
        if failure is not None:
            raise failure
        return batch.rows

    def _append_all(
        self, groups: Sequence[Group], head_ns: int | None, batch: _Batch
    ) -> StoreError | None:
        """Publish groups; where one session's part fails, those of the others go on."""
        failed: dict[str, StoreError] = {}
        for name in dict.fromkeys(group.attribution.session for group in groups):
            if sessions.get_chain(self._db, name, self._row.id) is None:
                self._try_append(name, [], batch, failed)
        seq = events.reserve(self._db, sum(group.rows for group in groups))
        for name, run in groupby(groups, lambda group: group.attribution.session):
            known = batch.bursts.copy()
            steps: list[Step] = []
            for group in run:
                steps.append(self._step(group, seq, batch, head_ns))
                seq += group.rows
            self._try_append(name, steps, batch, failed)
            if name in failed:
                batch.bursts = known
        return next(iter(failed.values()), None)

    def _try_append(
        self,
        name: str,
        steps: Sequence[Step],
        batch: _Batch,
        failed: dict[str, StoreError],
    ) -> None:
        if name in failed:
            return
        try:
            self._append(self._session(name), steps, batch)
        except StoreError as error:
            failed[name] = error

    @contextmanager
    def _noticing(self) -> Iterator[None]:
        """Remember where the block fails: a ref may have moved that the journal knows not of."""
        try:
            yield
        except BaseException:
            self.behind, self._odd = True, None
            raise

    def _append(self, session: Session, steps: Sequence[Step], batch: _Batch) -> Chain:
        """Publish steps on one chain and collect their rows, states and the new tree."""
        known = batch.chains.get(session.id) or sessions.get_chain(
            self._db, session.id, self._row.id
        )
        links = [step.link for step in steps]
        if not self._is_reachable(known, batch):
            self._prove(batch)
        try:
            published = self._publish_links(session, known, links, batch)
        except ChainGoneError as error:
            self._forget_chain(session, error)
            self._prove(batch)
            published = self._publish_links(session, None, links, batch)
        if published.baseline is not None:
            batch.rows.append(self._baseline_row(session, published))
        batch.chains[session.id] = published.chain
        batch.tree = published.chain.tree
        for step, commit in zip(steps, published.commits, strict=True):
            batch.rows += [replace(row, commit=commit) for row in step.rows]
            self._collect_states(step.drafts, batch)
        return published.chain

    def _publish_links(
        self,
        session: Session,
        known: Chain | None,
        links: Sequence[Link],
        batch: _Batch,
    ) -> Published:
        writers = self._others(session, known, batch)
        ground = Ground(
            batch.tree, batch.row.head, self._modes, self._odd_modes(), writers
        )
        reserve = partial(events.reserve, self._db, 1)
        return self._chains.publish(session, known, ground, links, reserve=reserve)

    def _forget_chain(self, session: Session, error: ChainGoneError) -> None:
        with self._db.write():
            for chain in sessions.chains_of(self._db, session.id):
                if chain.worktree == self._row.id:
                    sessions.drop_chain(self._db, chain.ref)
        why = f"{error.message}; its history cannot be undone any more"
        self.gap(why, time.time_ns())

    def _others(
        self, session: Session, known: Chain | None, batch: _Batch
    ) -> tuple[Session, ...]:
        """Return whose changes a chain has yet to bring in."""
        if known is None or known.tree == batch.tree:
            return ()
        names = set(events.writers_since(self._db, self._row.id, known.tip_seq))
        names.update(
            row.attribution.session for row in batch.rows if row.attribution is not None
        )
        names.discard(session.id)
        found = (sessions.get(self._db, name) for name in sorted(names))
        return tuple(one for one in found if one is not None)

    def _is_reachable(self, known: Chain | None, batch: _Batch) -> bool:
        """Tell whether a live ref is known to hold the batch's tree.

        Of the session's own chain that is found out by its compare-and-swap.
        """
        if known is not None and known.tree == batch.tree:
            return True
        if any(chain.tree == batch.tree for chain in batch.chains.values()):
            return True
        newest = sessions.newest_chain(self._db, self._row.id)
        return newest is not None and newest.tree == batch.tree and self._stands(newest)

    def _stands(self, chain: Chain) -> bool:
        try:
            return self._repo.ref(chain.ref) == chain.tip
        except StoreError:
            return False

    def _prove(self, batch: _Batch) -> None:
        """Make sure that every object of the batch's tree is there."""
        self._repo.refresh()
        chains = sessions.chains(self._db, self._row.id)
        live = next((chain.tree for chain in chains if self._stands(chain)), None)
        if live is None and batch.row.head is not None:
            live = self._repo.commit(batch.row.head).tree
        proven = prove(self._repo, self._files, batch.tree, live, self._states.all())
        batch.tree = proven.tree
        batch.drop.update(proven.lost)

    def _collect_states(self, drafts: Sequence[Draft], batch: _Batch) -> None:
        odd = self._odd_modes()
        for draft in drafts:
            gone = draft.old_path if draft.after is not None else draft.path
            if gone is not None:
                batch.put.pop(gone, None)
                batch.drop.add(gone)
                odd.pop(gone, None)
            if draft.after is None:
                continue
            batch.put[draft.path] = draft.after
            batch.drop.discard(draft.path)
            if is_odd(draft.after.version.mode, self._modes):
                odd[draft.path] = draft.after.version.mode
            else:
                odd.pop(draft.path, None)

    def _store(self, batch: _Batch) -> None:
        row = replace(batch.row, tree=batch.tree)
        with self._states.consistent(), self._db.write():
            events.insert(self._db, batch.rows)
            for chain in batch.chains.values():
                sessions.put_chain(self._db, chain)
            for burst in batch.bursts.values():
                bursts.put(self._db, burst)
            self._states.update(batch.put, batch.drop)
            state.put_worktree(self._db, row)
        self._row = row

    def _step(self, group: Group, seq: int, batch: _Batch, head_ns: int | None) -> Step:
        who = group.attribution
        frame = Frame(
            worktree=self._row.id,
            modes=self._modes,
            seq=seq,
            burst=self._burst(group, seq, batch),
            turn=turns.get_turn(self._db, who.session, who.turn) if who.turn else None,
            call=turns.get_call(self._db, who.session, who.call) if who.call else None,
            head_ns=head_ns,
        )
        return step_of(group, frame)

    def _baseline_row(self, session: Session, published: Published) -> Event:
        baseline = published.baseline
        assert baseline is not None
        return Event(
            seq=baseline.seq,
            ts_ns=micro(session.started_ns),
            worktree=self._row.id,
            kind=EventKind.BASELINE,
            attribution=Attribution(
                actor=session.actor,
                session=session.id,
                agent=session.agent,
                confidence=Confidence.CERTAIN,
                reason="first snapshot of the session",
            ),
            commit=baseline.commit,
        )

    def _burst(self, group: Group, seq: int, batch: _Batch) -> Burst | None:
        """Return the burst that a group's events belong to, extended by them."""
        if group.kind != "write":
            return None
        who = group.attribution
        # The commit's own time: a burst's is rebuilt from its commits.
        moment = micro(max(draft.end_ns for draft in group.drafts))
        key = (who.session, who.turn)
        known = batch.bursts.get(key)
        if known is None:
            known = bursts.assign(
                self._db,
                session=who.session,
                worktree=self._row.id,
                turn=who.turn,
                ts_ns=moment,
                idle_gap_ns=self.idle_gap_ns,
            )
            known = bursts.apart(self._db, known, batch.bursts.values())
        first = known.first_seq or seq
        grown = replace(
            known,
            started_ns=min(known.started_ns or moment, moment),
            ended_ns=max(known.ended_ns, moment),
            first_seq=min(first, seq),
            last_seq=max(known.last_seq, seq + group.rows - 1),
        )
        batch.bursts[key] = grown
        return grown

    def _session(self, session_id: str) -> Session:
        session = sessions.get(self._db, session_id)
        if session is None:
            raise JournalError(f"could not find session {session_id} in the journal")
        return session

    def _odd_modes(self) -> dict[RepoPath, int]:
        if self._odd is None:
            self._odd = {
                path: known.version.mode
                for path, known in self._states.all().items()
                if is_odd(known.version.mode, self._modes)
            }
        return self._odd
