"""What agent programs did outside the file tree, as text.

Invariant: whatever a program wrote is escaped before a terminal sees it.
"""

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gitshadow.messages.programs import (
    ArtifactRow,
    Attention,
    AttentionRow,
    ClosingWindow,
    ProgramCallRow,
    ProgramEventRow,
    ProgramState,
    ProgramTurnRow,
    StepRow,
    ToolRow,
)
from gitshadow.render.style import View, printable
from gitshadow.render.text import local_time
from gitshadow.words import counted

if TYPE_CHECKING:
    from gitshadow.sdk.turns.report import UndoReport


def log_lines(found: Sequence[StepRow], view: View) -> Iterator[str]:
    """Yield one line per step: time, turn, call, what happened, to which tool."""
    for row in found:
        call = row.call or row.turn or ""
        kind, outcome = row.kind, row.body.get("outcome")
        if kind == "outcome" and isinstance(outcome, str) and outcome:
            kind = f"{kind}: {printable(outcome)}"
        named = f"{printable(call):<12}  {kind:<24}"
        said = printable(row.tool or "")
        yield f"{row.seq:>6}  {local_time(row.ts or '')}  {named}  {said}".rstrip()


def turn_lines(found: Sequence[ProgramTurnRow], view: View) -> Iterator[str]:
    """Yield one line per turn: id, start, session, how it ended, label."""
    for row in found:
        label = view.paint(printable(row.label), "bold")
        standing = _words(row.standing or row.status)
        yield (
            f"{printable(row.id):<8}  {local_time(row.started or '')}  "
            f"{printable(row.session)}  {standing:<22}  "
            f"{counted(row.entries, 'entry', 'entries')}  {label}"
        ).rstrip()


def call_lines(found: Sequence[ProgramCallRow], view: View) -> Iterator[str]:
    """Yield one line per call: id, tool, class, outcome, what became of its inverse."""
    for row in found:
        outcome = row.outcome or "in doubt"
        said = printable(row.error or _described(row))
        yield (
            f"{printable(row.id):<12}  {printable(row.tool):<20}  "
            f"{row.class_:<14}  {outcome:<12}  undo {row.undo:<9}  {said}"
        ).rstrip()


def _described(row: ProgramCallRow) -> str:
    """Return what a call is said to have done; only success has surely executed anything."""
    said = row.description
    # The default description says `Executed`, which is not true of a call that failed.
    ran = row.outcome == "success"
    return said if ran or said != f"Executed {row.tool}" else ""


def event_lines(found: Sequence[ProgramEventRow], view: View) -> Iterator[str]:
    """Yield one line per event; what a rewind hid is marked with `-`."""
    for row in found:
        mark = " " if row.live else "-"
        first, _, rest = row.text.partition("\n")
        said = printable(first[:100]) + ("…" if rest or len(first) > 100 else "")
        who = printable(row.author)
        yield (
            f"{mark}{row.seq:>6}  {printable(row.invocation):<8}  "
            f"{row.kind:<10}  {who:<10}  {view.paint(said, 'bold')}"
        ).rstrip()


def artifact_lines(found: Sequence[ArtifactRow], view: View) -> Iterator[str]:
    """Yield one line per version: name, number, blob, and which one counts."""
    for row in found:
        oid = printable(row.oid or "")[:10] or "absent"
        mark = "  current" if row.current else ""
        yield f"{printable(row.name)}  {row.version}  {oid}{mark}"


def state_lines(answer: ProgramState, view: View) -> Iterator[str]:
    """Yield one line per key, sorted."""
    for key, value in sorted(answer.state.items()):
        yield printable(f"{key} = {json.dumps(value, ensure_ascii=False)}")


def attention_lines(found: Sequence[Attention], view: View) -> Iterator[str]:
    """Yield one line per thing that a person should look at."""
    for row in found:
        named = row.closing if isinstance(row, ClosingWindow) else row
        what = printable(named.tool or row.what)
        said = printable(row.text or "")
        state, place = row.state, named.call or named.turn
        if isinstance(row, AttentionRow):
            place = row.turn_short or place
            if state == "due" and row.due:
                state = "waiting" if row.waits else state
                said = f"will be sent after {local_time(row.due)}  {said}"
        yield (
            f"{printable(named.session)}  {printable(place):<12}  "
            f"{_words(state):<14}  {what}  {said}"
        ).rstrip()


def tool_lines(found: Sequence[ToolRow], view: View) -> Iterator[str]:
    """Yield one line per tool: name and class."""
    for row in found:
        yield f"{printable(row.name):<24}  {row.class_}"


def _words(name: str) -> str:
    """Return one of our names as people write it: `not reversed`, `rolled back`."""
    return printable(name.replace("_", " "))


def report_text(report: "UndoReport", view: View) -> Iterator[str]:
    """Yield the report of an undo of effects, as programs render it too."""
    headline, *lines = report.render().split("\n")
    yield view.paint(headline, "bold")
    yield from lines
