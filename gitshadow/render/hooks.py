"""Installed hooks as text: what will be written, what was written, and whether it works.

Invariant: paths and file contents pass `printable`.
"""

from collections.abc import Iterator, Mapping, Sequence

from gitshadow.messages.hooks import AgentRow, HooksRow, InstallItem, InstallReport
from gitshadow.render.style import View, printable, printable_line
from gitshadow.words import counted

_DONE: Mapping[str, str] = {
    "create": "written",
    "change": "changed",
    "delete": "deleted",
    "move": "moved",
    "fail": "failed",
}
_FITS = 20
_DIFF_STYLES: Mapping[str, str] = {"+": "good", "-": "bad", "@": "hunk"}


def is_long(items: Sequence[InstallItem]) -> bool:
    """Whether the differences of a plan do not fit on a terminal with the question below."""
    return sum(len(item.diff) for item in items) > _FITS


def plan_lines(
    items: Sequence[InstallItem], view: View, *, brief: bool = False
) -> Iterator[str]:
    """Yield each file that will change, with the difference or its size."""
    for item in items:
        if not item.is_change:
            continue
        if brief:
            size = "  (+{} -{} lines)".format(*_counts(item.diff)) if item.diff else ""
            yield view.paint(printable(_summary(item)), "bold") + size
            continue
        head = f"{item.agent} ({item.scope}): {item.action} {item.path}"
        yield view.paint(printable(head), "bold")
        for line in item.diff:
            style = _DIFF_STYLES.get(line[:1], "plain")
            yield "  " + view.paint(printable_line(line), style)


def _summary(item: InstallItem) -> str:
    """Return what happens to a file: `claude-code: 10 hooks into ~/.claude/settings.json`."""
    added, removed = _counts(item.diff)
    whose = item.agent if item.scope == "user" else f"{item.agent} ({item.scope})"
    if not item.hooks:
        return f"{whose}: {item.action} {item.path}"
    count = counted(item.hooks, "hook")
    if removed > added:
        return f"{whose}: remove {count} from {item.path}"
    return f"{whose}: {count} into {item.path}"


def _counts(diff: Sequence[str]) -> tuple[int, int]:
    # The lines of the two file names are no part of it, and Markdown has lines of dashes.
    added = sum(line.startswith("+") for line in diff)
    removed = sum(line.startswith("-") for line in diff)
    return added, removed


def done_lines(report: InstallReport, view: View) -> Iterator[str]:
    """Yield what happened to each file, then the notes."""
    status = report.status
    for item in report.items if status in ("done", "partial") else ():
        if item.action != "none":
            said = _DONE.get(item.action, printable(item.action))
            style = "bad" if item.action == "fail" else "plain"
            where = printable(item.path)
            yield f"{view.paint(f'{said:<8}', style)}  {item.agent:<12}  {where}"
    if status == "refused":
        yield "nothing was changed"
    elif status == "nothing_to_do":
        yield "nothing to do"
    for note in report.notes:
        yield f"note: {printable(note)}"


def list_lines(agents: Sequence[AgentRow], view: View) -> Iterator[str]:
    """Yield one line per agent: whether it was found, and where its hooks are."""
    for row in agents:
        found = "found" if row.detected else "-"
        places = (("user", row.user), ("project", row.project))
        states = ", ".join(f"{name}: {one.state}" for name, one in places if one)
        style = "plain" if row.detected else "faint"
        yield view.paint(f"{row.agent:<12}  {found:<5}  {states}", style)


def status_lines(hooks: Sequence[HooksRow], view: View) -> Iterator[str]:
    """Yield one block per installation, with its problems and their fixes."""
    for row in hooks:
        style = "good" if row.state == "installed" else "warn"
        said = f"{row.state} (changed by you)" if row.changed else row.state
        state = view.paint(f"{printable(said):<10}", style)
        yield f"{row.agent:<12}  {row.scope:<7}  {state}  {printable(row.path or '')}"
        if row.version is not None:
            yield view.paint(
                f"  version {printable(row.version)}{_tested(row)}", "faint"
            )
        for finding in row.findings or ():
            yield f"  {printable(finding.problem)}"
            yield f"    {printable(finding.fix)}"


def _tested(row: HooksRow) -> str:
    if row.verified is None:
        return ""
    if row.newer:
        return f", newer than the tested {row.verified}"
    return (
        ", tested" if row.verified == row.version else f", tested with {row.verified}"
    )
