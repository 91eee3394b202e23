"""History as text: log, sessions, turns, bursts' rows, ops, one thing in full, and diffs.

Invariant: every name that comes out of a repository passes `printable` or `View.path`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from gitshadow.messages.codec import Unset, decode, encode
from gitshadow.messages.history import HistoryRow
from gitshadow.messages.lists import PinAnswer, PinRow, UnpinAnswer
from gitshadow.messages.rows import BurstRow, EventRow, OpRow, SessionRow, TurnRow
from gitshadow.messages.states import Said, ShowAnswer, StatRow
from gitshadow.render.diffstat import stat_lines
from gitshadow.render.history import table_lines, who_is
from gitshadow.render.report import about_line, report_lines
from gitshadow.render.style import View, patch_style, printable, printable_line
from gitshadow.words import counted

_ID_WIDTH = 12
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = (
    *("Jan", "Feb", "Mar", "Apr", "May", "Jun"),
    *("Jul", "Aug", "Sep", "Oct", "Nov", "Dec"),
)
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
        # As `show` takes it: another machine's number begins with its id.
        number = f"{printable(row.machine)[:6]}:{row.seq}" if row.machine else row.seq
        cells = (
            f"{number:>{4 if narrow else 6}}",
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
    rows = [
        HistoryRow(
            kind="session",
            id=row.id,
            ts=row.started,
            actor=row.actor,
            agent=row.agent,
            files=row.files,
            note=_about_session(row),
        )
        for row in found
    ]
    for line in table_lines(rows, view):
        yield from view.fold(line, _INDENT)


def _about_session(row: SessionRow) -> str:
    state = "ended" if row.ended else "open"
    place = "" if row.worktree in ("", "main") else f"  [{row.worktree}]"
    below = f"  (of {row.parent})" if row.parent else ""
    if row.machine:
        below += f"  (fetched, machine {row.machine[:6]})"
    return f"{counted(row.turns, 'turn')}, {state}{place}{below}"


def turn_lines(found: Sequence[TurnRow], view: View) -> Iterator[str]:
    """Yield one line per turn: id, age, agent, files, lines, prompt."""
    rows = [
        HistoryRow(
            kind="turn",
            id=row.short or row.id,
            ts=row.started,
            actor="agent",
            agent=row.agent or row.session,
            prompt=" ".join((row.prompt or "").split()),
            files=row.files,
            added=_number(row.added),
            removed=_number(row.removed),
        )
        for row in found
    ]
    yield from table_lines(rows, view)


def op_lines(found: Sequence[OpRow], view: View) -> Iterator[str]:
    """Yield one line per op: id, age, who, files, lines, what it undid, and what undid it."""
    rows = []
    for row in found:
        by = row.undone_short or row.undone_by or ""
        undoer = f"  (undone by {by})" if by else ""
        status = "" if row.status == "done" else f"  ({row.status})"
        rows.append(
            HistoryRow(
                kind=row.kind,
                id=row.short or row.id,
                ts=row.ts,
                actor="agent" if row.agent else "human",
                agent=row.agent,
                files=row.files if isinstance(row.files, int) else 0,
                added=_number(row.added),
                removed=_number(row.removed),
                note=f"{' '.join(row.undid) or row.target}{status}{undoer}",
            )
        )
    for row, line in zip(found, table_lines(rows, view), strict=True):
        yield line
        for about in row.about or ():
            yield from view.fold(f"    {about_line(about)}", _INDENT)


def _number(count: int | Unset | None) -> int | None:
    return count if isinstance(count, int) else None


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
    """Yield which pin was deleted."""
    yield f"pin {printable(answer.name)} was deleted; no file changed"


class ShowParts(NamedTuple):
    """What `show` was asked for besides or instead of the diff."""

    stat: bool = False
    names: bool = False


_DIFF_ALONE = ShowParts()


def show_lines(
    answer: ShowAnswer, view: View, parts: ShowParts = _DIFF_ALONE
) -> Iterator[str]:
    """Yield one thing in full: its fields, what belongs to it, and its diff."""
    if isinstance(answer.thing, TurnRow | BurstRow):
        yield from _head(answer, answer.thing, view)
    elif isinstance(answer.thing, OpRow):
        yield from _op_head(answer, answer.thing, view)
    else:
        yield from _all_fields(answer, view)
    yield from _said_lines(answer.said, view)
    if answer.report:
        from gitshadow.messages.undo import FileUndoAnswer

        yield ""
        report = decode(FileUndoAnswer, answer.report)
        yield from report_lines(report, view, is_stored=True)
    files = answer.stat or ()
    if files and parts.names:
        yield ""
        yield from (view.path(one.path) for one in files)
    if files and parts.stat:
        yield ""
        yield from stat_lines(files, view)
    if answer.diff:
        yield ""
        yield from patch_lines(answer.diff, view)


def _head(answer: ShowAnswer, unit: TurnRow | BurstRow, view: View) -> Iterator[str]:
    """Yield who, when and why, in the form in which Git shows a commit."""
    prompt: str | None = None
    if isinstance(unit, TurnRow):
        yield view.paint(f"turn {printable(unit.short or unit.id)}", "warn")
        yield f"Agent:    {printable(unit.agent or 'unknown')}"
        prompt = unit.prompt
    else:
        yield view.paint(f"changes {printable(unit.id)}", "warn")
        label = "Agent: " if unit.actor == "agent" else "Author:"
        yield f"{label}   {who_is('changes', unit.actor, unit.agent)}"
    yield f"Session:  {printable(unit.session)}"
    if answer.machine:
        yield f"Machine:  {printable(answer.machine)}"
    yield f"Date:     {_git_date(unit.started or '')}"
    yield f"Files:    {_sum_of(answer.stat or ())}"
    if prompt:
        yield ""
        yield from (f"    {printable_line(line)}" for line in prompt.splitlines())


def _op_head(answer: ShowAnswer, op: OpRow, view: View) -> Iterator[str]:
    """Yield who undid what and when, in the same form; its report lists the files."""
    yield view.paint(f"{printable(op.kind)} {printable(op.short or op.id)}", "warn")
    label = "Agent: " if op.agent else "Author:"
    yield f"{label}   {printable(op.agent or 'you')}"
    if answer.machine:
        yield f"Machine:  {printable(answer.machine)}"
    yield f"Date:     {_git_date(op.ts or '')}"
    yield f"Undid:    {printable(' '.join(op.undid) or op.target)}"
    if op.undone_by:
        yield f"Undone:   by {printable(op.undone_short or op.undone_by)}"
    if op.status != "done":
        yield f"Status:   {printable(op.status)}"
    yield f"Commit:   {printable(op.commit or '') or 'none'}"


def _sum_of(files: Sequence[StatRow]) -> str:
    added = sum(one.added or 0 for one in files)
    removed = sum(one.removed or 0 for one in files)
    return f"{len(files)}  (+{added} -{removed})" if files else "none"


def _git_date(stamp: str) -> str:
    """Return a time as `git log` shows it by default, in the local zone."""
    try:
        moment = datetime.fromisoformat(stamp).astimezone()
    except (ValueError, OverflowError):
        return printable(stamp) or "-"
    # Git's names of days and months are English in every locale.
    day, month = _DAYS[moment.weekday()], _MONTHS[moment.month - 1]
    return f"{day} {month} {moment.day} {moment:%H:%M:%S %Y %z}"


def _all_fields(answer: ShowAnswer, view: View) -> Iterator[str]:
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
        # Only a switch is one event of many files.
        is_switch = answer.type == "event"
        listed = counted(len(found), "file" if is_switch else "event")
        which = "first" if is_switch else "newest"
        more = "PATHS" if is_switch else "PATHS, or git agent-undo log"
        yield f"only the {which} {listed} are shown; for the others: {more}"
    if found:
        yield "events:"
        yield from log_lines(found, view)


def _said_lines(said: Sequence[Said], view: View) -> Iterator[str]:
    """Yield a conversation: texts under who said them, each tool call in one line."""
    before = ""
    for one in said:
        if one.who != before:
            yield ""
            yield view.paint(f"{printable(one.who)}:", "bold")
        before = one.who
        for line in one.text.splitlines():
            yield f"  {printable_line(line)}"


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
