"""Installed hooks as text: what is going to be written, what was, and how it all is.

Invariant: paths and file contents pass `printable`.
"""

from collections.abc import Iterator, Mapping, Sequence

from gitshadow.render.document import flag, inner, rows, text, texts
from gitshadow.render.style import View, printable, printable_line

_DONE: Mapping[str, str] = {
    "create": "written",
    "change": "changed",
    "delete": "deleted",
    "move": "moved",
    "fail": "failed",
}
_FITS = 20
_DIFF_STYLES: Mapping[str, str] = {"+": "good", "-": "bad", "@": "hunk"}


def is_long(document: Mapping[str, object]) -> bool:
    """Whether the differences of a plan do not fit on a terminal with the question below."""
    return sum(len(texts(item, "diff")) for item in rows(document, "items")) > _FITS


def plan_lines(
    document: Mapping[str, object], view: View, *, brief: bool = False
) -> Iterator[str]:
    """Yield each file that is going to change, with the difference or its size."""
    for item in rows(document, "items"):
        action = text(item, "action")
        if action in ("none", "fail"):
            continue
        head = f"{text(item, 'agent')} ({text(item, 'scope')}): {action}"
        lines = texts(item, "diff")
        size = f"  ({_size(lines)})" if brief and lines else ""
        where = printable(text(item, "path"))
        yield view.paint(f"{printable(head)} {where}", "bold") + size
        for line in () if brief else lines:
            style = _DIFF_STYLES.get(line[:1], "plain")
            yield "  " + view.paint(printable_line(line), style)


def _size(diff: Sequence[str]) -> str:
    added = sum(line.startswith("+") and not line.startswith("+++") for line in diff)
    removed = sum(line.startswith("-") and not line.startswith("---") for line in diff)
    return f"+{added} -{removed} lines"


def done_lines(document: Mapping[str, object], view: View) -> Iterator[str]:
    """Yield what happened to each file, and what to know about it."""
    status = text(document, "status")
    for item in rows(document, "items") if status in ("done", "partial") else ():
        action = text(item, "action")
        if action != "none":
            said = _DONE.get(action, printable(action))
            style = "bad" if action == "fail" else "plain"
            where = printable(text(item, "path"))
            yield f"{view.paint(f'{said:<8}', style)}  {text(item, 'agent'):<12}  {where}"
    if status == "refused":
        yield "nothing was changed"
    elif status == "nothing_to_do":
        yield "nothing to do"
    for note in texts(document, "notes"):
        yield f"note: {printable(note)}"


def list_lines(agents: Sequence[Mapping[str, object]], view: View) -> Iterator[str]:
    """Yield one line per agent: found here or not, and where its hooks are."""
    for row in agents:
        found = "found" if flag(row, "detected") else "-"
        states = ", ".join(
            f"{scope}: {text(inner(row, scope), 'state')}"
            for scope in ("user", "project")
            if text(inner(row, scope), "state")
        )
        style = "plain" if flag(row, "detected") else "faint"
        yield view.paint(f"{text(row, 'agent'):<12}  {found:<5}  {states}", style)


def status_lines(hooks: Sequence[Mapping[str, object]], view: View) -> Iterator[str]:
    """Yield one block per installation, with what is wrong and what helps."""
    for row in hooks:
        state = text(row, "state")
        style = "good" if state == "installed" else "warn"
        head = f"{text(row, 'agent'):<12}  {text(row, 'scope'):<7}  "
        where = printable(text(row, "path"))
        yield f"{head}{view.paint(f'{printable(state):<10}', style)}  {where}"
        for finding in rows(row, "findings"):
            yield f"  {printable(text(finding, 'problem'))}"
            yield f"    {printable(text(finding, 'fix'))}"
