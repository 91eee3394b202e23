"""stats as text: the answer first, then agents, sessions and what is not known.

Invariant: the first line answers; nothing from a repository is printed raw.
"""

from collections.abc import Iterator, Mapping

from gitshadow.render.document import inner, number, rows, text
from gitshadow.render.style import View, printable
from gitshadow.render.text import short
from gitshadow.words import counted

_CLASSES = {"agent": "by agents", "human": "by people", "unknown": "unknown"}
_STYLES = {"agent": "hunk", "human": "plain", "unknown": "faint"}
_SHOWN = 10
_SAID = 60


def stats_lines(document: Mapping[str, object], view: View) -> Iterator[str]:
    """Yield the shares of all lines, then what they are made of."""
    lines = number(document, "lines")
    yield view.paint(_answer(document, lines), "bold")
    if lines:
        yield ""
        yield from _classes(document, view)
        yield from _sessions(document, view)
    yield from _left_out(document, view)


def _answer(document: Mapping[str, object], lines: int) -> str:
    where = _where(inner(document, "scope"))
    if not lines:
        return f"no lines {where}"
    files = number(document, "files")
    said = (
        f"{_percent(row)} {_CLASSES.get(text(row, 'class'), '')}"
        for row in rows(document, "classes")
        if number(row, "lines")
    )
    return f"{counted(lines, 'line')} in {counted(files, 'file')} {where}: {', '.join(said)}"


def _where(scope: Mapping[str, object]) -> str:
    kind, commit = text(scope, "kind"), short(text(scope, "commit"))
    if kind == "commit":
        return f"of commit {commit}"
    if kind == "added":
        return f"added by commit {commit}"
    if kind == "range":
        base = short(text(scope, "base")) or "nothing"
        return f"in {commit} but not in {base}"
    return "of the working tree"


def _classes(document: Mapping[str, object], view: View) -> Iterator[str]:
    for row in rows(document, "classes"):
        name = text(row, "class")
        if not number(row, "lines"):
            continue
        yield view.paint(_line(name, row, 0), _STYLES.get(name, "plain"))
        if name == "agent":
            yield from _agents(document)
        if name == "unknown":
            reasons = rows(document, "unknown")
            yield from _cut(_line(text(one, "reason"), one, 2) for one in reasons)


def _agents(document: Mapping[str, object]) -> Iterator[str]:
    for agent in rows(document, "agents"):
        yield _line(text(agent, "agent"), agent, 2)
        for model in rows(agent, "models"):
            yield _line(text(model, "model") or "model not reported", model, 4)


def _sessions(document: Mapping[str, object], view: View) -> Iterator[str]:
    found = rows(document, "sessions")
    if not found:
        return
    yield ""
    yield view.paint("sessions", "bold")
    yield from _cut(_session(row) for row in found)


def _session(row: Mapping[str, object]) -> str:
    first = text(row, "prompt").partition("\n")[0]
    told = printable(first[:_SAID]) + ("…" if len(first) > _SAID else "")
    return f"{_line(text(row, 'session'), row, 0)}  {told}".rstrip()


def _left_out(document: Mapping[str, object], view: View) -> Iterator[str]:
    left = rows(document, "not_by_line")
    if not left:
        return
    yield ""
    yield f"{counted(len(left), 'file')} not counted by line"
    yield from _cut(
        f"  {view.path(text(row, 'path'))}: {printable(text(row, 'reason'))}"
        for row in left
    )


def _cut(lines: Iterator[str]) -> Iterator[str]:
    """Yield the first lines, and how many more there are."""
    found = list(lines)
    yield from found[:_SHOWN]
    if len(found) > _SHOWN:
        yield f"  … and {len(found) - _SHOWN} more (--json has all)"


def _line(name: str, row: Mapping[str, object], indent: int) -> str:
    head = f"{number(row, 'lines'):>8}  {_percent(row):>7}  "
    return head + " " * indent + printable(name)


def _percent(row: Mapping[str, object]) -> str:
    share = row.get("share")
    if not isinstance(share, float):
        return "-"
    said = f"{100 * share:.1f} %"
    if said == "0.0 %" and number(row, "lines"):
        return "<0.1 %"
    return ">99.9 %" if said == "100.0 %" and share < 1 else said
