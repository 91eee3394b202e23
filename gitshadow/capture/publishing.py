"""Publish commit steps on the chain of a session, and collect what the journal stores of them.

A remembered oid may name a blob that the user's gc removed after its last session was dropped.
libgit2 writes a tree with a missing blob without an error, and the user's next gc then exits 128
each time. So each new tree is checked first: what it shares with a live tip or with HEAD exists
because it is reachable, and only the rest is looked up.
Invariant: every tree is the true state of the working tree, every diff is one write alone. Objects
are written and proven to exist before the ref moves by compare-and-swap, and the ref moves before
the journal is written, which happens here for chains whose ref is gone only.
"""

import time
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from gitshadow.capture.commit_plan import CommitStep
from gitshadow.capture.drafts import Draft
from gitshadow.capture.states import StateTable
from gitshadow.errors import StaleTipError, StoreError
from gitshadow.model import (
    GITLINK_MODE,
    PLAIN_MODES,
    Actor,
    Baseline,
    Burst,
    Chain,
    CommitEvent,
    FileState,
    Oid,
    RepoPath,
    Session,
    git_mode,
    is_odd_mode,
    micro,
)
from gitshadow.store import refs
from gitshadow.store.commit_rows import baseline_row
from gitshadow.store.files import WorkFiles
from gitshadow.store.journal import events, sessions
from gitshadow.store.journal.corrections import Correction
from gitshadow.store.journal.db import Db
from gitshadow.store.journal.state import WorktreeRow
from gitshadow.store.objects import OUR_EMAIL, OUR_NAME, NewCommit
from gitshadow.store.refs import PathNote, ShadowCommit
from gitshadow.store.repo import Repo
from gitshadow.store.trees import Entry

# Each try reads the ref again, so only a program that moves it all the time makes all fail.
_STALE_TRIES = 20
_SEVERAL = (b"several", b"several@agent-undo.invalid")


def prove(
    repo: Repo,
    files: WorkFiles,
    tree: Oid,
    live: Oid | None,
    states: Callable[[], Mapping[RepoPath, FileState]],
) -> tuple[Oid, list[RepoPath]]:
    """Return a tree whose objects are all stored, and the paths that it lost.

    The bytes of lost paths are nowhere any more.

    Args:
        repo: The object store.
        files: The worktree, to store again what is missing.
        tree: The tree to publish.
        live: A tree that a live ref or HEAD reaches; None where there is none.
        states: Gives the states of the covered paths, to rebuild the tree if parts of it are gone.
    """
    try:
        # What a live tip reaches is safe from gc, so only the difference to it is looked up.
        changes = repo.trees.diff(live, tree)
    except StoreError:
        # The cache may name trees that are gone, and would splice new ones onto them.
        repo.trees.forget()
        return _rebuild(repo, files, live, states())
    entries = {c.path: c.new for c in changes if c.new is not None}
    lost = restore_missing(repo, files, entries)
    if lost:
        tree = repo.trees.splice(tree, dict.fromkeys(lost))
    return tree, lost


def _rebuild(
    repo: Repo, files: WorkFiles, live: Oid | None, states: Mapping[RepoPath, FileState]
) -> tuple[Oid, list[RepoPath]]:
    carried: dict[RepoPath, Entry | None] = {
        path: entry
        for path, entry in (repo.trees.flat(live).items() if live is not None else ())
        if entry[0] == GITLINK_MODE
    }
    entries: dict[RepoPath, Entry] = {
        path: (git_mode(state.version.mode), state.version.oid)
        for path, state in states.items()
    }
    lost = restore_missing(repo, files, entries)
    for path in lost:
        del entries[path]
    return repo.trees.splice(None, carried | entries), lost


def restore_missing(
    repo: Repo, files: WorkFiles, entries: Mapping[RepoPath, Entry]
) -> list[RepoPath]:
    """Store what is missing again from the disk; return what is not there either."""
    lost: list[RepoPath] = []
    for path, (mode, oid) in entries.items():
        if mode == GITLINK_MODE or repo.has(oid):
            continue
        try:
            reading = files.read(path)
        except OSError:
            reading = None
        # Other bytes at the path are a later write: they must not stand for the lost ones.
        if reading is None or repo.format.blob(reading.data) != oid:
            lost.append(path)
        else:
            repo.write_blob(reading.data)
    return lost


