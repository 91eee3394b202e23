"""Which lines `-L` names: numbers are ours to read, searches are asked of Git.

Git is asked on a commit that holds the content, behind which it does not look: so its regular
expressions and its functions (gitattributes(5), `diff`) are the user's own.
Invariant: what no line fits is a UsageError; no filter or converter of the repository is run.
"""

from collections.abc import Iterator, Sequence

from gitshadow.blame.git_blame_parser import parse_lines
from gitshadow.blame.owners import count_lines
from gitshadow.blame.ranges import has_search, numbered_lines
from gitshadow.errors import StoreError, UsageError
from gitshadow.model import Oid, RepoPath
from gitshadow.query.moments import newest_commit
from gitshadow.recording.context import RecorderContext
from gitshadow.store.files import blob_oid
from gitshadow.store.journal import events
from gitshadow.store.refs import display_path


def lines_named(
    context: RecorderContext,
    path: RepoPath,
    data: bytes,
    specs: Sequence[str],
    commit: Oid | None = None,
) -> list[int]:
    """Return the numbers, from 1 and ascending, of the lines that are asked for.

    Args:
        context: The worktree, settled.
        path: The file's name.
        data: What it holds, at the moment that is meant.
        specs: Each as typed behind `-L`; none means the whole file.
        commit: The commit that holds it, where it is known.

    Raises:
        UsageError: one of them is no range, or not of this file.
    """
    if not has_search(specs):
        return numbered_lines(specs, count_lines(data))
    held = commit or _holding(context, path, blob_oid(data))
    if held is None:
        raise UsageError(
            f"cannot search {display_path(path)}: its current content is not recorded",
            hint="use line numbers",
        )
    try:
        said = context.workspace.git.named_lines(held, path, specs)
    except StoreError as error:
        raise UsageError(f"cannot use lines {' '.join(specs)}: {error}") from error
    return sorted(set(parse_lines(said)))


def _holding(context: RecorderContext, path: RepoPath, blob: Oid) -> Oid | None:
    repo = context.workspace.repo
    for commit in _candidates(context, path, blob):
        try:
            entry = repo.entry(repo.commit(commit).tree, path)
        except StoreError:
            continue
        if entry is not None and entry[1] == blob:
            return commit
    return None


def _candidates(context: RecorderContext, path: RepoPath, blob: Oid) -> Iterator[Oid]:
    ws = context.workspace
    for commit in (
        newest_commit(context),
        events.commit_with(ws.db, path, blob),
        ws.repo.head()[1],
    ):
        if commit is not None:
            yield commit
