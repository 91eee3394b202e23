"""Replay of commits into the journal: rows that the refs have are rebuilt from the refs alone.

One fold serves `reindex` (from nothing) and start-up (from the last known tips). To replay a commit
whose rows exist already changes nothing.
"""

import heapq
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from gitshadow.errors import StoreError
from gitshadow.model import PLAIN_MODES, Chain, CommitEvent, Oid
from gitshadow.store import refs
from gitshadow.store.commit_rows import (
    ROW_KINDS,
    ChainModes,
    CommitContext,
    KnownModes,
    People,
    rows_of,
)
from gitshadow.store.journal import corrections, events, pins, sessions, state
from gitshadow.store.journal.db import Db
from gitshadow.store.objects import CommitInfo
from gitshadow.store.refs import ShadowCommit
from gitshadow.store.repo import Repo

# No ref says whether a session has ended, so a rebuilt one counts as ended at its last write.
REBUILT = "journal rebuilt"
_LAST = 1 << 62


@dataclass(slots=True)
class Tail:
    """The commits of one ref that are to be replayed, and the state of the fold in it.

    `links` are (order, oid), oldest first; `tree` is that of the commit before the next one.
    `machine` is that of its baseline, None if that was not read or names none.
    """

    ref: str
    session: str
    worktree: str
    links: Sequence[tuple[int, Oid]]
    tree: Oid | None = None
    tip_seq: int = 0
    modes: ChainModes | None = None
    machine: str | None = None


@dataclass(slots=True)
class Replayed:
    """The result of a fold: rows that a resumed journal did not have, and broken commits."""

    fresh: list[CommitEvent] = field(default_factory=list)
    broken: list[tuple[str, str]] = field(default_factory=list)


class Rebuilt(NamedTuple):
    """The result of a rebuild.

    `worktrees` has the tree after the newest commit of each worktree and the exact modes in it;
    `broken` the refs and commits that could not be read, and why; `foreign` the refs of chains
    that another machine recorded, which were left out.
    """

    worktrees: dict[str, tuple[Oid, KnownModes]]
    broken: tuple[tuple[str, str], ...]
    foreign: tuple[str, ...]


class Lost(NamedTuple):
    """A chain as the journal knew it, whose ref is gone (`tip` None) or was moved elsewhere."""

    chain: Chain
    tip: Oid | None


class CatchUp(NamedTuple):
    """The differences between refs and journal that start-up found and repaired.

    `rows` are those that the journal did not have because of a crash, newer than all others, in
    order of seq; `trees` has the tree of a worktree after them, from which file states are derived.
    `foreign` are the refs of chains that another machine recorded.
    """

    rows: tuple[CommitEvent, ...]
    lost: tuple[Lost, ...]
    broken: tuple[tuple[str, str], ...]
    trees: dict[str, Oid]
    foreign: tuple[str, ...] = ()


NOTHING = CatchUp((), (), (), {})


