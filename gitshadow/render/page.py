"""A report as one HTML page that needs nothing else: no network, no other file.

Its one script searches and folds; without it the page is complete.

Its timeline is a drawing: bars and marks in the lanes of their authors, in the local time zone.
Every value that is printed passes the template engine's escaping and `_shown`.
"""

import base64
import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from gitshadow.messages.codec import UNSET
from gitshadow.messages.report import (
    LaneMark,
    LaneRow,
    LaneSpan,
    ReportAnswer,
    ReportedFile,
    StepFile,
    Timeline,
)
from gitshadow.render.hunks import read_hunks
from gitshadow.render.style import printable_line
from gitshadow.undo.merge import NO_END
from gitshadow.words import counted, shortened

_TEMPLATES = Path(__file__).parent / "templates"
_OPEN_STEPS = 3
_OPEN_FILES = 8
_TITLE_CHARACTERS = 90
_LONG_CHARACTERS = 1_500
_LONG_LINES = 15
_CLASSES: Mapping[str, str] = {"+": "add", "-": "del"}
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
# The width of one digit, and the space around a number on a bar or between two below bars.
_DIGIT = 7.0
_SPACE = 4.0
_BELOW = 12
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
    """One period of work, with its number: on it or, where it is narrow, below it.

    `target` is the number of the turn that it leads to, 0 for none.
    """

    x: float
    width: float
    kind: str
    label: str
    title: str
    below: bool = False
    target: int = 0


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


class ComparedSession(NamedTuple):
    """One of two sessions, under the letter that the page gives it."""

    letter: str
    doc: ReportAnswer


class ComparedFile(NamedTuple):
    """What each of two sessions changed in one file; `who` says in which of them it changed."""

    path: str
    who: str
    changes: tuple[ReportedFile | None, ReportedFile | None]


class Drawing(NamedTuple):
    """The whole picture; it is sparse if there was no space for some numbers."""

    height: int
    lanes: Sequence[Lane]
    marks: Sequence[TimelineMark]
    ticks: Sequence[Tick]
    is_sparse: bool


def page(report: ReportAnswer, live: str = "") -> str:
    """Return the page of a report; it is complete and ends with a newline.

    Args:
        report: The report.
        live: For a page that renews itself from its own address, the ETag of this state of it.
    """
    drawing = draw_timeline(report.timeline, len(report.steps))
    return _rendered(
        "report.html",
        live,
        doc=report,
        drawing=drawing,
        drawing_said=timeline_text(report.timeline),
        box=_BOX,
        notices=list(_notices(report)),
        totals=_totals(report),
        open_steps=len(report.steps) <= _OPEN_STEPS,
    )


def compare(first: ReportAnswer, second: ReportAnswer, live: str = "") -> str:
    """Return the page that shows two sessions side by side; `live` is as in `page`."""
    files = compared_files(first, second)
    return _rendered(
        "compare.html",
        live,
        sides=(ComparedSession("A", first), ComparedSession("B", second)),
        files=files,
        counts=Counter(one.who for one in files),
        open_files=len(files) <= _OPEN_FILES,
    )


def compared_files(first: ReportAnswer, second: ReportAnswer) -> list[ComparedFile]:
    """Return the files of both sessions by path, each with what each session changed in it."""
    ours, theirs = ({f.change.path: f for f in doc.files} for doc in (first, second))
    found = []
    for path in sorted(ours.keys() | theirs.keys()):
        mine, other = ours.get(path), theirs.get(path)
        who = "both"
        if mine is None or other is None:
            who = "only A" if mine else "only B"
        elif mine.change == other.change and mine.change.note is None:
            # A note says that the patch is not the whole change.
            who = "same change"
        found.append(ComparedFile(path, who, (mine, other)))
    return found


def _rendered(template: str, live: str, **values: object) -> str:
    style, script = _part("style.css"), _part("script.js")
    return (
        _environment()
        .get_template(template)
        .render(
            style=style,
            script=script,
            policy=_policy(style, script, is_live=live != ""),
            live=live,
            **values,
        )
    )


def _part(name: str) -> Markup:
    return Markup((_TEMPLATES / name).read_text(encoding="utf-8"))


