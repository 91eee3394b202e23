"""Read from Git what blame needs: commits, the path of HEAD, and the answer of `git blame`.

The answer is parsed in the form of git-blame(1), "THE PORCELAIN FORMAT": a header line for each
line, facts of a commit once, the line itself after a tab.
Invariant: reads only. A commit that is gone counts as one that never existed. An answer in another
form is an error, never a guess.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from gitshadow.errors import StoreError
from gitshadow.model import (
    GITLINK_MODE,
    TREE_MODE,
    Baseline,
    EventKind,
    Oid,
    PathChange,
    RepoPath,
)
from gitshadow.store.digests import digest
from gitshadow.store.git import Git
from gitshadow.store.journal import events
from gitshadow.store.journal.db import Db
from gitshadow.store.journal.events import EventFilter
from gitshadow.store.object_format import OID_PATTERN
from gitshadow.store.objects import CommitInfo
from gitshadow.store.paths import unquote
from gitshadow.store.repo import Repo
from gitshadow.store.trees import TreeChange

_HEADER = re.compile(
    rb"(%b) ([0-9]{1,9}) ([0-9]{1,9})(?: [0-9]{1,9})?" % OID_PATTERN.encode()
)
# Each entry costs a lookup of the path in its tree.
_MOST_HEADS = 500
"""So far the reflog of HEAD is read."""
_MADE = re.compile(
    r"(commit|am|cherry-pick|revert|rebase|pull[^:]*--rebase)\b(?!.*\((start|finish)\))"
)
_PLAIN = re.compile(r"commit( \(initial\))?:")
"""What Git writes into the reflog (builtin/commit.c, sequencer.c) when it makes a commit."""
_AMEND = "commit (amend)"
_SHORT = 8
_SHORT_ID = re.compile(r"\b[0-9a-f]{8,12}\b")
"""How the rows of moves of HEAD name commits (`recording.head`)."""
_MOST_KNOWN = 2_000
"""So many commits since recording began are compared with those that are asked about."""
_UNASKED = Oid("")


@dataclass(slots=True)
class Facts:
    """Store what Git says once of a commit: its own words by their keys (`author-mail`).

    `boundary` is a key without a word. `path` and `previous` may change from line to line.
    """

    words: dict[str, bytes] = field(default_factory=dict)
    path: RepoPath | None = None
    previous: tuple[Oid, RepoPath] | None = None


class GitLine(NamedTuple):
    """Store what Git says of one line: commit, name of the file there, number there from 1.

    `previous` is the commit before, and the file's name in it; None where Git names none.
    """

    commit: Oid
    path: RepoPath
    line: int
    previous: tuple[Oid, RepoPath] | None
    facts: Facts


def parse_porcelain(output: bytes) -> list[GitLine]:
    """Return what `git blame --porcelain` printed of each line, in order.

    Raises:
        StoreError: it is not in that format.
    """
    found: list[GitLine] = []
    facts: dict[Oid, Facts] = {}
    header: tuple[Oid, int] | None = None
    for row in output.split(b"\n")[:-1]:
        # The header, facts and text of a line follow each other, and facts come once per commit.
        if header is None:
            header = _header(row)[:2]
        elif row.startswith(b"\t"):
            found.append(_line(*header, facts.get(header[0], Facts())))
            header = None
        else:
            _learn(facts.setdefault(header[0], Facts()), row)
    return found


def parse_lines(output: bytes) -> list[int]:
    """Return the numbers, in the file that was asked for, of the lines that were printed.

    Raises:
        StoreError: it is not in that format.
    """
    found: list[int] = []
    expects_header = True
    for row in output.split(b"\n")[:-1]:
        if expects_header:
            found.append(_header(row)[2])
        expects_header = row.startswith(b"\t")
    return found


def _learn(facts: Facts, row: bytes) -> None:
    key, _, value = row.partition(b" ")
    if key == b"filename":
        facts.path = _name(value)
    elif key == b"previous":
        commit, _, name = value.partition(b" ")
        facts.previous = Oid(commit.decode("ascii")), _name(name)
    else:
        facts.words[key.decode("ascii", "replace")] = value


def _line(commit: Oid, line: int, facts: Facts) -> GitLine:
    if facts.path is None:
        raise StoreError("cannot read the output of git blame: no filename")
    return GitLine(commit, facts.path, line, facts.previous, facts)


def _header(row: bytes) -> tuple[Oid, int, int]:
    match = _HEADER.fullmatch(row)
    if match is None:
        raise StoreError("cannot read the output of git blame: no header")
    return Oid(match[1].decode("ascii")), int(match[2]), int(match[3])


def _name(word: bytes) -> RepoPath:
    # Git quotes names with special bytes; git-config(1), core.quotePath.
    if not word.startswith(b'"'):
        return RepoPath(word)
    return RepoPath(unquote(word.decode("ascii")))


@dataclass(slots=True)
class GitPast:
    """Answer blame's questions about one repository; remembers what it found."""

    repo: Repo
    git: Git
    db: Db
    options: tuple[str, ...] = ()
    _log: list[tuple[Oid, str]] | None = None
    _heads: list[CommitInfo] | None = None
    _steps: list[Oid] = field(default_factory=list)
    _made: set[Oid] = field(default_factory=set)
    _plain: set[Oid] = field(default_factory=set)
    _blobs: dict[tuple[Oid, RepoPath], Oid | None] = field(default_factory=dict)
    _committed: dict[RepoPath, frozenset[Oid]] = field(default_factory=dict)
    _brought: dict[RepoPath, dict[Oid, Oid]] = field(default_factory=dict)
    _known: dict[Oid, CommitInfo] | None = None
    _infos: dict[Oid, CommitInfo | None] = field(default_factory=dict)
    _amended: dict[Oid, Oid] = field(default_factory=dict)
    _first_seen: dict[Oid, int] = field(default_factory=dict)
    _since: Oid | None = _UNASKED

    def committed(self, path: RepoPath) -> frozenset[Oid]:
        """Return the blobs that a path had in the commits where HEAD was."""
        if path not in self._committed:
            blobs = (self.blob(commit.oid, path) for commit in self._all_heads())
            self._committed[path] = frozenset(b for b in blobs if b is not None)
        return self._committed[path]

    def heads(self) -> str:
        """Return a digest of where HEAD was: while it is the same, so is `committed`."""
        # Commits do not change, so the same list of ids gives the same answers.
        steps = "".join(oid for oid, _ in self._logged())
        return digest(steps)

    def holding(self, path: RepoPath, blob: Oid) -> Oid | None:
        """Return the newest commit where HEAD was that has a blob at a path."""
        for commit in self._all_heads():
            if self.blob(commit.oid, path) == blob:
                return commit.oid
        return None

    def oldest(self, path: RepoPath, blob: Oid | None) -> Oid | None:
        """Return the oldest commit where HEAD was that has a blob (None: nothing) at a path."""
        # The reflog names commits that gc may have deleted since.
        readable = {commit.oid for commit in self._all_heads()}
        for oid in reversed(self._steps):
            if oid in readable and self.blob(oid, path) == blob:
                return oid
        return None

    def blob(self, commit: Oid, path: RepoPath) -> Oid | None:
        """Return the blob that a commit has at a path; None for nothing, or a directory."""
        if (commit, path) not in self._blobs:
            self._blobs[commit, path] = self._entry(commit, path)
        return self._blobs[commit, path]

    def bringing(self, path: RepoPath, blob: Oid) -> Oid | None:
        """Return the oldest commit where HEAD was that brought a blob to a path."""
        if path not in self._brought:
            found: dict[Oid, Oid] = {}
            for commit in self._all_heads():
                at = self.blob(commit.oid, path)
                if at is not None and not self._is_inherited(commit, path, at):
                    found[at] = commit.oid
            self._brought[path] = found
        return self._brought[path].get(blob)

    def _is_inherited(self, commit: CommitInfo, path: RepoPath, blob: Oid) -> bool:
        return any(self.blob(parent, path) == blob for parent in commit.parents)

    def known(self) -> Mapping[Oid, CommitInfo]:
        """Return the commits since recording began, reflogs included, newest first."""
        if self._known is None:
            tips = self.tips()
            oids = self.git.all_commits(tips, self.recorded_since(), _MOST_KNOWN)
            infos = ((oid, self.commit(oid)) for oid in oids)
            self._known = {oid: info for oid, info in infos if info is not None}
        return self._known

    def tips(self) -> Sequence[Oid]:
        """Return where HEAD was, newest first, and where branches are."""
        branches = sorted(self.repo.refs("refs/heads/").values())
        return [*(oid for oid, _ in self._logged()), *branches]

    def is_older(self, one: CommitInfo, other: CommitInfo) -> bool:
        """Return whether a commit may have been made before another one."""
        self._all_heads()
        seen = self._first_seen
        if one.oid in seen and other.oid in seen:
            return seen[one.oid] > seen[other.oid]
        if one.oid == other.oid or other.oid in one.parents:
            return False
        # HEAD was never there, as in a stash, maybe of the same second: newer than its parents.
        above = [seen[parent] for parent in one.parents if parent in seen]
        if above and other.oid in seen and min(above) <= seen[other.oid]:
            return False
        return one.committer_time <= other.committer_time

    def commit(self, oid: Oid) -> CommitInfo | None:
        """Return one commit, None if it is gone."""
        if oid not in self._infos:
            self._infos[oid] = self._readable(oid)
        return self._infos[oid]

    def differences(self, old: Oid | None, new: Oid) -> Sequence[TreeChange]:
        """Return the paths that differ between two commits."""
        before = None if old is None else self.commit(old)
        after = self.commit(new)
        if after is None:
            return ()
        try:
            return self.repo.trees.diff(
                None if before is None else before.tree, after.tree
            )
        except StoreError:
            return ()

    def amended(self, commit: Oid) -> Oid | None:
        """Return the commit that `git commit --amend` replaced by one, as the reflog says."""
        self._all_heads()
        return self._amended.get(commit)

    def is_repeated(self, commit: Oid) -> bool:
        """Return whether the reflog says that a commit was made from others (rebase, pick, am)."""
        self._all_heads()
        return commit in self._made and commit not in self._plain

    def merge_base(self, one: Oid, other: Oid) -> Oid | None:
        """Return the newest common ancestor of two commits."""
        try:
            return self.git.merge_base(one, other)
        except StoreError:
            return None

    def began(self, event: PathChange | None) -> Oid | None:
        """Return the commit on which the session of an event began; HEAD's for None."""
        if event is None:
            return self.repo.head()[1]
        wanted = EventFilter(
            sessions=(event.attribution.session,),
            kinds=(EventKind.BASELINE,),
            worktree=event.worktree,
            limit=1,
        )
        for row in events.rows(self.db, wanted):
            if isinstance(row, Baseline):
                return self._parent(row.commit)
        return None

    def recorded_since(self) -> Oid | None:
        """Return the commit on which recording began; None on an unborn branch."""
        if self._since is _UNASKED:
            first = events.first_baseline(self.db)
            self._since = None if first is None else self._parent(first)
        return self._since

    def newer(self, commits: Sequence[Oid], base: Oid) -> set[Oid]:
        """Return those of some commits that are not ancestors of a base."""
        try:
            return self.git.unreachable(commits, base)
        except StoreError:  # shallow, or the base was collected
            return set(commits)

    def made_here(self, commit: Oid) -> bool:
        """Return whether a commit was made in this worktree, as far as the reflog shows."""
        self._all_heads()
        return commit in self._made

    def made_since(self, tip: Oid) -> list[Oid]:
        """Return the commits up to one that were made here since recording began, newest first.

        In topological order, as `Git.commits_saying`.
        """
        self._all_heads()
        try:
            found = self.git.commits_between(self.recorded_since(), tip)
        except StoreError:  # the commit on which it began was collected
            found = self.git.commits_between(None, tip)
        # The list of commits between two begins with the oldest one.
        return [oid for oid in reversed(found) if oid in self._made]

    def plainly_made(self, commit: Oid) -> bool:
        """Return whether a commit was made here by `git commit`, without taking another over."""
        self._all_heads()
        return commit in self._plain

    def blame(self, commit: Oid, path: RepoPath) -> list[GitLine]:
        """Return what `git blame` says; raise StoreError where it cannot."""
        try:
            said = self.git.blame(commit, path, options=self.options)
        except StoreError as error:
            # In a partial clone `git blame` would fetch objects, but nothing here uses the network.
            if "promisor" in str(error):
                raise StoreError(
                    "objects are missing; git blame fetches them"
                ) from error
            raise
        return parse_porcelain(said)

    def _all_heads(self) -> list[CommitInfo]:
        if self._heads is None:
            steps = self._logged()
            self._steps = [oid for oid, _ in steps]
            self._made = {oid for oid, words in steps if _MADE.match(words)}
            self._plain = {oid for oid, words in steps if _PLAIN.match(words)}
            # The log begins with the newest step, so the last number of a commit is its first one.
            self._first_seen = {oid: at for at, oid in enumerate(self._steps)}
            # An entry of the reflog is its new commit, with Git's words, and then its old one.
            self._amended = {
                new: old
                for (new, words), (old, _) in pairwise(steps)
                if words.startswith(_AMEND) and new != old
            }
            found = {oid: self.commit(oid) for oid, _ in steps}
            self._heads = [commit for commit in found.values() if commit is not None]
        return self._heads

    def _logged(self) -> list[tuple[Oid, str]]:
        if self._log is None:
            log = self.repo.heads(_MOST_HEADS)
            self._log = [*log, *self._recorded_heads({oid for oid, _ in log})]
        return self._log

    def _recorded_heads(self, logged: Collection[Oid]) -> Iterator[tuple[Oid, str]]:
        """Yield where HEAD was by our own record, newest first, if the reflog has lost it."""
        known = {oid[:_SHORT] for oid in logged}
        for note in events.head_notes(self.db, _MOST_HEADS):
            for short in _SHORT_ID.findall(note):
                oid = None if short[:_SHORT] in known else self.repo.resolve(short)
                known.add(short[:_SHORT])
                if oid is not None:
                    # A commit is noted as `commit (amend) 1a2b3c4d "subject"`.
                    made = note.partition(short)[0].strip()
                    yield oid, f"{made}:" if made.startswith("commit") else ""

    def _readable(self, oid: Oid) -> CommitInfo | None:
        try:
            return self.repo.commit(oid)
        except StoreError:
            return None

    def _entry(self, commit: Oid, path: RepoPath) -> Oid | None:
        try:
            entry = self.repo.trees.entry(self.repo.commit(commit).tree, path)
        except StoreError:
            return None
        if entry is None or entry[0] in (TREE_MODE, GITLINK_MODE):
            return None
        return entry[1]

    def _parent(self, commit: Oid) -> Oid | None:
        try:
            parents = self.repo.commit(commit).parents
        except StoreError:
            return None
        return parents[0] if parents else None
