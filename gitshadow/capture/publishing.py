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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

from gitshadow.capture.commit_plan import CommitStep
from gitshadow.capture.drafts import Draft
from gitshadow.capture.states import Modes, StateTable
from gitshadow.errors import StaleTipError, StoreError
from gitshadow.model import (
    GITLINK_MODE,
    PLAIN_MODES,
    Actor,
    Attribution,
    Baseline,
    Burst,
    Chain,
    CommitEvent,
    Confidence,
    FileState,
    Oid,
    RepoPath,
    Session,
    git_mode,
    micro,
)
from gitshadow.store import refs
from gitshadow.store.commit_rows import BASELINE_REASON
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
_OLD_DATE = 1_000_000_000


class Published(NamedTuple):
    """The tip of a chain after its links were published.

    `commits` are the oids of the links, in order; `baseline` is set where the chain is new.
    """

    chain: Chain
    commits: tuple[Oid, ...]
    baseline: Baseline | None


class ChainRoot(NamedTuple):
    """Store what a chain is rooted in: the working tree's tree and the modes that are not plain.

    `modes` are what 100644 and 100755 stand for; `odd` the exact modes that differ from them.
    `writers` are the sessions whose changes the chain has not seen yet, sorted by id.
    """

    tree: Oid
    head: Oid | None
    modes: tuple[int, int]
    odd: Mapping[RepoPath, int]
    writers: tuple[Session, ...] = ()

    def notes(self, paths: Sequence[RepoPath] | None = None) -> tuple[PathNote, ...]:
        """Return the path notes of these paths (None: all), sorted."""
        chosen = self.odd.keys() if paths is None else self.odd.keys() & set(paths)
        return tuple(PathNote(self.odd[path], path, None) for path in sorted(chosen))


class ChainGoneError(StaleTipError):
    """Report a chain whose ref another program deleted."""