class Fold:
    """The replay of tails into a journal; use it inside `db.write()`."""

    def __init__(self, db: Db, repo: Repo, *, resumed: bool) -> None:
        """Begin a fold.

        Args:
            db: The journal.
            repo: Where the commits are.
            resumed: Whether the journal goes on from here, so that bursts stay open.
        """
        self._db = db
        self._repo = repo
        self._resumed = resumed
        self._people = People(db, resumed=resumed)
        self.known: dict[str, KnownModes] = {}
        self.trees: dict[str, Oid] = {}
        self.done = Replayed()

    def run(self, tails: Sequence[Tail]) -> Replayed:
        """Replay tails together, and store the tips of their chains."""
        # All chains of a worktree in order of seq: the exact mode that one session left is what the
        # next one found. One broken commit must not hide the rest of the history.
        for tail, oid in _merged(tails):
            try:
                self._apply(tail, self._repo.commit(oid))
            except StoreError as error:
                self.done.broken.append((f"{tail.ref} {oid}", error.message))
        for tail in tails:
            if tail.tree is not None and tail.links:
                chain = Chain(
                    ref=tail.ref,
                    session=tail.session,
                    worktree=tail.worktree,
                    tip=tail.links[-1][1],
                    tree=tail.tree,
                    tip_seq=tail.tip_seq,
                )
                sessions.put_chain(self._db, chain)
        self._people.store()
        # A power cut can lose the transaction that gave these numbers out.
        events.raise_next(
            self._db, 1 + max((tail.tip_seq for tail in tails), default=0)
        )
        return self.done

    def _apply(self, tail: Tail, info: CommitInfo) -> None:
        before, tail.tree = tail.tree, info.tree
        message = refs.parse_message(info.message)
        if message is None or message.session != tail.session:
            raise StoreError(f"cannot replay commit {info.oid}: not of its chain")
        modes = self._modes(tail)
        is_root = message.kind == "baseline"
        changes = [] if is_root else self._repo.trees.diff(before, info.tree)
        scene = CommitContext(
            commit=info.oid,
            changes=changes,
            entry_of=lambda path: self._repo.trees.entry(info.tree, path),
            modes=modes,
            actor=self._people.actor(message),
        )
        try:
            self._store(tail, message, rows_of(message, scene))
        # Also after a failure: the next commit's changes are relative to this tree.
        finally:
            modes.take(message, changes)
        self._people.take_op(message, info.oid)
        if message.kind == "correction":
            tail.tip_seq = self._people.correct(message)
        self.trees[tail.worktree] = info.tree

    def _store(
        self, tail: Tail, message: ShadowCommit, rows: Sequence[CommitEvent]
    ) -> None:
        if not rows:
            return
        tail.tip_seq = rows[-1].seq
        fresh = events.insert_new(self._db, rows)
        if self._resumed:
            self.done.fresh += fresh
        self._people.take(message, rows)

    def _modes(self, tail: Tail) -> ChainModes:
        if tail.modes is None:
            tail.modes = ChainModes()
        known = self.known.setdefault(tail.worktree, tail.modes.known)
        tail.modes.known = known
        return tail.modes


def _merged(tails: Sequence[Tail]) -> Iterator[tuple[Tail, Oid]]:
    runs = [
        [(order, at, place, oid) for place, (order, oid) in enumerate(tail.links)]
        for at, tail in enumerate(tails)
    ]
    for _, at, _, oid in heapq.merge(*runs):
        yield tails[at], oid


def read_tail(
    repo: Repo, ref: str, tip: Oid, since: Chain | None = None
) -> Tail | None:
    """Return what is to be replayed of a ref, from its baseline or from where its chain stood.

    Returns:
        None where the ref does not descend from `since`.

    Raises:
        StoreError: a commit cannot be read, or the ref is no chain of the session it names.
    """
    infos = repo.chain(tip, since.tip if since else None)
    own, order, root = list[tuple[int, Oid]](), _LAST, False
    for info in reversed(infos):
        kind, seq = refs.peek(info.message)
        order = min(order, seq or order)
        own.append((order, info.oid))
        if kind == "baseline":
            root = True
            break
    if since is None and not root:
        raise StoreError(f"cannot replay {ref}: its chain has no baseline")
    if since is not None and (not own or infos[0].parents[:1] != (since.tip,)):
        return None
    newest = refs.parse_message(infos[-1].message)
    if newest is None or newest.session is None:
        raise StoreError(f"cannot replay {ref}: its tip was not created by gitshadow")
    # Anybody can create a ref at any commit of ours: it must not put rows into a session's history
    # twice.
    if ref != refs.chain_ref(newest.session, newest.worktree):
        raise StoreError(f"cannot replay {ref}: it is not the ref of its session")
    tail = Tail(ref, newest.session, newest.worktree, own[::-1])
    if since is not None:
        tail.tree, tail.tip_seq = since.tree, since.tip_seq
    else:
        first = refs.parse_message(repo.commit(own[-1][1]).message)
        tail.machine = first.machine if first is not None else None
    return tail


