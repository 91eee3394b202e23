"""What a power cut or a full disk broke: our refs first, then the objects near their tips.

A broken object is written again where its content is known: the newest contents are on the disk,
the newest trees follow from the journal's states. Else the refs that need it go back to their last
whole commit, with a gap row, and the rows of the commits that are lost go with them.
Invariant: an object's file is removed only if it is broken and a pack has the object or neither
the user's refs, reflogs and index nor our refs reach it.
"""

from contextlib import suppress
from functools import cached_property

from gitshadow.capture.publishing import restore_missing
from gitshadow.errors import StoreError
from gitshadow.maintenance.setup import carried
from gitshadow.model import GITLINK_MODE, Oid, RepoPath, git_mode
from gitshadow.recording.context import RecorderContext
from gitshadow.store import refs
from gitshadow.store.journal import events, pins, prune, sessions, state
from gitshadow.store.lock import WriterLock
from gitshadow.store.repo import FORMAT_MARK
from gitshadow.store.trees import Entry
from gitshadow.words import counted

_LOCK_S = 10.0
_NEWEST = 1 << 62


def make_whole(
    context: RecorderContext,
    *,
    thorough: bool = False,
    power: bool = False,
    deep: bool = False,
) -> set[str]:
    """Set refs that cannot be read; in doubt, see that every ref has all its objects.

    Args:
        context: The worktree.
        thorough: Whether to look at the objects too; a ref that cannot be read always asks for it.
        power: Whether the power was cut, so that a ref may be older than the journal, or gone.
        deep: Whether to look at what Git has packed too.

    Returns:
        The refs that were set; each has a gap.
    """
    ws = context.workspace
    unread = ws.repo.broken_refs()
    if not (unread or thorough):
        return set()
    # That keeps packers, and the daemons of other worktrees that do the same, from the objects.
    with WriterLock(ws.layout.packing_lock, "packing lock") as lock:
        lock.acquire(_LOCK_S)
        return _Whole(context, power=power, deep=deep).run(unread)


