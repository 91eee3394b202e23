"""Where things lie: the worktree, its Git directories and our own state directory.

Only `os` is imported and nothing is created, because the hook program uses it (`dataclasses` alone
would cost it 8 ms).
"""

import os

STATE_NAME = "agent-undo"
MAIN_WORKTREE = "main"


class Layout:
    """The absolute real paths of one worktree; never changed once made.

    `worktree` is `main`, or the linked worktree's name below `worktrees/`. `state_dir` is our
    directory, shared by all worktrees of the repository; `wt_dir` has what belongs to this
    worktree alone.
    """

    def __init__(
        self,
        root: str,
        git_dir: str,
        common_dir: str,
        worktree: str,
        state_dir: str | None = None,
    ) -> None:
        self.root = root
        self.git_dir = git_dir
        self.common_dir = common_dir
        self.objects_dir = f"{common_dir}/objects"
        self.worktree = worktree

        self.state_dir = state = state_dir or f"{common_dir}/{STATE_NAME}"
        self.journal = f"{state}/journal.db"
        # Hook payloads that no daemon took; the mtime of the empty file `missed` is not 0 when one
        # could not even be spooled.
        self.spool_dir = f"{state}/spool"
        self.missed = f"{state}/missed"
        # The ids that this copy of the repository has had, and the journals of other machines.
        self.machines = f"{state}/machines"
        self.fetched_dir = f"{state}/fetched"
        # Sessions of agent programs have a lock each; the flock of `sagas_lock` keeps all of them
        # from beginning anything.
        self.sagas_dir = f"{state}/sagas"
        self.sagas_lock = f"{state}/sagas/all.lock"
        # One process at a time changes packs. `packing` exists only while one is made, and `packed`
        # says up to where each of our refs is packed.
        self.packing_lock = f"{state}/packing.lock"
        self.packing_dir = f"{state}/packing"
        self.packed = f"{state}/packed"
        self.log = f"{state}/log"
        self.reports_dir = f"{state}/reports"
        self.pages_dir = f"{state}/pages"

        self.wt_dir = own = f"{state}/wt/{worktree}"
        # The flock of this file is the worktree's writer lock.
        self.lock = f"{own}/lock"
        # This path may be longer than `sun_path` of a socket allows.
        self.socket = f"{own}/sock"
        # A touched `stamp` shows the time of this file system.
        self.stamp = f"{own}/stamp"
        # Trailers wait here until the message of a commit is written.
        self.trailers = f"{own}/trailers"
        # A daemon that was being started when this empty file was made anew does not record.
        self.stops = f"{own}/stops"
        # What recorders wrote that ran below commands of `exec`.
        self.own_bytes = f"{own}/own-bytes"

    @property
    def initialised(self) -> bool:
        """Return whether `init` has been run in this repository."""
        return os.path.exists(self.journal) and not os.path.islink(self.state_dir)

    def saga_locks(self) -> list[str]:
        """Return `sagas_lock`, then the locks of all sessions that there ever were, sorted."""
        try:
            names = sorted(os.listdir(self.sagas_dir))
        except OSError:
            names = []
        own = os.path.basename(self.sagas_lock)
        found = (name for name in names if name.endswith(".lock") and name != own)
        return [self.sagas_lock, *(f"{self.sagas_dir}/{name}" for name in found)]


class BorrowedLayout(Layout):
    """A worktree whose state is in another directory."""

    def __init__(self, layout: Layout, state_dir: str) -> None:
        super().__init__(
            layout.root, layout.git_dir, layout.common_dir, layout.worktree, state_dir
        )


def page_of(layout: Layout, *sessions: str) -> str:
    """Return the default file of the page of one session, or of two that are compared."""
    # No id contains "..", because it is part of the name of a ref (git-check-ref-format(1)).
    return os.path.join(layout.pages_dir, f"{'..'.join(sessions)}.html")


def pages_about(layout: Layout, sessions: frozenset[str]) -> list[str]:
    """Return the files of all pages about at least one of some sessions."""
    try:
        found = os.listdir(layout.pages_dir)
    except OSError:
        return []
    return [
        os.path.join(layout.pages_dir, name)
        for name in found
        if any(one in sessions for one in name.removesuffix(".html").split(".."))
    ]


