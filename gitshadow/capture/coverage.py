"""Classify paths as recorded or excluded, for baseline, watch, reconcile and restore alike.

Every regular file and link below the worktree is covered, except `.git`, other repositories, what
Git ignores (unless tracked or opted in), `.agent-undoignore`, and what is too large. A rule file is
always covered, because a write to it decides about others: one that hides itself could not be
undone. The nearest ignore file decides: the `.gitignore` of the directory, then those of its
ancestors, `info/exclude`, and the user's excludes file. gitignore(5). Of untracked files, what is
over a limit for all of them is left out (`untracked`).
Invariant: the answer depends on rules and names, not on the caller. An ignore file inside the
worktree is never read through a link, as Git does not follow one there.
"""

import os
import stat as st
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from gitshadow.capture.patterns import RuleList, parse_patterns, parse_rules
from gitshadow.capture.untracked import UntrackedData
from gitshadow.errors import raise_shortage
from gitshadow.model import LINK_MODE, Excluded, RepoPath, StatKey
from gitshadow.store.files import TEMP_PREFIX, Look, WorkFiles
from gitshadow.store.paths import safe_link, safe_path
from gitshadow.store.trees import Entry

Scope = tuple[int, RuleList]
"""How much of a path is above the directory of a rule file, and its rules."""
IGNORE_FILE = RepoPath(b".agent-undoignore")
IGNORED = "ignored"
OWN_RULE = "agent-undoignore"
TOO_LARGE = "too large"
UNTRACKED_DATA = "untracked data"
OTHER_REPOSITORY = "another repository"
SUBMODULE = "submodule"
UNSAFE = "unsafe name"
UNREADABLE = "unreadable"
NOT_RECORDED = "not recorded"
FOREIGN = frozenset((OTHER_REPOSITORY, SUBMODULE))
_GIT = b".git"
_GITIGNORE = b".gitignore"
RULING = (_GIT, _GITIGNORE)
"""The entries of a directory that decide about the others."""
_KINDS = {0o140000: "socket", 0o010000: "fifo", 0o020000: "device", 0o060000: "device"}
_KIND_MASK = 0o170000


def ignores(scopes: Sequence[Scope], path: RepoPath, *, is_dir: bool) -> bool:
    """Return what Git's rules say of exactly this path, its ancestors left aside."""
    for start, rules in scopes:
        rule = rules.decide(path[start:] if start else path, is_dir=is_dir)
        if rule is not None:
            return not rule.negated
    return False


def read_scope(files: WorkFiles, path: RepoPath, *, folds: bool = False) -> RuleList:
    """Read a rule file of the worktree; one that is absent or unreadable has no rules.

    `folds` is as for `parse_rules`.
    """
    try:
        reading = files.read(path)
    except OSError as error:
        raise_shortage(error)
        return RuleList(())
    # Git does not follow a link to an ignore file in the working tree; gitignore(5), NOTES.
    if reading is None or reading.mode == LINK_MODE:
        return RuleList(())
    return parse_rules(reading.data, folds=folds)


