"""Chains: the commits of one session in one worktree, published by compare-and-swap.

Invariant: every tree is the true state of the working tree, every diff is one write alone; objects
are written before the ref moves, the ref moves before the journal is written.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from gitshadow.capture.commit_plan import CommitStep
from gitshadow.errors import StaleTipError, StoreError
from gitshadow.model import (
    PLAIN_MODES,
    Actor,
    Attribution,
    Baseline,
    Chain,
    Confidence,
    Oid,
    RepoPath,
    Session,
    micro,
)
from gitshadow.store import refs
from gitshadow.store.commit_rows import BASELINE_REASON
from gitshadow.store.objects import OUR_EMAIL, OUR_NAME, NewCommit
from gitshadow.store.refs import PathNote, ShadowCommit
from gitshadow.store.repo import Repo

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
        changes = self._repo.diff(tree, ground.tree)
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
            if date is None or not self._repo.is_loose(chain.tip):
                date = self._repo.commit(chain.tip).committer_time
                self._dates[chain.ref] = date
            return date
        if ground.head is None:
            return _OLD_DATE
        return max(1, self._repo.oldest_unshared(ground.head) - 1)
