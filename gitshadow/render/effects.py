"""What agent programs did outside the file tree, as text.

Invariant: whatever a program wrote is escaped before a terminal sees it.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from gitshadow.render.document import flag, inner, number, text
from gitshadow.render.style import View, printable
from gitshadow.render.text import local_time
from gitshadow.words import counted

if TYPE_CHECKING:
    from gitshadow.sdk.turns.report import UndoReport

_Rows = Sequence[Mapping[str, object]]


def log_lines(found: _Rows, view: View) -> Iterator[str]:
    """Yield one line per step: time, turn, call, what happened, to which tool."""
    for row in found:
        call = text(row, "call") or text(row, "turn")
        kind, outcome = text(row, "kind"), text(inner(row, "body"), "outcome")
        if kind == "outcome" and outcome:
            kind = f"{kind}: {printable(outcome)}"
        named = f"{printable(call):<12}  {kind:<24}"
        said = printable(text(row, "tool"))
        yield f"{text(row, 'seq'):>6}  {local_time(text(row, 'ts'))}  {named}  {said}".rstrip()


def turn_lines(found: _Rows, view: View) -> Iterator[str]:
    """Yield one line per turn: id, start, session, how it ended, label."""
    for row in found:
        label = view.paint(printable(text(row, "label")), "bold")
        standing = _words(text(row, "standing") or text(row, "status"))
        yield (
            f"{printable(text(row, 'id')):<8}  {local_time(text(row, 'started'))}  "
            f"{printable(text(row, 'session'))}  {standing:<22}  "
            f"{counted(number(row, 'entries'), 'entry', 'entries')}  {label}"
        ).rstrip()


def call_lines(found: _Rows, view: View) -> Iterator[str]:
    """Yield one line per call: id, tool, class, outcome, what became of its inverse."""
    for row in found:
        outcome = text(row, "outcome") or "in doubt"
        said = printable(text(row, "error") or _described(row))
        yield (
            f"{printable(text(row, 'id')):<12}  {printable(text(row, 'tool')):<20}  "
            f"{text(row, 'class'):<14}  {outcome:<12}  undo {text(row, 'undo'):<9}  {said}"
        ).rstrip()


def _described(row: Mapping[str, object]) -> str:
    """Return what a call is said to have done; only success has surely executed anything."""
    said = text(row, "description")
    ran = text(row, "outcome") == "success"
    return said if ran or said != f"Executed {text(row, 'tool')}" else ""


def event_lines(found: _Rows, view: View) -> Iterator[str]:
    """Yield one line per event; what a rewind hid is marked with `-`."""
    for row in found:
        mark = " " if flag(row, "live") else "-"
        first, _, rest = text(row, "text").partition("\n")
        said = printable(first[:100]) + ("…" if rest or len(first) > 100 else "")
        who = printable(text(row, "author"))
        yield (
            f"{mark}{text(row, 'seq'):>6}  {printable(text(row, 'invocation')):<8}  "
            f"{text(row, 'kind'):<10}  {who:<10}  {view.paint(said, 'bold')}"
        ).rstrip()


def artifact_lines(found: Sequence[Mapping[str, object]], view: View) -> Iterator[str]:
    """Yield one line per version: name, number, blob, and which one counts."""
    for row in found:
        oid = printable(text(row, "oid"))[:10] or "absent"
        mark = "  current" if flag(row, "current") else ""
        yield f"{printable(text(row, 'name'))}  {number(row, 'version')}  {oid}{mark}"


def state_lines(document: Mapping[str, object], view: View) -> Iterator[str]:
    """Yield one line per key, sorted."""
    for key, value in sorted(inner(document, "state").items()):
        yield printable(f"{key} = {json.dumps(value, ensure_ascii=False)}")


def attention_lines(found: _Rows, view: View) -> Iterator[str]:
    """Yield one line per thing that a person should look at."""
    for row in found:
        name = text(row, "call") or text(row, "turn")
        what = printable(text(row, "tool") or text(row, "what"))
        said = printable(text(row, "text"))
        state = text(row, "state")
        if state == "due" and text(row, "due"):
            state = "waiting" if flag(row, "waits") else state
            said = f"will be sent after {local_time(text(row, 'due'))}  {said}"
        yield (
            f"{printable(text(row, 'session'))}  {printable(name):<12}  "
            f"{_words(state):<14}  {what}  {said}"
        ).rstrip()


def tool_lines(found: _Rows, view: View) -> Iterator[str]:
    """Yield one line per tool: name and class."""
    for row in found:
        yield f"{printable(text(row, 'name')):<24}  {text(row, 'class')}"


def _words(name: str) -> str:
    """Return one of our names as people write it: `not reversed`, `rolled back`."""
    return printable(name.replace("_", " "))


def report_text(report: "UndoReport", view: View) -> Iterator[str]:
    """Yield the report of an undo of effects, as programs render it too."""
    headline, *lines = report.render().split("\n")
    yield view.paint(headline, "bold")
    yield from lines
