"""Findings and review marks as text."""

from collections.abc import Mapping

from gitshadow.messages.check import CheckAnswer, MarkRow
from gitshadow.messages.codec import decode
from gitshadow.render.check import check_lines, review_lines, reviews_lines
from gitshadow.render.style import View

FINDING: Mapping[str, object] = {
    "rule": "review",
    "level": "refuse",
    "path": "src/a\x1b.py",
    "lines": [[3, 9], [12, 12]],
    "reason": "unreviewed lines by claude-code",
    "session": "claude-code-20261121-abcdef",
    "prompt": "fix\x1b it\nand more",
    "remedy": "git agent-undo review --staged",
}
CHANGE = {"files": 1, "lines": 8}


def shown(document: Mapping[str, object], *, quiet: bool = False) -> list[str]:
    answer = decode(CheckAnswer, {"change": CHANGE, **document})
    return list(check_lines(answer, View(), quiet=quiet))


def test_finding_names_place_session_prompt_and_remedy() -> None:
    assert shown({"status": "refused", "findings": [FINDING]}) == [
        'refused: "src/a\\033.py":3-9,12: unreviewed lines by claude-code [review]',
        '  session claude-code-20261121-abcdef, prompt: "fix\\x1b it"',
        "  fix: git agent-undo review --staged",
        "1 refused in 1 file, 8 lines added",
    ]


def test_remedy_of_several_findings_in_a_row_is_named_once() -> None:
    other = {**FINDING, "path": "b", "remedy": "git agent-undo log b"}
    rows = shown({"findings": [FINDING, {**FINDING, "path": "a"}, other]})
    assert [row for row in rows if row.startswith("  fix: ")] == [
        "  fix: git agent-undo review --staged",
        "  fix: git agent-undo log b",
    ]
    assert rows[4].startswith("  fix: ")


def test_many_lines_are_cut() -> None:
    lines = [[number, number] for number in range(1, 20, 2)]
    first = shown({"findings": [{**FINDING, "path": "a", "lines": lines}]})[0]
    assert first.startswith("refused: a:1,3,5,7,9,11,…: ")


def test_protected_path_names_pattern_and_source() -> None:
    row = {
        "rule": "protected",
        "level": "warn",
        "path": "a",
        "about": "/a",
        "source": "git config",
    }
    rows = shown({"findings": [row]})
    assert "  matches the pattern /a from git config" in rows
    assert rows[-1] == "1 warning in 1 file, 8 lines added"


def test_quiet_says_nothing_where_nothing_speaks_against_it() -> None:
    assert shown({"status": "passed", "findings": []}, quiet=True) == []
    assert shown({"status": "passed", "findings": []}) == [
        "check passed: 1 file, 8 lines added"
    ]


def test_notes_are_said_also_when_quiet() -> None:
    document = {"status": "passed", "warnings": ["unknown key 'x'"], "notes": ["\x07"]}
    assert shown(document, quiet=True) == ["note: unknown key 'x'", "note: \\x07"]


def test_review_of_nothing_says_so() -> None:
    assert list(review_lines(decode(MarkRow, {"id": None}), View())) == [
        "nothing to review: no lines by agents or unknown authors"
    ]


def test_marks_are_a_line_each() -> None:
    row = {
        "id": "review-20261121-0011223344",
        "ts": "2026-11-21T08:00:00.000000Z",
        "who": "Me <me@example.com>",
        "lines": 2,
        "files": 1,
        "target": "src",
    }
    assert list(reviews_lines([decode(MarkRow, row)], View())) == [
        "review-20261121-0011223344  2026-11-21 08:00:00  Me <me@example.com>"
        "  2 lines in 1 file  (src)"
    ]
