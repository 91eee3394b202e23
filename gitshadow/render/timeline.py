"""The lanes of a report as a drawing: the places of bars and marks, in the local time zone."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from gitshadow.messages.report import LaneMark, LaneRow, LaneSpan, Timeline
from gitshadow.words import counted

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


class _Scale(NamedTuple):
    begin: datetime
    seconds: float

    def x(self, moment: datetime) -> float:
        share = (moment - self.begin).total_seconds() / self.seconds
        width = WIDTH - LABEL_WIDTH - 10
        return round(LABEL_WIDTH + min(max(share, 0.0), 1.0) * width, 1)


def moment_of(stamp: str | None) -> datetime | None:
    """Return an RFC 3339 time in the local zone, None for what is none."""
    if stamp is None:
        return None
    try:
        return datetime.fromisoformat(stamp).astimezone()
    except (ValueError, OverflowError):
        return None


def draw(timeline: Timeline) -> Drawing | None:
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


def said(timeline: Timeline) -> str:
    """Return in words what the drawing shows, for whoever cannot see it."""
    said = [f"{lane.label}: {len(lane.spans)}" for lane in timeline.lanes]
    marks = len(timeline.marks)
    return f"periods of work by author: {', '.join(said)}; {counted(marks, 'mark')}"
