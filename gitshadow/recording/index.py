"""Read what Git tracks, whether a git command is at work, and which paths were excluded.

The index is never read through libgit2: a sparse or split index makes it raise. A checkout writes
its files first and moves HEAD last, with `index.lock` open all that time; recording in between
would attribute the switch to somebody.
Invariant: the answer is that of `git ls-files` at the last change of the index file's stat; where
Git cannot read the index, the last answer, or else what HEAD has. A lock file that no process holds
open is stale and blocks nothing. A path that was excluded, or inside something excluded, never
counts as created, so no undo deletes it.
"""

import os
import time
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from hashlib import blake2b, file_digest
from typing import NamedTuple

from gitshadow.capture.coverage import NOT_RECORDED
from gitshadow.errors import StoreError, raise_shortage
from gitshadow.model import GITLINK_MODE, Excluded, Oid, RepoPath, StatKey
from gitshadow.platform import current
from gitshadow.store import git_index
from gitshadow.store.files import Look
from gitshadow.store.git import Git
from gitshadow.store.git_index import Staged, parse_staged
from gitshadow.store.journal import state
from gitshadow.store.journal.db import Db
from gitshadow.store.journal.state import Looks
from gitshadow.store.layout import Layout
from gitshadow.store.paths import parents
from gitshadow.store.repo import Repo
from gitshadow.store.trees import Entry

_IndexStat = tuple[int, int, int] | None
_GITLINK = f"{GITLINK_MODE:o} ".encode()
_LOCK = "index.lock"
_SYMBOLIC = b"ref:"
HOLD_POLL_S = 0.01
"""How often to look whether a git command has released the lock of the index."""
_HOLD_LIMIT_S = 30.0
_HOLDER_CHECK_S = 0.25
_HEAD_GRACE_S = 0.05
_UNSEEN_LIMIT_S = 1.0
"""Where nobody was seen with the lock, a command that works here may be another one: a long gc."""
_ASK_AGAIN_S = 1.0
_NEVER = float("inf")
# To read a file takes as long as to list ten entries of the index, of about 100 bytes each.
_BYTES_PER_READING = 1000
_SMALL = 100_000
_MARK_BYTES = 16
_digest = partial(blake2b, digest_size=_MARK_BYTES)
_SECOND_NS = 1_000_000_000
_SIZES = ("cat-file", "--buffer", "--batch-check=%(objectsize)")


class CleanFiles(NamedTuple):
    """The blobs of files that hold what Git's index says.

    Compared with a tree, `unlike` are the paths at which the index differs from it, `absent` those
    in the index that are not among the files; None: not known.
    """

    oids: Mapping[RepoPath, Oid]
    unlike: Collection[RepoPath] = ()
    absent: Collection[RepoPath] | None = None


_NONE_CLEAN = CleanFiles({})


