"""What undo asks of the recorder, and what the command line asks of undo.

Invariant: undo works on one worktree through this port alone, under the writer lock of whoever
hands it in.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

from gitshadow.messages.undo import FileUndoRequest
from gitshadow.model import FileState, Oid, Op, OpKind, RepoPath
from gitshadow.store.clock import EpochClock
from gitshadow.store.files import WorkFiles
from gitshadow.store.journal.db import Db
from gitshadow.store.repo import Repo
from gitshadow.undo.apply import Applied
from gitshadow.undo.plan import PathFilter
from gitshadow.undo.report import Reason
from gitshadow.undo.restore_plan import PinSnapshot
from gitshadow.undo.targets import Target


class UndoPort(Protocol):
    """Record one worktree, and tell what is known of it."""

    @property
    def worktree(self) -> str:
        """Return the worktree's id in the journal."""
        ...

    @property
    def files(self) -> WorkFiles:
        """Return the door to the working tree."""
        ...

    @property
    def repo(self) -> Repo:
        """Return the object store."""
        ...

    @property
    def db(self) -> Db:
        """Return the journal."""
        ...

    @property
    def clock(self) -> EpochClock:
        """Return the clock of the file system."""
        ...

    def catch_up(self) -> None:
        """Give commits whose rows could not be stored their rows.

        Raises:
            StoreError, JournalError: it is not possible now either.
        """
        ...

    def flush(self) -> None:
        """Have everything that was written before recorded."""
        ...

    def record_present(self, paths: Collection[RepoPath]) -> None:
        """Have what these paths hold at this moment recorded.

        Paths that are not covered now are recorded too: an undo covers them again.
        """
        ...

    def record_restore(self, op: Op, applied: Sequence[Applied]) -> Oid | None:
        """Publish the changes of an op as one commit with a row for each; return it.

        The rows hold what `applied` says, not what the disk holds by now: a write that came
        after ours is a later event of its own.

        Raises:
            StoreError: nothing was published.
        """
        ...

    def actor_session(self) -> str:
        """Return the session of whoever runs the command, opened where it is new."""
        ...

    def tree(self) -> Oid:
        """Return the tree that is the working tree as last recorded."""
        ...

    def state(self, path: RepoPath) -> FileState | None:
        """Return what was recorded of a path last, None where it is absent."""
        ...

    def states(self) -> Mapping[RepoPath, FileState]:
        """Return what was recorded last of all covered paths."""
        ...

    def directory_mode(self, directory: RepoPath) -> int | None:
        """Return the permission bits that a directory had when last seen, None: not known."""
        ...

    def uncovered(self, path: RepoPath) -> Reason | None:
        """Return why a path is not recorded (`excluded`, `other_repository`), None if it is."""
        ...

    def uncovered_under(
        self, rules: Mapping[RepoPath, bytes | None]
    ) -> Callable[[RepoPath], Reason | None]:
        """Return `uncovered` as it would be with other contents of rule files; None: absent."""
        ...

    def snapshot(self, pin: str) -> PinSnapshot:
        """Return a pin; raise UsageError where there is none of that name."""
        ...


class ResolvedUndo(NamedTuple):
    """A request, and what its words mean in a worktree.

    `paths` is what its `only` and `except_` select. `whose` are sessions: if it is given, `undo`
    reverts only what is surely theirs, whatever a target is.
    """

    asked: FileUndoRequest
    targets: tuple[Target, ...] = ()
    paths: PathFilter = PathFilter()
    at_ns: int | None = None
    whose: frozenset[str] | None = None

    @property
    def kind(self) -> OpKind:
        """Return the verb."""
        return OpKind(self.asked.verb)
