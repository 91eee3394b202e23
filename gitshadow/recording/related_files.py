"""The age of the file at a changed path, and its other recorded names.

A new name of an old file came by rename or link. Its old name may not have been noticed yet. If
nothing is recorded of it, the file came from elsewhere, and the call that moved it did not make it.
Invariant: nothing is recorded here. In doubt, a file counts as created by the call that brought it.
"""

from collections.abc import Iterable, Mapping, Sequence

from gitshadow.capture.drafts import Draft, Seen
from gitshadow.capture.reconcile import Change
from gitshadow.model import (
    Attribution,
    Call,
    EventKind,
    FileState,
    Oid,
    RepoPath,
    StatKey,
)
from gitshadow.recording.workspace import Workspace
from gitshadow.store.files import Reading
from gitshadow.store.journal import events, turns
from gitshadow.store.journal.events import EventFilter
from gitshadow.store.trees import Entry

_OLD_NS = 50_000_000
_AT_ONCE_NS = 10_000_000
"""What creates a file sets its times in this time; a rename that much later is another act."""
_SAVED_NS = 100_000_000
"""What saves through a temporary file, and syncs it first, renames it in this time."""

_SPLIT_NS = 5_000_000_000
"""How far back the deletion is looked for that a creation may belong to."""


class Kin:
    """Related names of the files of one batch."""

    def __init__(self, workspace: Workspace) -> None:
        self._ws = workspace
        self._born: dict[RepoPath, int | None] = {}
        self._names: dict[RepoPath, set[RepoPath]] = {}
        self._calls: dict[tuple[str, str], Call | None] = {}

    def begin(self) -> None:
        """Forget the batch before."""
        self._born.clear()
        self._names.clear()
        self._calls.clear()

    def others(
        self,
        changes: Iterable[Change],
        noticed_ns: int,
        written: Mapping[RepoPath, Entry],
    ) -> set[RepoPath]:
        """Return the other recorded names of changed files, gone or not: to be looked at too.

        `written` is what Git wrote where it switched files.
        """
        moved: dict[int, RepoPath] = {}
        with self._ws.files.together():
            for change in changes:
                # What the index proves to be as Git wrote it has one name, and was not moved here.
                if change.stored and written.get(change.path) == change.entry:
                    continue
                after = change.after
                if self._looks_moved(change, noticed_ns) and after is not None:
                    moved[after.stat.inode] = change.path
        for name, state in self._ws.states.named(moved).items():
            path = moved[state.stat.inode]
            if path != name and _is_older(self._born[path], state):
                self._relate(path, name)
        return set(self._names)

    def seen(self, change: Change, after: FileState | None) -> Seen:
        """Return a change with what was found out about its file."""
        return Seen(
            path=change.path,
            before=change.before,
            after=after,
            born_ns=self._born.get(change.path),
            twins=tuple(sorted(self._names.get(change.path, ()))) if after else (),
        )

    def moved_in(
        self, drafts: Sequence[Draft], claims: Sequence[Attribution]
    ) -> list[bool]:
        """Return for each draft whether its file was moved here from an unrecorded place."""
        # If the same call was just recorded to delete those bytes, the move has two rows already.
        gone: dict[tuple[str, str | None], set[Oid]] = {}
        found: list[bool] = []
        for draft, claim in zip(drafts, claims, strict=True):
            is_old = self._is_older_than_its_call(draft, claim)
            if is_old and draft.after is not None:
                whose = claim.session, claim.call
                if whose not in gone:
                    gone[whose] = self._deleted_by(claim, draft.end_ns - _SPLIT_NS)
                is_old = draft.after.version.oid not in gone[whose]
            found.append(is_old)
        return found

    def _is_older_than_its_call(self, draft: Draft, claim: Attribution) -> bool:
        """Return whether a path got a file that is older than the call that brought it.

        Without a call, the file must be older than the newest moment at which all was recorded.
        """
        after = draft.after
        if after is None or draft.twins:
            return False
        # A file that replaced another one needs a time of birth, because programs that save through
        # a temporary file may set an old mtime.
        replaced = draft.kind in (EventKind.MODIFY, EventKind.TYPE)
        if draft.kind is not EventKind.CREATE and not (replaced and draft.born_ns):
            return False
        # What is known from a commit alone has no inode, and no age. An empty file is no loss.
        if not after.stat.inode or not after.stat.size:
            return False
        call = self._call_of(claim)
        since_ns = call.opened_ns if call is not None else draft.begin_ns
        there_ns = after.stat.mtime_ns if draft.born_ns is None else draft.born_ns
        return there_ns < since_ns - self._ws.clock.tolerance_ns

    def _call_of(self, claim: Attribution) -> Call | None:
        if claim.call is None:
            return None
        # A call that unpacks an archive creates thousands of files, and is one row.
        key = claim.session, claim.call
        if key not in self._calls:
            self._calls[key] = turns.get_call(self._ws.db, *key)
        return self._calls[key]

    def _deleted_by(self, claim: Attribution, since_ns: int) -> set[Oid]:
        """Return what a call was recorded to delete since a moment."""
        wanted = EventFilter(
            worktree=self._ws.layout.worktree,
            kinds=(EventKind.DELETE,),
            sessions=(claim.session,),
            call=claim.call,
            since_ns=since_ns,
        )
        rows = events.changes(self._ws.db, wanted)
        return {row.before.oid for row in rows if row.before is not None}

    def _looks_moved(self, change: Change, noticed_ns: int) -> bool:
        """Note a change's hard links; return whether its path is a new name of an older file."""
        before, after = change.before, change.after
        # One that is gone, or replaced by another file, may have been written by this name before.
        names = self._ws.states.twins
        found = set() if before is None else names(change.path, before.stat.inode, 1)
        if after is not None:
            found |= names(change.path, after.stat.inode, after.links)
        for name in found:
            self._relate(change.path, name)
        if after is None:
            return False
        inode = after.stat.inode
        # The file itself was written: no other one was renamed to its path.
        if before is not None and before.stat.inode == inode:
            return False
        born_ns = self._born_ns(change.path, after)
        at_once_ns = _AT_ONCE_NS if before is None else _SAVED_NS
        return _has_moved(after.stat, born_ns, noticed_ns, at_once_ns)

    def _relate(self, path: RepoPath, name: RepoPath) -> None:
        self._names.setdefault(path, set()).add(name)
        self._names.setdefault(name, set()).add(path)

    def _born_ns(self, path: RepoPath, reading: Reading) -> int | None:
        if path not in self._born:
            self._born[path] = self._ws.files.born_ns(path, reading.stat.inode)
        return self._born[path]


def _has_moved(
    stat: StatKey, born_ns: int | None, noticed_ns: int, at_once_ns: int
) -> bool:
    """Return whether a file seems to have got its name later than its bytes."""
    # A rename changes the ctime of the file itself. A file that moves with its directory keeps all
    # of its times, so there only its age counts.
    written_ns = max(stat.mtime_ns, born_ns or 0)
    if stat.ctime_ns - written_ns > at_once_ns:
        return True
    return born_ns is not None and noticed_ns - born_ns > _OLD_NS


def _is_older(born_ns: int | None, state: FileState) -> bool:
    """Return whether a file is older than a recorded state: its inode is not a new one."""
    return born_ns is None or born_ns < state.seen_ns
