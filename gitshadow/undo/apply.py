"""Apply a plan: write new files in the directories of the old ones, rename each, read it again.

The caller has journaled what is about to change. Right before each change the path is read once
more: what has changed since the plan is skipped. An item of which a step fails is restored to what
it was; the others go on.
Invariant: nothing is removed or replaced that does not hold exactly what the plan expects.
"""

import errno
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from gitshadow.capture.drafts import Draft
from gitshadow.errors import RefusedError, StoreError
from gitshadow.model import EventKind, FileState, FileVersion, Oid, RepoPath, StatKey
from gitshadow.platform import current
from gitshadow.store.clock import EpochClock
from gitshadow.store.files import Look, WorkFiles
from gitshadow.store.paths import UnsafePathError, parents
from gitshadow.store.spelling import fold_key
from gitshadow.undo.databases import FindDatabases
from gitshadow.undo.plan import Plan, PlannedItem, PlanStep, RemovalStep, WriteStep
from gitshadow.undo.report import Action, Item, Reason, State
from gitshadow.undo.worktree_scan import version_at

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
# Objects, the commit and the journal need room too, after the files are written.
_SPARE_BYTES = 1 << 20
# Only the version that was there before goes into a row.
_NO_STAT = StatKey(0, 0, 0, 0)
_MEANWHILE = "it changed while undo ran"

_Step = TypeVar("_Step", WriteStep, RemovalStep)
StepHook = Callable[[str], None]
"""Called with the name of every step, before and between them; tests interrupt there."""

ReadBlob = Callable[[Oid], bytes]
"""Return a blob's bytes, or raise StoreError."""


def no_hook(_: str) -> None:
    """Do nothing at a step."""


class FullError(RefusedError):
    """Report that the disk is full; everything is as it was before."""


class Failure(NamedTuple):
    """Why a step was not made."""

    reason: Reason
    detail: str


class Result(NamedTuple):
    """The result of a plan: its items as they are now, and the changes made.

    `applied` is to be recorded with the time of the op.
    `lost` are the extended attributes that files had and that those in their places have not,
    `unset` the modes that restored directories could not get.
    """

    items: tuple[Item, ...]
    applied: tuple[Draft, ...]
    lost: tuple[tuple[RepoPath, tuple[str, ...]], ...] = ()
    unset: tuple[tuple[RepoPath, int], ...] = ()


def _unknown(_: RepoPath) -> None:
    return None


class Tools(NamedTuple):
    """What applying works with.

    `mode_of` returns the mode that a directory had last, `state_of` what was recorded of a file,
    `databases` is `Databases.among`.
    """

    files: WorkFiles
    read: ReadBlob
    clock: EpochClock
    hook: StepHook = no_hook
    mode_of: Callable[[RepoPath], int | None] = _unknown
    state_of: Callable[[RepoPath], FileState | None] = _unknown
    databases: FindDatabases = lambda _: {}


def apply(plan: Plan, tools: Tools) -> Result:
    """Apply a plan.

    Raises:
        FullError: there is no room; nothing stays changed.
        StoreError: a blob that is needed cannot be read; as for FullError.
        OSError: never for a single path, only where the worktree itself is gone.
    """
    run = _Run(plan, tools)
    run.carry_out()
    return run.result()


def directories_to_make(plan: Plan, files: WorkFiles) -> list[RepoPath]:
    """Return the directories that writing will create, outermost first."""
    written = (path for path, step in plan.steps.items() if step.after is not None)
    above = sorted({parent for path in written for parent in parents(path)})
    with files.together():
        looks = [(parent, files.look(parent)) for parent in above]
    return [parent for parent, look in looks if look is None or not look.is_dir]