def rebuild(db: Db, repo: Repo, ours: Collection[str] = ()) -> Rebuilt:
    """Fill an empty journal from the refs alone; call it inside `db.write()`.

    Sessions and turns are ended where they last wrote; bursts are closed.

    Args:
        db: The journal.
        repo: Where the refs are.
        ours: The ids of the machine whose journal it is; chains without one are its too.
    """
    fold = Fold(db, repo, resumed=False)
    tails: list[Tail] = []
    broken: list[tuple[str, str]] = []
    foreign: list[str] = []
    for ref, tip in sorted(repo.refs().items()):
        if refs.is_apart(ref):
            continue
        try:
            if refs.is_pin(ref):
                put_pin(db, ref, repo.commit(tip))
                continue
            tail = read_tail(repo, ref, tip)
        except StoreError as error:
            broken.append((ref, error.message))
            continue
        if tail is not None and is_foreign(tail, ours):
            foreign.append(ref)
        elif tail is not None:
            tails.append(tail)
    done = fold.run(tails)
    corrections.drop_strangers(db)
    sessions.close_rebuilt(db, REBUILT)
    worktrees = {name: (tree, fold.known[name]) for name, tree in fold.trees.items()}
    return Rebuilt(worktrees, (*broken, *done.broken), tuple(foreign))


def is_foreign(tail: Tail, ours: Collection[str]) -> bool:
    """Return whether another machine recorded a chain."""
    return tail.machine is not None and tail.machine not in ours


def fold_in(db: Db, repo: Repo, tails: Sequence[Tail]) -> list[tuple[str, str]]:
    """Fold whole chains into a journal without a recorder; return what was broken, and why.

    Rows that exist already stay. Call it inside `db.write()`.
    """
    done = Fold(db, repo, resumed=False).run(tails)
    sessions.close_rebuilt(db, REBUILT)
    return done.broken


def agree(db: Db, found: Mapping[str, Oid]) -> bool:
    """Return whether the chains and pins of the journal are those of the refs."""
    # Asked whenever a worktree is opened, so it reads only the refs and two small tables.
    known = {chain.ref: chain.tip for chain in sessions.chains(db)}
    known |= {pin.ref: pin.commit for pin in pins.list_pins(db)}
    return known == {ref: tip for ref, tip in found.items() if not refs.is_apart(ref)}


def catch_up(db: Db, repo: Repo, worktree: str, ours: Collection[str] = ()) -> CatchUp:
    """Update the journal from the refs after a crash between ref and row.

    Commits of this worktree's chains that the journal does not know become rows; chains whose refs
    are gone or went elsewhere are reported, and their rows follow the refs; so do those of pins.
    The caller holds the writer lock of the worktree, journals the gaps and derives file states;
    chains of which the machine is none of `ours` are left to it too.

    Raises:
        JournalError: the journal could not be written; then nothing of it was.
    """
    found = repo.refs()
    behind = _behind(db, repo, found, worktree, ours)
    broken = behind.broken
    known = {pin.ref: pin.commit for pin in pins.list_pins(db)}
    agree = known == {ref: tip for ref, tip in found.items() if refs.is_pin(ref)}
    if agree and not behind.tails and not behind.lost:
        return CatchUp((), (), tuple(broken), {}, tuple(behind.foreign))
    newest = events.newest_seq(db, worktree)
    with db.write():
        broken += _catch_up_pins(db, repo, found)
        for one in behind.lost:
            sessions.drop_chain(db, one.chain.ref)
        done, trees = _resume(db, repo, worktree, behind.tails)
    fresh = [row for row in done.fresh if row.seq > newest]
    return CatchUp(
        rows=tuple(sorted(fresh, key=lambda row: row.seq)),
        lost=tuple(behind.lost),
        broken=(*broken, *done.broken),
        trees=trees if fresh else {},
        foreign=tuple(behind.foreign),
    )


def step_back(db: Db, repo: Repo, chain: Chain, tip: Oid) -> None:
    """Set the journal to the state of a chain that was reset to an earlier commit, `tip`.

    The rows of its lost commits are deleted already. Call it inside `db.write()`.

    Raises:
        StoreError: a commit cannot be read.
    """
    people = People(db, resumed=True)
    # A correction has no row of its own, so a lost one is not among the deleted rows. The authors
    # of all corrected rows are read from the commits that are left.
    doubted = corrections.forget(db, chain.session, chain.worktree)
    infos, tip_seq = repo.chain(tip), 0
    for info in infos:
        message = refs.parse_message(info.message)
        if message is None or message.session != chain.session or not message.seqs:
            continue
        if message.kind == "correction":
            tip_seq = people.correct(message)
        elif message.kind == "baseline" or message.kind in ROW_KINDS:
            tip_seq = message.seqs[1]
            rows = doubted.intersection(range(message.seqs[0], tip_seq + 1))
            if rows:
                people.restore(message, sorted(rows))
    tree = infos[-1].tree
    sessions.put_chain(db, replace(chain, tip=tip, tree=tree, tip_seq=tip_seq))