class _Whole:
    """Make the refs of one repository whole, with what one worktree knows."""

    def __init__(self, context: RecorderContext, *, power: bool, deep: bool) -> None:
        self._context = context
        self._ws = context.workspace
        self._repo = context.workspace.repo
        self._power = power
        self._deep = deep
        self._chains = {one.ref: one for one in sessions.chains(self._ws.db)}
        self._known = {ref: chain.tip for ref, chain in self._chains.items()}
        self._known |= {pin.ref: pin.commit for pin in pins.list_pins(self._ws.db)}

    def run(self, unread: list[str]) -> set[str]:
        self._repo.refresh()
        broken = self._repo.loose.all_broken()
        tips: dict[str, Oid | None] = {**self._repo.refs()}
        # After a power cut, a ref may be missing although the journal has its rows.
        if self._power:
            gone = self._known.keys() - tips.keys() - prune.dropped_refs(self._ws.db)
            tips |= dict.fromkeys(gone)
        tips |= dict.fromkeys(unread)
        if broken or any(self._best(ref, tip) != tip for ref, tip in tips.items()):
            # Written before refs are set back: what the disk still has saves the newest commits.
            self._write_again()
        moved = {ref for ref, tip in tips.items() if self._set(ref, tip)}
        if broken:
            self._remove(broken)
        if moved:
            # The worktree's tree is read again: its recording may be incomplete.
            ws = self._ws
            with ws.states.consistent(), ws.db.write():
                state.clear(ws.db, ws.layout.worktree)
            ws.repo.trees.forget()
            ws.states.forget()
            ws.recorder.reset()
        return moved

    def _set(self, ref: str, tip: Oid | None) -> bool:
        """Set a ref to its newest whole commit; return whether it had to be set."""
        best = self._best(ref, tip)
        if best is None:
            self._repo.delete_ref(ref)
        elif best != tip:
            self._repo.force_ref(ref, best)
        else:
            known = self._known.get(ref, best)
            # The journal may have a chain where its ref never was, or is not any more.
            is_behind = self._power and known != best
            if not is_behind or known in (self._line(best) or (known,)):
                return False
        lost = self._forget_rows(ref, best)
        if best is not None and best == self._known.get(ref):
            said = f"ref {ref} could not be read; it was restored from the journal"
        else:
            how = " in a power failure" if self._power else ""
            said = f"objects of {ref} were lost{how}; it was reset to its last complete commit"
        if lost:
            said += f"; {counted(lost, 'write')} lost"
        self._context.pipeline.gap(said)
        return True

    def _best(self, ref: str, tip: Oid | None) -> Oid | None:
        """Return the newest whole commit of what a ref names and what the journal has for it.

        The journal counts where the ref itself cannot be read or is not whole, and after a power
        cut, which can leave an older ref than row.
        """
        found = None if tip is None else self._last_whole(ref, tip)
        known = self._known.get(ref)
        if known is None or known == tip or (found == tip and not self._power):
            return found
        other = self._last_whole(ref, known)
        if found is None or other is None:
            return found or other
        return other if found in (self._line(other) or ()) else found

    def _line(self, tip: Oid | None) -> frozenset[Oid] | None:
        """Return all commits of a chain, None where it cannot be read down to its root."""
        with suppress(StoreError):
            line = () if tip is None else self._repo.chain(tip)
            return frozenset(info.oid for info in line)
        return None

    def _last_whole(self, ref: str, tip: Oid) -> Oid | None:
        """Return the newest commit of a chain all of whose objects can be read, down to its root.

        What Git has packed was synced then, so nothing below a packed commit is looked at, unless
        that was asked for.
        """
        whole: Oid | None = None
        at: Oid | None = tip
        rooted, below_seq = False, _NEWEST
        while at is not None:
            try:
                info = self._repo.commit(at)
            except StoreError:
                # The parent of a baseline is a commit of the user, and not ours to repair.
                if rooted:
                    break
                at, whole = self._before(ref, at, below_seq), None
                continue
            # This commit is the user's: the chain ended with its child.
            if FORMAT_MARK not in info.message:
                break
            parent = info.parents[0] if info.parents else None
            if not self._is_whole(info.tree, parent):
                whole = None
            elif whole is None:
                whole = at
            # Git syncs packs to the disk when it writes them, so what a packed commit needs is
            # there.
            if not self._deep and not self._repo.loose.has(at):
                break
            kind, seq = refs.peek(info.message)
            rooted, below_seq = kind in ("baseline", "pin"), seq or below_seq
            at = parent
        return whole

    def _before(self, ref: str, commit: Oid, below_seq: int) -> Oid | None:
        """Return what the journal has on a chain before a commit that cannot be read."""
        chain = self._chains.get(ref)
        if chain is None:
            return None
        named = (chain.session, chain.worktree)
        return events.commit_before(self._ws.db, commit, *named, below_seq)

    def _is_whole(self, tree: Oid, parent: Oid | None) -> bool:
        """Whether everything that a commit adds to its parent can be read."""
        base: Oid | None = None
        if parent is not None:
            with suppress(StoreError):
                base = self._repo.commit(parent).tree
        try:
            for change in self._repo.trees.diff(base, tree):
                if change.new is None or change.new[0] == GITLINK_MODE:
                    continue
                if not self._is_promised(change.new[1]):
                    self._repo.read_blob(change.new[1])
        except StoreError:
            return False
        return True

    def _is_promised(self, oid: Oid) -> bool:
        """Whether an object is only at the remote of a partial clone, as what Git switched."""
        if self._repo.has(oid):
            return False
        return self._unpromised is not None and oid not in self._unpromised

    @cached_property
    def _unpromised(self) -> frozenset[str] | None:
        return self._ws.git.not_promised()

    def _forget_rows(self, ref: str, tip: Oid | None) -> int:
        """Forget the rows of commits that a chain does not have any more; return how many."""
        chain, kept, db = self._chains.get(ref), self._line(tip), self._ws.db
        if chain is None or kept is None:
            return 0
        with db.write():
            lost = prune.drop_commits(db, chain.session, chain.worktree, kept)
            if tip is None:
                sessions.drop_chain(db, ref)
            elif chain.tip not in kept:  # else commits without rows may follow it
                from gitshadow.store.replay import step_back  # as rarely as `adopting`

                step_back(db, self._repo, chain, tip)
        return lost

    def _write_again(self) -> None:
        """Store again what the present tree needs and the store does not have whole."""
        ws, repo = self._ws, self._repo
        states = ws.states.all()
        entries: dict[RepoPath, Entry] = {}
        with suppress(StoreError):
            entries |= carried(ws, states)
        held = {
            path: (git_mode(known.version.mode), known.version.oid)
            for path, known in states.items()
        }
        restore_missing(repo, ws.files, held)
        entries |= held
        repo.trees.forget()
        repo.trees.splice(None, entries)

    def _remove(self, broken: list[Oid]) -> None:
        """Remove what is still broken and was needed only by a ref that was reset."""
        repo, git = self._repo, self._ws.git
        left = [oid for oid in broken if repo.loose.is_broken(oid)]
        alone = [oid for oid in left if not repo.is_packed(oid)]
        needed = set(alone)
        if alone:
            # If git cannot walk the refs, any object may be needed, and none is removed.
            with suppress(StoreError):
                ours = git.reachable(sorted(set(repo.refs().values())), ())
                theirs, stops = git.reached_by_user()
                if not stops:
                    needed = needed.intersection(theirs.union(ours))
        for oid in left:
            if oid not in needed:
                repo.loose.remove(oid)
        repo.refresh()
