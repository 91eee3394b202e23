"""A report as one HTML page that needs nothing else: no script, no network, no other file.

Its timeline is a drawing: bars and marks in the lanes of their authors, in the local time zone.
Every value that is printed passes the template engine's escaping and `_shown`.
"""

import base64
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from gitshadow.messages.report import (
    LaneMark,
    LaneRow,
    LaneSpan,
    ReportAnswer,
    Timeline,
)
from gitshadow.render.style import printable_line
from gitshadow.words import counted

_TEMPLATES = Path(__file__).parent / "templates"
_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)")
_OPEN_STEPS = 3
_TITLE_CHARACTERS = 90
_CLASSES: Mapping[str, str] = {"+": "add", "-": "del", "@": "hunk", "\\": "hunk"}
_KINDS: Mapping[str, str] = {
    "create": "new",
    "modify": "changed",
    "delete": "deleted",
    "rename": "renamed",
    "mode": "permissions",
}

WIDTH = 920
LABEL_WIDTH = 140
LANE_HEIGHT = 30
TOP = 26
AXIS_HEIGHT = 26
# A write takes milliseconds and a session hours: a bar to scale would be thinner than a pixel.
_NARROWEST = 5.0
_NUMBER_FITS = 18.0
_LABEL_CHARACTERS = 18
_MOST_TICKS = 7
_STEPS_S = (
    *(1, 2, 5, 10, 15, 30),
    *(60 * minutes for minutes in (1, 2, 5, 10, 15, 30)),
    *(3600 * hours for hours in (1, 2, 3, 6, 12)),
    *(86400 * days for days in (1, 2, 7, 14, 30, 90, 365)),
)
_DAY_S = 86400
_SIGNS: Mapping[str, str] = {
    "oops": "↶",
    "undo": "↶",
    "restore": "↶",
    "redo": "↷",
    "gap": "!",
    "head": "◆",
}
_BOX: Mapping[str, int] = {
    "width": WIDTH,
    "label_width": LABEL_WIDTH,
    "top": TOP,
    "axis_height": AXIS_HEIGHT,
}


class PageLine(NamedTuple):
    """One line of a patch; `number` is its line in the file, in the old one if it was removed."""

    kind: str
    number: str
    text: str


class Notice(NamedTuple):
    """One sentence that a reader should not miss, and the section with more about it."""

    text: str
    anchor: str


class TimelineBar(NamedTuple):
    """One period of work, with the text on it."""

    x: float
    width: float
    kind: str
    label: str
    title: str


class Lane(NamedTuple):
    """The row of one author."""

    y: int
    label: str
    bars: Sequence[TimelineBar]


class TimelineMark(NamedTuple):
    """One moment, with the sign above its line."""

    x: float
    kind: str
    sign: str
    title: str


class Tick(NamedTuple):
    """One time below the lanes."""

    x: float
    label: str


class Drawing(NamedTuple):
    """The whole picture."""

    height: int
    lanes: Sequence[Lane]
    marks: Sequence[TimelineMark]
    ticks: Sequence[Tick]