class ChainWriter:
    """Append links to the chains of one worktree."""

    def __init__(self, repo: Repo, worktree: str, machine: str | None = None) -> None:
        self._repo = repo
        self._worktree = worktree
        self._machine = machine
        self._dates: dict[str, int] = {}

    def publish(
        self,
        session: Session,
        chain: Chain | None,
        ground: ChainRoot,
        links: Sequence[CommitStep],
        *,
        reserve: Callable[[], int],
    ) -> Published:
        """Append links to a session's chain, creating it with a baseline where it is new.

        Args:
            session: Whose chain it is.
            chain: The chain as the journal has it; None for a new one.
            ground: The working tree before the first link.
            links: What to append; may be empty for a baseline alone.
            reserve: Gives the sequence number of a new baseline.

        Raises:
            ChainGoneError: somebody deleted the chain's ref, and Git perhaps its objects.
            StoreError: nothing was published.
        """
        for _ in range(_STALE_TRIES):
            try:
                return self._publish(session, chain, ground, links, reserve)
            except StoreError as error:
                # Without its ref the tip may be collected at any time, so the error of a missing
                # object counts as a lost chain, too.
                if chain is not None and self._repo.ref(chain.ref) is None:
                    raise ChainGoneError(f"ref {chain.ref} is missing") from error
                if not isinstance(error, StaleTipError):
                    raise
                # The loser of a compare-and-swap begins again at the new tip.
                chain = self._reread(session, chain)
                time.sleep(0.002)
        raise StaleTipError(
            f"could not publish to {session.id}: its ref keeps changing"
        )

    def publish_pin(self, name: str, ref: str, ground: ChainRoot, now_ns: int) -> Oid:
        """Publish one commit of the present on a ref of its own."""
        message = ShadowCommit(
            subject=f"Pin {name}",
            kind="pin",
            worktree=self._worktree,
            time_ns=now_ns,
            pin=name,
            modes=None if ground.modes == PLAIN_MODES else ground.modes,
            paths=ground.notes(),
        )
        user, email = self._repo.identity()
        commit = self._repo.write_commit(
            NewCommit(
                tree=ground.tree,
                parents=() if ground.head is None else (ground.head,),
                author_name=user,
                author_email=email,
                author_time=now_ns // 1_000_000_000,
                committer_time=self._committer_date(None, ground),
                message=refs.format_message(message),
            )
        )
        self._repo.create_ref(ref, commit)
        return commit

    def _publish(
        self,
        session: Session,
        chain: Chain | None,
        ground: ChainRoot,
        links: Sequence[CommitStep],
        reserve: Callable[[], int],
    ) -> Published:
        # All commits of a chain have one committer date; see `_committer_date`.
        date = self._committer_date(chain, ground)
        baseline = None
        if chain is None:
            seq = reserve()
            commit = self._baseline(session, ground, seq, date)
            who = Attribution(
                actor=session.actor,
                session=session.id,
                agent=session.agent,
                confidence=Confidence.CERTAIN,
                reason=BASELINE_REASON,
            )
            at_ns = micro(session.started_ns)
            baseline = Baseline(seq, at_ns, self._worktree, who, commit)
            ref = refs.chain_ref(session.id, self._worktree)
            tip, tree, tip_seq = commit, ground.tree, seq
        else:
            ref, tip, tree, tip_seq = chain.ref, chain.tip, chain.tree, chain.tip_seq
        # Others wrote since this chain's tip. Their changes come in by a commit of their own, so
        # that the diff of the next one is one write alone.
        if tree != ground.tree:
            tip, tree = self._sync(session, tip, tree, ground, date), ground.tree
        commits: list[Oid] = []
        for link in links:
            tree = self._tree_after(tree, link)
            tip = self._commit(session, link.message, tree, (tip,), date)
            commits.append(tip)
            tip_seq = link.message.seqs[1] if link.message.seqs else tip_seq
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
        return Published(done, tuple(commits), baseline)

    def _tree_after(self, tree: Oid, link: CommitStep) -> Oid:
        trees, known = self._repo.trees, link.group.trees
        carried = trees.carried(tree, *known) if known is not None else None
        return trees.splice(tree, link.changes) if carried is None else carried

    def _reread(self, session: Session, chain: Chain | None) -> Chain | None:
        """Return the real tip of a chain whose ref was not at the expected commit."""
        ref = chain.ref if chain else refs.chain_ref(session.id, self._worktree)
        tip = self._repo.ref(ref)
        if tip is None:
            return None
        tree = self._repo.commit(tip).tree
        known = chain.tip_seq if chain else 0
        return Chain(
            ref=ref,
            session=session.id,
            worktree=self._worktree,
            tip=tip,
            tree=tree,
            tip_seq=known,
        )

    def _baseline(
        self, session: Session, ground: ChainRoot, seq: int, date: int
    ) -> Oid:
        message = ShadowCommit(
            subject="Baseline",
            kind="baseline",
            time_ns=session.started_ns,
            seqs=(seq, seq),
            native=session.native_id,
            actor=session.actor,
            parent=session.parent,
            started_ns=session.started_ns,
            machine=self._machine,
            modes=None if ground.modes == PLAIN_MODES else ground.modes,
            paths=ground.notes(),
        )
        parents = () if ground.head is None else (ground.head,)
        return self._commit(session, message, ground.tree, parents, date)

    def _sync(
        self, session: Session, tip: Oid, tree: Oid, ground: ChainRoot, date: int
    ) -> Oid:
        """Commit the changes of other sessions; the author is the other session if it is one."""
        changes = self._repo.trees.diff(tree, ground.tree)
        count = len(changes)
        names = sorted({one.agent or one.actor.value for one in ground.writers})
        by = f" ({', '.join(names)})" if names else ""
        message = ShadowCommit(
            subject=f"Sync {count} file{'' if count == 1 else 's'}{by}",
            kind="sync",
            time_ns=micro(time.time_ns()),
            note=", ".join(one.id for one in ground.writers) or None,
            paths=ground.notes([change.path for change in changes]),
        )
        author = _SEVERAL if len(names) > 1 else (OUR_NAME, OUR_EMAIL)
        if len(names) == 1:
            author = self._author(ground.writers[0])
        return self._commit(session, message, ground.tree, (tip,), date, author)

    def _commit(
        self,
        session: Session,
        message: ShadowCommit,
        tree: Oid,
        parents: tuple[Oid, ...],
        date: int,
        author: tuple[bytes, bytes] | None = None,
    ) -> Oid:
        full = replace(
            message,
            session=session.id,
            agent=session.agent,
            worktree=self._worktree,
        )
        name, email = author or self._author(session)
        new = NewCommit(
            tree=tree,
            parents=parents,
            author_name=name,
            author_email=email,
            author_time=message.time_ns // 1_000_000_000,
            committer_time=date,
            message=refs.format_message(full),
        )
        return self._repo.write_commit(new)

    def _author(self, session: Session) -> tuple[bytes, bytes]:
        if session.actor is Actor.HUMAN:
            return self._repo.identity()
        name = session.agent or "unknown"
        return name.encode(), f"{refs.clean_name(name)}@agent-undo.invalid".encode()

    def _committer_date(self, chain: Chain | None, ground: ChainRoot) -> int:
        """Return the chain's date: a second before the HEAD of its baseline.

        If HEAD was not pushed, before what it is built on: fetch offers commits by date,
        and must come upon one that the other side has before it comes upon ours.
        """
        if chain is not None:
            # A tip whose object is gone is an error here; one that was written just now is loose.
            date = self._dates.get(chain.ref)
            if date is None or not self._repo.loose.has(chain.tip):
                date = self._repo.commit(chain.tip).committer_time
                self._dates[chain.ref] = date
            return date
        if ground.head is None:
            return _OLD_DATE
        return max(1, self._repo.oldest_unshared(ground.head) - 1)


