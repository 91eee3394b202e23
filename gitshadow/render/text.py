"""History as text: log, sessions, turns, bursts' rows, ops, one thing in full, and diffs.

Invariant: every name that comes out of a repository passes `printable` or `View.path`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from gitshadow.messages.codec import decode, encode
from gitshadow.messages.lists import PinAnswer, PinRow, UnpinAnswer
from gitshadow.messages.rows import EventRow, OpRow, SessionRow, TurnRow
from gitshadow.messages.states import ShowAnswer
from gitshadow.render.history import age_of
from gitshadow.render.report import ACTORS, about_line, report_lines
from gitshadow.render.style import View, patch_style, printable, printable_line
from gitshadow.words import counted

_ID_WIDTH = 12
# With fewer columns than this, a line of the log leaves out what `show` has too.
_WIDE = 80
_INDENT = 4
_DAY_AND_MINUTE = slice(5, 16)
# These need no word of doubt; for `unknown`, the name of the author says it.
_SURE = frozenset({"certain", "high", "unknown"})
_KIND_STYLES: Mapping[str, str] = {
    "create": "good",
    "delete": "bad",
    "gap": "warn",
    "restore": "bold",
}


def local_time(stamp: str) -> str:
    """Return an RFC 3339 time in the local zone, to the second."""
    try:
        return datetime.fromisoformat(stamp).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError):
        return printable(stamp) or "-"


def short(identifier: str) -> str:
    """Return an id, cut where it is long; what is left is still a prefix of it."""
    return printable(identifier[:_ID_WIDTH])


def who(row: EventRow) -> str:
    """Return who wrote: the agent's name, `you`, or how far that is unknown."""
    if row.confidence == "ambiguous":
        return "ambiguous"
    if row.actor == "agent":
        return printable(row.agent or "agent")
    if row.actor == "human":
        return "you"
    if row.kind in ("gap", "head", "baseline", "coverage"):
        return "-"
    return "unknown" if row.offline else "you?"


def log_lines(events: Iterable[EventRow], view: View) -> Iterator[str]:
    """Yield one line per event, with the start of its prompt if the rows have prompts."""
    narrow = 0 < view.width < _WIDE
    for row in events:
        sure = printable(row.confidence or "")
        when = local_time(row.ts or "")
        doubt = f"  ({sure})" if narrow and sure and sure not in _SURE else ""
        cells = (
            f"{_number_of(row):>{4 if narrow else 6}}",
            when[_DAY_AND_MINUTE] if narrow else when,
            f"{who(row):<14}",
            view.paint(
                f"{printable(row.kind):<8}", _KIND_STYLES.get(row.kind, "faint")
            ),
            *_certainty(row, narrow=narrow),
            f"{_subject(row, view)}{doubt}",
            view.paint(printable(row.prompt or ""), "faint"),
        )
        yield "  ".join(cells).rstrip()


def _certainty(row: EventRow, *, narrow: bool) -> Sequence[str]:
    """Return the columns that a narrow terminal has no room for; `show` has them too."""
    if narrow:
        return ()
    return (
        f"{printable(row.confidence or '') or '-':<9}",
        f"{row.turn_short or short(row.burst or '') or '-':<{_ID_WIDTH}}",
    )


def _number_of(row: EventRow) -> str:
    """Return an event's number as `show` takes it: another machine's begins with its id."""
    return f"{printable(row.machine)[:6]}:{row.seq}" if row.machine else str(row.seq)


def _subject(row: EventRow, view: View) -> str:
    note = printable(row.note or "")
    said = view.path(row.path) if row.path else note
    if row.old_path:
        said = f"{view.path(row.old_path)} → {said}"
    if row.path and note:
        said += f"  ({note})"
    if row.offline:
        said += "  (offline)"
    if row.moved_in:
        said += "  (moved in)"
    if row.files:
        said += f"  (git switched {counted(row.files, 'file')})"
    return f"{said}  (by git)" if row.switched else said


def session_lines(found: Sequence[SessionRow], view: View) -> Iterator[str]:
    """Yield one line per session."""
    cells = []
    for row in found:
        state = "ended" if row.ended else "open"
        place = "" if row.worktree in ("", "main") else f"  [{printable(row.worktree)}]"
        below = f"  (of {printable(row.parent)})" if row.parent else ""
        if row.machine:
            below += f"  (fetched, machine {printable(row.machine[:6])})"
        name = printable(row.agent or "") or ACTORS.get(row.actor, row.actor)
        counts = f"{counted(row.turns, 'turn')}, {counted(row.files, 'file')}"
        number = printable(row.id)
        cells.append(
            (number, age_of(row.started), name, state, f"{counts}{place}{below}")
        )
    yield from _aligned(cells, view)


