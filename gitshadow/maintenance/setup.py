"""`init`: read what Git does not know, and root the history in what is there.

Invariant: a second `init` changes nothing but to reconcile; a refused one creates nothing.
"""

import os
import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from gitshadow.capture.reconcile import Walk, walk
from gitshadow.config import DaemonMode
from gitshadow.errors import UnsupportedError, raise_shortage
from gitshadow.model import (
    PLAIN_MODES,
    Actor,
    FileState,
    FileVersion,
    Oid,
    RepoPath,
    git_mode,
)
from gitshadow.recording.attributor import Claimant
from gitshadow.recording.head import reflog_mark
from gitshadow.recording.workspace import (
    Workspace,
    make_state_dirs,
    open_workspace,
    read_config,
    save_modes,
)
from gitshadow.sharing import remotes
from gitshadow.store import machine
from gitshadow.store.files import Reading, is_racy
from gitshadow.store.journal import sessions, state
from gitshadow.store.journal.db import Db
from gitshadow.store.journal.state import Looks, uncollected
from gitshadow.store.layout import Layout
from gitshadow.store.objects import blob_oid
from gitshadow.store.repo import Repo
from gitshadow.store.trees import Entry

_PERSONAL_DIRS = ("Desktop", "Documents", "Downloads")
LOCK_S = 10.0


class Initialised(NamedTuple):
    """What `init` found; `already` when it had been run before."""

    already: bool
    files: int
    unreadable: tuple[tuple[RepoPath, str], ...]
    excluded: int = 0
    daemon_allowed: bool = False


class InitWarnings(NamedTuple):
    """The warnings that `init` prints."""

    warnings: tuple[str, ...]


def refuse_personal(root: str, home: str | None) -> None:
    """Refuse roots that hold a person's whole life rather than a project.

    Raises:
        UnsupportedError: it is a file system root, a home directory, or one of the usual
            directories in it.
    """
    forbidden = {"/"}
    if home:
        real = os.path.realpath(home)
        forbidden |= {real, *(os.path.join(real, name) for name in _PERSONAL_DIRS)}
    parent = os.path.dirname(root)
    if root in forbidden or (parent in ("/home", "/Users") or root == "/root"):
        raise UnsupportedError(
            f"cannot init {root}: it is a home directory or a whole file system",
            hint="run it in a project, or use --force to record it anyway",
        )


def initialise(
    layout: Layout, environ: Mapping[str, str], *, force: bool
) -> Initialised:
    """Prepare a worktree for recording.

    Raises:
        UnsupportedError: the place is refused, or libgit2 cannot read the repository.
        StoreError, JournalError: objects or the journal could not be written.
    """
    if not force:
        refuse_personal(layout.root, environ.get("HOME"))
    make_journal(layout)
    workspace = open_workspace(layout, environ, lock_timeout_s=LOCK_S)
    try:
        done = root_worktree(workspace)
        allowed = (
            workspace.config.enabled and workspace.config.daemon is DaemonMode.AUTO
        )
        # Without the environment: a variable of this one command must not decide for later hooks.
        lasting = read_config(workspace.repo, {})
        mark_daemon(layout, allowed=lasting.daemon is DaemonMode.AUTO)
        return done._replace(daemon_allowed=allowed)
    finally:
        workspace.close()


def make_journal(layout: Layout) -> None:
    """Make sure of a journal; a new one gets the history of the fetched refs.

    Their sessions have ended: whatever is written here is none of theirs.

    Raises:
        UnsupportedError: libgit2 cannot read the repository.
        StoreError, JournalError: objects or the journal could not be read or written.
    """
    repo = Repo.open(layout)
    try:
        fetched = not layout.initialised and bool(repo.refs())
        make_state_dirs(layout)
        db = Db.open(layout.journal, create=True)
        try:
            if fetched:
                # Imported here, because it takes 10 ms and few repositories have fetched refs.
                from gitshadow.recording import ingest
                from gitshadow.store.replay import rebuild

                with db.write():
                    foreign = rebuild(db, repo, machine.ours(layout)).foreign
                ingest.move(layout, repo, foreign)
        finally:
            db.close()
    finally:
        repo.close()


