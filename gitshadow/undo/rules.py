"""Rule files in a unit: what they hide comes back under the rules that the undo restores.

A unit that wrote `.gitignore` or `.agent-undoignore` changed what is recorded. The plan is made for
the rules that it restores, and what was changed while nobody recorded it is named.
Invariant: only reads.
"""

from collections.abc import Callable, Mapping

from gitshadow.capture.coverage import is_rules
from gitshadow.model import EventKind, FileVersion, RepoPath
from gitshadow.store.files import WorkFiles
from gitshadow.store.journal import events
from gitshadow.store.journal.db import Db
from gitshadow.store.journal.events import EventFilter
from gitshadow.undo.choose import Selection
from gitshadow.undo.plan import Plan, Unrecorded
from gitshadow.undo.report import Reason
from gitshadow.undo.report_context import touches_of
from gitshadow.undo.reverse import Read
from gitshadow.undo.worktree_scan import version_at

Rules = Mapping[RepoPath, bytes | None]
"""The contents that rule files are to have; None: the file is to be absent."""

_ROUNDS = 4  # restored rules may uncover further rule files, below them


def restored_by(plan_under: Callable[[Rules], Plan], read: Read) -> Rules:
    """Return the contents that a plan gives to rule files, when it is made for these contents.

    Args:
        plan_under: Makes the plan for given contents of rule files.
        read: Gives recorded content.
    """
    rules: Rules = {}
    for _ in range(_ROUNDS):
        restored = _restored(plan_under(rules), read)
        if restored == rules:
            break
        rules = restored
    return rules


def unrecorded(
    db: Db, worktree: str, selection: Selection, files: WorkFiles
) -> tuple[Unrecorded, ...]:
    """Return the paths that were changed while the unit's rules kept them from being recorded.

    They left or entered coverage, and were touched, in the time of a unit that wrote a rule file.
    Their rows may come before that of the rule file: a watcher reports both, in any order.
    """
    if not any(row.path and is_rules(row.path) for row in selection.taken):
        return ()
    wanted = EventFilter(
        worktree=worktree,
        kinds=(EventKind.COVERAGE,),
        since_ns=min((window.begin_ns for window in selection.windows), default=None),
    )
    touched = {
        touch.path
        for window in selection.windows
        for touch in touches_of(db, worktree, window)
    }
    found: dict[RepoPath, Unrecorded] = {}
    for row in sorted(events.rows(db, wanted), key=lambda row: row.seq):
        if row.path is None or row.path in found or row.path not in touched:
            continue
        if row.before is None:
            why = "changed before it was first recorded"
            found[row.path] = Unrecorded(row.path, Reason.NO_BASELINE, why)
        elif not _holds(files, row.path, row.before):
            why = "changed while it was not recorded"
            found[row.path] = Unrecorded(row.path, Reason.EXCLUDED, why)
    return tuple(found[path] for path in sorted(found))


def _restored(plan: Plan, read: Read) -> Rules:
    """Return the contents that a plan gives to rule files."""
    found: dict[RepoPath, bytes | None] = {}
    for path, step in plan.steps.items():
        if is_rules(path):
            oid = step.after.oid if step.after is not None else None
            found[path] = plan.made.get(oid) or read(oid) if oid is not None else None
    return found


def _holds(files: WorkFiles, path: RepoPath, version: FileVersion) -> bool:
    try:
        return version_at(files, path) == version
    except OSError:
        return False
