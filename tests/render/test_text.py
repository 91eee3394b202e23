"""History as text, from literal rows."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest

from gitshadow.messages.codec import decode
from gitshadow.messages.lists import PinRow
from gitshadow.messages.rows import EventRow, OpRow, SessionRow, TurnRow
from gitshadow.messages.states import ShowAnswer
from gitshadow.render.style import View
from gitshadow.render.text import (
    ShowParts,
    local_time,
    log_lines,
    op_lines,
    patch_lines,
    pin_lines,
    session_lines,
    show_lines,
    turn_lines,
    who,
)

ROW: Mapping[str, object] = {
    "seq": 17,
    "ts": "2026-11-21T08:00:01.500000Z",
    "path": "src/a.py",
    "kind": "modify",
    "actor": "agent",
    "agent": "claude-code",
    "confidence": "certain",
    "reason": "its hook names the path",
    "burst": "b-123456789abc",
}


def event(row: Mapping[str, object]) -> EventRow:
    return decode(EventRow, row)


def test_log_line_has_time_actor_kind_certainty_burst_and_path() -> None:
    assert list(log_lines([event(ROW)], View())) == [
        "    17  2026-11-21 08:00:01  claude-code     modify    certain    "
        "b-123456789a  src/a.py"
    ]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"actor": "unknown", "kind": "modify"}, "you?"),
        ({"actor": "unknown", "kind": "modify", "offline": True}, "unknown"),
        ({"actor": "human", "kind": "modify"}, "you"),
        ({"actor": "agent", "agent": "codex"}, "codex"),
        ({"actor": "unknown", "confidence": "ambiguous"}, "ambiguous"),
        ({"kind": "gap"}, "-"),
    ],
)
def test_who_never_claims_more_than_is_known(
    fields: Mapping[str, object], expected: str
) -> None:
    """ATT-16: an unattributed live write is shown as "you?"."""
    assert who(event(fields)) == expected


def test_log_line_of_a_rename_has_both_names() -> None:
    row = {**ROW, "kind": "rename", "old_path": "b"}
    assert next(log_lines([event(row)], View())).endswith("b → src/a.py")


def test_log_line_of_a_gap_has_its_note() -> None:
    row = {"seq": 3, "ts": ROW["ts"], "kind": "gap", "note": "overflow", "path": None}
    assert next(log_lines([event(row)], View())).endswith("overflow")


def test_log_line_marks_what_git_switched_and_what_came_offline() -> None:
    row = {**ROW, "switched": True, "offline": True}
    assert next(log_lines([event(row)], View())).endswith("(offline)  (by git)")


def test_log_has_one_line_for_a_move_of_head_with_the_number_of_files() -> None:
    row = {**ROW, "kind": "head", "path": None, "note": "HEAD moved", "files": 4000}
    (line,) = log_lines([event(row)], View())
    assert line.endswith("HEAD moved  (git switched 4000 files)")


def test_local_time_of_something_else_is_shown_as_it_is() -> None:
    assert local_time("soon\x1b") == r"soon\x1b"
    assert local_time("") == "-"


def minutes_ago(minutes: int) -> str:
    return (datetime.now(UTC) - timedelta(minutes=minutes, seconds=5)).isoformat()


def test_session_line_says_whether_it_is_open() -> None:
    row = {
        "id": "claude-code-20261121-7f3a9c",
        "actor": "agent",
        "agent": "claude-code",
        "started": minutes_ago(2),
        "ended": None,
        "events": 12,
        "files": 3,
        "turns": 2,
        "worktree": "w2",
        "parent": "p",
    }
    assert list(session_lines([decode(SessionRow, row)], View())) == [
        "claude-code-20261121-7f3a9c  2 min ago  claude-code  3 files     "
        "2 turns, open  [w2]  (of p)"
    ]


def test_turn_line_has_files_lines_and_the_prompt() -> None:
    row = {
        "id": "turn-1",
        "short": "t1",
        "agent": "codex",
        "started": minutes_ago(2),
        "prompt": "fix it\nnow",
        "files": 2,
        "added": 12,
        "removed": 0,
    }
    other = {"id": "turn-2", "session": "s1", "started": minutes_ago(60)}
    rows = [decode(TurnRow, one) for one in (row, other)]
    assert list(turn_lines(rows, View())) == [
        't1      2 min ago  codex  2 files  +12   "fix it now"',
        "turn-2  1 h ago    s1",
    ]


def test_op_and_pin_lines() -> None:
    op = {
        "id": "o1",
        "short": "u1",
        "ts": minutes_ago(3),
        "kind": "oops",
        "status": "done",
        "target": "b1",
    }
    pin = {"name": "good", "ts": ROW["ts"], "commit": "0123456789abcdef"}
    assert list(op_lines([decode(OpRow, op)], View())) == [
        "u1  3 min ago  you       undid b1"
    ]
    changed = {"files": 2, "added": 3, "removed": 1}
    redo = op | changed | {"id": "o2", "short": "u2", "kind": "redo", "undid": ["u1"]}
    by = {"undone_by": "o2", "undone_short": "u2"}
    undone = op | by | {"undid": ["t4"], "agent": "codex"}
    rows = [decode(OpRow, one) for one in (redo, undone | {"status": "applying"})]
    assert list(op_lines(rows, View())) == [
        "u2  3 min ago  you    2 files  +3 -1  redid u1",
        "u1  3 min ago  codex                  undid t4  (applying)  (undone by u2)",
    ]
    assert list(pin_lines([decode(PinRow, pin)], View())) == [
        "good                  2026-11-21 08:00:01  0123456789ab"
    ]


def shown(document: Mapping[str, object]) -> list[str]:
    return list(show_lines(decode(ShowAnswer, document), View()))


TURN: Mapping[str, object] = {
    "type": "turn",
    "id": "turn-1",
    "short": "t1",
    "session": "s1",
    "agent": "codex",
    "started": "2026-11-01T08:00:01Z",
    "prompt": "fix\n\n  it",
    "events": [ROW],
    "stat": [{"path": "a", "kind": "modify", "added": 2, "removed": 1}],
    "diff": "@@ -1 +1 @@\n-old\n+new\n",
}
HEAD = [
    "turn t1",
    "Agent:    codex",
    "Session:  s1",
    "Date:     Sun Nov 1 08:00:01 2026 +0000",
    "Files:    1  (+2 -1)",
    "",
    "    fix",
    "    ",
    "      it",
    "",
]


def test_turn_is_shown_as_git_shows_a_commit() -> None:
    assert shown(TURN) == [*HEAD, "@@ -1 +1 @@", "-old", "+new"]


def test_turn_is_shown_with_the_parts_that_were_asked_for() -> None:
    answer = decode(ShowAnswer, {**TURN, "diff": None})
    names = show_lines(answer, View(), ShowParts(names=True))
    assert list(names) == [*HEAD, "a"]
    stat = show_lines(answer, View(), ShowParts(stat=True))
    assert list(stat) == [
        *HEAD,
        " a |   3 ++-",
        " 1 file changed, 2 insertions(+), 1 deletion(-)",
    ]


def test_turn_that_changed_nothing_says_so() -> None:
    bare = {"type": "turn", "id": "t1", "session": "s1", "machine": "m1"}
    assert shown(bare) == [
        "turn t1",
        "Agent:    unknown",
        "Session:  s1",
        "Machine:  m1",
        "Date:     -",
        "Files:    none",
    ]


@pytest.mark.parametrize(
    ("actor", "agent", "line"),
    [
        ("agent", "codex", "Agent:    codex"),
        ("human", None, "Author:   you"),
        ("unknown", None, "Author:   you?"),
    ],
)
def test_group_of_changes_has_the_head_of_a_turn(
    actor: str, agent: str | None, line: str
) -> None:
    burst = {"type": "burst", "id": "b-1", "session": "s1", "started": "soon"}
    assert shown({**burst, "actor": actor, "agent": agent}) == [
        "changes b-1",
        line,
        "Session:  s1",
        "Date:     soon",
        "Files:    none",
    ]


def test_show_lines_print_fields_rows_and_diff() -> None:
    document = {
        "type": "session",
        "id": "t1",
        "parent": "s1",
        "events": [ROW],
        "diff": "@@ -1 +1 @@\n-old\n+new\n",
    }
    lines = shown(document)
    assert lines[:3] == ["session t1", "  id          t1", "  parent      s1"]
    assert lines[-4:] == ["", "@@ -1 +1 @@", "-old", "+new"]
    assert "events:" in lines


def test_show_lines_print_versions_lists_and_flags() -> None:
    document = {
        "type": "event",
        "seq": 7,
        "session": "s1",
        "before": {"oid": "ab", "mode": "100644"},
        "candidates": ["s1", "s2"],
        "offline": True,
        "prompt": "fix\nit",
    }
    assert shown(document) == [
        "event 7",
        "  seq         7",
        "  session     s1",
        "  before      ab 100644",
        "  candidates  s1, s2",
        "  offline     yes",
        "    fix",
        "    it",
    ]


def test_show_lines_of_an_op_name_what_people_type_and_end_with_its_report() -> None:
    report = {"kind": "oops", "status": "reversed", "op_id": "o1", "items": []}
    op: dict[str, object] = {
        "type": "op",
        "id": "o1",
        "kind": "oops",
        "target": "b1",
        "status": "applying",
        "report": report,
    }
    assert shown(op) == [
        "oops o1",
        "Author:   you",
        "Date:     -",
        "Undid:    b1",
        "Status:   applying",
        "Commit:   none",
        "",
        "no file affected",
    ]
    named = {"short": "u1", "undid": ["t4", "t5"], "agent": "codex", "commit": "0123"}
    by = {"undone_by": "o2", "undone_short": "u2", "status": "done"}
    assert shown(op | named | by)[:6] == [
        "oops u1",
        "Agent:    codex",
        "Date:     -",
        "Undid:    t4 t5",
        "Undone:   by u2",
        "Commit:   0123",
    ]


def test_patch_lines_are_coloured_and_keep_tabs() -> None:
    patch = "diff --git a/a b/a\n@@ -1 +1 @@\n-\tx\r\n+y\x1b\n z\n"
    assert list(patch_lines(patch, View(colour=True))) == [
        "\033[1mdiff --git a/a b/a\033[m",
        "\033[36m@@ -1 +1 @@\033[m",
        "\033[31m-\tx\\r\033[m",
        "\033[32m+y\\x1b\033[m",
        " z",
    ]


def test_no_line_holds_a_control_character() -> None:
    """ROB-12: every field of a row may come from hostile names."""
    evil = "x\x1b[2J\n\x07"
    row = dict.fromkeys((*ROW, "id", "session", "note", "prompt", "target"), evil)
    lines = [
        *log_lines([event(row)], View()),
        *session_lines([decode(SessionRow, row)], View()),
        *turn_lines([decode(TurnRow, row)], View()),
        *op_lines([decode(OpRow, row)], View()),
        *pin_lines([decode(PinRow, row)], View()),
        *(
            line
            for kind in ("event", "session", "turn", "call", "burst", "op", "commit")
            for line in shown({**row, "type": kind, "diff": evil})
        ),
    ]
    assert all(line.isprintable() for line in lines)


def test_log_of_a_narrow_terminal_keeps_to_what_fits() -> None:
    """60 columns: when, who, what and where; in doubt a word of doubt."""
    narrow = View(terminal=True, width=60)
    row = {
        "seq": 3,
        "ts": "2026-11-21T08:00:01.000000Z",
        "kind": "modify",
        "actor": "agent",
        "agent": "codex",
        "confidence": "low",
        "burst": "b-1234567890",
        "path": "src/a.py",
    }
    assert list(
        log_lines(map(event, [row, {**row, "confidence": "high"}]), narrow)
    ) == [
        "   3  11-21 08:00  codex           modify    src/a.py  (low)",
        "   3  11-21 08:00  codex           modify    src/a.py",
    ]


def test_long_lines_of_a_narrow_terminal_break_between_words() -> None:
    row = {
        "id": "claude-code-20261121-7f3a9c",
        "actor": "agent",
        "agent": "claude-code",
        "started": minutes_ago(2),
        "turns": 1,
    }
    assert list(
        session_lines([decode(SessionRow, row)], View(terminal=True, width=60))
    ) == [
        "claude-code-20261121-7f3a9c  2 min ago  claude-code       1",
        "    turn, open",
    ]