def mark_daemon(layout: Layout, *, allowed: bool) -> None:
    """Leave a mark for the hook program, which reads no config, where no daemon may run."""
    path = os.path.join(layout.state_dir, "daemon-off")
    if allowed == (not os.path.lexists(path)):
        return
    if allowed:
        with suppress(FileNotFoundError):
            os.unlink(path)
    else:
        os.close(
            os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        )


def root_worktree(workspace: Workspace) -> Initialised:
    """Read a worktree that has no recorded tree yet; one that has one is left alone."""
    if workspace.recorder.row.tree is not None:
        return Initialised(True, workspace.states.count(), ())
    began = workspace.clock.now_ns()
    with uncollected():
        found = walk(workspace.files, workspace.coverage)
    head_ref, head = workspace.repo.head()
    with uncollected():
        committed = _committed(workspace)
        reader = _Reader(workspace, committed, began)
        states = reader.read_all(found)
        _store(workspace, found, states, committed, (head_ref, head), began)
    return Initialised(
        False, len(states), tuple(reader.unreadable), len(found.excluded)
    )


class _Committed(NamedTuple):
    """HEAD's tree, None if HEAD is unborn, and its files."""

    tree: Oid | None
    entries: Mapping[RepoPath, Entry]


def _committed(workspace: Workspace) -> _Committed:
    tree = workspace.index.head_tree()
    return _Committed(tree, {} if tree is None else workspace.repo.flat(tree))


class _Reader:
    """Read what Git does not know; what HEAD has already is not stored again."""

    def __init__(
        self, workspace: Workspace, committed: _Committed, began_ns: int
    ) -> None:
        self._ws = workspace
        self._head = committed.entries
        self._began_ns = began_ns
        self.unreadable: list[tuple[RepoPath, str]] = []

    def read_all(self, found: Walk) -> dict[RepoPath, FileState]:
        states = self._known(found.files)
        folders: dict[bytes, list[bytes]] = {}
        for path in found.files.keys() - states.keys():
            directory, _, name = path.rpartition(b"/")
            folders.setdefault(directory, []).append(name)
        for directory, names in folders.items():
            prefix = directory + b"/" if directory else b""
            for name, got in self._ws.files.read_in(RepoPath(directory), names):
                path = RepoPath(prefix + name)
                if isinstance(got, OSError):
                    raise_shortage(got)
                    self.unreadable.append((path, got.strerror or str(got)))
                elif got is not None:
                    states[path] = self._state(path, got)
        return states

    def _known(self, looks: Looks) -> dict[RepoPath, FileState]:
        """Return the states of the files that Git's index knows to be unchanged."""
        repo, head = self._ws.repo, self._head
        states: dict[RepoPath, FileState] = {}
        for path, (look, oid) in self._ws.index.unchanged(looks).items():
            known = head.get(path)
            # What is staged can be missing where HEAD is whole.
            if (known is not None and known[1] == oid) or repo.has(oid):
                racy = is_racy(look.stat, self._began_ns)
                version = FileVersion(oid, look.mode)
                states[path] = FileState(version, look.stat, self._began_ns, racy)
        return states

    def _state(self, path: RepoPath, reading: Reading) -> FileState:
        oid = blob_oid(reading.data)
        known = self._head.get(path)
        if known is None or known[1] != oid:
            oid = self._ws.repo.write_blob(reading.data)
        return FileState(
            FileVersion(oid, reading.mode),
            reading.stat,
            self._began_ns,
            reading.racy,
        )