def _stamp(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def read_outside(path: str, *, folds: bool = False) -> RuleList:
    """Read a rule file outside the worktree; what is no regular file has no rules.

    Links are followed, as Git does here. `folds` is as for `parse_rules`.
    """
    try:
        # To open a FIFO or a device could block for ever, or have an effect.
        if not st.S_ISREG(os.stat(path).st_mode):
            return RuleList(())
        with open(path, "rb") as stream:
            return parse_rules(stream.read(), folds=folds)
    except OSError as error:
        raise_shortage(error)
        return RuleList(())


class Rules(NamedTuple):
    """Store the settings that coverage depends on; the limits are in bytes.

    `folds` is `core.ignoreCase`: rules match letters in any case, as those of Git do.
    `outside` are the absolute paths of the rule files outside the tree, the deciding one first.
    """

    max_file_size: int
    include: tuple[str, ...] = ()
    folds: bool = False
    max_untracked: int = 0
    outside: tuple[str, ...] = ()


class TrackedFiles(Protocol):
    """Answer what Git tracks."""

    def contains(self, path: RepoPath) -> bool:
        """Return whether a path is in the index or in HEAD's tree."""
        ...

    def under(self, directory: RepoPath) -> Sequence[RepoPath]:
        """Return the tracked paths below a directory, sorted."""
        ...

    def gitlinks(self) -> frozenset[RepoPath]:
        """Return the submodules."""
        ...

    def head_entry(self, path: RepoPath) -> Entry | None:
        """Return what HEAD's tree holds at a path, a directory included."""
        ...

    def skipped(self) -> set[RepoPath]:
        """Return the paths that a sparse checkout leaves out."""
        ...


@dataclass(slots=True)
class _Folder:
    """Store what is known of one directory.

    `barred`: nothing in it is covered. `ignored`: only what is tracked or opted in is.
    `reached`: an opted-in pattern leads into it, and if `included` takes everything in it.
    `checked`: its own `.git` and `.gitignore` have been looked for, with `foreign` and `stamp`.
    """

    barred: Excluded | None = None
    ignored: Excluded | None = None
    included: bool = False
    reached: bool = False
    checked: bool = False
    foreign: bool = False
    stamp: StatKey | None = None
    scopes: tuple[Scope, ...] | None = None

    @property
    def is_open(self) -> bool:
        """Return whether patterns that opt in are tried on what it holds."""
        return self.ignored is None or self.reached


class Coverage:
    """Classify the paths of one worktree.

    A rule file counts as it was when its directory was last looked at: by `listed`, by
    `refresh`, or by the first question about a path in it.
    """

    def __init__(
        self,
        files: WorkFiles,
        tracked: TrackedFiles,
        rules: Rules,
        instead: Mapping[RepoPath, bytes | None] | None = None,
        data: UntrackedData | None = None,
    ) -> None:
        self.data = data
        self.known: Callable[[RepoPath], bool] = lambda _: False
        self._files = files
        self._tracked = tracked
        self._rules = rules
        self._instead = instead or {}
        self._include = parse_patterns(rules.include, folds=rules.folds)
        self.reload()

    def verdict(self, path: RepoPath, look: Look) -> Excluded | None:
        """Return why a file or link is not covered; None: it is."""
        # Names are judged first: they cost no system call, and decide about most files.
        hidden = self._by_name(path, is_dir=False)
        if hidden is not None:
            return hidden
        if look.is_link and not safe_link(path):
            return Excluded(path, UNSAFE)
        if not look.is_file and not look.is_link:
            return Excluded(path, _KINDS.get(look.mode & _KIND_MASK, "not a file"))
        if look.is_file and look.stat.size > self._rules.max_file_size:
            return Excluded(path, TOO_LARGE, f"over {self._rules.max_file_size} bytes")
        return self._data_at(path, look)

    def _data_at(self, path: RepoPath, look: Look) -> Excluded | None:
        """Return because of what untracked data a file is not recorded, None: it is."""
        if self.data is None or not look.is_file:
            return None
        top = self.data.leaves_out(path, look.stat.size)
        # What is recorded once stays so, and what Git tracks or a setting names is wanted.
        if top is None or self.known(path):
            return None
        if self._opted_in(path, self._checked(RepoPath(path.rpartition(b"/")[0]))):
            return None
        return self.left_out_at(top)

    def left_out_at(self, top: RepoPath) -> Excluded | None:
        """Return what is known of untracked data that is left out, None for none at a path."""
        found = None if self.data is None else self.data.tops.get(top)
        return found and Excluded(top, UNTRACKED_DATA, f"{found.size} bytes")

    def data_left_out(self) -> tuple[Excluded, ...]:
        """Return all untracked data that is left out, by path."""
        tops = sorted(self.data.tops) if self.data is not None else ()
        return tuple(one for top in tops if (one := self.left_out_at(top)))

    def doubtful(
        self, directory: RepoPath, names: Collection[bytes]
    ) -> Collection[bytes]:
        """Return the names in a listed directory about which `verdict` has to be asked.

        Regular files of the other names are covered, unless they are too large.
        """
        folder = self._folder(directory)
        if folder.barred is not None or folder.ignored is not None:
            return names
        prefix = directory + b"/" if directory else b""
        found = set(_odd_names(names))
        for start, rules in self._scopes(directory):
            found |= rules.candidates(prefix[start:], names)
        return found | self._own.candidates(prefix, names) if self._own else found

    @property
    def folds(self) -> bool:
        """Return whether rules match names in any case, as those of Git (core.ignoreCase)."""
        return self._rules.folds

    def plain_size(self, directory: RepoPath) -> int:
        """Return the size in bytes up to which no question about a file's size is open."""
        is_near = self.data is not None and self.data.is_near(directory)
        return -1 if is_near else self._rules.max_file_size

    def vanished(self, path: RepoPath) -> Excluded | None:
        """Return why what stood at a path that is gone now was not covered; None: it was."""
        hidden = self._by_name(path, is_dir=True)
        return None if hidden is None or hidden.reason == UNSAFE else hidden

    def of(self, path: RepoPath, look: Look | None, last: StatKey) -> Excluded | None:
        """Return why a path is not covered, from what is there or, if nothing is, was last."""
        if look is not None:
            return self.enters(path) if look.is_dir else self.verdict(path, look)
        hidden = self.vanished(path)
        if hidden is None and last.size > self._rules.max_file_size:
            return Excluded(path, TOO_LARGE)
        return hidden or Excluded(path, NOT_RECORDED)

    def enters(self, directory: RepoPath) -> Excluded | None:
        """Return why a directory is not walked into; None: it is, and it is watched.

        An ignored directory that holds tracked or opted-in files is entered for these.
        """
        self._look_at_repository(directory)
        return self._gate(directory, self._checked(directory))

    def enters_listed(self, directory: RepoPath) -> Excluded | None:
        """Answer like `enters` before the directory itself was looked at: `listed` follows."""
        self._look_at_repository(directory)
        return self._gate(directory, self._folder(directory))

    def left_out(self) -> set[RepoPath]:
        """Return the paths that a sparse checkout leaves out; their absence is no deletion."""
        return self._tracked.skipped()

    def excluded_above(self, path: RepoPath) -> Excluded | None:
        """Return why a path's directories keep it uncovered, None where they do not."""
        folder = self._checked(RepoPath(path.rpartition(b"/")[0]))
        # What Git tracks is read from index and HEAD for each path, so only where it matters.
        if folder.barred is not None or folder.ignored is None:
            return folder.barred
        return None if self._opted_in(path, folder) else folder.ignored

    def ignores(self, path: RepoPath) -> bool:
        """Return whether Git's rules ignore a file, tracked or not, or a directory above it."""
        parent = RepoPath(path.rpartition(b"/")[0])
        is_below = self._checked(parent).ignored is not None
        return is_below or ignores(self._scopes(parent), path, is_dir=False)

    def is_rule_file(self, path: RepoPath) -> bool:
        """Return whether a change of this path can change coverage."""
        return is_rules(path) or path.rpartition(b"/")[2] == _GIT

    def under(self, instead: Mapping[RepoPath, bytes | None]) -> "Coverage":
        """Return the coverage that other contents of rule files would give; None: no such file."""
        found = Coverage(self._files, self._tracked, self._rules, instead, self.data)
        found.known = self.known
        return found

    def _by_name(self, path: RepoPath, *, is_dir: bool) -> Excluded | None:
        head, _, name = path.rpartition(b"/")
        # Files with this prefix are those that an undo writes before it renames them.
        if name.startswith(TEMP_PREFIX) or not safe_path(RepoPath(name)):
            return Excluded(path, UNSAFE)
        parent = RepoPath(head)
        folder = self._checked(parent)
        if folder.barred is not None:
            return folder.barred
        # A rule file that could hide itself would also hide the write that an undo has to revert.
        if is_rules(path) and not self._is_hidden_rule_file(path, folder):
            return None
        if self._own and ignores(((0, self._own),), path, is_dir=is_dir):
            return Excluded(path, OWN_RULE, ".agent-undoignore")
        hidden = folder.ignored
        if hidden is None and ignores(self._scopes(parent), path, is_dir=is_dir):
            hidden = Excluded(path, IGNORED)
        if hidden is not None and not self._opted_in(path, folder):
            return hidden
        return None

    def _is_hidden_rule_file(self, path: RepoPath, folder: _Folder) -> bool:
        """Return whether a rule file is itself ignored.

        Below the top, one that ignores itself is: tools write `*` into directories of their own
        (`.venv`, `.pytest_cache`). Without it the rest of such a directory would be recorded.
        """
        parent = RepoPath(path.rpartition(b"/")[0])
        if not parent:
            return False
        own = self._own_scope(parent, folder)
        return folder.ignored is not None or ignores(own, path, is_dir=False)

    def stale(self) -> bool:
        """Return whether rules changed that no walk or hint has brought up yet.

        Nested `.gitignore` files are not looked at: their directories are watched or walked.
        """
        return self._moved or self._stamp != self._stat_rules()

    def mark(self) -> str:
        """Return what differs after each change of the settings and rules that `stale` sees."""
        tops = {} if self.data is None else self.data.tops
        return f"{self._rules} {self._stamp} {sorted(tops.items())}"

    def use(self, rules: Rules) -> None:
        """Set settings; if they are others, `stale` is true until they are read again."""
        if rules == self._rules:
            return
        if self.data is not None:
            self.data.use(rules.max_untracked)
        self._rules = rules
        self._include = parse_patterns(rules.include, folds=rules.folds)
        # The caches are kept until `reload`: verdicts must not change in the middle of a batch.
        self._moved = True

    def reload(self) -> None:
        """Read the rules again and forget every verdict."""
        self._stamp = self._stat_rules()
        self._moved = False
        self._gitlinks: frozenset[RepoPath] | None = None
        self._folders: dict[RepoPath, _Folder] = {}
        self._own = self._read_rules(IGNORE_FILE) or None
        folds = self._rules.folds
        outside = (read_outside(path, folds=folds) for path in self._rules.outside)
        self._outside: tuple[Scope, ...] = tuple((0, each) for each in outside if each)

    def listed(
        self, directory: RepoPath, entries: Mapping[bytes, Look]
    ) -> Excluded | None:
        """Note a directory's entries; return why it is not covered, now that they are known.

        Rules that changed since the last look count from now on.
        """
        rules = entries.get(_GITIGNORE)
        stamp = rules.stat if rules is not None and rules.is_file else None
        prefix = directory + b"/" if directory else b""
        if self._instead.get(RepoPath(prefix + _GITIGNORE)) is not None:
            stamp = StatKey(0, 0, 0, 0)  # it is read whatever the disk holds
        foreign = bool(directory) and _GIT in entries
        folder = self._folder(directory)
        # A changed rule file decides about all below it.
        if folder.checked and (folder.foreign, folder.stamp) != (foreign, stamp):
            self._folders = {
                path: known
                for path, known in self._folders.items()
                if path != directory and not path.startswith(prefix)
            }
            folder = self._folder(directory)
        if not folder.checked:
            folder.checked, folder.foreign, folder.stamp = True, foreign, stamp
            if foreign and folder.barred is None:
                folder.barred = Excluded(directory, OTHER_REPOSITORY)
        return folder.barred

    def refresh(self, paths: Iterable[RepoPath]) -> None:
        """Look again at the rules and repositories that decide about these paths."""
        self.refresh_submodules()
        parents = {RepoPath(path.rpartition(b"/")[0]) for path in paths}
        # Each directory once: thousands of paths of a checkout share their ancestors.
        above = {directory for parent in parents for directory in lineage(parent)}
        for directory in sorted(above):
            self._refresh_one(directory)

    def refresh_submodules(self) -> None:
        """Forget every verdict if the submodules are others than before."""
        # Nobody has asked for them yet: reading an index of 100,000 entries takes 50 ms.
        if self._gitlinks is None:
            return
        gitlinks = self._tracked.gitlinks()
        if gitlinks != self._gitlinks:
            self._gitlinks = gitlinks
            self._folders.clear()

    def _refresh_one(self, directory: RepoPath) -> None:
        known = self._folders.get(directory)
        if known is None or not known.checked:
            return
        before = (known.foreign, known.stamp)
        try:
            self.listed(directory, self._look_inside(directory))
        except PermissionError:  # the paths in it will say so themselves
            return
        folder = self._folder(directory)
        self._moved = self._moved or (folder.foreign, folder.stamp) != before

    def _look_at_repository(self, directory: RepoPath) -> None:
        """Look again at what was another repository: nobody else does, as nobody goes into it."""
        known = self._folders.get(directory)
        if known is not None and known.foreign:
            self._refresh_one(directory)

    def _stat_rules(self) -> tuple[object, ...]:
        # Only the rule files at the top: to stat all nested ones costs as much as a walk.
        inside = self._files.looks(IGNORE_FILE, RepoPath(_GITIGNORE))
        outside = map(_stamp, self._rules.outside)
        return (*outside, *(look and look.stat for look in inside))

    def _checked(self, directory: RepoPath) -> _Folder:
        """Return a folder whose own and whose ancestors' entries have been looked at."""
        found = self._folders.get(directory)
        if found is not None and found.checked:
            return found
        for each in lineage(directory):
            if not self._folder(each).checked:
                self.listed(each, self._look_inside(each))
        return self._folder(directory)

    def _look_inside(self, directory: RepoPath) -> dict[bytes, Look]:
        """Look for the two entries of a directory that decide about the others."""
        prefix = directory + b"/" if directory else b""
        found = self._files.looks(*(RepoPath(prefix + name) for name in RULING))
        looks = zip(RULING, found, strict=True)
        return {name: look for name, look in looks if look is not None}

    def _folder(self, directory: RepoPath) -> _Folder:
        found = self._folders.get(directory)
        if found is not None:
            return found
        for each in lineage(directory):
            if each not in self._folders:
                self._folders[each] = self._of_directory(each) if each else _Folder()
        return self._folders[directory]

    def _of_directory(self, directory: RepoPath) -> _Folder:
        head, _, name = directory.rpartition(b"/")
        parent = self._folder(RepoPath(head))
        # Nothing below it is covered, so its own rules and entries are not looked at.
        if parent.barred is not None:
            return _Folder(barred=parent.barred, checked=True)
        ignored = parent.ignored
        if ignored is None and ignores(
            self._scopes(RepoPath(head)), directory, is_dir=True
        ):
            ignored = Excluded(directory, IGNORED)
        included = self._is_included(directory, parent, is_dir=True)
        reached = included or (
            ignored is not None
            and any(rule.leads_into(directory) for rule in self._include.rules)
        )
        barred = self._bar(directory, name)
        return _Folder(barred, ignored, included, reached)

    def _bar(self, directory: RepoPath, name: bytes) -> Excluded | None:
        if not safe_path(RepoPath(name)):
            return Excluded(directory, UNSAFE)
        if self._gitlinks is None:
            self._gitlinks = self._tracked.gitlinks()
        if directory in self._gitlinks:
            return Excluded(directory, SUBMODULE)
        if self._own and ignores(((0, self._own),), directory, is_dir=True):
            return Excluded(directory, OWN_RULE, ".agent-undoignore")
        return None

    def _gate(self, directory: RepoPath, folder: _Folder) -> Excluded | None:
        if folder.barred is not None or folder.ignored is None or folder.reached:
            return folder.barred
        if self._tracked.under(directory):
            return None
        # A path may be in HEAD and removed from the index; the baseline has it all the same.
        if self._tracked.head_entry(directory) is not None:
            return None
        return folder.ignored

    def _scopes(self, directory: RepoPath) -> tuple[Scope, ...]:
        """Return Git's rules for the entries of a directory, those that decide first first."""
        scopes = self._folder(directory).scopes
        if scopes is not None:
            return scopes
        # Nearer files are put in front of it, because the first rule that matches decides.
        scopes = self._outside
        for each in lineage(directory):
            folder = self._folder(each)
            if folder.scopes is None:
                folder.scopes = self._own_scope(each, folder) + scopes
            scopes = folder.scopes
        return scopes

    def _own_scope(self, directory: RepoPath, folder: _Folder) -> tuple[Scope, ...]:
        if folder.stamp is None:
            return ()
        prefix = directory + b"/" if directory else b""
        rules = self._read_rules(RepoPath(prefix + _GITIGNORE))
        return ((len(prefix), rules),) if rules else ()

    def _read_rules(self, path: RepoPath) -> RuleList:
        if path in self._instead:
            return parse_rules(self._instead[path] or b"", folds=self._rules.folds)
        return read_scope(self._files, path, folds=self._rules.folds)

    def _opted_in(self, path: RepoPath, parent: _Folder) -> bool:
        return self._is_included(path, parent, is_dir=False) or self._tracked.contains(
            path
        )

    def _is_included(self, path: RepoPath, parent: _Folder, *, is_dir: bool) -> bool:
        """Return whether a pattern opts a path in.

        Ignored directories are not searched for it: one is entered only if a pattern names it
        or something below it (`build/keep.txt`, but not `keep.txt`).
        """
        # Below an ignored directory that no pattern leads into, none can match.
        if not self._include or not parent.is_open:
            return parent.included
        rule = self._include.decide(path, is_dir=is_dir)
        return parent.included if rule is None else not rule.negated


def is_rules(path: RepoPath) -> bool:
    """Return whether a path is that of a file with coverage rules."""
    return path.rpartition(b"/")[2] == _GITIGNORE or path == IGNORE_FILE


def _odd_names(names: Collection[bytes]) -> list[bytes]:
    """Return the names that may be unsafe, those of rule files and of our temporary files."""
    joined = b"/".join(names)
    if joined.isascii() and b"git" not in joined.lower() and TEMP_PREFIX not in joined:
        return []
    return [
        name
        for name in names
        if not name.isascii() or b"git" in name.lower() or name.startswith(TEMP_PREFIX)
    ]


def lineage(directory: RepoPath) -> list[RepoPath]:
    """Return the directories down to this one, the top (`b""`) first."""
    found = [directory]
    while directory:
        directory = RepoPath(directory.rpartition(b"/")[0])
        found.append(directory)
    return found[::-1]