@dataclass(slots=True)
class _Run:
    plan: Plan
    tools: Tools
    states: dict[RepoPath, FileState | None] = field(default_factory=dict)
    written: set[RepoPath] = field(default_factory=set)
    failed: dict[RepoPath, Failure] = field(default_factory=dict)
    temps: dict[RepoPath, RepoPath] = field(default_factory=dict)
    made: list[RepoPath] = field(default_factory=list)
    ready: set[bytes] = field(default_factory=set)
    owners: dict[RepoPath, list[PlannedItem]] = field(default_factory=dict)
    barriers: set[bytes] = field(default_factory=set)
    cleared: list[tuple[RepoPath, int]] = field(default_factory=list)
    carried: dict[RepoPath, dict[str, bytes]] = field(default_factory=dict)
    lost: dict[RepoPath, tuple[str, ...]] = field(default_factory=dict)
    unset: list[tuple[RepoPath, int]] = field(default_factory=list)
    closed: set[RepoPath] = field(default_factory=set)

    def __post_init__(self) -> None:
        for planned in self.plan.items:
            for path in planned.paths:
                self.owners.setdefault(path, []).append(planned)
        steps = self.plan.steps.values()
        early = (
            one.path for one in steps if isinstance(one, RemovalStep) and one.early
        )
        self.barriers = set(map(fold_key, (*self.plan.clear, *early)))

    def carry_out(self) -> None:
        """Make every step: stage, make room, write, remove, sweep."""
        try:
            # Opened once for all that is done in a directory; each step sees whether it is still
            # the one at that path.
            with self.tools.files.together(), self.tools.files.reading_back():
                self._make_steps()
        finally:
            self._drop_temps()
        self._remake()
        self._sweep()
        self.unset += set_modes(self.made, self.tools)

    def _make_steps(self) -> None:
        steps = self.plan.steps.values()
        writes = [step for step in steps if isinstance(step, WriteStep)]
        removals = [step for step in steps if isinstance(step, RemovalStep)]
        early = [step for step in removals if step.early]
        # New content is staged and synced before the first path changes: a full disk or a crash
        # until then leaves only temporary files.
        for step in writes:
            if not _is_chmod(step) and not self._is_barred(step.path):
                self._try(self._stage, step)
        for step in writes:
            if step.path in self.temps:
                self._try(self._harden, step)
        # A file that becomes a directory must go before anything can be written below it.
        for removal in early:
            self._try(self._remove, removal)
        for directory in self.plan.clear:
            self.tools.hook(f"clear {directory!r}")
            self.tools.files.doubt()
            self._clear(directory)
        for step in writes:
            self._try(self._write, step)
        # Other removals come last: if a moved file cannot be written, the old path has it.
        for removal in removals:
            if not removal.early:
                self._try(self._remove, removal)

    def result(self) -> Result:
        """Return the items with their results, and the changes that were made."""
        items = tuple(self._item(planned) for planned in self.plan.items)
        lost = tuple((path, self.lost[path]) for path in sorted(self.lost))
        return Result(items, tuple(self._changes()), lost, tuple(self.unset))

    def _try(self, make: Callable[[_Step], None], step: _Step) -> None:
        """Make one step unless its item failed already; a failure takes its item along."""
        # The other path of a renamed file may have failed, which skips the whole item.
        if step.path in self.failed:
            return
        self.tools.hook(f"{make.__name__.strip('_')} {step.path!r}")
        try:
            # Check, change and reading back of one path meet the same directory.
            self.tools.files.doubt()
            make(step)
        except _MovedError as error:
            self._fail(step.path, Failure(Reason.CONFLICT, str(error) or _MEANWHILE))
        except UnsafePathError as error:
            self._fail(step.path, Failure(Reason.TYPE_CLASH, error.message))
        except OSError as error:
            if error.errno in _FULL:
                raise _full() from error
            why = error.strerror or str(error)
            self._fail(step.path, Failure(Reason.IO_ERROR, why))

    def _stage(self, step: WriteStep) -> None:
        files = self.tools.files
        directory = step.path.rpartition(b"/")[0]
        # One look for each directory: a plan often writes many files into the same one.
        if directory not in self.ready:
            self.made += files.make_parents(step.path, self.tools.mode_of)
            self.ready.add(directory)
        data = self._data(step.after)
        if files.free_bytes() < len(data) + _SPARE_BYTES:
            raise _full()
        # A rename replaces the inode, and with it the extended attributes of the old file.
        if not step.after.is_link:
            self.carried[step.path] = files.attributes(step.path)
        self.temps[step.path] = files.stage(step.path, data, step.after.mode)

    def _harden(self, step: WriteStep) -> None:
        self.tools.files.harden(self.temps[step.path])

    def _write(self, step: WriteStep) -> None:
        if not _is_chmod(step) and step.path not in self.temps:
            self._stage(step)
            self._harden(step)
            self.tools.hook(f"staged {step.path!r}")
        look = None
        if _is_chmod(step):
            self._expect(step)
            look = self.tools.files.look(step.path)
            self.tools.files.chmod(step.path, step.after.mode)
            self.written.add(step.path)
        else:
            self._replace(step)
        self._verify(step, look)

    def _replace(self, step: WriteStep) -> None:
        self._expect_closed(step)
        with self.tools.files.holding(step.path) as bytes_then:
            self._expect(step)
            self.tools.files.publish(self.temps[step.path], step.path)
            del self.temps[step.path]
            self.written.add(step.path)
            self._keep_newer(step, bytes_then())

    def _remove(self, step: RemovalStep) -> None:
        self._expect_closed(step)
        with self.tools.files.holding(step.path) as bytes_then:
            self._expect(step)
            self.tools.files.unlink(step.path)
            self.states[step.path] = None
            self._keep_newer(step, bytes_then())

    def _keep_newer(self, step: PlanStep, data: bytes | None) -> None:
        """Restore what somebody wrote between the last look at a path and its change."""
        files = self.tools.files
        if data is None or step.before is None:
            return
        if files.format.blob(data) == step.before.oid:
            return
        temp = files.stage(step.path, data, step.before.mode)
        files.harden(temp)
        files.publish(temp, step.path)
        raise _MovedError

    def _expect(self, step: PlanStep) -> None:
        """Make sure that a path still holds what the plan found there.

        A file that nobody may read is read after its mode is set, or is known by its stat.
        """
        try:
            version = version_at(self.tools.files, step.path)
        except PermissionError:
            look = self.tools.files.look(step.path)
            state = self.tools.state_of(step.path)
            if look is None or step.before is None:
                raise
            if not _is_chmod(step) and (state is None or state.stat != look.stat):
                raise
            version = step.before if look.mode == step.before.mode else None
        if version != step.before:
            raise _MovedError
        if step.before is None and self.tools.files.look(step.path) is not None:
            raise _MovedError

    def _expect_closed(self, step: PlanStep) -> None:
        """Make sure that nobody has opened the database of a path since the plan."""
        database = self.plan.databases.get(step.path)
        # Once for each database: from its first change on, who opens it gets the new files.
        if database is None or database in self.closed:
            return
        if why := self.tools.databases((database,)).get(database):
            raise _MovedError(why)
        self.closed.add(database)

    def _verify(self, step: WriteStep, then: Look | None) -> None:
        """Read back what was written; `then` is how a file looked whose mode alone was set."""
        state = self._state(step, then)
        if state.version.oid != step.after.oid:
            raise _MovedError
        self.states[step.path] = state
        # A mount may accept chmod and ignore it, as vfat with the option `quiet` does (mount(8)).
        if state.version != step.after:
            raise OSError(errno.EPERM, "the mode could not be set")
        if had := self.carried.get(step.path):
            gone = (
                current().file_facts().lost(had, self.tools.files.attributes(step.path))
            )
            if gone:
                self.lost[step.path] = gone

    def _state(self, step: WriteStep, then: Look | None) -> FileState:
        files, now_ns = self.tools.files, self.tools.clock.now_ns()
        try:
            reading = files.read(step.path)
        except PermissionError:
            look = files.look(step.path)
            if look is None or then is None or not look.is_same_content(then.stat):
                raise
            # Nobody may read it, neither before nor now: its stat says that nobody wrote it.
            version = FileVersion(step.after.oid, look.mode)
            return FileState(version, look.stat, now_ns, racy=True)
        if reading is None:
            raise _MovedError
        version = FileVersion(files.format.blob(reading.data), reading.mode)
        return FileState(version, reading.stat, now_ns, reading.racy)

    def _fail(self, path: RepoPath, failure: Failure) -> None:
        """Skip every item that needs this path, and restore what it had changed."""
        # Items can share a path, as when two files change places, so a failure spreads.
        todo = [path]
        while todo:
            at = todo.pop()
            if at in self.failed:
                continue
            self.failed[at] = failure
            self._revert(at)
            database = self.plan.databases.get(at)
            if database is not None:
                todo += (p for p, of in self.plan.databases.items() if of == database)
            for planned in self.owners.get(at, ()):
                todo += [other for other in planned.paths if other not in self.failed]

    def _revert(self, path: RepoPath) -> None:
        step = self.plan.steps[path]
        if path not in self.states and path not in self.written:
            return
        state = self.states.get(path)
        # What could not be read back is taken for what was written.
        left = state.version if state else step.after
        try:
            self.tools.files.doubt()
            put_back(path, step.before, left, self.tools)
            self.states.pop(path, None)
        except (OSError, StoreError) as error:
            detail = f"changed, and could not be restored: {error}"
            self.failed[path] = Failure(Reason.IO_ERROR, detail)

    def _clear(self, directory: RepoPath) -> None:
        files = self.tools.files
        with suppress(OSError, UnsafePathError):
            mode = files.permissions(directory)
            if rmdir_quietly(files, directory):
                self.cleared.append((directory, mode))

    def _remake(self) -> None:
        """Create again the directories that were removed for a file which then was not written."""
        for directory, mode in reversed(self.cleared):
            above = {directory, *parents(directory)}
            if any(path in above for path in self.failed):
                self.tools.hook(f"remake {directory!r}")
                # What somebody put there since is kept.
                with suppress(OSError, UnsafePathError):
                    self.tools.files.make_dir(directory, mode)

    def _drop_temps(self) -> None:
        for temp in self.temps.values():
            unlink_quietly(self.tools.files, temp)
        self.temps.clear()
        # Innermost first; a directory that got its file is not empty and stays.
        for directory in reversed(self.made):
            rmdir_quietly(self.tools.files, directory)

    def _sweep(self) -> None:
        for directory in self.plan.sweep:
            self.tools.hook(f"sweep {directory!r}")
            rmdir_quietly(self.tools.files, directory)

    def _item(self, planned: PlannedItem) -> Item:
        failures = [self.failed[path] for path in planned.paths if path in self.failed]
        if not failures:
            return planned.item
        item = planned.item
        return Item(
            path=item.path,
            old_path=item.old_path,
            session=item.session,
            action=Action.NONE,
            state=State.NOT_REVERSED,
            reason=failures[0].reason,
            detail=failures[0].detail,
        )

    def _changes(self) -> Iterator[Draft]:
        """Yield what was changed; a move where the old path is simply empty now."""
        # Only a move to a free path whose old path is now empty is a rename; two files that change
        # places are two writes.
        moved: dict[RepoPath, RepoPath] = {}
        for planned in self.plan.items:
            if len(planned.paths) == 2 and all(p in self.states for p in planned.paths):
                new, old = planned.paths
                if self.plan.steps[new].before is None and self.states[old] is None:
                    moved[new] = old
        # A move is one row with both paths, so that history follows the file.
        gone = set(moved.values())
        for path, state in self.states.items():
            if path in gone:
                continue
            old_path = moved.get(path)
            source = self.plan.steps[old_path or path]
            was = source.before
            before = None if was is None else FileState(was, _NO_STAT, 0)
            yield Draft(EventKind.RESTORE, path, before, state, 0, 0, old_path)

    def _is_barred(self, path: RepoPath) -> bool:
        """Return whether something that is no directory is above a path."""
        # What is removed before may be above it in another spelling.
        return any(
            up in self.plan.steps or fold_key(up) in self.barriers
            for up in parents(path)
        )

    def _data(self, version: FileVersion) -> bytes:
        made = self.plan.made.get(version.oid)
        return made if made is not None else self.tools.read(version.oid)