def _store(
    workspace: Workspace,
    found: Walk,
    states: Mapping[RepoPath, FileState],
    committed: _Committed,
    head: tuple[str | None, Oid | None],
    began_ns: int,
) -> None:
    ws = workspace
    # Existing chains keep the meaning of plain that their baselines gave it.
    rooted = sessions.chains(ws.db, ws.layout.worktree)
    modes = ws.recorder.modes if rooted else common_modes(states)
    save_modes(ws.db, ws.layout.worktree, modes)
    entries: dict[RepoPath, Entry | None] = {
        path: (git_mode(state.version.mode), state.version.oid)
        for path, state in states.items()
    }
    entries |= _carried(ws, states, committed.entries)
    # Most files are as HEAD has them, and so are most trees.
    old = committed.entries
    differing = {path: one for path, one in entries.items() if old.get(path) != one}
    differing |= dict.fromkeys(old.keys() - entries.keys())
    with ws.db.write():
        ws.states.begin(states)
        looks = {item.path: key for item, key in found.excluded if key is not None}
        unread = found.files.keys() - states.keys()
        looks |= {path: found.files[path].stat for path in unread}
        state.replace_excluded(ws.db, ws.layout.worktree, looks)
    ws.recorder.use_modes(modes)
    ws.recorder.settled(began_ns)
    tree = ws.repo.trees.splice(committed.tree, differing)
    mark = reflog_mark(ws.layout.git_dir, head[1])
    ws.recorder.set_tree(tree, head[1], head[0], mark)
    claimant = Claimant(ws)
    ws.recorder.ensure_baseline(claimant.personal(Actor.UNKNOWN), synced=True)


def carried(
    workspace: Workspace, states: Mapping[RepoPath, FileState]
) -> dict[RepoPath, Entry]:
    """Return what HEAD has and nobody looks at: it stays in every tree as HEAD has it.

    Submodules, what a sparse checkout leaves out, tracked files that are too large, unreadable
    or left out by our own rules. What is simply absent from the disk was deleted.
    """
    return _carried(workspace, states, _committed(workspace).entries)


def _carried(
    workspace: Workspace,
    states: Mapping[RepoPath, FileState],
    committed: Mapping[RepoPath, Entry],
) -> dict[RepoPath, Entry]:
    rest = {path: one for path, one in committed.items() if path not in states}
    skipped = workspace.index.skipped() if rest else ()
    return {
        path: entry
        for path, entry in rest.items()
        if path in skipped or workspace.files.look(path) is not None
    }


def forget_carried(workspace: Workspace) -> None:
    """Drop states of what is only carried over from HEAD: nobody looks at those paths."""
    ws = workspace
    skipped = ws.index.skipped()
    carried_paths = []
    for path in ws.states.all():
        look = ws.files.look(path)
        hidden = look is not None and not look.is_dir
        if path in skipped or (hidden and look and ws.coverage.verdict(path, look)):
            carried_paths.append(path)
    with ws.states.consistent(), ws.db.write():
        ws.states.update({}, carried_paths)


def common_modes(states: Mapping[RepoPath, FileState]) -> tuple[int, int]:
    """Return the most common exact permissions of plain and of executable files."""
    counts = Counter(
        state.version.mode for state in states.values() if not state.version.is_link
    )
    found = list(PLAIN_MODES)
    for executable in (False, True):
        fitting = [
            (count, mode)
            for mode, count in counts.items()
            if (git_mode(mode) == 0o100755) is executable
        ]
        if fitting:
            found[executable] = max(fitting)[1] & 0o777
    return found[0], found[1]


def look_around(layout: Layout) -> InitWarnings:
    """Return what a person should know about this repository before trusting us with it."""
    repo = Repo.open(layout)
    try:
        warnings = [
            f"{remotes.warning(leak)}; for how to exclude it: git agent-undo doctor"
            for leak in remotes.leaks(repo)
        ]
    finally:
        repo.close()
    if not sys.platform.startswith("linux"):
        warnings.append(
            "only Linux is supported: without inotify, files cannot be watched"
        )
    return InitWarnings(tuple(warnings))