class IndexView:
    """Answer what is tracked and in HEAD, for the coverage classifier."""

    def __init__(self, layout: Layout, git: Git, repo: Repo) -> None:
        self._path = os.path.join(layout.git_dir, "index")
        self._sparse_file = os.path.join(layout.git_dir, "info", "sparse-checkout")
        self._git = git
        self._repo = repo
        self._stat: _IndexStat = (-1, -1, -1)
        self._listing: bytes | None = None
        self._again_at = _NEVER
        self.unreadable: str | None = None
        self._paths: frozenset[RepoPath] | None = None
        self._sorted: list[RepoPath] | None = None
        self._skipped: set[RepoPath] | None = None
        self._head: tuple[Oid | None, Oid | None] = (None, None)
        self._gitlinks: frozenset[RepoPath] = frozenset()
        self._without_gitlinks: _IndexStat = None

    def contains(self, path: RepoPath) -> bool:
        """Return whether a path is in the index or in HEAD's tree."""
        return not self.untracked((path,))

    def untracked(self, paths: Iterable[RepoPath]) -> set[RepoPath]:
        """Return those paths that are neither in the index nor in HEAD's tree."""
        known, tree, entry = self.paths(), self.head_tree(), self._repo.trees.entry
        return {
            path
            for path in paths
            if path not in known and (tree is None or entry(tree, path) is None)
        }

    def paths(self) -> frozenset[RepoPath]:
        """Return every path in the index."""
        self._refresh()
        if self._paths is None:
            rows = parse_staged(self._listing or b"")
            self._paths = frozenset(path for _, path in rows)
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
        return self._repo.trees.entry(tree, path) if tree is not None else None

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
        if self._stat_index() == self._without_gitlinks:
            return frozenset()
        self._refresh()
        return self._gitlinks

    def know_no_gitlinks(self) -> None:
        """Remember that the index as it is now has no submodules, so that nobody reads it."""
        self._without_gitlinks = self._stat_index()

    def sparse(self) -> bool:
        """Return whether this worktree is a sparse checkout."""
        return os.path.exists(self._sparse_file)

    def skipped(self) -> set[RepoPath]:
        """Return the paths that a sparse checkout leaves out.

        Raises:
            StoreError: Git cannot read the index, and no earlier answer is known.
        """
        if not self.sparse():
            return set()
        try:
            self._skipped = git_index.skip_worktree(self._git)
        except StoreError as error:
            _raise_unasked(error)
            if self._skipped is None:
                raise
        return self._skipped

    def staged(self, paths: Collection[RepoPath]) -> Mapping[RepoPath, Staged]:
        """Return the index entries of some paths, with the stat that Git knows of each.

        There are none where Git cannot read the index.
        """
        stat = self._stat_index()
        if stat is None:
            return {}
        try:
            return git_index.staged_stats(self._git, paths, stat[0])
        except StoreError as error:
            _raise_unasked(error)
            return {}

    def from_head(self, stats: Mapping[RepoPath, StatKey]) -> set[RepoPath]:
        """Return the files, by path and stat, that Git wrote with what HEAD has there."""
        return {
            path
            for path, entry in self.staged(stats.keys()).items()
            if entry.is_of(stats[path])
            and self.head_entry(path) == (entry.mode, entry.oid)
        }

    def converted(self, paths: Collection[RepoPath]) -> Collection[RepoPath]:
        """Return those of some paths that Git converts by more than line ends.

        There are none where Git cannot read the index, in which attributes can be.
        """
        try:
            return git_index.converted(self._git, paths)
        except StoreError as error:
            _raise_unasked(error)
            return ()

    def is_cheaper(self, files: int) -> bool:
        """Return whether to ask Git about a number of files costs less than to read them."""
        stat = self._stat_index()
        return stat is not None and files * _BYTES_PER_READING > max(stat[1], _SMALL)

    def mark(self) -> str | None:
        """Return what differs after each write of a large index; None for a small one."""
        stat = self._stat_index()
        if stat is None or stat[1] < _SMALL:
            return None
        try:
            with open(self._path, "rb") as stream:
                stream.seek(-self._repo.format.size, os.SEEK_END)
                checksum = stream.read()
                if not any(checksum):
                    # `index.skipHash` (git-config(1)) leaves it out.
                    stream.seek(0)
                    checksum = file_digest(stream, _digest).digest()
                return f"{stat} {checksum.hex()}"
        except OSError:
            return None

    def is_older(self, moment_ns: int) -> bool:
        """Return whether Git wrote the index in a second before that of a moment."""
        stat = self._stat_index()
        return stat is not None and stat[0] // _SECOND_NS < moment_ns // _SECOND_NS

    def clean(self, looks: Looks, tree: Oid | None = None) -> CleanFiles:
        """Return which files hold what Git's index says; nobody has to read these.

        Left out is what Git converts or converted, what it has not stored, and what may have
        changed since Git last saw it without another stat.

        Args:
            looks: Files as they are now.
            tree: The tree to compare the index with.
        """
        before = self._stat_index()
        if before is None:
            return _NONE_CLEAN
        try:
            unlike = git_index.unlike(self._git, tree) if tree is not None else set()
            oids, absent = self._clean(looks, before[0], whole=tree is not None)
        except StoreError:
            # Reading all of them is always right.
            return _NONE_CLEAN
        # The answers above have to be of the same index.
        if self._stat_index() != before:
            return _NONE_CLEAN
        # What is staged can be broken where HEAD is whole.
        doubtful = oids.keys() if tree is None else oids.keys() & unlike
        for path in [one for one in doubtful if not self._repo.has(oids[one])]:
            del oids[path]
        return CleanFiles(oids, unlike, absent)

    def stored(self, looks: Mapping[RepoPath, Look]) -> Mapping[RepoPath, Oid]:
        """Return the blobs of those of some files that are clean, and that the store has whole."""
        packed = Looks()
        packed.update(looks)
        try:
            tree = self.head_tree()
        except StoreError:
            tree = None
        return self.clean(packed, tree).oids

    def _clean(
        self, looks: Looks, index_ns: int, *, whole: bool
    ) -> tuple[dict[RepoPath, Oid], list[RepoPath]]:
        """Return the blobs of the files that are clean by an index of this mtime, and `absent`."""
        asked = None if whole else looks.keys()
        oids: dict[RepoPath, Oid] = {}
        absent: list[RepoPath] = []
        sizes: list[bytes] = []
        with (
            self._git.feed(*_SIZES) as stored,
            self._git.feed(*git_index.ATTRIBUTES) as attributes,
        ):
            for part in git_index.entries(self._git, asked):
                same, gone = looks.agreeing(part, index_ns)
                absent += gone
                if not same:
                    continue
                # Git looks these up while the next part is read.
                stored.write(b"\n".join(row[1] for row in same) + b"\n")
                attributes.write(b"\0".join(row[2] for row in same) + b"\0")
                oids.update((row[2], Oid(row[1].decode())) for row in same)
                sizes += [row[3] for row in same]
            answers = stored.answers().splitlines()
            if not len(answers) == len(sizes) == len(oids):
                raise StoreError("cannot read what git printed of its objects")
            for path, size, stored_size in zip(list(oids), sizes, answers, strict=True):
                # Git only removes bytes from line ends, so a file of the size of its blob was not
                # converted. Nor do other conversions keep the size, and their settings may be
                # gone by now. A missing blob has no size.
                if size != stored_size:
                    del oids[path]
            for path in git_index.converted_by(attributes.answers()):
                oids.pop(path, None)
        return oids, absent

    def _refresh(self) -> None:
        stat = self._stat_index()
        if stat == self._stat and time.monotonic() < self._again_at:
            return
        self._again_at, self.unreadable = _NEVER, None
        self._listing = self._listed() if stat is not None else b""
        # Most worktrees have no submodule, and most commands ask for nothing else: reading
        # 100,000 entries one by one takes 0.2 s.
        rows = parse_staged(self._listing) if _GITLINK in self._listing else []
        self._gitlinks = frozenset(path for mode, path in rows if mode == GITLINK_MODE)
        self._paths = self._sorted = None
        self._stat = stat

    def _listed(self) -> bytes:
        """Return the index's entries; where Git cannot read it, the last ones, or HEAD's files."""
        try:
            return git_index.staged(self._git)
        except StoreError as error:
            _raise_unasked(error)
            # A newer git may have written it. Nothing is recorded wrongly without it, so recording
            # goes on.
            self.unreadable = f"cannot read the index of this repository: {error}"
            self._again_at = time.monotonic() + _ASK_AGAIN_S
        tree = self.head_tree()
        if self._listing is not None or tree is None:
            return self._listing or b""
        return b"".join(
            b"%06o %s 0\t%s\0" % (mode, oid.encode(), path)
            for path, (mode, oid) in self._repo.trees.flat(tree).items()
        )

    def _stat_index(self) -> _IndexStat:
        try:
            found = os.stat(self._path)
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino


