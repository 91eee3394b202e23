"""Read what Git tracks, whether a git command is at work, and which paths were excluded.

The index is never read through libgit2: a sparse or split index makes it raise. A checkout writes
its files first and moves HEAD last, with `index.lock` open all that time; recording in between
would attribute the switch to somebody.
Invariant: the answer is that of `git ls-files` at the last change of the index file's stat. A lock
file that no process holds open is stale and blocks nothing. A path that was excluded, or inside
something excluded, never counts as created, so no undo deletes it.
"""

import os
from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence

from gitshadow.errors import StoreError
from gitshadow.model import GITLINK_MODE, Oid, RepoPath, StatKey
from gitshadow.store.git import Git, Staged, parse_staged
from gitshadow.store.journal import state
from gitshadow.store.journal.db import Db
from gitshadow.store.layout import Layout
from gitshadow.store.repo import Repo
from gitshadow.store.trees import Entry

_IndexStat = tuple[int, int, int] | None
_GITLINK = f"{GITLINK_MODE:o} ".encode()
_LOCK = "index.lock"


class IndexView:
    """Answer what is tracked, ignored and in HEAD, for the coverage classifier."""

    def __init__(self, layout: Layout, git: Git, repo: Repo) -> None:
        self._path = os.path.join(layout.git_dir, "index")
        self._sparse_file = os.path.join(layout.git_dir, "info", "sparse-checkout")
        self._git = git
        self._repo = repo
        self._stat: _IndexStat = (-1, -1, -1)
        self._listing = b""
        self._paths: frozenset[RepoPath] | None = None
        self._sorted: list[RepoPath] | None = None
        self._sparse: bool = False
        self._head: tuple[Oid | None, Oid | None] = (None, None)
        self._gitlinks: frozenset[RepoPath] = frozenset()
        self._rule_files = _rule_files(layout, repo)

    def ignored(self, path: bytes) -> bool:
        """Return what Git's ignore rules say of exactly this path; a directory's ends in `/`."""
        # libgit2 takes UTF-8 only (pygit2 1.21), and a process of Git costs some milliseconds: only
        # other names pay for it.
        try:
            return self._repo.path_is_ignored(path.decode())
        except UnicodeDecodeError:
            return bool(self._git.ignore_rules([RepoPath(path)]))

    def rule_files(self) -> Sequence[str]:
        """Return the exclude files of the clone and of the user, by absolute path."""
        return self._rule_files

    def contains(self, path: RepoPath) -> bool:
        """Return whether a path is in the index or in HEAD's tree."""
        return path in self.paths() or self.head_entry(path) is not None

    def paths(self) -> frozenset[RepoPath]:
        """Return every path in the index."""
        self._refresh()
        if self._paths is None:
            self._paths = frozenset(path for _, path in parse_staged(self._listing))
        return self._paths

    def under(self, directory: RepoPath) -> Sequence[RepoPath]:
        """Return the index's paths below a directory (`b""`: all), sorted."""
        paths = self.paths()
        if self._sorted is None:
            self._sorted = sorted(paths)
        if not directory:
            return self._sorted
        # `0` is the byte after `/`, so these are all paths that begin with the directory.
        start = bisect_left(self._sorted, directory + b"/")
        stop = bisect_left(self._sorted, directory + b"0", start)
        return self._sorted[start:stop]

    def head_entry(self, path: RepoPath) -> Entry | None:
        """Return what HEAD's tree holds at a path."""
        tree = self.head_tree()
        return self._repo.entry(tree, path) if tree is not None else None

    def head_tree(self) -> Oid | None:
        """Return HEAD's tree, None if HEAD is unborn; the last one if it cannot be read."""
        try:
            _, head = self._repo.head()
        except StoreError:
            return self._head[1]
        if head != self._head[0] or head is None:
            tree = self._repo.commit(head).tree if head is not None else None
            self._head = (head, tree)
        return self._head[1]

    def gitlinks(self) -> frozenset[RepoPath]:
        """Return the submodules of HEAD's tree."""
        self._refresh()
        return self._gitlinks

    def sparse(self) -> bool:
        """Return whether this worktree is a sparse checkout."""
        return os.path.exists(self._sparse_file)

    def skipped(self) -> set[RepoPath]:
        """Return the paths that a sparse checkout leaves out."""
        return self._git.skip_worktree() if self.sparse() else set()

    def staged(self, paths: Collection[RepoPath]) -> Mapping[RepoPath, Staged]:
        """Return the index entries of some paths, with the stat that Git knows of each."""
        stat = self._stat_index()
        return self._git.staged_stats(paths, stat[0]) if stat is not None else {}

    def from_head(self, stats: Mapping[RepoPath, StatKey]) -> set[RepoPath]:
        """Return the files, by path and stat, that Git wrote with what HEAD has there."""
        return {
            path
            for path, entry in self.staged(stats.keys()).items()
            if entry.is_of(stats[path])
            and self.head_entry(path) == (entry.mode, entry.oid)
        }

    def converted(self, paths: Collection[RepoPath]) -> Collection[RepoPath]:
        """Return those of some paths whose bytes on the disk are not those of their blob."""
        return self._git.with_filter(paths)

    def _refresh(self) -> None:
        stat = self._stat_index()
        if stat == self._stat:
            return
        # Most worktrees have no submodule, and most commands ask for nothing else: reading
        # 100,000 entries one by one takes 0.2 s.
        self._listing = self._git.staged() if stat is not None else b""
        rows = parse_staged(self._listing) if _GITLINK in self._listing else []
        self._gitlinks = frozenset(path for mode, path in rows if mode == GITLINK_MODE)
        self._paths = self._sorted = None
        self._stat = stat

    def _stat_index(self) -> _IndexStat:
        try:
            found = os.stat(self._path)
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino


