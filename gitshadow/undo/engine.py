"""What undo asks of the recorder of one worktree, under the writer lock of the caller.

Invariant: what undo asks to be recorded is recorded by the recorder, like everything else.
"""

import os
from collections.abc import Callable, Collection, Mapping, Sequence

from gitshadow.capture.coverage import (
    FOREIGN,
    OTHER_REPOSITORY,
    SUBMODULE,
    UNTRACKED_DATA,
    Coverage,
)
from gitshadow.capture.drafts import Draft
from gitshadow.errors import UsageError
from gitshadow.model import (
    Actor,
    Attribution,
    Confidence,
    EventKind,
    FileState,
    Oid,
    Op,
    RepoPath,
    Session,
)
from gitshadow.recording.context import RecorderContext
from gitshadow.store import refs
from gitshadow.store.files import Look
from gitshadow.store.journal import pins, sessions
from gitshadow.undo.choose import UnitWindow
from gitshadow.undo.databases import Databases
from gitshadow.undo.report import Item, Reason
from gitshadow.undo.report_context import InnerRepository
from gitshadow.undo.restore_plan import PinSnapshot
from gitshadow.undo.unstored import Unstored, UnstoredFiles


class UndoEngine:
    """One opened worktree, as undo uses it."""

    def __init__(self, context: RecorderContext, runner: str | None) -> None:
        ws = context.workspace
        # Attributes, because a plan reads them for each path; a workspace never exchanges them.
        self.worktree = ws.layout.worktree
        self.files = ws.files
        self.repo = ws.repo
        self.db = ws.db
        self.clock = ws.clock
        self._context = context
        self._runner = runner
        self.databases = Databases(ws.files, ws.layout.root)
        self._unstored = UnstoredFiles(
            ws.files, ws.coverage, ws.clock, self.databases.among
        )

    def catch_up(self) -> None:
        """Store the rows of commits whose rows could not be stored before.

        Raises:
            StoreError, JournalError: it is not possible now either.
        """
        if self._context.workspace.recorder.behind:
            self._context.pipeline.catch_up()

    def flush(self) -> None:
        """Have everything that was written before recorded."""
        self._context.observer.settle()

    def record_present(self, paths: Collection[RepoPath]) -> None:
        """Have what these paths hold at this moment recorded, covered or not."""
        # The plan replaces these too, so their present content must be recorded to be restorable.
        with self.files.together():
            hidden = [path for path in paths if self.uncovered(path) is not None]
        self._context.observer.store(set(paths).difference(hidden))
        if hidden:
            self._context.pipeline.admit(hidden)

    def record_restore(self, op: Op, applied: Sequence[Draft]) -> Oid | None:
        """Publish the changes of an op as one commit on the chain of the session that ran it.

        The rows hold what `applied` says, not what the disk holds by now: a write that came
        after ours is a later event of its own.

        Raises:
            StoreError: nothing was published.
        """
        session = sessions.get(self.db, op.session)
        who = Attribution(
            actor=session.actor if session else Actor.HUMAN,
            session=op.session,
            agent=session.agent if session else None,
            confidence=Confidence.CERTAIN,
            reason=f"written by git agent-undo {op.kind.value}",
        )
        drafts = [one._replace(begin_ns=op.ts_ns, end_ns=op.ts_ns) for one in applied]
        rows = self._context.workspace.recorder.record_restore(op, who, drafts)
        found = [row.commit for row in rows if row.kind is EventKind.RESTORE]
        return found[0] if found else None

    def actor_session(self) -> str:
        """Return the session of the caller of the command, opened if it is new."""
        return self._runner_session().id

    def tree(self) -> Oid:
        """Return the tree that is the working tree as last recorded."""
        return self._context.workspace.recorder.tree

    def state(self, path: RepoPath) -> FileState | None:
        """Return what was recorded of a path last, None where it is absent."""
        return self._context.workspace.states.get(path)

    def states(self) -> Mapping[RepoPath, FileState]:
        """Return what was recorded last of all covered paths."""
        return self._context.workspace.states.all()

    def directory_mode(self, directory: RepoPath) -> int | None:
        """Return the permission bits that a directory had when last seen, None: not known."""
        return self._context.walker.modes.of(directory)

    def uncovered(self, path: RepoPath) -> Reason | None:
        """Return why a path is not recorded (`excluded`, `other_repository`), None if it is."""
        ws = self._context.workspace
        return _why(ws.coverage, path, ws.files.look(path))

    def inner_repositories(self) -> list[InnerRepository]:
        """Return the submodules and nested repositories, by path."""
        ws, found = self._context.workspace, dict[RepoPath, InnerRepository]()
        root = os.fsencode(ws.layout.root)
        for path in sorted(self._context.pipeline.uncovered.known()):
            look = ws.files.glance(path)
            why = ws.coverage.enters(path) if look is not None and look.is_dir else None
            # A path may have been known before a directory above it became a repository.
            if why is not None and why.reason in FOREIGN:
                found[why.path] = InnerRepository(root, why.path, why.reason)
        return list(found.values())

    def unstored(self, windows: Sequence[UnitWindow]) -> list[Unstored]:
        """Return what units made in their windows and nobody stored, by path."""
        return self._unstored.made_in(self.db, self.worktree, windows)

    def delete_unstored(self, one: Unstored) -> Item:
        """Delete what was not stored, note that in the log, and return what became of it."""
        self._context.workspace.recorder.gap(
            f"{UNTRACKED_DATA} is deleted as asked: {one.in_words()}",
            self.clock.now_ns(),
            one.top,
        )
        return self._unstored.delete(one)

    def uncovered_under(
        self, rules: Mapping[RepoPath, bytes | None]
    ) -> Callable[[RepoPath], Reason | None]:
        """Return `uncovered` as it would be with other contents of rule files; None: absent."""
        ws = self._context.workspace
        coverage = ws.coverage.under(rules)
        return lambda path: _why(coverage, path, ws.files.look(path))

    def snapshot(self, pin: str) -> PinSnapshot:
        """Return a pin.

        Raises:
            UsageError: there is none of that name.
        """
        known = pins.get(self.db, pin)
        if known is None:
            raise UsageError(f"cannot find pin {pin}", hint="git agent-undo pin --list")
        info = self.repo.commit(known.commit)
        message = refs.parse_message(info.message)
        modes = {note.path: note.mode for note in message.paths} if message else {}
        plain = message.modes if message and message.modes else (0o644, 0o755)
        return PinSnapshot(info.tree, known.ts_ns, modes, plain)

    def _runner_session(self) -> Session:
        if self._runner is not None:
            found = sessions.by_prefix(self.db, self._runner)
            if len(found) == 1:
                return found[0]
        return self._context.claimant.personal(Actor.HUMAN)


def _why(coverage: Coverage, path: RepoPath, look: Look | None) -> Reason | None:
    found = coverage.verdict(path, look) if look is not None else None
    # A file that does not exist has no type to match, but a directory above it may be excluded.
    if found is None or (look is not None and look.is_dir):
        found = coverage.excluded_above(path)
    if found is None:
        return None
    other = found.reason in (OTHER_REPOSITORY, SUBMODULE)
    return Reason.OTHER_REPOSITORY if other else Reason.EXCLUDED
