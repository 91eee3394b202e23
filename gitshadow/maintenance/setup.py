"""`init`: root the history in what is there. `uninstall`: remove all of ours but objects.

Objects stay until Git's own gc: nothing but refs and our own files is removed.
Invariant: a second `init` changes nothing but to reconcile; a refused one creates nothing. After an
uninstall nothing of ours is in the repository but objects that nothing reaches.
"""

import os
import shutil
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack, closing, suppress
from typing import NamedTuple

from gitshadow.capture.reconcile import Entering, Walk, walk
from gitshadow.config import DaemonMode
from gitshadow.errors import StoreError, UnsupportedError, raise_shortage
from gitshadow.model import (
    LINK_MODE,
    PLAIN_MODES,
    Actor,
    Excluded,
    FileState,
    FileVersion,
    Oid,
    RepoPath,
    git_mode,
)
from gitshadow.platform import current
from gitshadow.recording.attributor import Claimant
from gitshadow.recording.head import reflog_mark
from gitshadow.recording.walker import DirectoryModes
from gitshadow.recording.workspace import (
    Workspace,
    make_state_dirs,
    open_workspace,
    read_config,
    save_modes,
)
from gitshadow.sharing import remotes
from gitshadow.sharing.remotes import is_ours
from gitshadow.store import machine, progress, refs
from gitshadow.store.disk import own_bytes
from gitshadow.store.files import Reading
from gitshadow.store.journal import sessions, state
from gitshadow.store.journal.db import Db
from gitshadow.store.journal.state import Looks, States, uncollected
from gitshadow.store.layout import Layout, recorded
from gitshadow.store.lock import acquire_all
from gitshadow.store.packs import Packs
from gitshadow.store.repo import Repo
from gitshadow.store.trees import Entry

_PERSONAL_DIRS = ("Desktop", "Documents", "Downloads")
LOCK_S = 10.0


class There(NamedTuple):
    """What we have in a repository: refs, refs that expose them, packs, own bytes."""

    refs: tuple[str, ...]
    shown: tuple[str, ...]
    packs: int
    state_bytes: int


def what_is_there(layout: Layout) -> There:
    """Return what we have in a repository.

    Raises:
        StoreError, UnsupportedError: the repository cannot be read.
    """
    with closing(Repo.open(layout)) as repo:
        own = sorted({*repo.refs(), *repo.broken_refs()})
        shown = repo.refs(refs.EXPOSED_PREFIX).items()
        ours = sorted(name for name, tip in shown if is_ours(repo, tip))
    packs = len(Packs(layout.objects_dir, layout.packing_dir).ours())
    return There(tuple(own), tuple(ours), packs, own_bytes(layout.state_dir))


def leave(layout: Layout) -> There:
    """Remove everything of ours from a repository; return what it was.

    The daemons must have been stopped.

    Raises:
        LockedError: another process records in a worktree, or an agent program has a turn.
        StoreError, UnsupportedError: it failed; a second call removes the rest.
    """
    there = what_is_there(layout)
    # All writer locks are held until the end: a process that records would create refs again.
    with ExitStack() as held:
        if os.path.isdir(layout.wt_dir):
            acquire_all(held, (one.lock for one in recorded(layout)), LOCK_S)
        if os.path.isdir(layout.sagas_dir):
            acquire_all(held, layout.saga_locks(), LOCK_S)
        with closing(Repo.open(layout)) as repo:
            for name in (*there.shown, *there.refs):
                repo.delete_ref(name)
        packs = Packs(layout.objects_dir, layout.packing_dir)
        for pack in packs.ours():
            packs.release(pack)
        try:
            if os.path.isdir(layout.state_dir):
                shutil.rmtree(layout.state_dir)
        except OSError as error:
            raise StoreError(
                f"could not remove {layout.state_dir}: {error.strerror}"
            ) from error
        for prefix in (refs.REF_PREFIX, refs.EXPOSED_PREFIX):
            for top in ("", "logs"):
                _drop_empty(os.path.join(layout.common_dir, top, prefix))
    return there


def _drop_empty(directory: str) -> None:
    """Remove the empty directories of one of our namespaces."""
    # rmdir refuses a directory with content, so no ref that Git makes at this time is lost.
    for top, _, _ in os.walk(directory, topdown=False):
        with suppress(OSError):
            os.rmdir(top)
    with suppress(OSError):  # `refs/remotes`, where ours were the first
        os.rmdir(os.path.dirname(directory.rstrip("/")))