@dataclass(slots=True)
class _Behind:
    tails: list[Tail] = field(default_factory=list)
    lost: list[Lost] = field(default_factory=list)
    broken: list[tuple[str, str]] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)


def _behind(
    db: Db,
    repo: Repo,
    found: Mapping[str, Oid],
    worktree: str,
    ours: Collection[str],
) -> _Behind:
    """Return the chains whose rows do not agree with their refs."""
    behind = _Behind()
    known = {chain.ref: chain for chain in sessions.chains(db)}
    behind.lost += [Lost(known[ref], None) for ref in known.keys() - found.keys()]
    for ref, tip in found.items():
        chain = known.get(ref)
        elsewhere = chain is not None and chain.worktree != worktree
        stands = chain is not None and chain.tip == tip
        if not refs.is_chain(ref) or elsewhere or stands:
            continue
        try:
            tail = read_tail(repo, ref, tip, chain)
            # The ref does not descend from the tip that we knew: it was rewritten. The chain is
            # reported as lost, and then read from its baseline.
            if tail is None and chain is not None:
                behind.lost.append(Lost(chain, tip))
                tail = read_tail(repo, ref, tip)
        except StoreError as error:
            behind.broken.append((ref, error.message))
            continue
        if tail is not None and is_foreign(tail, ours):
            behind.foreign.append(ref)
        elif tail is not None and tail.worktree == worktree:
            behind.tails.append(tail)
    return behind


def _catch_up_pins(
    db: Db, repo: Repo, found: Mapping[str, Oid]
) -> list[tuple[str, str]]:
    """Store a row for each pin's ref, and delete the rows of refs that are gone."""
    broken: list[tuple[str, str]] = []
    known = {pin.ref: pin for pin in pins.list_pins(db)}
    for ref in known.keys() - found.keys():
        pins.drop(db, known[ref].name)
    for ref, tip in found.items():
        if not refs.is_pin(ref) or (ref in known and known[ref].commit == tip):
            continue
        try:
            put_pin(db, ref, repo.commit(tip))
        except StoreError as error:
            broken.append((ref, error.message))
    return broken


def _resume(
    db: Db, repo: Repo, worktree: str, tails: Sequence[Tail]
) -> tuple[Replayed, dict[str, Oid]]:
    """Replay tails into a journal that has their earlier commits."""
    fold = Fold(db, repo, resumed=True)
    if not tails:
        return fold.done, {}
    for tail in tails:
        tail.modes = ChainModes(plain=_plain_modes(repo, tail))
    plain = tails[0].modes.plain if tails[0].modes else PLAIN_MODES
    # The modes before the first of these commits: a replay from the baselines would give the same,
    # but would read the whole history.
    odd = state.odd_modes(db, worktree, plain)
    fold.known[worktree] = KnownModes(plain, odd)
    return fold.run(tails), fold.trees


def _plain_modes(repo: Repo, tail: Tail) -> tuple[int, int]:
    """Return the exact modes that a chain's baseline gives for 100644 and 100755."""
    for info in reversed(repo.chain(tail.links[-1][1])):
        if refs.peek(info.message)[0] == "baseline":
            message = refs.parse_message(info.message)
            return (message.modes if message else None) or PLAIN_MODES
    return PLAIN_MODES


def put_pin(db: Db, ref: str, info: CommitInfo) -> None:
    """Store the row of a pin; call it inside `db.write()`.

    Raises:
        StoreError: the commit is not a pin, or that of another ref.
    """
    message = refs.parse_message(info.message)
    if message is None or message.kind != "pin" or message.pin is None:
        raise StoreError(f"cannot replay {ref}: it is not a pin")
    if refs.pin_ref(message.pin) != ref:
        raise StoreError(f"cannot replay {ref}: it is the pin of another ref")
    pin = pins.Pin(
        name=message.pin,
        ref=ref,
        commit=info.oid,
        worktree=message.worktree,
        ts_ns=message.time_ns,
    )
    pins.put(db, pin)
