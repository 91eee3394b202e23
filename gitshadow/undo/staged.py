"""What an undo leaves in the index: moves that `git mv` staged, and new files that were added.

Invariant: the index is read alone; who runs the undo is told what to type.
"""

import shlex
from collections.abc import Iterator

from gitshadow.model import RepoPath
from gitshadow.recording.index import IndexView
from gitshadow.store.refs import parse_path
from gitshadow.undo.report import Action, Report, State, Uncovered


def moves_staged(report: Report, index: IndexView) -> Iterator[Uncovered]:
    """Yield the moves of a report that the index has, in the order of its items."""
    for item in report.items:
        if item.old_path is None or item.state is not State.REVERSED:
            continue
        now, then = (RepoPath(parse_path(p)) for p in (item.path, item.old_path))
        if not _is_staged(index, then, now) or index.head_entry(now) is None:
            continue
        words = shlex.join(sorted((item.path, item.old_path)))
        yield Uncovered(
            "the index",
            f"the rename is still staged: git restore --staged -- {words}",
            item.path,
        )


def creations_staged(report: Report, index: IndexView) -> Iterator[Uncovered]:
    """Yield the files that a report deleted, or would, and that the index has as new files."""
    for item in report.items:
        if item.action is not Action.DELETE or item.state is not State.REVERSED:
            continue
        path = RepoPath(parse_path(item.path))
        if path in index.paths() and index.head_entry(path) is None:
            yield Uncovered(
                "the index",
                f"{item.path} is still staged: git restore --staged -- {shlex.quote(item.path)}",
                item.path,
            )


def _is_staged(index: IndexView, has: RepoPath, has_not: RepoPath) -> bool:
    paths = index.paths()
    return has in paths and has_not not in paths