class _MovedError(Exception):
    """A path changed between plan and step, or what its text says happened."""


def set_modes(made: Sequence[RepoPath], tools: Tools) -> list[tuple[RepoPath, int]]:
    """Set the modes that directories had, inner ones first; return what could not be set."""
    unset: list[tuple[RepoPath, int]] = []
    for directory in reversed(made):
        mode = tools.mode_of(directory)
        if mode is None:
            continue
        try:
            is_set = tools.files.set_mode(directory, mode)
        except FileNotFoundError:
            # The write that needed it was not made.
            continue
        except (OSError, UnsafePathError):
            is_set = False
        if not is_set:
            unset.append((directory, mode))
    return unset


def put_back(
    path: RepoPath, before: FileVersion | None, after: FileVersion | None, tools: Tools
) -> bool:
    """Restore the earlier state of a path if it still has what was written.

    Returns:
        Whether the path holds the earlier state now.

    Raises:
        OSError: the system refused.
        StoreError: the earlier content cannot be read.
    """
    files = tools.files
    now = version_at(files, path)
    if now == before:
        return True
    # Somebody wrote here after the op, and their content or directory is not ours to replace.
    if now != after or (now is None and files.look(path) is not None):
        return False
    if before is None:
        files.unlink(path)
    else:
        made = files.make_parents(path, tools.mode_of)
        # Staged, synced and renamed, so that a crash leaves either the old file or the new one.
        temp = files.stage(path, tools.read(before.oid), before.mode)
        files.harden(temp)
        files.publish(temp, path)
        set_modes(made, tools)
    return version_at(files, path) == before


def _is_chmod(step: PlanStep) -> bool:
    """Return whether a step changes permission bits only."""
    return (
        step.before is not None
        and step.after is not None
        and step.before.oid == step.after.oid
        and not step.before.is_link
        and not step.after.is_link
    )


def unlink_quietly(files: WorkFiles, path: RepoPath) -> None:
    """Remove a temporary file of ours, if it is there."""
    try:
        files.unlink(path)
    except (OSError, UnsafePathError):
        # It is gone, and its directory may be too.
        return


def rmdir_quietly(files: WorkFiles, directory: RepoPath) -> bool:
    """Remove a directory if it is one and empty; return whether it was removed."""
    try:
        return files.rmdir_if_empty(directory)
    except (OSError, UnsafePathError):
        # It is gone already, or something else by now, which is not ours.
        return False


def _full() -> FullError:
    return FullError(
        "cannot apply the plan: not enough disk space; nothing was changed",
        hint="free some space, then try again",
    )
