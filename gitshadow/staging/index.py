"""Read and write index files through Git's plumbing, and convert content as `git add` does.

`git commit` makes commits of index files of our own; the worktree's own index follows afterwards.
The name of such a file has the parent, so that the next verb can tell whether the commit was made
before its maker died. It is deleted by its maker, when its commit is adopted, or after a day.
Invariant: an index is written by git alone, with one command that takes its lock, so that a change
is made whole or not at all. Nothing else of the repository is changed but the object store.
"""

import os
import re
import secrets
import shutil
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from gitshadow.errors import RefusedError, ShadowError, StoreError
from gitshadow.model import (
    GITLINK_MODE,
    TREE_MODE,
    FileVersion,
    Oid,
    RepoPath,
    git_mode,
)
from gitshadow.recording.index import lock_exists
from gitshadow.recording.workspace import Workspace
from gitshadow.staging.graft import ClashError, Writes
from gitshadow.store.repo import Repo
from gitshadow.store.trees import Entry
from gitshadow.undo import merge
from gitshadow.undo.report import Reason
from gitshadow.undo.reverse import Blobs

_PREFIX, _SUFFIX = "commit-", ".index"
_UNBORN = "unborn"
_STALE_S = 86_400.0
# git-ls-files(1) --debug prints the flags of cache.h.
_ASSUME_VALID, _INTENT_TO_ADD, _SKIP_WORKTREE = 0x8000, 0x2000_0000, 0x4000_0000
_FACTS = re.compile(
    rb" *ctime: [^\n]*\n *mtime: [^\n]*\n *dev: [^\n]*\n *uid: [^\n]*\n"
    rb" *size: \d+\tflags: ([0-9a-f]+)\n"
)
_MOST_NAMED = 200
_OUTSIDE = "it is outside the sparse checkout"
_ASSUMED = "it is marked assume-unchanged"
_MERGING = {
    "MERGE_HEAD": "a merge",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
    "sequencer": "a cherry-pick or revert",
}
_CONVERTING = (b"filter", b"ident", b"working-tree-encoding")
_UNSET = (b"unspecified", b"unset")


class IndexEntry(NamedTuple):
    """An entry of an index file, with its flags of git-ls-files(1) --debug."""

    mode: int
    oid: Oid
    flags: int = 0

    @property
    def is_promise(self) -> bool:
        """Return whether it only says that the file is to be added (git add -N)."""
        return bool(self.flags & _INTENT_TO_ADD)


def check_settled(ws: Workspace) -> None:
    """Refuse where Git is in the middle of something that uses the index.

    Raises:
        RefusedError: a merge, a rebase or the like is not finished; nothing was changed.
    """
    for name, what in _MERGING.items():
        if os.path.lexists(os.path.join(ws.layout.git_dir, name)):
            raise RefusedError(
                f"cannot change the index: {what} is in progress",
                hint="finish or abort it first; git status says how",
            )
    if ws.git.run("ls-files", "-z", "--unmerged", ":/"):
        raise RefusedError(
            "cannot change the index: it has unmerged paths",
            hint="resolve them first; git status lists them",
        )