def turn_lines(found: Sequence[TurnRow], view: View) -> Iterator[str]:
    """Yield one line per turn: id, age, agent, files, prompt."""
    cells = []
    for row in found:
        first, _, rest = (row.prompt or "").partition("\n")
        said = printable(first[:100]) + ("…" if rest or len(first) > 100 else "")
        name = printable(row.agent or "") or printable(row.session)
        number = row.short or printable(row.id)
        cells.append(
            (number, age_of(row.started), name, counted(row.files, "file"), said)
        )
    yield from _aligned(cells, view)


def op_lines(found: Sequence[OpRow], view: View) -> Iterator[str]:
    """Yield one line per op: id, age, verb, status, target, and what undid it."""
    names = {row.id: printable(row.short or row.id) for row in found}
    for row in found:
        by = row.undone_by or ""
        undoer = f"  (undone by {names.get(by, printable(by))})" if by else ""
        line = (
            f"{names[row.id]:<5}  {age_of(row.ts):<11}  "
            f"{printable(row.kind):<8}  {printable(row.status):<12}  "
            f"{printable(row.target)}{undoer}"
        )
        yield from view.fold(line.rstrip(), _INDENT)
        for about in row.about or ():
            yield from view.fold(f"    {about_line(about)}", _INDENT)


def _aligned(rows: Sequence[Sequence[str]], view: View) -> Iterator[str]:
    """Yield rows with their cells below each other; the last one may be of any length."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        *cells, last = row
        padded = (
            f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=False)
        )
        yield from view.fold("  ".join([*padded, last]).rstrip(), _INDENT)


def pin_lines(found: Sequence[PinRow], view: View) -> Iterator[str]:
    """Yield one line per pin: name, time, commit."""
    for row in found:
        name = view.paint(f"{printable(row.name):<20}", "bold")
        yield f"{name}  {local_time(row.ts or '')}  {short(row.commit)}"


def pinned_lines(answer: PinAnswer, view: View) -> Iterator[str]:
    """Yield what `pin` named."""
    name = printable(answer.name)
    yield f"pinned the working tree as {name}"
    yield f"to restore it: git agent-undo restore --pin {name}"


def unpinned_lines(answer: UnpinAnswer, view: View) -> Iterator[str]:
    """Yield what `unpin` deleted."""
    yield f"pin {printable(answer.name)} was deleted; no file changed"


def show_lines(answer: ShowAnswer, view: View) -> Iterator[str]:
    """Yield one thing in full: its fields, what belongs to it, and its diff."""
    fields = encode(answer.thing)
    title = f"{answer.type} {fields.get('id') or fields.get('seq') or ''}"
    yield view.paint(printable(title.strip()), "bold")
    for key, value in fields.items():
        # The document has the list of events where a row has their number.
        if key not in ("prompt", "events"):
            yield from _field(key, value, view)
    yield from _field("machine", answer.machine, view)
    for line in str(fields.get("prompt") or "").splitlines():
        yield f"    {printable_line(line)}"
    found = answer.events or ()
    if answer.cut:
        listed = counted(len(found), "file" if fields.get("files") else "event")
        which = "first" if fields.get("files") else "newest"
        more = "PATHS" if fields.get("files") else "PATHS, or git agent-undo log"
        yield f"only the {which} {listed} are shown; for the others: {more}"
    if found:
        yield "events:"
        yield from log_lines(found, view)
    if answer.report:
        yield ""
        from gitshadow.messages.undo import FileUndoAnswer

        yield from report_lines(decode(FileUndoAnswer, answer.report), view)
    if answer.diff:
        yield ""
        yield from patch_lines(answer.diff, view)


def _field(key: str, value: object, view: View) -> Iterator[str]:
    said = "" if value is None else str(value)
    if key in ("path", "old_path"):
        said = view.path(said) if said else ""
    elif isinstance(value, bool):
        said = "yes" if value else ""
    elif isinstance(value, dict):
        said = " ".join(map(str, value.values()))
    elif isinstance(value, list):
        said = ", ".join(map(str, value))
    if said:
        yield f"  {printable(key):<12}{printable(said)}"


def patch_lines(patch: str, view: View) -> Iterator[str]:
    """Yield a patch for a terminal: coloured as Git does, no control characters."""
    for line in patch.removesuffix("\n").split("\n"):
        yield view.paint(printable_line(line), patch_style(line)) if line else ""
