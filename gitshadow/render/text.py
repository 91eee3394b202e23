"""History as text: log, sessions, turns, bursts' rows, ops, one thing in full, and diffs.

Invariant: every name that comes out of a repository passes `printable` or `View.path`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby

from gitshadow.render.document import flag, inner, number, rows, text, texts
from gitshadow.render.report import about_line, report_lines
from gitshadow.render.style import View, patch_style, printable, printable_line
from gitshadow.words import counted

_ID_WIDTH = 12
_WIDE = 80
"""From so many columns on a line of the log has all that belongs to it."""
_INDENT = 4
_DAY_AND_MINUTE = slice(5, 16)
_SURE = frozenset({"certain", "high", "unknown"})
"""What needs no word of doubt: of `unknown` the name of the writer says so."""
_KIND_STYLES: Mapping[str, str] = {
    "create": "good",
    "delete": "bad",
    "gap": "warn",
    "restore": "bold",
}
_NOT_A_FIELD = frozenset({"type", "diff", "report", "prompt", "ui", "cut"})


def local_time(stamp: str) -> str:
    """Return an RFC 3339 time in the local zone, to the second."""
    try:
        return datetime.fromisoformat(stamp).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError):
        return printable(stamp) or "-"


def short(identifier: str) -> str:
    """Return an id, cut where it is long; what is left is still a prefix of it."""
    return printable(identifier[:_ID_WIDTH])


def who(row: Mapping[str, object]) -> str:
    """Return who wrote: the agent's name, `you`, or how far that is unknown."""
    if text(row, "confidence") == "ambiguous":
        return "ambiguous"
    actor = text(row, "actor")
    if actor == "agent":
        return printable(text(row, "agent")) or "agent"
    if actor == "human":
        return "you"
    if text(row, "kind") in ("gap", "head", "baseline", "coverage"):
        return "-"
    return "unknown" if flag(row, "offline") else "you?"


def log_lines(events: Iterable[Mapping[str, object]], view: View) -> Iterator[str]:
    """Yield one line per event; where the rows have prompts, their beginning behind it.

    All that Git switched at once is one line.
    """
    narrow = 0 < view.width < _WIDE
    for group in log_groups(events):
        row = group[0] if len(group) == 1 else _folded(group)
        kind, sure = text(row, "kind"), printable(text(row, "confidence"))
        when = local_time(text(row, "ts"))
        doubt = f"  ({sure})" if narrow and sure and sure not in _SURE else ""
        cells = (
            f"{_number_of(row):>{4 if narrow else 6}}",
            when[_DAY_AND_MINUTE] if narrow else when,
            f"{who(row):<14}",
            view.paint(f"{printable(kind):<8}", _KIND_STYLES.get(kind, "faint")),
            *_certainty(row, narrow=narrow),
            f"{_subject(row, view)}{doubt}",
            view.paint(printable(text(row, "prompt")), "faint"),
        )
        yield "  ".join(cells).rstrip()


def log_groups(
    events: Iterable[Mapping[str, object]],
) -> Iterator[Sequence[Mapping[str, object]]]:
    """Yield the events that make one line of the log: those of one switch by Git, or one."""
    for commit, found in groupby(events, _switched_by):
        group = tuple(found)
        yield from (group,) if commit else ((row,) for row in group)


def _switched_by(row: Mapping[str, object]) -> str:
    return text(row, "commit") if flag(row, "switched") else ""


def _folded(group: Sequence[Mapping[str, object]]) -> Mapping[str, object]:
    """Return a row that stands for all that Git switched at once."""
    said = f"git switched: {counted(len(group), 'file')}"
    kept = ("seq", "machine", "ts", "actor", "agent", "confidence", "offline")
    return {
        **{key: group[0][key] for key in kept if key in group[0]},
        "kind": "switch",
        "note": said,
    }


def _certainty(row: Mapping[str, object], *, narrow: bool) -> Sequence[str]:
    """Return the columns that a narrow terminal has no room for; `show` has them too."""
    if narrow:
        return ()
    return (
        f"{printable(text(row, 'confidence')) or '-':<9}",
        f"{short(text(row, 'burst')) or '-':<{_ID_WIDTH}}",
    )


def _number_of(row: Mapping[str, object]) -> str:
    """Return an event's number as `show` takes it: another machine's begins with its id."""
    machine, seq = printable(text(row, "machine")), printable(text(row, "seq"))
    return f"{machine[:6]}:{seq}" if machine else seq


def _subject(row: Mapping[str, object], view: View) -> str:
    path = text(row, "path")
    said = view.path(path) if path else printable(text(row, "note"))
    old_path = text(row, "old_path")
    if old_path:
        said = f"{view.path(old_path)} → {said}"
    if path and text(row, "note"):
        said += f"  ({printable(text(row, 'note'))})"
    if flag(row, "offline"):
        said += "  (offline)"
    if flag(row, "moved_in"):
        said += "  (moved in)"
    return f"{said}  (by git)" if flag(row, "switched") else said


