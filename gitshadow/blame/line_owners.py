"""Owners of the lines of many files: on disk, staged, or in a commit of the user's.

A file is replayed where recorded writes tell of it. Every other one is Git's as a whole, unless one
of its commits speaks: then `git blame` is asked, as for one file.
Invariant: the same answer as `blame` gives for that file; after a barrier; nothing is written but
blame's snapshots.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from gitshadow.blame.attributed_commits import Speaking
from gitshadow.blame.classification import BY_GIT, Credit, Crediting
from gitshadow.blame.file_blame import BlameRequest, Blaming, past_of
from gitshadow.blame.owners import count_lines
from gitshadow.blame.peer_origins import Foreign
from gitshadow.model import FileVersion, Oid, RepoPath
from gitshadow.recording.context import RecorderContext
from gitshadow.store.journal import events

_PLAIN_MODE = 0o100644


@dataclass(frozen=True, slots=True)
class FileOwners:
    """Hold a file's content and who is credited with each of its lines, in order."""

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
            return self._blamed(BlameRequest(path=path))
        if self._is_as_in_head(path, state.version.oid):
            return self._by_git(path, state.version.oid)
        return self._blamed(BlameRequest(path=path, content=state.version))

    def staged(self, path: RepoPath, blob: Oid) -> FileOwners:
        """Return the owners of a content that is in the index.

        Raises:
            StoreError: it is missing.
        """
        if self._is_as_in_head(path, blob):
            return self._by_git(path, blob)
        content = FileVersion(blob, _PLAIN_MODE)
        return self._blamed(BlameRequest(path=path, content=content))

    def committed(self, path: RepoPath, commit: Oid) -> FileOwners:
        """Return the owners of a file as it is in a commit.

        Raises:
            UsageError: the commit does not have it.
            StoreError: its content is missing.
        """
        blob = self._past.blob(commit, path)
        if blob is not None and self._is_gits(path, commit):
            return self._by_git(path, blob)
        return self._blamed(BlameRequest(path=path, commit=commit))

    def _is_as_in_head(self, path: RepoPath, blob: Oid) -> bool:
        head = self._head
        return (
            head is not None
            and self._past.blob(head, path) == blob
            and self._is_gits(path, head)
        )

    def _is_gits(self, path: RepoPath, commit: Oid) -> bool:
        """Tell a file of which Git names the author of every line, whoever that is."""
        written = events.is_written(self._ws.db, path)
        written = written or bool(self._context.others.who_wrote(path))
        return not written and path not in self._speaking.paths(commit)

    def _by_git(self, path: RepoPath, blob: Oid) -> FileOwners:
        data = self._ws.repo.read_blob(blob)
        return FileOwners(path, data, (BY_GIT,) * count_lines(data))

    def _blamed(self, wish: BlameRequest) -> FileOwners:
        blamed = Blaming(self._context, wish, self._past).answer()
        credits = [self.crediting.of(origin) for origin in blamed.vector]
        return FileOwners(wish.path, blamed.data, credits)