def _rule_files(layout: Layout, repo: Repo) -> tuple[str, ...]:
    """Return where gitignore(5) has rules outside the tree."""
    configured = repo.config_get("core.excludesfile")
    if configured is None:
        base = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
        configured = os.path.join(base, "git", "ignore")
    info = os.path.join(layout.common_dir, "info", "exclude")
    return info, os.path.join(layout.root, os.path.expanduser(configured))


class ExcludedIndex:
    """Remember the topmost uncovered paths of one worktree with their stat."""

    def __init__(self, db: Db, worktree: str) -> None:
        self._db = db
        self._worktree = worktree
        self._known: dict[RepoPath, StatKey] | None = None
        self._added: set[RepoPath] = set()

    def known(self) -> Mapping[RepoPath, StatKey]:
        """Return the paths as of the last walk."""
        if self._known is None:
            self._known = state.load_excluded(self._db, self._worktree)
        return self._known

    def holds(self, path: RepoPath) -> bool:
        """Return whether a path stood in, or was, something uncovered."""
        known = self.known()
        while path:
            if path in known or path in self._added:
                return True
            path = RepoPath(path.rpartition(b"/")[0])
        return False

    def add(self, path: RepoPath) -> None:
        """Remember one more path until the next walk."""
        self._added.add(path)

    def replace(self, now: Mapping[RepoPath, StatKey]) -> None:
        """Remember what a walk found."""
        self._added.clear()
        self.update(now)

    def update(self, now: Mapping[RepoPath, StatKey]) -> None:
        """Remember how the uncovered paths look now."""
        if now == self.known():
            return
        with self._db.write():
            state.replace_excluded(self._db, self._worktree, now)
        self._known = dict(now)


def lock_exists(git_dir: str) -> bool:
    """Return whether the worktree's index is locked, by a living process or not."""
    return os.path.exists(os.path.join(git_dir, _LOCK))


def lock_is_held(git_dir: str) -> bool:
    """Return whether a process that we may look at holds the index lock open."""
    path = os.path.join(git_dir, _LOCK)
    return any(pid.isdigit() and _holds(pid, path) for pid in os.listdir("/proc"))


def _holds(pid: str, path: str) -> bool:
    directory = f"/proc/{pid}/fd"
    try:
        fds = os.listdir(directory)
    except OSError:
        return False
    for fd in fds:
        try:
            if os.readlink(f"{directory}/{fd}") == path:
                return True
        except OSError:
            continue
    return False
