"""The drawing of a timeline: everything inside it, nothing too thin to see."""

import itertools
from collections.abc import Mapping

import pytest

from gitshadow.messages.codec import decode
from gitshadow.messages.report import Timeline
from gitshadow.render import page
from gitshadow.render.page import LABEL_WIDTH, LANE_HEIGHT, WIDTH, Drawing

HOUR = {"begin": "2026-11-22T14:00:00.000000Z", "end": "2026-11-22T15:00:00.000000Z"}


def draw(document: Mapping[str, object]) -> Drawing | None:
    return page.draw_timeline(decode(Timeline, document))


def said(document: Mapping[str, object]) -> str:
    return page.timeline_text(decode(Timeline, document))


def at(clock: str) -> str:
    return f"2026-11-22T{clock}.000000Z"


def lane(*spans: Mapping[str, object], kind: str = "session") -> dict[str, object]:
    return {"kind": kind, "label": "claude-code", "spans": list(spans)}


def span(start: str, end: str, **fields: object) -> dict[str, object]:
    return {"start": at(start), "end": at(end), **fields}


def test_bars_stand_where_their_time_is() -> None:
    half = span("14:30:00", "14:45:00", step=2, events=3)
    drawing = draw({**HOUR, "lanes": [lane(half)]})
    assert drawing is not None
    ((bar,),) = [one.bars for one in drawing.lanes]
    room = WIDTH - LABEL_WIDTH - 10
    assert (bar.x, bar.width) == (LABEL_WIDTH + room / 2, room / 4)
    assert (bar.kind, bar.label) == ("session", "2")
    assert bar.title == "2: 14:30:00 to 14:45:00, 3 writes"


def test_moment_is_wide_enough_to_be_seen_and_stays_inside() -> None:
    drawing = draw({**HOUR, "lanes": [lane(span("15:00:00", "15:00:00", step=1))]})
    assert drawing is not None
    (bar,) = drawing.lanes[0].bars
    assert (bar.width, bar.x + bar.width) == (5.0, WIDTH - 10)
    assert (bar.label, bar.below) == ("1", True)


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"step": 1, "events": 1, "undone": "whole"}, "undone"),
        ({"step": 1, "events": 1, "undone": "partly"}, "session"),
        ({"step": 1, "events": 0}, "idle"),
        ({}, "session"),
    ],
)
def test_bar_says_what_became_of_it(fields: dict[str, object], kind: str) -> None:
    drawing = draw({**HOUR, "lanes": [lane(span("14:00:00", "14:30:00", **fields))]})
    assert drawing is not None
    assert drawing.lanes[0].bars[0].kind == kind


def test_hundred_narrow_bars_have_as_many_numbers_below_as_fit() -> None:
    spans = [
        span(f"14:{at // 60:02}:{at % 60:02}", f"14:{at // 60:02}:{at % 60:02}", step=n)
        for n, at in enumerate(range(0, 3_600, 36), 1)
    ]
    drawing = draw({**HOUR, "lanes": [lane(*spans), lane(kind="agent")]})
    assert drawing is not None
    assert drawing.is_sparse
    own, other = drawing.lanes
    numbered = [bar for bar in own.bars if bar.label]
    assert numbered[0].label == "1"
    assert len(numbered) >= 33
    assert all(bar.below for bar in numbered)
    middles = [(bar.x + bar.width / 2, len(bar.label) * 3.0) for bar in numbered]
    assert all(a + c < b - d for (a, c), (b, d) in itertools.pairwise(middles))
    assert other.y > own.y + LANE_HEIGHT


def test_bars_lead_to_the_turns_that_the_page_lists() -> None:
    spans = [span("14:00:00", "14:20:00", step=1), span("14:30:00", "14:40:00", step=2)]
    timeline = decode(Timeline, {**HOUR, "lanes": [lane(*spans)]})
    drawing = page.draw_timeline(timeline, 1)
    assert drawing is not None
    assert not drawing.is_sparse
    assert [bar.target for bar in drawing.lanes[0].bars] == [1, 0]


def test_marks_have_a_sign_and_what_came_later_says_so() -> None:
    marks = [
        {"kind": "oops", "ts": at("14:30:00"), "label": "op-1", "later": False},
        {"kind": "gap", "ts": at("14:40:00"), "label": "killed", "later": False},
        {"kind": "redo", "ts": at("15:00:00"), "label": "op-2", "later": True},
    ]
    drawing = draw({**HOUR, "lanes": [], "marks": marks})
    assert drawing is not None
    assert [(mark.kind, mark.sign, mark.title) for mark in drawing.marks] == [
        ("op", "↶", "oops, 14:30:00: op-1"),
        ("gap", "!", "gap, 14:40:00: killed"),
        ("op", "↷", "redo, later: op-2"),
    ]


@pytest.mark.parametrize(
    ("begin", "end", "labels"),
    [
        ("22T14:00:03", "22T14:00:07", ["14:00:04", "14:00:05", "14:00:06"]),
        ("22T14:01:00", "22T14:59:00", ["14:10", "14:20", "14:30", "14:40", "14:50"]),
        ("22T22:30:00", "23T03:10:00", ["23:00", "00:00", "01:00", "02:00", "03:00"]),
        ("20T12:00:00", "24T12:00:00", ["21 Nov", "22 Nov", "23 Nov", "24 Nov"]),
    ],
)
def test_ticks_are_round_times(begin: str, end: str, labels: list[str]) -> None:
    times = {"begin": f"2026-11-{begin}Z", "end": f"2026-11-{end}Z"}
    drawing = draw({**times, "lanes": []})
    assert drawing is not None
    assert [tick.label for tick in drawing.ticks] == labels


@pytest.mark.parametrize(
    "times",
    [{}, {"begin": "x", "end": "y"}, {"begin": HOUR["end"], "end": HOUR["begin"]}],
)
def test_nothing_is_drawn_without_an_interval(times: dict[str, str]) -> None:
    assert draw({**times, "lanes": []}) is None


def test_broken_times_are_left_out() -> None:
    broken = {"kind": "gap", "ts": "?", "label": ""}
    spans = lane({"start": "?", "end": "?"})
    drawing = draw({**HOUR, "lanes": [spans], "marks": [broken]})
    assert drawing is not None
    assert (drawing.lanes[0].bars, drawing.marks) == ([], [])


def test_long_label_is_cut() -> None:
    drawing = draw({**HOUR, "lanes": [{"label": "x" * 100, "spans": []}]})
    assert drawing is not None
    assert drawing.lanes[0].label == "x" * 18 + "…"


def test_drawing_is_said_in_words() -> None:
    lanes = [lane(span("14:00:00", "14:01:00"))]
    assert said({"lanes": lanes, "marks": [{}]}) == (
        "periods of work by author: claude-code: 1; 1 mark"
    )
    assert page.TOP > 0
