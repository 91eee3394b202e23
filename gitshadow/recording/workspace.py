"""One opened worktree: everything a verb needs, and who closes it.

Invariant: an open `Workspace` holds the worktree's writer lock, so the recorder's memory agrees
with the journal: no other process writes to it.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import islice

from gitshadow import config as configuration
from gitshadow.attribution.native_ids import is_command
from gitshadow.attribution.process import ProcessId, process_of
from gitshadow.capture.coverage import Coverage, Rules
from gitshadow.capture.fs_events import EditorTraces
from gitshadow.capture.recorder import Recorder
from gitshadow.capture.states import Spellings, StateTable
from gitshadow.capture.untracked import UntrackedData, data_key
from gitshadow.config import Config, PromptPolicy
from gitshadow.errors import JournalError, NotInitialisedError, StoreError, UsageError
from gitshadow.model import PLAIN_MODES
from gitshadow.platform import current
from gitshadow.recording.index import IndexView
from gitshadow.recording.own_bytes import OwnBytes
from gitshadow.store import machine, safe_files
from gitshadow.store.clock import StampClock
from gitshadow.store.files import WorkFiles
from gitshadow.store.git import Git
from gitshadow.store.git_settings import own_directory
from gitshadow.store.journal import meta, sessions, state
from gitshadow.store.journal.db import Db
from gitshadow.store.journal.state import WorktreeRow
from gitshadow.store.journal.switches import SwitchedTrees
from gitshadow.store.layout import Layout
from gitshadow.store.lock import WriterLock
from gitshadow.store.repo import Repo

_FILES_COMPARED = 1000


@dataclass(slots=True)
class Workspace:
    """One worktree that is opened for recording; `close` releases everything."""

    layout: Layout
    config: Config
    repo: Repo
    git: Git
    files: WorkFiles
    db: Db
    clock: StampClock
    index: IndexView
    coverage: Coverage
    states: StateTable
    spellings: Spellings
    recorder: Recorder
    lock: WriterLock
    environ: Mapping[str, str]
    own_bytes: OwnBytes
    traces: EditorTraces = field(default_factory=EditorTraces)

    @property
    def in_place(self) -> bool:
        """Return whether the paths of worktree and state lead to what was opened."""
        # A write into a repository that is being deleted would make `rm -rf` fail.
        git_dir, common_dir = self.layout.git_dir, self.layout.common_dir
        parts = (f"{git_dir}/HEAD", f"{common_dir}/objects", f"{common_dir}/refs")
        return (
            self.lock.in_place
            and self.files.in_place
            and all(map(os.path.lexists, parts))
        )

    def close(self) -> None:
        """Close journal, repository and clock, then release the lock."""
        is_noted = self.own_bytes.is_noted
        wrappers = self._wrappers() if is_noted else []
        self.db.close()
        self.repo.close()
        self.clock.close()
        if is_noted:
            self.own_bytes.publish(wrappers)
        self.lock.release()

    def _wrappers(self) -> list[ProcessId]:
        """Return the processes of `exec` whose commands run, as far as the journal can be read."""
        try:
            live = sessions.live(self.db) if self.config.ledger else []
        except JournalError:
            return []
        found = (process_of(one) for one in live if is_command(one))
        return [one for one in found if one is not None]


def read_config(repo: Repo, environ: Mapping[str, str]) -> Config:
    """Read the settings of a repository once.

    Raises:
        UsageError: one of them is not allowed, or not on this system.
    """
    found = configuration.load(repo.config_values("agent-undo"), environ)
    has = current().WATCHERS
    if found.watcher not in has:
        name = configuration.WATCHER.git_name
        raise UsageError(
            f"cannot use '{found.watcher}' as {name}: on this system it must be"
            f" {' or '.join(has)}",
            hint=f"git config {name} auto",
        )
    return found


def make_state_dirs(layout: Layout) -> None:
    """Create our directories, private whatever the umask.

    Raises:
        StoreError: the disk takes nothing, as one that is mounted read-only, or one of them is a
            link.
    """
    own = ("wt", layout.worktree)
    try:
        for names in ((), ("spool",), ("wt",), own, ("reports",), ("sagas",)):
            safe_files.make_dir(layout, *names)
        if not os.path.lexists(layout.missed):
            flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            os.close(os.open(layout.missed, flags, 0o600))
            os.utime(layout.missed, (0, 0))
    except OSError as error:
        raise StoreError(
            f"cannot write to {layout.state_dir}, so nothing is recorded",
            hint="make it writable; the recorded history is still there: git log --all",
        ) from error


def open_workspace(
    layout: Layout, environ: Mapping[str, str], *, lock_timeout_s: float
) -> Workspace:
    """Open a worktree for recording.

    Raises:
        NotInitialisedError: `init` has not been run in this repository.
        LockedError: another process records this worktree.
        UnsupportedError: the repository cannot be read.
        JournalError: the journal is damaged, newer or busy.
    """
    if not layout.initialised and os.path.isdir(layout.wt_dir):
        raise JournalError(
            "cannot find the journal: it was deleted",
            hint="to rebuild it from the refs: git agent-undo reindex",
        )
    if not layout.initialised:
        # Raises UnsupportedError for a repository in which `init` would not help.
        Repo.open(layout).close()
        raise NotInitialisedError(
            f"nothing is recorded in {layout.root}", hint="git agent-undo init"
        )
    make_state_dirs(layout)
    lock = WriterLock(layout.lock)
    own_bytes = OwnBytes(layout.own_bytes)
    lock.acquire(lock_timeout_s)
    try:
        return _open_locked(layout, environ, lock, own_bytes)
    except BaseException:
        lock.release()
        raise


def configure(recorder: Recorder, settings: Config) -> None:
    """Apply the settings that concern the recorder, at first and when they change."""
    recorder.idle_gap_ns = settings.idle_gap_ns
    recorder.tells_prompts = settings.prompts is PromptPolicy.COMMIT


def rules_of(settings: Config, repo: Repo, layout: Layout) -> Rules:
    """Return what coverage depends on of the settings, Git's own among them."""
    named = repo.config_get("core.excludesFile")
    users = f"{own_directory(os.environ)}/ignore" if named is None else named
    return Rules(
        settings.max_file_size_bytes,
        settings.include,
        repo.config_is("core.ignoreCase", unset=False),
        settings.max_untracked_bytes,
        (
            os.path.join(layout.common_dir, "info", "exclude"),
            os.path.join(layout.root, os.path.expanduser(users)),
        ),
    )