def page(report: ReportAnswer) -> str:
    """Return the page of a report; it is complete and ends with a newline."""
    # The policy allows this one inline style by its hash and nothing else: even a mistake in a
    # template could load or run nothing (https://www.w3.org/TR/CSP3/).
    style = (_TEMPLATES / "style.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode("ascii")
    drawing = draw_timeline(report.timeline)
    return (
        _environment()
        .get_template("report.html")
        .render(
            doc=report,
            style=Markup(style),
            policy=f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; "
            "form-action 'none'",
            drawing=drawing,
            drawing_said=timeline_text(report.timeline),
            box=_BOX,
            notices=list(_notices(report)),
            totals=_totals(report),
            open_steps=len(report.steps) <= _OPEN_STEPS,
        )
    )


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        # A field that a template misspells is an error, not an empty place in the page.
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    environment.filters |= {
        "when": _when,
        "clock": _clock,
        "duration": duration,
        "lines": _lines,
        "title": _title,
        "count": counted,
        "kind": lambda name: _KINDS.get(name, name),
    }
    return environment


def _shown(value: object) -> object:
    """Make a value safe to read: control characters are escapes, lines and tabs stay."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return "\n".join(printable_line(line) for line in value.split("\n"))
    return "" if value is None else value


def _when(stamp: object) -> str:
    """Return a time with its day, local."""
    moment = moment_of(str(stamp))
    return f"{moment:%d %b %Y, %H:%M:%S}" if moment else str(stamp or "-")


def _clock(stamp: object) -> str:
    moment = moment_of(str(stamp))
    return f"{moment:%H:%M:%S}" if moment else str(stamp or "-")


def duration(seconds: int) -> str:
    """Return a length of time in its two largest units."""
    minutes, rest = divmod(max(0, seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    if hours:
        return f"{hours} h {minutes:02} min"
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"


def _title(prompt: str) -> str:
    """Return the first line of a prompt, cut."""
    lines = [line.strip() for line in prompt.split("\n") if line.strip()]
    first = lines[0] if lines else ""
    cut = len(lines) > 1 or len(first) > _TITLE_CHARACTERS
    return first[:_TITLE_CHARACTERS] + (" …" if cut else "")


def _lines(patch: str) -> Iterator[PageLine]:
    """Split a patch, with each line's number."""
    old = new = 0
    for line in patch.split("\n") if patch else ():
        kind = _CLASSES.get(line[:1], "same")
        if found := _HUNK.match(line):
            old, new = int(found[1]), int(found[2])
            yield PageLine("hunk", "", line)
        elif kind == "hunk":
            yield PageLine("hunk", "", line)
        else:
            yield PageLine(kind, str(old if kind == "del" else new), line)
            old += kind != "add"
            new += kind != "del"


def _totals(report: ReportAnswer) -> Mapping[str, int]:
    return {
        "added": sum(one.change.added or 0 for one in report.files),
        "removed": sum(one.change.removed or 0 for one in report.files),
        "confident": sum(one.events for one in report.confidence),
    }


def _notices(report: ReportAnswer) -> Iterator[Notice]:
    """Yield what a reader should know first, the gravest first."""
    covered = report.not_covered
    gaps = len(covered.gaps)
    if gaps:
        yield Notice(f"{counted(gaps, 'gap')} in the recording", "not-covered")
    back = [one for one in report.files if one.undone]
    if back:
        yield Notice(f"{counted(len(back), 'file')} undone, or partly undone", "undone")
    changed = [
        one
        for one in report.files
        if (one.now or "").endswith("since") and not one.undone
    ]
    if changed:
        yield Notice(
            f"{counted(len(changed), 'file')} changed again after the session", "files"
        )
    unsure = len(report.unsure)
    if unsure:
        yield Notice(f"{counted(unsure, 'write')} possibly by someone else", "sure")
    touched = len(covered.touched)
    if touched:
        yield Notice(
            f"{counted(touched, 'path')} changed but not recorded", "not-covered"
        )
    for one in report.left_out:
        yield Notice(f"not in this report: {one.what}", "about")
    if report.session.elsewhere:
        yield Notice("it also changed files in other worktrees", "about")


def moment_of(stamp: str | None) -> datetime | None:
    """Return an RFC 3339 time in the local zone, None for what is none."""
    if stamp is None:
        return None
    try:
        return datetime.fromisoformat(stamp).astimezone()
    except (ValueError, OverflowError):
        return None


class _Scale(NamedTuple):
    begin: datetime
    seconds: float

    def x(self, moment: datetime) -> float:
        share = (moment - self.begin).total_seconds() / self.seconds
        width = WIDTH - LABEL_WIDTH - 10
        return round(LABEL_WIDTH + min(max(share, 0.0), 1.0) * width, 1)


def draw_timeline(timeline: Timeline) -> Drawing | None:
    """Lay a report's timeline out; None where it has no beginning or no end."""
    begin, end = moment_of(timeline.begin), moment_of(timeline.end)
    if begin is None or end is None or end <= begin:
        return None
    scale = _Scale(begin, (end - begin).total_seconds())
    lanes = [
        Lane(TOP + place * LANE_HEIGHT, _label(lane), list(_bars(lane, scale)))
        for place, lane in enumerate(timeline.lanes)
    ]
    height = TOP + len(lanes) * LANE_HEIGHT + AXIS_HEIGHT
    marks = list(_marks(timeline.marks, scale))
    return Drawing(height, lanes, marks, list(_ticks(scale, end)))


def _label(lane: LaneRow) -> str:
    label = lane.label
    return label[:_LABEL_CHARACTERS] + ("…" if len(label) > _LABEL_CHARACTERS else "")


def _bars(lane: LaneRow, scale: _Scale) -> Iterator[TimelineBar]:
    for span in lane.spans:
        start, end = moment_of(span.start), moment_of(span.end)
        if start is None or end is None:
            continue
        x = min(scale.x(start), WIDTH - 10 - _NARROWEST)
        width = max(scale.x(end) - x, _NARROWEST)
        kind = lane.kind
        if span.undone == "whole":
            kind = "undone"
        elif span.step and not span.events:
            kind = "idle"
        yield TimelineBar(
            x=x,
            width=round(width, 1),
            kind=kind,
            label=str(span.step) if span.step and width > _NUMBER_FITS else "",
            title=_said(span, start, end),
        )


def _said(span: LaneSpan, start: datetime, end: datetime) -> str:
    times = f"{start:%H:%M:%S} to {end:%H:%M:%S}"
    if not span.step:
        return times
    undone = {"whole": ", undone", "partly": ", partly undone"}
    rest = undone.get(span.undone or "", "")
    return f"{span.step}: {times}, {counted(span.events or 0, 'write')}{rest}"


def _marks(found: Sequence[LaneMark], scale: _Scale) -> Iterator[TimelineMark]:
    for mark in found:
        moment = moment_of(mark.ts)
        if moment is None:
            continue
        kind = mark.kind
        when = "later" if mark.later else f"{moment:%H:%M:%S}"
        yield TimelineMark(
            x=scale.x(moment),
            kind=kind if kind in ("gap", "head") else "op",
            sign=_SIGNS.get(kind, "•"),
            title=f"{kind}, {when}: {mark.label}",
        )


def _ticks(scale: _Scale, end: datetime) -> Iterator[Tick]:
    """Yield round local times, seven at most."""
    step = next(
        (one for one in _STEPS_S if scale.seconds / one <= _MOST_TICKS), _STEPS_S[-1]
    )
    midnight = scale.begin.replace(hour=0, minute=0, second=0, microsecond=0)
    form = "%d %b" if step >= _DAY_S else "%H:%M" if step >= 60 else "%H:%M:%S"
    passed = (scale.begin - midnight).total_seconds()
    at = midnight + timedelta(seconds=(passed // step + 1) * step)
    while at < end:
        yield Tick(scale.x(at), at.strftime(form))
        at += timedelta(seconds=step)


def timeline_text(timeline: Timeline) -> str:
    """Return in words what the drawing shows, for people who cannot see it."""
    said = [f"{lane.label}: {len(lane.spans)}" for lane in timeline.lanes]
    marks = len(timeline.marks)
    return f"periods of work by author: {', '.join(said)}; {counted(marks, 'mark')}"