def journal_stamp(layout: Layout) -> tuple[tuple[int, int], ...]:
    """Return a value that differs after every change of the journal; cheap."""
    # The WAL counts too: SQLite writes to it, and to the journal itself only at a checkpoint.
    return tuple(_stamp(layout.journal + end) for end in ("", "-wal"))


def _stamp(path: str) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size


def discover(start: str) -> Layout | None:
    """Find the worktree that holds a directory, looking upwards as Git does.

    Args:
        start: An absolute or relative path; it need not exist itself.

    Returns:
        The layout, or None outside a worktree (a bare repository has none).
    """
    here = os.path.realpath(start)
    while True:
        git_dir = _git_dir_of(here)
        if git_dir is not None:
            return _layout(here, git_dir)
        parent = os.path.dirname(here)
        if parent == here:
            return None
        here = parent


def recorded(layout: Layout) -> list[Layout]:
    """Return all worktrees of a repository that were ever recorded and still exist, by name."""
    try:
        names = sorted(os.listdir(os.path.join(layout.state_dir, "wt")))
    except OSError:
        return [layout]
    found = (_by_name(layout, name) for name in names)
    return [one for one in found if one is not None]


def _by_name(layout: Layout, worktree: str) -> Layout | None:
    """Return a worktree by its name below `worktrees/`; None where it is gone."""
    if worktree == layout.worktree:
        return layout
    common_dir = layout.common_dir
    if worktree == MAIN_WORKTREE:
        root = os.path.dirname(common_dir)
        is_main = _git_dir_of(root) == common_dir
        return Layout(root, common_dir, common_dir, worktree) if is_main else None
    git_dir = os.path.join(common_dir, "worktrees", worktree)
    try:
        with open(os.path.join(git_dir, "gitdir"), "rb") as handle:
            dot_git = os.fsdecode(handle.read(8192).rstrip(b"\r\n"))
    except OSError:
        return None
    root = os.path.dirname(os.path.join(git_dir, dot_git))
    return discover(root) if os.path.isdir(root) else None


def machine_layout(layout: Layout, machine: str) -> Layout:
    """Return the path of the journal of a machine."""
    return BorrowedLayout(layout, os.path.join(layout.fetched_dir, machine))


def machines(layout: Layout) -> list[str]:
    """Return the machines of which there is a journal, sorted."""
    try:
        names = sorted(os.listdir(layout.fetched_dir))
    except OSError:
        return []
    return [name for name in names if machine_layout(layout, name).initialised]


def is_bare(start: str) -> bool:
    """Return whether a directory is, or is in, a Git directory without a worktree."""
    here = os.path.realpath(start)
    while True:
        parts = (os.path.join(here, name) for name in ("HEAD", "objects", "refs"))
        if all(os.path.exists(part) for part in parts):
            return True
        parent = os.path.dirname(here)
        if parent == here:
            return False
        here = parent


def _git_dir_of(directory: str) -> str | None:
    """Return the Git directory that `<directory>/.git` is or names (gitrepository-layout(5))."""
    dot_git = os.path.join(directory, ".git")
    if os.path.isdir(dot_git):
        return dot_git if os.path.exists(os.path.join(dot_git, "HEAD")) else None
    try:
        with open(dot_git, "rb") as handle:
            line = handle.read(8192)
    except OSError:
        return None
    if not line.startswith(b"gitdir: "):
        return None
    target = os.fsdecode(line[len(b"gitdir: ") :].rstrip(b"\r\n"))
    return os.path.realpath(os.path.join(directory, target))


def _layout(root: str, git_dir: str) -> Layout:
    git_dir = os.path.realpath(git_dir)
    try:
        with open(os.path.join(git_dir, "commondir"), "rb") as handle:
            common = os.fsdecode(handle.read(8192).rstrip(b"\r\n"))
    except OSError:
        return Layout(root, git_dir, git_dir, MAIN_WORKTREE)
    common_dir = os.path.realpath(os.path.join(git_dir, common))
    return Layout(root, git_dir, common_dir, os.path.basename(git_dir))
