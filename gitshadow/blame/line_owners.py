"""Find the owners of the lines of many files: on disk, staged, or in a commit of the user.

A file with recorded writes is replayed. Every other file is Git's as a whole, unless one of its
commits names an agent, is claimed, or was made here since recording began: then `git blame` is
asked, as for one file.
Invariant: the answer is the same as `blame` gives for that file. After a barrier; only blame's
snapshots are written.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from gitshadow.attribution.commits import AUTHOR_PATTERNS, MESSAGE_PATTERN
from gitshadow.blame.classification import BY_GIT, Credit, Crediting, Foreign
from gitshadow.blame.file_blame import BlameQuery, Blaming, past_of
from gitshadow.blame.git_history import GitPast
from gitshadow.blame.owners import count_lines
from gitshadow.model import FileVersion, Oid, RepoPath
from gitshadow.recording.context import RecorderContext
from gitshadow.store.git import Git
from gitshadow.store.journal import events

_PLAIN_MODE = 0o100644


@dataclass(slots=True)
class Speaking:
    """Answer for one repository; remembers what it found of each commit that was asked for."""

    git: Git
    crediting: Crediting
    past: GitPast
    _paths: dict[Oid, frozenset[RepoPath]] = field(default_factory=dict)

    def paths(self, tip: Oid) -> frozenset[RepoPath]:
        """Return the paths that may have a line of a speaking commit, up to a commit."""
        if tip not in self._paths:
            # Git searches all messages in one process; only what it finds is parsed here.
            by_words = self.git.commits_saying(tip, MESSAGE_PATTERN)
            by_name = self.git.commits_by(tip, AUTHOR_PATTERNS)
            named = [
                [oid for oid in oids if self.crediting.agent_of(oid)]
                for oids in (by_words, by_name)
            ]
            every = (*named, self._claimed(tip), self.past.made_since(tip))
            found = set().union(*(self._reached(tip, oids) for oids in every))
            self._paths[tip] = frozenset(found)
        return self._paths[tip]

    def _claimed(self, tip: Oid) -> list[Oid]:
        claimed = self.crediting.claimed()
        if not claimed:
            return []
        # `_reached` needs the oldest commit last; the list begins with it.
        every = reversed(self.git.commits_between(None, tip))
        return [oid for oid in every if oid in claimed]

    def _reached(self, tip: Oid, speaking: list[Oid]) -> set[RepoPath]:
        if not speaking:
            return set()
        # In topological order no other of them stands under the last one.
        renames = self.git.renames(speaking[-1], tip)
        return _followed(self.git.touched(speaking), renames)


def _followed(
    paths: Iterable[RepoPath], renames: Iterable[tuple[RepoPath, RepoPath]]
) -> set[RepoPath]:
    """Return paths with all names that they may have got since."""
    names: dict[RepoPath, set[RepoPath]] = {}
    for old, new in renames:
        names.setdefault(old, set()).add(new)
    found: set[RepoPath] = set()
    todo = set(paths)
    while todo:
        found |= todo
        later = [names.get(path, set()) for path in todo]
        todo = set().union(*later) - found
    return found


@dataclass(frozen=True, slots=True)
class FileOwners:
    """Store a file's content and who is credited with each of its lines, in order."""

    path: RepoPath
    data: bytes
    credits: Sequence[Credit]


class Owning:
    """Answer for one worktree, as long as nothing moves in it."""

    def __init__(self, context: RecorderContext) -> None:
        self._context = context
        self._ws = context.workspace
        self._past = past_of(context)
        self._head = self._ws.repo.head()[1]
        self.crediting = Crediting(self._ws.repo, self._ws.db, Foreign(context.others))
        self._speaking = Speaking(self._ws.git, self.crediting, self._past)

    def recorded_since(self) -> Oid | None:
        """Return the commit on which recording began; None on an unborn branch."""
        return self._past.recorded_since()

    def on_disk(self, path: RepoPath) -> FileOwners:
        """Return the owners of a file as the last barrier found it in the working tree.

        Raises:
            UsageError: it was not there.
        """
        state = self._ws.states.get(path)
        if state is None:
            return self._blamed(BlameQuery(path=path))
        # Most files have no event and no agent's commit, and need neither replay nor `git blame`.
        if self._is_as_in_head(path, state.version.oid):
            return self._by_git(path, state.version.oid)
        return self._blamed(BlameQuery(path=path, content=state.version))

    def staged(self, path: RepoPath, blob: Oid) -> FileOwners:
        """Return the owners of a content that is in the index.

        Raises:
            StoreError: it is missing.
        """
        if self._is_as_in_head(path, blob):
            return self._by_git(path, blob)
        content = FileVersion(blob, _PLAIN_MODE)
        return self._blamed(BlameQuery(path=path, content=content))

    def committed(self, path: RepoPath, commit: Oid) -> FileOwners:
        """Return the owners of a file as it is in a commit.

        Raises:
            UsageError: the commit does not have it.
            StoreError: its content is missing.
        """
        blob = self._past.blob(commit, path)
        if blob is not None and self._is_gits(path, commit):
            return self._by_git(path, blob)
        return self._blamed(BlameQuery(path=path, commit=commit))

    def _is_as_in_head(self, path: RepoPath, blob: Oid) -> bool:
        head = self._head
        return (
            head is not None
            and self._past.blob(head, path) == blob
            and self._is_gits(path, head)
        )

    def _is_gits(self, path: RepoPath, commit: Oid) -> bool:
        """Return whether Git alone names the author of every line of a file."""
        written = events.is_written(self._ws.db, path)
        written = written or bool(self._context.others.who_wrote(path))
        return not written and path not in self._speaking.paths(commit)

    def _by_git(self, path: RepoPath, blob: Oid) -> FileOwners:
        data = self._ws.repo.read_blob(blob)
        return FileOwners(path, data, (BY_GIT,) * count_lines(data))

    def _blamed(self, wish: BlameQuery) -> FileOwners:
        blamed = Blaming(self._context, wish, self._past).answer()
        credits = [self.crediting.of(origin) for origin in blamed.vector]
        return FileOwners(wish.path, blamed.data, credits)
