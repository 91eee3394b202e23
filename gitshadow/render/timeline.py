"""The lanes of a report as a drawing: where each bar and mark stands, in the local zone.

Invariant: pure; everything lies inside the drawing, and nothing is thinner than can be seen.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from gitshadow.render.document import flag, number, rows, text
from gitshadow.words import counted

WIDTH = 920
LABEL_WIDTH = 140
LANE_HEIGHT = 30
TOP = 26
AXIS_HEIGHT = 26
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
    """Hold one stretch of work; `label` is what is written on it."""

    x: float
    width: float
    kind: str
    label: str
    title: str


class Lane(NamedTuple):
    """Hold one writer's row."""

    y: int
    label: str
    bars: Sequence[TimelineBar]


class TimelineMark(NamedTuple):
    """Hold one moment; `sign` is what stands above its line."""

    x: float
    kind: str
    sign: str
    title: str


class Tick(NamedTuple):
    """Hold one time below the lanes."""

    x: float
    label: str


class Drawing(NamedTuple):
    """Hold the whole picture."""

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


def moment_of(stamp: str) -> datetime | None:
    """Return an RFC 3339 time in the local zone, None for what is none."""
    try:
        return datetime.fromisoformat(stamp).astimezone()
    except (ValueError, OverflowError):
        return None


def draw(timeline: Mapping[str, object]) -> Drawing | None:
    """Lay a report's timeline out; None where it has no beginning or no end."""
    begin, end = moment_of(text(timeline, "begin")), moment_of(text(timeline, "end"))
    if begin is None or end is None or end <= begin:
        return None
    scale = _Scale(begin, (end - begin).total_seconds())
    lanes = [
        Lane(TOP + place * LANE_HEIGHT, _label(lane), list(_bars(lane, scale)))
        for place, lane in enumerate(rows(timeline, "lanes"))
    ]
    height = TOP + len(lanes) * LANE_HEIGHT + AXIS_HEIGHT
    marks = list(_marks(rows(timeline, "marks"), scale))
    return Drawing(height, lanes, marks, list(_ticks(scale, end)))


def _label(lane: Mapping[str, object]) -> str:
    label = text(lane, "label")
    return label[:_LABEL_CHARACTERS] + ("…" if len(label) > _LABEL_CHARACTERS else "")


def _bars(lane: Mapping[str, object], scale: _Scale) -> Iterator[TimelineBar]:
    for span in rows(lane, "spans"):
        start, end = moment_of(text(span, "start")), moment_of(text(span, "end"))
        if start is None or end is None:
            continue
        x = min(scale.x(start), WIDTH - 10 - _NARROWEST)
        width = max(scale.x(end) - x, _NARROWEST)
        step, events = number(span, "step"), number(span, "events")
        kind = text(lane, "kind")
        if text(span, "undone") == "whole":
            kind = "undone"
        elif step and not events:
            kind = "idle"
        yield TimelineBar(
            x=x,
            width=round(width, 1),
            kind=kind,
            label=str(step) if step and width > _NUMBER_FITS else "",
            title=_said(span, start, end),
        )


def _said(span: Mapping[str, object], start: datetime, end: datetime) -> str:
    times = f"{start:%H:%M:%S} to {end:%H:%M:%S}"
    if not number(span, "step"):
        return times
    undone = {"whole": ", undone", "partly": ", partly undone"}
    rest = undone.get(text(span, "undone"), "")
    return f"{number(span, 'step')}: {times}, {counted(number(span, 'events'), 'write')}{rest}"


def _marks(
    found: Sequence[Mapping[str, object]], scale: _Scale
) -> Iterator[TimelineMark]:
    for mark in found:
        moment = moment_of(text(mark, "ts"))
        if moment is None:
            continue
        kind = text(mark, "kind")
        when = "later" if flag(mark, "later") else f"{moment:%H:%M:%S}"
        yield TimelineMark(
            x=scale.x(moment),
            kind=kind if kind in ("gap", "head") else "op",
            sign=_SIGNS.get(kind, "•"),
            title=f"{kind}, {when}: {text(mark, 'label')}",
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


def said(timeline: Mapping[str, object]) -> str:
    """Return in words what the drawing shows, for whoever cannot see it."""
    lanes = rows(timeline, "lanes")
    said = [f"{text(lane, 'label')}: {len(rows(lane, 'spans'))}" for lane in lanes]
    marks = len(rows(timeline, "marks"))
    return f"periods of work by author: {', '.join(said)}; {counted(marks, 'mark')}"