def session_lines(found: Sequence[Mapping[str, object]], view: View) -> Iterator[str]:
    """Yield one line per session."""
    for row in found:
        state = "ended" if text(row, "ended") else view.paint("open", "good")
        worktree = text(row, "worktree")
        place = "" if worktree in ("", "main") else f"  [{printable(worktree)}]"
        parent = text(row, "parent")
        below = f"  (of {printable(parent)})" if parent else ""
        machine = text(row, "machine")
        below += f"  (fetched, machine {printable(machine[:6])})" if machine else ""
        yield from view.fold(
            f"{printable(text(row, 'id')):<34}  {local_time(text(row, 'started'))}  "
            f"{state}  {counted(number(row, 'turns'), 'turn')},"
            f" {counted(number(row, 'events'), 'event')},"
            f" {counted(number(row, 'files'), 'file')}{place}{below}",
            _INDENT,
        )


def turn_lines(found: Sequence[Mapping[str, object]], view: View) -> Iterator[str]:
    """Yield one line per turn: id, start, session, prompt."""
    for row in found:
        prompt = text(row, "prompt")
        first, _, rest = prompt.partition("\n")
        said = printable(first[:100]) + ("…" if rest or len(first) > 100 else "")
        started = text(row, "started") or text(row, "ts")
        line = (
            f"{printable(text(row, 'id'))}  {local_time(started)}  "
            f"{printable(text(row, 'session'))}  {counted(number(row, 'events'), 'event')}  "
            f"{view.paint(said, 'bold')}"
        )
        yield from view.fold(line.rstrip(), _INDENT)


def op_lines(found: Sequence[Mapping[str, object]], view: View) -> Iterator[str]:
    """Yield one line per op: id, time, verb, status, target, and what took it back."""
    for row in found:
        started, undoer = text(row, "ts"), printable(text(row, "undone_by"))
        line = (
            f"{printable(text(row, 'id') or text(row, 'op_id'))}  {local_time(started)}  "
            f"{printable(text(row, 'kind')):<8}  {printable(text(row, 'status')):<12}  "
            f"{printable(text(row, 'target'))}{f'  (undone by {undoer})' * bool(undoer)}"
        )
        yield from view.fold(line.rstrip(), _INDENT)
        for about in rows(row, "about"):
            yield from view.fold(f"    {about_line(about)}", _INDENT)


def pin_lines(found: Sequence[Mapping[str, object]], view: View) -> Iterator[str]:
    """Yield one line per pin: name, time, commit."""
    for row in found:
        name = view.paint(f"{printable(text(row, 'name')):<20}", "bold")
        yield f"{name}  {local_time(text(row, 'ts'))}  {short(text(row, 'commit'))}"


def show_lines(document: Mapping[str, object], view: View) -> Iterator[str]:
    """Yield one thing in full: its fields, what belongs to it, and its diff."""
    title = f"{text(document, 'type')} {text(document, 'id') or text(document, 'seq')}"
    yield view.paint(printable(title.strip()), "bold")
    for key, value in document.items():
        if key not in _NOT_A_FIELD and not _is_table(value):
            yield from _field(key, document, view)
    for line in text(document, "prompt").splitlines():
        yield f"    {printable_line(line)}"
    if flag(document, "cut"):
        newest = len(rows(document, "events"))
        yield (
            f"only the newest {newest} events are shown;"
            " for the others: PATHS, or git agent-undo log"
        )
    for key, value in document.items():
        if _is_table(value):
            yield f"{printable(key)}:"
            yield from log_lines(rows(document, key), view)
    if inner(document, "report"):
        yield ""
        yield from report_lines(inner(document, "report"), view)
    diff = text(document, "diff")
    if diff:
        yield ""
        yield from patch_lines(diff, view)


def _is_table(value: object) -> bool:
    return isinstance(value, list) and any(isinstance(item, dict) for item in value)


def _field(key: str, document: Mapping[str, object], view: View) -> Iterator[str]:
    value = text(document, key)
    if key in ("path", "old_path") and value:
        value = view.path(value)
    elif flag(document, key):
        value = "yes"
    elif inner(document, key):
        version = inner(document, key)
        value = " ".join(text(version, part) for part in version)
    elif texts(document, key):
        value = ", ".join(texts(document, key))
    if value:
        yield f"  {printable(key):<12}{printable(value)}"


def patch_lines(patch: str, view: View) -> Iterator[str]:
    """Yield a patch for a terminal: coloured as Git does, no control characters."""
    for line in patch.removesuffix("\n").split("\n"):
        yield view.paint(printable_line(line), patch_style(line)) if line else ""
