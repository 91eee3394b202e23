"""Which recorded events led a file from one content to another.

Invariant: pure but for the events it is given; where the old content was never recorded nothing is
said, because events from before it would be taken for the change's.
"""

from collections.abc import Collection, Sequence

from gitshadow.model import Event, EventKind, FileVersion, Oid, RepoPath

_ASIDE = frozenset({EventKind.COVERAGE, EventKind.RESTORE, EventKind.BASELINE})


def led_here(
    history: Sequence[Event],
    names: Collection[RepoPath],
    old: Oid | None,
    new: Oid | None,
    *,
    whole: bool,
) -> list[Event]:
    """Return the writes between two contents of a file, in order.

    Args:
        history: The events of one worktree about the file, oldest first.
        names: What the file was and is called.
        old: Its content before, None where there was no such file.
        new: Its content after.
        whole: Whether events up to the last one count where the new content was never
            recorded: it may be part of what was recorded.
    """
    rows = [row for row in history if row.path in names or row.old_path in names]
    after = [at for at, row in enumerate(rows) if _is(row.after, new)]
    if not after and not whole:
        return []
    end = after[-1] + 1 if after else len(rows)
    start: int | None = None
    for at, row in enumerate(rows[:end]):
        if _is(row.before, old) and row.path in names:
            start = at
        if _is(row.after, old) and at + 1 < end:
            start = at + 1
    if start is None:
        return []
    return [
        row for row in rows[start:end] if not row.switched and row.kind not in _ASIDE
    ]


def _is(version: FileVersion | None, oid: Oid | None) -> bool:
    return (None if version is None else version.oid) == oid