def _raise_unasked(error: StoreError) -> None:
    """Raise an error again if it says nothing of the index: git did not run, or ran short."""
    raise_shortage(error)
    if isinstance(error.__cause__, OSError):
        raise error


class ExcludedIndex:
    """Remember the topmost uncovered paths of one worktree: how they looked, and why they are.

    How they looked is stored, and is as of the last walk. Why is known to the process that walked.
    """

    def __init__(self, db: Db, worktree: str) -> None:
        self._db = db
        self._worktree = worktree
        self._known: dict[RepoPath, StatKey] | None = None
        self._added: set[RepoPath] = set()
        self._reasons: dict[RepoPath, Excluded] | None = None

    @property
    def reasons(self) -> Mapping[RepoPath, Excluded] | None:
        """Return what a walk of this process found, and what was seen since; None: no walk yet."""
        return self._reasons

    def walked(self, found: Iterable[Excluded]) -> None:
        """Remember why paths are not covered, for all that a walk found."""
        self._reasons = {one.path: one for one in found}

    def saw(self, found: Iterable[Excluded]) -> None:
        """Remember why more paths are not covered. They need not be topmost, nor stay there."""
        if self._reasons is not None:
            self._reasons.update((one.path, one) for one in found)

    def known(self) -> Mapping[RepoPath, StatKey]:
        """Return the paths as of the last walk."""
        if self._known is None:
            self._known = state.load_excluded(self._db, self._worktree)
        return self._known

    def holds(self, path: RepoPath) -> bool:
        """Return whether a path stood in, or was, something uncovered."""
        known = self.known()
        return any(at in known or at in self._added for at in (path, *parents(path)))

    def was_not(
        self, path: RepoPath, look: Look | None, last: StatKey
    ) -> Excluded | None:
        """Return why a directory that changed was not covered until now; None for anything else.

        What went from it before it was covered, its own `.git` for example, has no rows.
        """
        if look is None or not look.is_dir or look.stat == last:
            return None
        return (self._reasons or {}).get(path) or Excluded(path, NOT_RECORDED)

    def add(self, path: RepoPath) -> None:
        """Remember one more path until the next walk."""
        self._added.add(path)

    def among(self, paths: Iterable[RepoPath]) -> set[RepoPath]:
        """Return those of some paths that are remembered themselves."""
        return {path for path in paths if path in self._added or path in self.known()}

    def forget(self, path: RepoPath) -> None:
        """Forget one path: nothing is there any more."""
        self._added.discard(path)
        known = self.known()
        if path in known:
            self.update({one: key for one, key in known.items() if one != path})

    def replace(self, now: Mapping[RepoPath, StatKey]) -> None:
        """Remember what a walk found."""
        self._added.clear()
        self.update(now)

    def extend(self, new: Mapping[RepoPath, StatKey]) -> None:
        """Remember how uncovered paths look that were not known."""
        known = self.known()
        if not new.keys() <= known.keys():
            self.update({**new, **known})

    def update(self, now: Mapping[RepoPath, StatKey]) -> None:
        """Remember how the uncovered paths look now."""
        if now == self.known():
            return
        with self._db.write():
            state.replace_excluded(self._db, self._worktree, now, self.known())
        self._known = dict(now)