class Proven(NamedTuple):
    """Store a tree that can be published; `lost` are paths whose bytes are nowhere any more."""

    tree: Oid
    lost: tuple[RepoPath, ...] = ()


def prove(
    repo: Repo,
    files: WorkFiles,
    tree: Oid,
    live: Oid | None,
    states: Callable[[], Mapping[RepoPath, FileState]],
) -> Proven:
    """Return a tree with the same files, every object of which is in the store.

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
    lost = _restore_missing(repo, files, entries)
    if lost:
        tree = repo.trees.splice(tree, dict.fromkeys(lost))
    return Proven(tree, tuple(lost))


def _rebuild(
    repo: Repo, files: WorkFiles, live: Oid | None, states: Mapping[RepoPath, FileState]
) -> Proven:
    carried: dict[RepoPath, Entry | None] = {
        path: entry
        for path, entry in (repo.trees.flat(live).items() if live is not None else ())
        if entry[0] == GITLINK_MODE
    }
    entries: dict[RepoPath, Entry] = {
        path: (git_mode(state.version.mode), state.version.oid)
        for path, state in states.items()
    }
    lost = _restore_missing(repo, files, entries)
    for path in lost:
        del entries[path]
    return Proven(repo.trees.splice(None, carried | entries), tuple(lost))


def _restore_missing(
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
    """

    def __init__(
        self,
        repo: Repo,
        files: WorkFiles,
        db: Db,
        states: StateTable,
        modes: Modes,
        machine: str | None,
    ) -> None:
        self._repo = repo
        self._files = files
        self._db = db
        self._states = states
        self._modes = modes
        self._machine = machine
        self._chains: ChainWriter | None = None
        self.findings: list[LostObject] = []

    def chain(self, session: str, batch: Batch) -> Chain | None:
        """Return the chain of a session as the batch leaves it, None without one."""
        if session in batch.chains:
            return batch.chains[session]
        if session not in batch.known:
            chain = sessions.get_chain(self._db, session, batch.row.id)
            batch.known[session] = chain
        return batch.known[session]

    def append(
        self, session: Session, steps: Sequence[CommitStep], batch: Batch
    ) -> Chain:
        """Publish steps on one chain and collect their rows, states and the new tree."""
        known = self.chain(session.id, batch)
        # The proof costs a diff of trees; after an ordinary write the newest chain has the tree.
        if not self._is_reachable(known, batch):
            self._prove(batch)
        try:
            published = self._publish_links(session, known, steps, batch)
        # The user deleted the ref. Recording goes on with a new chain, and the loss becomes a gap.
        except ChainGoneError as error:
            self._forget_chain(session, error, batch)
            self._prove(batch)
            published = self._publish_links(session, None, steps, batch)
        if published.baseline is not None:
            batch.rows.append(published.baseline)
        batch.chains[session.id] = published.chain
        # The next group of the batch begins where this one ended, also on another chain.
        batch.tree = published.chain.tree
        for step, commit in zip(steps, published.commits, strict=True):
            batch.rows += step.rows(commit)
            self._collect_states(step.group.drafts, batch)
        return published.chain

    def pin(self, name: str, ref: str, batch: Batch, now_ns: int) -> Oid:
        """Publish the present as one commit on a ref of its own."""
        ground = self._ground(batch)
        return self._writer(batch).publish_pin(name, ref, ground, now_ns)

    def _writer(self, batch: Batch) -> ChainWriter:
        if self._chains is None:
            self._chains = ChainWriter(self._repo, batch.row.id, self._machine)
        return self._chains

    def _ground(self, batch: Batch, writers: tuple[Session, ...] = ()) -> ChainRoot:
        modes = self._modes
        return ChainRoot(batch.tree, batch.row.head, modes.plain, modes.odd(), writers)

    def _publish_links(
        self,
        session: Session,
        known: Chain | None,
        links: Sequence[CommitStep],
        batch: Batch,
    ) -> Published:
        ground = self._ground(batch, self._others(session, known, batch))
        reserve = partial(events.reserve, self._db, 1)
        chains = self._writer(batch)
        return chains.publish(session, known, ground, links, reserve=reserve)

    def _forget_chain(
        self, session: Session, error: ChainGoneError, batch: Batch
    ) -> None:
        with self._db.write():
            for chain in sessions.chains_of(self._db, session.id):
                if chain.worktree == batch.row.id:
                    sessions.drop_chain(self._db, chain.ref)
        why = f"{error.message}; its history can no longer be undone"
        self.findings.append(LostObject(why))

    def _others(
        self, session: Session, known: Chain | None, batch: Batch
    ) -> tuple[Session, ...]:
        """Return whose changes a chain has yet to bring in."""
        if known is None or known.tree == batch.tree:
            return ()
        names = set(events.writers_since(self._db, batch.row.id, known.tip_seq))
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
        newest = sessions.newest_chain(self._db, batch.row.id)
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
        chains = sessions.chains(self._db, batch.row.id)
        live = next((chain.tree for chain in chains if self._stands(chain)), None)
        if live is None and batch.row.head is not None:
            live = self._repo.commit(batch.row.head).tree
        proven = prove(self._repo, self._files, batch.tree, live, self._states.all)
        batch.tree = proven.tree
        batch.drop.update(proven.lost)
        self.findings += [
            LostObject("its recorded state is missing from the object store", path)
            for path in proven.lost
        ]

    def _collect_states(self, drafts: Sequence[Draft], batch: Batch) -> None:
        for draft in drafts:
            gone = draft.old_path if draft.after is not None else draft.path
            if gone is not None:
                batch.put.pop(gone, None)
                batch.drop.add(gone)
                self._modes.drop(gone)
            if draft.after is None:
                continue
            batch.put[draft.path] = draft.after
            batch.drop.discard(draft.path)
            self._modes.note(draft.path, draft.after.version.mode)