def _open_locked(
    layout: Layout, environ: Mapping[str, str], lock: WriterLock, own_bytes: OwnBytes
) -> Workspace:
    repo = Repo.open(layout)
    settings = read_config(repo, environ)
    db = Db.open(layout.journal, create=False)
    db.switched = SwitchedTrees(repo)
    here = machine.identify(layout, db)
    git = Git(layout, dict(environ))
    composes = current().file_facts().COMPOSES_NAMES and repo.config_is(
        "core.precomposeUnicode", unset=True
    )
    files = WorkFiles(layout.root, repo.format, composes=composes)
    index = IndexView(layout, git, repo)
    rules = rules_of(settings, repo, layout)
    states = StateTable(db, layout.worktree)
    row = _worktree_row(db, layout, files, states)
    recorder = Recorder(repo, files, db, row, states, here)
    configure(recorder, settings)
    keys = modes_key(layout.worktree), data_key(layout.worktree)
    modes, left_out = map(meta.get_many(db, keys).get, keys)
    recorder.use_modes(parse_modes(modes))
    data = UntrackedData(db, layout.worktree, settings.max_untracked_bytes, left_out)
    coverage = Coverage(files, index, rules, data=data)
    coverage.known = lambda path: states.get(path) is not None
    return Workspace(
        layout=layout,
        config=settings,
        repo=repo,
        git=git,
        files=files,
        db=db,
        clock=StampClock(layout.stamp),
        index=index,
        coverage=coverage,
        states=states,
        spellings=Spellings(files, states),
        recorder=recorder,
        lock=lock,
        environ=environ,
        own_bytes=own_bytes,
    )


def _worktree_row(
    db: Db, layout: Layout, files: WorkFiles, states: StateTable
) -> WorktreeRow:
    """Return the worktree's row; one of another directory by that name counts as none."""
    row = state.get_worktree(db, layout.worktree)
    path = os.fsencode(layout.root)
    if row is not None and row.path == path:
        return row
    if row is not None and _was_moved(files, states):
        fresh = replace(row, path=path)
    else:
        fresh = WorktreeRow(id=layout.worktree, path=path)
    with db.write():
        if row is not None and fresh.tree is None:
            state.clear(db, layout.worktree)
            states.forget()
        state.put_worktree(db, fresh)
    return fresh


def _was_moved(files: WorkFiles, states: StateTable) -> bool:
    """Return whether a directory contains the same files that were recorded at another path."""
    # A rename of a directory above leaves inode and times of a file as they were; a copy and a new
    # worktree of an old name do not.
    for path in islice(states.all(), _FILES_COMPARED):
        look, known = files.glance(path), states.get(path)
        if look is not None and known is not None and look.stat == known.stat:
            return True
    return False


def modes_key(worktree: str) -> str:
    """Return where the journal keeps the permissions of ordinary files of a worktree."""
    return f"modes:{worktree}"


def parse_modes(text: str | None) -> tuple[int, int]:
    """Return the permissions that 100644 and 100755 stand for in a worktree's chains."""
    if text is None:
        return PLAIN_MODES
    plain, executable = text.split()
    return int(plain, 8), int(executable, 8)


def save_modes(db: Db, worktree: str, modes: tuple[int, int]) -> None:
    """Remember the permissions of ordinary files, found at `init`."""
    with db.write():
        meta.put(db, modes_key(worktree), f"{modes[0]:04o} {modes[1]:04o}")