def lock_exists(git_dir: str) -> bool:
    """Return whether the worktree's index is locked, by a living process or not."""
    return os.path.exists(os.path.join(git_dir, _LOCK))


def lock_holders(git_dir: str) -> Collection[int]:
    """Return the processes that we may look at that hold the index lock open."""
    path = os.path.join(git_dir, _LOCK)
    return current().process_facts().holders((path,)).get(path, ())


def _git_in(root: str) -> Collection[int]:
    """Return the git commands in a directory or below it."""
    facts = current().process_facts()
    commands = [one.id.pid for one in facts.own() if one.name == "git"]
    return [
        pid for pid in commands if f"{facts.directory(pid)}/".startswith(f"{root}/")
    ]


def _works(pid: int) -> bool:
    """Return whether a process computes or writes, and waits for no editor and no other process."""
    found = current().process_facts().stat(pid)
    return found is not None and not (found.dead or found.sleeps)


class GitHold:
    """The time during which a running git command has the index of one worktree locked."""

    def __init__(self, git_dir: str, root: str) -> None:
        self._git_dir = git_dir
        self._root = root
        self._since: float | None = None
        self._checked = 0.0
        self._released: float | None = None
        self._is_over = False
        self._holders: Collection[int] = ()
        self._seen = False

    @property
    def is_on(self) -> bool:
        """Return whether to wait for a git command."""
        return self._since is not None

    def end(self) -> None:
        """Wait for no git command any more."""
        self._since, self._holders, self._seen = None, (), False

    def note(self, *, head_moved: bool) -> None:
        """Note what the last event in Git's directory was."""
        # A branch ends a checkout. A rebase detaches HEAD and moves it step by step.
        self._is_over = head_moved and self._is_on_branch()

    def look(self) -> bool:
        """Begin to wait where the index may be locked; return whether not to wait any longer."""
        now = time.monotonic()
        if lock_exists(self._git_dir):
            if self._since is None:
                self._since, self._checked = now, 0.0
            self._released, self._is_over = None, False
            if now - self._checked > _HOLDER_CHECK_S:
                self._checked = now
                if self._is_left():
                    return True
            return now - self._since > _HOLD_LIMIT_S
        if self._since is not None:
            self._released = self._released or now
            return self._is_over or self._is_past(now - self._released)
        # A quick command has released the lock already, and moves HEAD only now.
        self._since = self._checked = self._released = now
        return False

    def wait(self) -> None:
        """Wait for a git command that is rewriting the tree, as long as it lives."""
        deadline = time.monotonic() + _HOLD_LIMIT_S
        checked = 0.0
        while lock_exists(self._git_dir) and time.monotonic() < deadline:
            if time.monotonic() - checked > _HOLDER_CHECK_S:
                checked = time.monotonic()
                if self._is_left():
                    break
            time.sleep(HOLD_POLL_S)
        else:
            released = time.monotonic()
            while checked and not self._is_past(time.monotonic() - released):
                time.sleep(HOLD_POLL_S)
        self.end()

    def _is_left(self) -> bool:
        """Look who has the lock; return whether nobody has it, and it was left behind."""
        found = lock_holders(self._git_dir)
        self._seen = bool(found)
        self._holders = found
        # While they were looked for, it may have been released.
        return not found and lock_exists(self._git_dir)

    def _is_past(self, since_s: float) -> bool:
        """Return whether a command that released the lock this long ago has moved HEAD, if ever."""
        # Git removes the lock of the index before it moves HEAD, and on a busy machine the
        # scheduler may stop it in between.
        if since_s <= _HEAD_GRACE_S:
            return False
        if not self._seen and not self._holders:
            self._holders = _git_in(self._root)
        limit_s = _HOLD_LIMIT_S if self._seen else _UNSEEN_LIMIT_S
        return since_s > limit_s or not any(map(_works, self._holders))

    def _is_on_branch(self) -> bool:
        try:
            with open(os.path.join(self._git_dir, "HEAD"), "rb") as head:
                return head.read(len(_SYMBOLIC)) == _SYMBOLIC
        except OSError:
            return False
