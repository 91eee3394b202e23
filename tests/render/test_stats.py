"""stats as text: the first line answers, long lists are cut and say so."""

from gitshadow.messages.blame import StatsAnswer
from gitshadow.messages.codec import decode
from gitshadow.render.blame import stats_lines
from gitshadow.render.style import View

NOTHING: dict[str, object] = {
    "classes": [],
    "agents": [],
    "sessions": [],
    "unknown": [],
}


def row(lines: int, share: float, **more: object) -> dict[str, object]:
    return {**more, "lines": lines, "share": share}


def test_first_line_answers() -> None:
    classes = [
        row(2, 0.6667, **{"class": "agent"}),
        row(0, 0.0, **{"class": "human"}),
        row(1, 0.3333, **{"class": "unknown"}),
    ]
    scope = {"kind": "added", "commit": "c" * 40}
    counts: dict[str, object] = {"lines": 3, "files": 1}
    document = {**NOTHING, **counts, "scope": scope, "classes": classes}
    first = next(stats_lines(decode(StatsAnswer, document), View()))
    assert first == (
        "3 lines in 1 file added by commit cccccccccccc:"
        " 66.7 % by agents, 33.3 % unknown"
    )


def test_nothing_to_count_is_said_in_one_line() -> None:
    document = {**NOTHING, "scope": {"kind": "worktree"}, "lines": 0, "files": 0}
    assert list(stats_lines(decode(StatsAnswer, document), View())) == [
        "no lines of the working tree"
    ]


def test_long_lists_are_cut_and_say_how_much() -> None:
    left = [{"path": f"p{n}", "reason": "binary"} for n in range(13)]
    document = {**NOTHING, "lines": 0, "files": 0, "not_by_line": left}
    shown = list(stats_lines(decode(StatsAnswer, document), View()))
    assert shown[2] == "13 files not counted by line"
    assert shown[-1] == "  … and 3 more (--json has all)"
    assert len(shown) == 14


def test_no_name_acts_on_the_terminal() -> None:
    document = {
        **NOTHING,
        "lines": 1,
        "files": 1,
        "classes": [row(1, 1.0, **{"class": "agent"})],
        "agents": [row(1, 1.0, agent="a\x1b[2J", models=[row(1, 1.0, model="m\x07")])],
        "sessions": [row(1, 1.0, session="s", prompt="p\x1b[31m\nmore")],
        "not_by_line": [{"path": '"\\033x"', "reason": "r\x9b"}],
    }
    said = "\n".join(stats_lines(decode(StatsAnswer, document), View()))
    assert not any(ord(char) < 32 and char != "\n" for char in said)
    assert "\x9b" not in said


def test_some_is_never_shown_as_none_nor_most_as_all() -> None:
    document = {
        **NOTHING,
        "lines": 9,
        "files": 1,
        "classes": [
            row(1, 0.0001, **{"class": "agent"}),
            row(8, 0.9999, **{"class": "human"}),
        ],
    }
    first = next(stats_lines(decode(StatsAnswer, document), View()))
    assert first.endswith(": <0.1 % by agents, >99.9 % by people")