class Initialised(NamedTuple):
    """What `init` found; `already` when it had been run before.

    `stored` is the number of bytes that the object store did not have.
    """

    already: bool
    files: int
    unreadable: tuple[tuple[RepoPath, str], ...]
    excluded: tuple[Excluded, ...] = ()
    daemon_allowed: bool = False
    directories: tuple[RepoPath, ...] = ()
    stored: int = 0


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
        UnsupportedError: the place is refused, or the repository cannot be read.
        StoreError, JournalError: objects or the journal could not be written.
    """
    allowed = prepare(layout, environ, force=force)
    opened = open_workspace(layout, environ, lock_timeout_s=LOCK_S)
    with closing(opened) as workspace:
        return root_worktree(workspace)._replace(daemon_allowed=allowed)


def prepare(layout: Layout, environ: Mapping[str, str], *, force: bool) -> bool:
    """Make the journal of a repository; return whether a daemon may read the worktree.

    Raises:
        UnsupportedError: the place is refused, or the repository cannot be read.
        StoreError, JournalError: objects or the journal could not be written.
    """
    if not force:
        refuse_personal(layout.root, environ.get("HOME"))
    make_journal(layout)
    with closing(Repo.open(layout)) as repo:
        config = read_config(repo, environ)
        # Without the environment: a variable of this one command must not decide for later hooks.
        lasting = read_config(repo, {})
    mark_daemon(layout, allowed=lasting.daemon is DaemonMode.AUTO)
    return config.enabled and config.daemon is DaemonMode.AUTO


def make_journal(layout: Layout) -> None:
    """Make sure of a journal; a new one gets the history of the fetched refs.

    Their sessions have ended: whatever is written here is none of theirs.

    Raises:
        UnsupportedError: the repository cannot be read.
        StoreError, JournalError: objects or the journal could not be read or written.
    """
    with closing(Repo.open(layout)) as repo:
        fetched = not layout.initialised and bool(repo.refs())
        make_state_dirs(layout)
        with closing(Db.open(layout.journal, create=True)) as db:
            if fetched:
                # Imported here, because it takes 10 ms and few repositories have fetched refs.
                from gitshadow.recording import ingest
                from gitshadow.store.replay import rebuild

                with db.write():
                    foreign = rebuild(db, repo, machine.ours(layout)).foreign
                ingest.move(layout, repo, foreign)


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


def root_worktree(
    workspace: Workspace, entering: Entering | None = None
) -> Initialised:
    """Read a worktree that has no recorded tree yet; one that has one is left alone.

    Args:
        workspace: The worktree.
        entering: What `walk` calls with directories before it lists them.
    """
    ws = workspace
    if ws.recorder.row.tree is not None:
        return Initialised(True, ws.states.count(), ())
    began = ws.clock.now_ns()
    head_ref, head = ws.repo.head()
    tree = ws.index.head_tree()
    with uncollected():
        found = walk(ws.files, ws.coverage, entering)
        reader = _Reader(ws, tree, began)
        reader.read_all(found.files)
        try:
            _store(ws, found, reader, (head_ref, head), began)
        except StoreError as error:
            # A clone without trees and without a checkout; nothing here asks a remote for any.
            if error.hint is None and ws.git.is_partial():
                error.hint = (
                    "if this partial clone lacks it, this fetches it: git status"
                )
            raise
    return Initialised(
        False,
        len(reader.states),
        tuple(reader.unreadable),
        (*(item for item, _ in found.excluded), *ws.coverage.data_left_out()),
        stored=reader.stored,
        directories=tuple(found.directories),
    )


class _Reader:
    """Take from Git's index what it knows, and read the rest.

    `differing` is what files hold that the tree of HEAD has not. What only that tree has may be at
    `not_found`; None: anywhere.
    """

    def __init__(self, workspace: Workspace, tree: Oid | None, began_ns: int) -> None:
        self._ws = workspace
        self.tree = tree
        self._began_ns = began_ns
        self.states = States()
        self.differing: dict[RepoPath, Entry | None] = {}
        self.not_found: set[RepoPath] | None = None
        self.unreadable: list[tuple[RepoPath, str]] = []
        self.stored = 0

    def read_all(self, looks: Looks) -> None:
        """Read files; what is left of `looks` could not be read."""
        clean = self._ws.index.clean(looks, self.tree)
        oids = clean.oids
        other = oids.keys() if self.tree is None else oids.keys() & clean.unlike
        self.states.take(looks, oids, self._began_ns)
        if clean.absent is not None:
            self.not_found = {*clean.absent, *clean.unlike}
        for path in other:
            self._differs(path, self.states[path])
        self._leave_data_out(looks)
        folders: dict[bytes, list[bytes]] = {}
        for path in looks:
            directory, _, name = path.rpartition(b"/")
            folders.setdefault(directory, []).append(name)
        size = sum(look.stat.size for look in looks.values())
        teller = progress.Teller(self._ws.layout, len(looks), size)
        for directory, names in folders.items():
            prefix = directory + b"/" if directory else b""
            for name, got in self._ws.files.read_in(RepoPath(directory), names):
                path = RepoPath(prefix + name)
                if isinstance(got, OSError):
                    raise_shortage(got)
                    self.unreadable.append((path, got.strerror or str(got)))
                elif got is not None:
                    del looks[path]
                    self.states[path] = self._state(path, got)
                    teller.add(got.stat.size)
        teller.end()

    def _leave_data_out(self, looks: Looks) -> None:
        """Add up what would be read, and leave untracked data out before any of it is."""
        ws, data = self._ws, self._ws.coverage.data
        sizes = {path: look.stat.size for path, look in looks.items() if look.is_file}
        if data is None or sum(sizes.values()) <= data.limit:
            return
        new = {path: sizes[path] for path in ws.index.untracked(sizes)}
        data.admit(new, 0)
        for path, size in new.items():
            if data.leaves_out(path, size) is not None:
                del looks[path]

    def _state(self, path: RepoPath, reading: Reading) -> FileState:
        repo, tree = self._ws.repo, self.tree
        oid = repo.format.blob(reading.data)
        known = repo.trees.entry(tree, path) if tree is not None else None
        # What HEAD has already is not stored again.
        if known is None or known[1] != oid:
            oid = repo.write_blob(reading.data)
            self.stored += len(reading.data)
        state = FileState(
            FileVersion(oid, reading.mode),
            reading.stat,
            self._began_ns,
            reading.racy,
        )
        if known != (git_mode(reading.mode), oid):
            self._differs(path, state)
        return state

    def _differs(self, path: RepoPath, state: FileState) -> None:
        self.differing[path] = git_mode(state.version.mode), state.version.oid


def _store(
    workspace: Workspace,
    found: Walk,
    reader: _Reader,
    head: tuple[str | None, Oid | None],
    began_ns: int,
) -> None:
    ws, states = workspace, reader.states
    # Existing chains keep the meaning of plain that their baselines gave it.
    rooted = sessions.chains(ws.db, ws.layout.worktree)
    modes = ws.recorder.modes if rooted else common_modes(states)
    save_modes(ws.db, ws.layout.worktree, modes)
    DirectoryModes(ws.db, ws.layout.worktree).note(found.modes, whole=True)
    # Most files are as HEAD has them, and so are most trees.
    differing = reader.differing
    if reader.tree is not None:
        differing |= dict.fromkeys(_deleted(ws, reader, reader.tree))
    with ws.db.write():
        ws.states.begin(states)
        looks = {item.path: key for item, key in found.excluded if key is not None}
        looks |= {path: look.stat for path, look in found.files.items()}
        known = state.load_excluded(ws.db, ws.layout.worktree)
        state.replace_excluded(ws.db, ws.layout.worktree, looks, known)
    ws.recorder.use_modes(modes)
    ws.recorder.settled(began_ns)
    tree = ws.repo.trees.splice(reader.tree, differing)
    mark = reflog_mark(ws.repo.head_log, head[1])
    ws.recorder.set_tree(tree, head[1], head[0], mark)
    claimant = Claimant(ws)
    ws.recorder.ensure_baseline(claimant.personal(Actor.UNKNOWN), synced=True)


def _deleted(ws: Workspace, reader: _Reader, tree: Oid) -> list[RepoPath]:
    """Return what HEAD has and the disk has not; the rest stays in the tree as HEAD has it."""
    found = reader.not_found
    entries = (
        ws.repo.trees.flat(tree)
        if found is None
        else {path: one for path in found if (one := ws.repo.trees.entry(tree, path))}
    )
    rest = {path: one for path, one in entries.items() if path not in reader.states}
    return list(rest.keys() - _still_there(ws, rest).keys())


def carried(
    workspace: Workspace, states: Mapping[RepoPath, FileState]
) -> dict[RepoPath, Entry]:
    """Return what HEAD has and nobody looks at: it stays in every tree as HEAD has it.

    Submodules, what a sparse checkout leaves out, tracked files that are too large, unreadable
    or left out by our own rules. What is simply absent from the disk was deleted.
    """
    tree = workspace.index.head_tree()
    committed = {} if tree is None else workspace.repo.trees.flat(tree)
    rest = {path: one for path, one in committed.items() if path not in states}
    return _still_there(workspace, rest)


def _still_there(
    workspace: Workspace, entries: Mapping[RepoPath, Entry]
) -> dict[RepoPath, Entry]:
    """Return those entries without a state that a sparse checkout left out or the disk has."""
    skipped = workspace.index.skipped() if entries else ()
    return {
        path: entry
        for path, entry in entries.items()
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


def common_modes(states: States) -> tuple[int, int]:
    """Return the most common exact permissions of plain and of executable files."""
    counts = Counter(mode for _, mode in states.modes() if mode != LINK_MODE)
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


def warnings(layout: Layout) -> list[str]:
    """Return what a person should know about this repository before trusting us with it."""
    with closing(Repo.open(layout)) as repo:
        found = [
            f"{remotes.warning(leak)}; for how to exclude it: git agent-undo doctor"
            for leak in remotes.leaks(repo)
        ]
    note = current().NOTE
    return found if note is None else [*found, note]