class IndexFile:
    """One index file of a worktree: its own, or a temporary one."""

    def __init__(self, ws: Workspace, path: str | None = None) -> None:
        self._git = ws.git
        self._null = ws.repo.format.null
        self._git_dir = ws.layout.git_dir
        self._path = path

    def entries(self, paths: Collection[RepoPath]) -> dict[RepoPath, IndexEntry]:
        """Return the entries of some paths; what is in conflict is left out."""
        if not paths:
            return {}
        few = [b":(top,literal)" + path for path in sorted(paths)]
        asked = few if len(few) <= _MOST_NAMED else [b":/"]
        how = ("ls-files", "-z", "--stage", "--debug", "--full-name", "--")
        wanted = set(paths)
        listed = self._git.run(*how, *asked, index=self._path)
        return {path: one for path, one in _entries(listed) if path in wanted}

    def write(self, writes: Writes) -> None:
        """Set and remove entries, all or none.

        Raises:
            RefusedError: another process has the index locked; nothing was changed.
            StoreError: git could not do it; nothing was changed.
        """
        if not writes:
            return
        gone = [path for path, entry in writes.items() if entry is None]
        kept = [(path, entry) for path, entry in writes.items() if entry is not None]
        rows = [f"0 {self._null}\t".encode() + path for path in gone]
        # First what goes: a file may take the place of a directory.
        rows += [f"{mode:06o} {oid}\t".encode() + path for path, (mode, oid) in kept]
        listed = b"".join(row + b"\0" for row in rows)
        try:
            self._git.run(
                "update-index", "-z", "--index-info", stdin=listed, index=self._path
            )
        except StoreError as error:
            if self._path is None and lock_exists(self._git_dir):
                raise locked(self._git_dir) from error
            raise

    def promise(self, paths: Iterable[RepoPath]) -> None:
        """Add entries that only say that a file is to be added (git add -N)."""
        named = [b":(top,literal)" + path for path in sorted(paths)]
        if named:
            self._git.run("add", "--intent-to-add", "--", *named, index=self._path)

    def refresh(self, paths: Iterable[RepoPath]) -> None:
        """Let entries have the stat of their files where these are unchanged, as git add does."""
        named = [b":(top,literal)" + path for path in sorted(paths)]
        if named and len(named) <= _MOST_NAMED:
            self._git.run(
                "add", "--refresh", "--", *named, index=self._path, ok=(0, 1, 128)
            )

    def read_tree(self, tree: Oid | None) -> None:
        """Let the index have exactly a tree (None: nothing)."""
        words = ("--empty",) if tree is None else ("--reset", tree)
        self._git.run("read-tree", *words, index=self._path)

    def write_tree(self) -> Oid:
        """Return the tree of the index."""
        return Oid(
            self._git.run("write-tree", index=self._path).decode("ascii").strip()
        )


def locked(git_dir: str) -> RefusedError:
    """Return the error for an index that another process has locked."""
    return RefusedError(
        "cannot write the index: another git command has it locked",
        hint=f"wait for it to end; if no git command runs: rm {git_dir}/index.lock",
    )


def _entries(listed: bytes) -> Iterator[tuple[RepoPath, IndexEntry]]:
    head, *rest = listed.split(b"\0")
    for part in rest:
        match = _FACTS.match(part)
        facts, _, path = head.partition(b"\t")
        head = part[match.end() :] if match is not None else part
        mode, oid, stage = facts.split(b" ")
        if match is not None and stage == b"0":
            oid_text = Oid(oid.decode("ascii"))
            yield RepoPath(path), IndexEntry(int(mode, 8), oid_text, int(match[1], 16))


class IndexBase:
    """The index of a worktree, as a target of changes."""

    where = "in the index"

    def __init__(self, ws: Workspace, paths: Collection[RepoPath]) -> None:
        self._index = ws.index
        self._git = ws.git
        self.entries = IndexFile(ws).entries(paths)
        self._is_sparse = ws.index.sparse()
        self._outside: dict[RepoPath, bool] = {}

    def entry(self, path: RepoPath) -> Entry | None:
        """Return what is staged at a path."""
        found = self.entries.get(path)
        return (found.mode, found.oid) if found and not found.is_promise else None

    def barred(self, path: RepoPath) -> str | None:
        """Return why git add would not change a path."""
        found = self.entries.get(path)
        flags = found.flags if found is not None else 0
        if flags & _SKIP_WORKTREE:
            return _OUTSIDE
        if flags & _ASSUME_VALID:
            return _ASSUMED
        return _OUTSIDE if found is None and self._is_outside(path) else None

    def is_replaceable(self, path: RepoPath) -> bool:
        """Return whether the index has only what HEAD has there."""
        return self.entry(path) == self._index.head_entry(path)

    def is_file(self, path: RepoPath) -> bool:
        """Return whether the index has exactly this path."""
        return path in self._index.paths()

    def under(self, path: RepoPath) -> Iterable[RepoPath]:
        """Return the paths of the index below one."""
        return self._index.under(path)

    def _is_outside(self, path: RepoPath) -> bool:
        """Return whether git add would refuse a new file because of the sparse checkout."""
        if not self._is_sparse:
            return False
        if path not in self._outside:
            words = ("add", "--dry-run", "--force", "--", b":(top,literal)" + path)
            try:
                self._git.run(*words)
            except StoreError:
                self._outside[path] = True
            else:
                self._outside[path] = False
        return self._outside[path]