def _policy(style: str, script: str, *, is_live: bool) -> str:
    """Return the content security policy, which allows one style and one script by their hashes.

    Even a mistake in a template could load or run nothing else (https://www.w3.org/TR/CSP3/).
    """
    digests = (
        base64.b64encode(hashlib.sha256(one.encode()).digest()).decode("ascii")
        for one in (style, script)
    )
    style_digest, script_digest = digests
    renewing = "; connect-src 'self'" if is_live else ""
    return (
        f"default-src 'none'; style-src 'sha256-{style_digest}'; "
        f"script-src 'sha256-{script_digest}'; base-uri 'none'; form-action 'none'"
        f"{renewing}"
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
        "is_long": _is_long,
        "net": _net,
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
    """Return the first line of a prompt, cut between words."""
    lines = [line.strip() for line in prompt.split("\n") if line.strip()]
    first = shortened(lines[0], _TITLE_CHARACTERS) if lines else ""
    return f"{first} …" if len(lines) > 1 and not first.endswith("…") else first


def _is_long(prompt: str) -> bool:
    text = prompt.strip()
    return len(text) > _LONG_CHARACTERS or text.count("\n") >= _LONG_LINES


def _net(files: Sequence[StepFile | ReportedFile]) -> tuple[int, int] | None:
    """Return the lines that files gain and lose together; None if no file has lines."""
    counts = [
        (one.change.added, one.change.removed)
        for one in files
        if one.change.added is not UNSET
    ]
    if not counts:
        return None
    return sum(a or 0 for a, _ in counts), sum(b or 0 for _, b in counts)


def _lines(patch: str) -> Iterator[PageLine]:
    """Split a patch, with each line's number."""
    for one in read_hunks(patch.split("\n")) if patch else ():
        if isinstance(one, str):
            yield PageLine("hunk", "", one)
            continue
        yield PageLine("hunk", "", one.head)
        for line in one.lines:
            number = line.old if line.sign == "-" else line.new
            kind = _CLASSES.get(line.sign, "same")
            yield PageLine(kind, str(number), line.sign + line.text)
            if not line.ended:
                yield PageLine("hunk", "", NO_END)


def _totals(report: ReportAnswer) -> Mapping[str, int]:
    added, removed = _net(report.files) or (0, 0)
    return {
        "added": added,
        "removed": removed,
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


def draw_timeline(timeline: Timeline, turns: int = 0) -> Drawing | None:
    """Lay a report's timeline out; None where it has no beginning or no end.

    Args:
        timeline: Who worked when.
        turns: How many turns the page lists; the bars of these are links.
    """
    begin, end = moment_of(timeline.begin), moment_of(timeline.end)
    if begin is None or end is None or end <= begin:
        return None
    scale = _Scale(begin, (end - begin).total_seconds())
    lanes: list[Lane] = []
    y, is_sparse = TOP, False
    for lane in timeline.lanes:
        bars = list(_numbered(_bars(lane, scale, turns)))
        lanes.append(Lane(y, _label(lane), bars))
        y += LANE_HEIGHT + (_BELOW if any(bar.below for bar in bars) else 0)
        shown = sum(bar.label != "" for bar in bars)
        is_sparse |= shown < sum(bool(span.step) for span in lane.spans)
    marks = list(_marks(timeline.marks, scale))
    ticks = list(_ticks(scale, end))
    return Drawing(y + AXIS_HEIGHT, lanes, marks, ticks, is_sparse)


def _label(lane: LaneRow) -> str:
    label = lane.label
    return label[:_LABEL_CHARACTERS] + ("…" if len(label) > _LABEL_CHARACTERS else "")


def _bars(lane: LaneRow, scale: _Scale, turns: int) -> Iterator[TimelineBar]:
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
            label=str(span.step or ""),
            title=_said(span, start, end),
            target=span.step if span.step and span.step <= turns else 0,
        )


def _numbered(bars: Iterable[TimelineBar]) -> Iterator[TimelineBar]:
    """Keep the numbers that fit: on their bars, or below narrow ones where no other number is."""
    taken = 0.0
    for bar in bars:
        width = len(bar.label) * _DIGIT
        if bar.width >= width + _SPACE or not bar.label:
            yield bar
            continue
        middle = bar.x + bar.width / 2
        if middle - width / 2 < taken:
            yield bar._replace(label="")
            continue
        taken = middle + width / 2 + _SPACE
        yield bar._replace(below=True)


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
