"""What happened, a line for each turn, undo, move of HEAD and group of changes."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from gitshadow.messages.history import HistoryRow
from gitshadow.render.style import View, printable
from gitshadow.words import ago, counted, shortened

_PROMPT_SHOWN = 160
_MORE_FILES = 3
_LEAST_TEXT = 20
_UNDOS: Mapping[str, str] = {
    "oops": "undid",
    "undo": "undid",
    "redo": "redid",
    "restore": "restored",
}


def age_of(stamp: str | None) -> str:
    """Return how long ago an RFC 3339 time was."""
    seconds = seconds_since(stamp, datetime.now(UTC).timestamp())
    return "-" if seconds is None else ago(seconds)


def seconds_since(stamp: str | None, now: float) -> float | None:
    """Return the seconds since an RFC 3339 time; None for what is none."""
    try:
        return now - datetime.fromisoformat(stamp or "").timestamp()
    except (ValueError, OverflowError):
        return None


def who_is(kind: str, actor: str | None, agent: str | None) -> str:
    """Return who did it: the agent's name, `you`, `you?`, or `-` for Git and gitshadow."""
    if actor == "agent":
        return printable(agent or "agent")
    if actor is None:
        return "-"
    return "you" if kind in _UNDOS or actor == "human" else "you?"


def author_of(row: HistoryRow) -> str:
    """Return `who_is` of a row."""
    return who_is(row.kind, row.actor, row.agent)


class Columns(NamedTuple):
    """The widths of the columns of a list, in characters."""

    id: int
    age: int
    who: int
    files: int
    lines: int


def columns_of(rows: Sequence[HistoryRow], whens: Sequence[str]) -> Columns:
    """Return how wide the columns have to be."""
    return Columns(
        max((len(row.id) for row in rows), default=0),
        max(map(len, whens), default=0),
        max((len(author_of(row)) for row in rows), default=0),
        max((len(_files(row)) for row in rows), default=0),
        max((len(" ".join(_lines(row))) for row in rows), default=0),
    )


def table_lines(rows: Sequence[HistoryRow], view: View) -> Iterator[str]:
    """Yield rows of a list in the columns of the log, with their ages."""
    whens = [age_of(row.ts) for row in rows]
    widths = columns_of(rows, whens)
    for row, when in zip(rows, whens, strict=True):
        yield history_line(row, when, widths, view)


def history_line(row: HistoryRow, when: str, widths: Columns, view: View) -> str:
    """Return a row as one line, cut to the terminal's width."""
    added, removed = _lines(row)
    gap = " " * (widths.lines - len(f"{added} {removed}"))
    counts = f"{view.paint(added, 'good')} {view.paint(removed, 'bad')}{gap}"
    marks = _marks(row)
    text = _subject(row, view)
    if view.width:
        room = view.width - sum(widths) - 2 * len(widths) - len(marks)
        text = shortened(text, max(_LEAST_TEXT, room))
    cells = (
        view.paint(f"{printable(row.id):<{widths.id}}", "warn"),
        f"{when:<{widths.age}}",
        f"{author_of(row):<{widths.who}}",
        f"{_files(row):<{widths.files}}",
        counts,
        f"{view.paint(text, 'bold') if row.prompt else text}{marks}",
    )
    return "  ".join(cells).rstrip()


def oneline_of(row: HistoryRow, view: View) -> str:
    """Return a row as `git log --oneline` would: its id and what it is."""
    number = view.paint(printable(row.id), "warn")
    who = "" if row.actor is None else f"{author_of(row)}: "
    return f"{number} {who}{_subject(row, view)}{_marks(row)}"


def _files(row: HistoryRow) -> str:
    if row.kind == "head":
        return ""
    return counted(row.files, "file") if row.files else ""


def _lines(row: HistoryRow) -> tuple[str, str]:
    """Return the counts of lines that came and went, empty for none."""
    added = f"+{row.added}" if row.added else ""
    return added, f"-{row.removed}" if row.removed else ""


def _subject(row: HistoryRow, view: View) -> str:
    """Return the prompt, or what was undone, or the first of the files."""
    if row.prompt:
        return f'"{shortened(printable(row.prompt), _PROMPT_SHOWN)}"'
    note = printable(row.note)
    if row.kind == "head" and row.files:
        return f"{note}  (git switched {counted(row.files, 'file')})"
    if row.kind in _UNDOS:
        return f"{_UNDOS[row.kind]} {note}"
    names = ", ".join(view.path(path) for path in row.paths[:_MORE_FILES])
    if names and row.files > len(row.paths):
        names += f", and {row.files - len(row.paths)} more"
    if note and names:
        return f"{names}: {note}"
    return note or names


def _marks(row: HistoryRow) -> str:
    found = []
    if row.undone:
        part = "" if row.undone == row.files else f" {row.undone}/{row.files}"
        found.append(f"undone{part}")
    if row.unsure:
        found.append(f"{counted(row.unsure, 'file')} unsure")
    found += [f"alert: {printable(text)}" for text in row.alerts]
    return f"  ({', '.join(found)})" if found else ""