class TreeBase:
    """A commit's tree, as a target of changes; `own` is set where it is HEAD's."""

    def __init__(self, repo: Repo, tree: Oid | None, where: str, *, own: bool) -> None:
        self._repo = repo
        self._tree = tree
        self._own = own
        self.where = where

    def entry(self, path: RepoPath) -> Entry | None:
        """Return the mode and the blob of a path, None if it is absent or a directory."""
        found = self._any(path)
        return None if found is None or found[0] == TREE_MODE else found

    def barred(self, path: RepoPath) -> str | None:
        """Return None: nothing bars a path of a tree."""
        del path
        return None

    def is_replaceable(self, path: RepoPath) -> bool:
        """Return whether the tree is HEAD's: what it has there was seen by the unit."""
        del path
        return self._own

    def is_file(self, path: RepoPath) -> bool:
        """Return whether there is anything but a directory."""
        return self.entry(path) is not None

    def under(self, path: RepoPath) -> Iterable[RepoPath]:
        """Return the paths below a directory."""
        found = self._any(path)
        if found is None or found[0] != TREE_MODE:
            return ()
        inside = self._repo.trees.flat(found[1])
        return [RepoPath(path + b"/" + name) for name in inside]

    def _any(self, path: RepoPath) -> Entry | None:
        return None if self._tree is None else self._repo.trees.entry(self._tree, path)


class _Conversion(NamedTuple):
    """How Git converts a path: by a program or an attribute, and whether by its line ends."""

    other: bool
    ends: bool
    # The line ends are converted only if Git finds text, and not if the index has CRLF.
    guessed: bool


class GitCleaner:
    """Convert content as `git add` does; gitattributes(5).

    What no attribute or setting converts keeps its blob. All else goes through git-hash-object(1),
    which runs the filters that `git add` would run.
    """

    def __init__(self, ws: Workspace, blobs: Blobs) -> None:
        self._git = ws.git
        self._repo = ws.repo
        self._blobs = blobs
        ends = ws.repo.config_get("core.autocrlf")
        self._guesses = ends is not None and ends.lower() not in (
            "false",
            "0",
            "no",
            "off",
        )
        self._known: dict[RepoPath, _Conversion] = {}
        self._made: dict[tuple[RepoPath, Oid, bool], Oid] = {}

    def learn(self, paths: Collection[RepoPath]) -> None:
        """Ask Git once how it converts some paths."""
        asked = sorted(set(paths) - self._known.keys())
        if not asked:
            return
        listed = b"".join(path + b"\0" for path in asked)
        out = self._git.run("check-attr", "-z", "--stdin", "--all", stdin=listed)
        cells = out.split(b"\0")
        found: dict[bytes, dict[bytes, bytes]] = {}
        for path, name, value in zip(*[iter(cells)] * 3, strict=False):
            found.setdefault(path, {})[name] = value
        for path in asked:
            self._known[path] = self._conversion(found.get(path, {}))

    def __call__(
        self, path: RepoPath, version: FileVersion, standing: Entry | None
    ) -> Entry:
        """Return the entry that a version is at a path.

        Raises:
            ClashError: Git cannot convert it.
        """
        mode = git_mode(version.mode)
        if version.is_link:
            return mode, version.oid
        self.learn([path])
        how = self._known[path]
        if not how.other and not how.ends:
            return mode, version.oid
        # Git leaves the line ends of a file alone that has CRLF in the index already.
        keeps = how.guessed and standing is not None and self._has_crlf(standing)
        if keeps and not how.other:
            return mode, version.oid
        if keeps:
            raise ClashError(
                Reason.IO_ERROR,
                "Git converts it by its line ends in the index; use git add",
            )
        key = (path, version.oid, keeps)
        if key not in self._made:
            self._made[key] = self._hashed(path, version.oid)
        return mode, self._made[key]

    def _conversion(self, attributes: Mapping[bytes, bytes]) -> _Conversion:
        other = any(
            attributes.get(name, b"unset") not in _UNSET for name in _CONVERTING
        )
        text = attributes.get(b"text", attributes.get(b"crlf", b"unspecified"))
        if text == b"unset":
            return _Conversion(other, False, False)
        if text == b"auto":
            return _Conversion(other, True, True)
        if text != b"unspecified" or attributes.get(b"eol", b"unset") not in _UNSET:
            return _Conversion(other, True, False)
        return _Conversion(other, self._guesses, self._guesses)

    def _hashed(self, path: RepoPath, oid: Oid) -> Oid:
        data = self._blobs.get(oid)
        if data is None:
            raise ClashError(*self._blobs.gone(oid))
        try:
            out = self._git.run(
                "hash-object", "-w", "--stdin", b"--path=" + path, stdin=data
            )
        except ShadowError as error:
            raise ClashError(
                Reason.IO_ERROR, f"Git cannot convert it: {error.message}"
            ) from error
        return Oid(out.decode("ascii").strip())

    def _has_crlf(self, standing: Entry) -> bool:
        if standing[0] == GITLINK_MODE:
            return False
        data = self._blobs.get(standing[1])
        return data is not None and b"\r\n" in data and not merge.is_binary(data)