@dataclass(slots=True)
class Batch:
    """Collect what one call of the recorder puts into the journal in one transaction.

    `row` is what the worktree's row becomes, but for its tree. `writers` are the sessions whose
    chains it changes; `known` are chains as the journal has them, `chains` those that changed.
    `ended` are bursts that ended within the batch, `corrections` change the authors of earlier
    rows.
    """

    tree: Oid
    row: WorktreeRow
    rows: list[CommitEvent] = field(default_factory=list)
    writers: dict[str, Session] = field(default_factory=dict)
    known: dict[str, Chain | None] = field(default_factory=dict)
    chains: dict[str, Chain] = field(default_factory=dict)
    bursts: dict[tuple[str, str | None], Burst] = field(default_factory=dict)
    ended: list[Burst] = field(default_factory=list)
    put: dict[RepoPath, FileState] = field(default_factory=dict)
    drop: set[RepoPath] = field(default_factory=set)
    corrections: list[Correction] = field(default_factory=list)


class LostObject(NamedTuple):
    """Store what Git or another program removed; `path` if it concerns one path."""

    note: str
    path: RepoPath | None = None


class Publisher:
    """Append steps to the chains of one worktree.

    `findings` collect what was found to be gone; the caller that reports them empties the list.
    `modes` are the permissions that 100644 and 100755 stand for.
    """

    def __init__(
        self,
        repo: Repo,
        files: WorkFiles,
        db: Db,
        worktree: str,
        states: StateTable,
        machine: str | None,
    ) -> None:
        self._repo = repo
        self._files = files
        self._db = db
        self._states = states
        self._worktree = worktree
        self.modes = PLAIN_MODES
        self._machine = machine
        self._dates: dict[str, int] = {}
        self.findings: list[LostObject] = []

    def chain(self, session: str, batch: Batch) -> Chain | None:
        """Return the chain of a session as the batch leaves it, None without one."""
        if session in batch.chains:
            return batch.chains[session]
        if session not in batch.known:
            chain = sessions.get_chain(self._db, session, self._worktree)
            batch.known[session] = chain
        return batch.known[session]

    def append(
        self, session: Session, steps: Sequence[CommitStep], batch: Batch
    ) -> Chain:
        """Publish steps on one chain and collect their rows, states and the new tree.

        A new chain gets a baseline first; without steps, that alone.

        Raises:
            StoreError: nothing was published.
        """
        chain = self.chain(session.id, batch)
        # The proof costs a diff of trees; after an ordinary write the newest chain has the tree.
        if not self._is_reachable(chain, batch):
            self._prove(batch)
        writers = self._others(session, chain, batch)
        for _ in range(_STALE_TRIES):
            try:
                return self._publish(session, chain, steps, batch, writers)
            except StoreError as error:
                # Without its ref the tip may be collected at any time, so the error of a missing
                # object counts as a lost chain, too. Recording goes on with a new chain, and the
                # loss becomes a gap.
                if chain is not None and self._repo.ref(chain.ref) is None:
                    self._forget_chain(session, chain.ref)
                    self._prove(batch)
                    chain, writers = None, ()
                    continue
                if not isinstance(error, StaleTipError):
                    raise
                # The loser of a compare-and-swap begins again at the new tip.
                chain = self._reread(session, chain)
                time.sleep(0.002)
        raise StaleTipError(
            f"could not publish to {session.id}: its ref keeps changing"
        )

    def pin(self, name: str, ref: str, batch: Batch, now_ns: int) -> Oid:
        """Publish the present as one commit on a ref of its own."""
        message = ShadowCommit(
            subject=f"Pin {name}",
            kind="pin",
            time_ns=now_ns,
            pin=name,
            modes=self._odd_plain(),
            paths=self._notes(batch),
        )
        head = batch.row.head
        date = self._repo.date_before(head)
        parents = () if head is None else (head,)
        commit = self._write(message, batch.tree, parents, date, self._repo.identity())
        self._repo.create_ref(ref, commit)
        return commit

    def _publish(
        self,
        session: Session,
        chain: Chain | None,
        steps: Sequence[CommitStep],
        batch: Batch,
        writers: tuple[Session, ...],
    ) -> Chain:
        # All commits of a chain have one committer date; see `_committer_date`.
        date = self._committer_date(chain, batch.row.head)
        rows: list[CommitEvent] = []
        if chain is None:
            baseline = self._baseline(session, batch, date)
            rows.append(baseline)
            ref = refs.chain_ref(session.id, self._worktree)
            tip, tree, tip_seq = baseline.commit, batch.tree, baseline.seq
        else:
            ref, tip, tree, tip_seq = chain.ref, chain.tip, chain.tree, chain.tip_seq
        # Others wrote since this chain's tip. Their changes come in by a commit of their own, so
        # that the diff of the next one is one write alone.
        if tree != batch.tree:
            tip = self._sync(session, tip, tree, batch, date, writers)
            tree = batch.tree
        for step in steps:
            carried, known = None, step.group.trees
            if known is not None:
                carried = self._repo.trees.carried(tree, *known)
            tree = carried or self._repo.trees.splice(tree, step.changes)
            tip = self._commit(session, step.message, tree, (tip,), date)
            rows += step.rows(tip)
            tip_seq = step.message.seqs[1] if step.message.seqs else tip_seq
        if chain is None:
            self._repo.create_ref(ref, tip)
            self._dates[ref] = date
        else:
            self._repo.move_ref(ref, chain.tip, tip)
        done = Chain(
            ref=ref,
            session=session.id,
            worktree=self._worktree,
            tip=tip,
            tree=tree,
            tip_seq=tip_seq,
        )
        batch.chains[session.id] = done
        # The next group of the batch begins where this one ended, also on another chain.
        batch.tree = tree
        batch.rows += rows
        for step in steps:
            self._collect_states(step.group.drafts, batch)
        return done

    def _reread(self, session: Session, chain: Chain | None) -> Chain | None:
        """Return the real tip of a chain whose ref was not at the expected commit."""
        ref = chain.ref if chain else refs.chain_ref(session.id, self._worktree)
        tip = self._repo.ref(ref)
        if tip is None:
            return None
        return Chain(
            ref=ref,
            session=session.id,
            worktree=self._worktree,
            tip=tip,
            tree=self._repo.commit(tip).tree,
            tip_seq=chain.tip_seq if chain else 0,
        )

    def _baseline(self, session: Session, batch: Batch, date: int) -> Baseline:
        seq = events.reserve(self._db, 1)
        message = ShadowCommit(
            subject="Baseline",
            kind="baseline",
            worktree=self._worktree,
            session=session.id,
            agent=session.agent,
            time_ns=session.started_ns,
            seqs=(seq, seq),
            native=session.native_id,
            actor=session.actor,
            parent=session.parent,
            started_ns=session.started_ns,
            machine=self._machine,
            modes=self._odd_plain(),
            paths=self._notes(batch),
        )
        parents = () if batch.row.head is None else (batch.row.head,)
        commit = self._commit(session, message, batch.tree, parents, date)
        return baseline_row(message, session.actor, commit)

    def _sync(
        self,
        session: Session,
        tip: Oid,
        tree: Oid,
        batch: Batch,
        date: int,
        writers: Sequence[Session],
    ) -> Oid:
        """Commit the changes of other sessions; the author is the other session if it is one."""
        changes = self._repo.trees.diff(tree, batch.tree)
        count = len(changes)
        names = sorted({one.agent or one.actor.value for one in writers})
        by = f" ({', '.join(names)})" if names else ""
        message = ShadowCommit(
            subject=f"Sync {count} file{'' if count == 1 else 's'}{by}",
            kind="sync",
            time_ns=micro(time.time_ns()),
            note=", ".join(one.id for one in writers) or None,
            paths=self._notes(batch, {change.path for change in changes}),
        )
        author = _SEVERAL if len(names) > 1 else (OUR_NAME, OUR_EMAIL)
        if len(names) == 1:
            author = self._author(writers[0])
        return self._commit(session, message, batch.tree, (tip,), date, author)

    def _commit(
        self,
        session: Session,
        message: ShadowCommit,
        tree: Oid,
        parents: tuple[Oid, ...],
        date: int,
        author: tuple[bytes, bytes] | None = None,
    ) -> Oid:
        full = replace(message, session=session.id, agent=session.agent)
        return self._write(full, tree, parents, date, author or self._author(session))

    def _write(
        self,
        message: ShadowCommit,
        tree: Oid,
        parents: tuple[Oid, ...],
        date: int,
        author: tuple[bytes, bytes],
    ) -> Oid:
        full = replace(message, worktree=self._worktree)
        new = NewCommit(
            tree=tree,
            parents=parents,
            author_name=author[0],
            author_email=author[1],
            author_time=message.time_ns // 1_000_000_000,
            committer_time=date,
            message=refs.format_message(full),
        )
        return self._repo.write_commit(new)

    def _odd_plain(self) -> tuple[int, int] | None:
        """Return what 100644 and 100755 stand for, None if that is what Git says."""
        return None if self.modes == PLAIN_MODES else self.modes

    def _notes(
        self, batch: Batch, paths: Set[RepoPath] | None = None
    ) -> tuple[PathNote, ...]:
        """Return the notes of these paths (None: all) as the batch leaves them, sorted."""
        if paths is None:
            modes = self._states.odd_modes(self.modes)
            now = batch.put
        else:
            self._states.fetch(paths)
            known = ((path, self._states.get(path)) for path in paths)
            modes = {path: one.version.mode for path, one in known if one is not None}
            now = {path: batch.put[path] for path in paths & batch.put.keys()}
        modes |= {path: one.version.mode for path, one in now.items()}
        return tuple(
            PathNote(mode, path)
            for path, mode in sorted(modes.items())
            if path not in batch.drop and is_odd_mode(mode, self.modes)
        )

    def _author(self, session: Session) -> tuple[bytes, bytes]:
        if session.actor is Actor.HUMAN:
            return self._repo.identity()
        name = session.agent or "unknown"
        return name.encode(), f"{refs.clean_name(name)}@agent-undo.invalid".encode()

    def _committer_date(self, chain: Chain | None, head: Oid | None) -> int:
        """Return the chain's date: before the HEAD of its baseline."""
        if chain is None:
            return self._repo.date_before(head)
        # A tip whose object is gone is an error here; one that was written just now is loose.
        date = self._dates.get(chain.ref)
        if date is None or not self._repo.loose.has(chain.tip):
            date = self._repo.commit(chain.tip).committer_time
            self._dates[chain.ref] = date
        return date

    def _forget_chain(self, session: Session, ref: str) -> None:
        with self._db.write():
            for chain in sessions.chains_of(self._db, session.id):
                if chain.worktree == self._worktree:
                    sessions.drop_chain(self._db, chain.ref)
        why = f"ref {ref} is missing; its history can no longer be undone"
        self.findings.append(LostObject(why))

    def _others(
        self, session: Session, known: Chain | None, batch: Batch
    ) -> tuple[Session, ...]:
        """Return whose changes a chain has yet to bring in."""
        if known is None or known.tree == batch.tree:
            return ()
        names = set(events.writers_since(self._db, self._worktree, known.tip_seq))
        names.update(row.attribution.session for row in batch.rows)
        # A chain that lacks only its own session's rows has nothing to bring in.
        names.discard(session.id)
        found = (sessions.get(self._db, name) for name in sorted(names))
        return tuple(one for one in found if one is not None)

    def _is_reachable(self, known: Chain | None, batch: Batch) -> bool:
        """Return whether a live ref is known to hold the batch's tree.

        Of the session's own chain that is found out by its compare-and-swap.
        """
        if known is not None and known.tree == batch.tree:
            return True
        if any(chain.tree == batch.tree for chain in batch.chains.values()):
            return True
        newest = sessions.newest_chain(self._db, self._worktree)
        return newest is not None and newest.tree == batch.tree and self._stands(newest)

    def _stands(self, chain: Chain) -> bool:
        try:
            return self._repo.ref(chain.ref) == chain.tip
        except StoreError:
            return False

    def _prove(self, batch: Batch) -> None:
        """Make sure that every object of the batch's tree is there."""
        # libgit2 caches the list of packs; a gc by git may have replaced them.
        self._repo.refresh()
        chains = sessions.chains(self._db, self._worktree)
        live = next((chain.tree for chain in chains if self._stands(chain)), None)
        if live is None and batch.row.head is not None:
            live = self._repo.commit(batch.row.head).tree
        states = self._states.all
        batch.tree, lost = prove(self._repo, self._files, batch.tree, live, states)
        batch.drop.update(lost)
        self.findings += [
            LostObject("its recorded state is missing from the object store", path)
            for path in lost
        ]

    def _collect_states(self, drafts: Sequence[Draft], batch: Batch) -> None:
        for draft in drafts:
            gone = draft.old_path if draft.after is not None else draft.path
            if gone is not None:
                batch.put.pop(gone, None)
                batch.drop.add(gone)
            if draft.after is not None:
                batch.put[draft.path] = draft.after
                batch.drop.discard(draft.path)