class AbandonedCommit(NamedTuple):
    """A commit that was made, but not adopted; `path` is the index file it was made from."""

    parent: Oid | None
    commit: Oid
    path: str


def prepare(ws: Workspace, parent: Oid | None, writes: Writes) -> str:
    """Make an index file with a commit's tree and some changes; return its path.

    Raises:
        StoreError: git could not do it; no file is left.
    """
    name = f"{_PREFIX}{parent or _UNBORN}-{secrets.token_hex(4)}{_SUFFIX}"
    path = f"{ws.layout.wt_dir}/{name}"
    index = IndexFile(ws, path)
    # With the stat of unchanged files, git commit need not read them all again.
    with suppress(FileNotFoundError):
        shutil.copyfile(f"{ws.layout.git_dir}/index", path)
    try:
        index.read_tree(ws.repo.commit(parent).tree if parent else None)
        index.write(writes)
    except BaseException:
        drop(path)
        raise
    return path


def drop(path: str) -> None:
    """Delete an index file and its lock."""
    for name in (path, f"{path}.lock"):
        with suppress(FileNotFoundError):
            os.unlink(name)


def abandoned(ws: Workspace) -> Iterator[AbandonedCommit]:
    """Yield the commits whose maker died before the index followed; delete what is too old."""
    head = ws.repo.head()[1]
    for name in sorted(os.listdir(ws.layout.wt_dir)):
        if not name.startswith(_PREFIX) or not name.endswith(_SUFFIX):
            continue
        path = f"{ws.layout.wt_dir}/{name}"
        parent = name.removeprefix(_PREFIX).partition("-")[0]
        if head is not None and _is_of(ws, head, parent, path):
            yield AbandonedCommit(
                None if parent == _UNBORN else Oid(parent), head, path
            )
        elif _age_s(path) > _STALE_S:
            drop(path)


def _is_of(ws: Workspace, head: Oid, parent: str, path: str) -> bool:
    """Return whether HEAD is the commit that was made with an index file."""
    info = ws.repo.commit(head)
    if list(info.parents) != ([] if parent == _UNBORN else [parent]):
        return False
    try:
        return IndexFile(ws, path).write_tree() == info.tree
    except StoreError:
        return False


def _age_s(path: str) -> float:
    try:
        return time.time() - os.stat(path).st_mtime
    except FileNotFoundError:
        return 0.0
