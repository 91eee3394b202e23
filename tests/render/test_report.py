"""The text of undo reports, from literal documents."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta

import pytest

from gitshadow.messages.codec import decode
from gitshadow.messages.undo import FileUndoAnswer
from gitshadow.render import report as module
from gitshadow.render.style import View


def report_lines(document: Mapping[str, object], view: View) -> Iterator[str]:
    return module.report_lines(decode(FileUndoAnswer, document), view)


def headline(document: Mapping[str, object]) -> str:
    return module.headline(decode(FileUndoAnswer, document))


def counts(document: Mapping[str, object]) -> Mapping[str, int]:
    return module.counts(decode(FileUndoAnswer, document))


def would_overwrite(document: Mapping[str, object]) -> bool:
    return module.would_overwrite(decode(FileUndoAnswer, document))


def item(path: str, state: str, **fields: object) -> dict[str, object]:
    action = "none" if state in ("not_reversed", "no_effect") else "write"
    base = {"domain": "files", "path": path, "action": action, "state": state}
    return {**base, "reason": None, "residue": None, **fields}


def report(*items: Mapping[str, object], **fields: object) -> dict[str, object]:
    base: dict[str, object] = {
        "op_id": "op-1",
        "kind": "oops",
        "target": "b-1",
        "status": "reversed",
        "token": "t",
        "items": list(items),
        "not_covered": [],
    }
    return {**base, **fields}


PARTIAL = report(
    item("a", "reversed"),
    item("b", "reversed", action="delete"),
    item("d", "reversed", action="create"),
    item("c", "not_reversed", reason="conflict"),
    item("e", "no_effect"),
    status="partial",
)


def test_headline_gives_the_counts_of_a_partial_undo() -> None:
    """UX-07: never "undone" where something stays."""
    assert headline(PARTIAL) == "restored 3 files, skipped 1, 1 unchanged"


@pytest.mark.parametrize(
    ("document", "line"),
    [
        (report(item("a", "reversed")), "restored 1 file"),
        (report(item("a", "reversed"), kind="redo"), "redid changes to 1 file"),
        (report(status="nothing_to_do"), "nothing to do"),
        (report(item("a", "reversed"), status="planned"), "will restore 1 file"),
        (
            report(item("a", "reversed"), status="refused"),
            "nothing was changed (would restore 1 file)",
        ),
        (
            report(item("a", "not_reversed"), status="partial"),
            "skipped 1 file",
        ),
        (
            report(
                item("a", "reversed"),
                {"domain": "effects", "call_id": "c", "state": "reversed"},
                {"domain": "effects", "call_id": "d", "state": "compensated"},
                status="compensated",
            ),
            "restored 2 items, compensated 1",
        ),
    ],
)
def test_headline_of_each_outcome(document: Mapping[str, object], line: str) -> None:
    assert headline(document) == line


def test_headline_is_the_engines_where_it_sends_one() -> None:
    """UNDO-22: the first line says that nobody claimed the writes."""
    document = report(item("a", "reversed"), headline="no agent reported these changes")
    assert next(report_lines(document, View())) == "no agent reported these changes"


def test_report_lines_say_what_stays_why_and_how_to_go_back() -> None:
    """UX-07: what stayed and why, how to take it back, last what is not covered."""
    document = {
        **PARTIAL,
        "notes": ["HEAD moved since"],
        "maybe": ["x", "y"],
        "unclear": ["y"],
        "not_covered": [{"what": "big.iso", "path": "big.iso", "why": "too large"}],
    }
    assert list(report_lines(document, View())) == [
        "restored 3 files, skipped 1, 1 unchanged",
        "note: HEAD moved since",
        "  skipped   c: edited later",
        "  reverted  a",
        "  deleted   b",
        "  restored  d",
        "uncertain, skipped (--include-low includes them):",
        "  x",
        "ambiguous, skipped (git agent-undo show EVENT lists who it could be):",
        "  y",
        "to force it: git agent-undo undo b-1 --on-conflict=overwrite (old lines) or"
        " --on-conflict=markers (both)",
        "undo this with: git agent-undo redo",
        "not undone:",
        "  big.iso: too large",
    ]


@pytest.mark.parametrize(
    ("detail", "is_forcible"),
    [
        ("it was created again later", True),
        ("it was created and later edited", False),
        ("this program has this database open: close it first", False),
    ],
)
def test_option_that_forces_is_named_only_where_it_does(
    detail: str, is_forcible: bool
) -> None:
    skipped = item("c", "not_reversed", reason="conflict", detail=detail)
    lines = list(report_lines(report(skipped, status="partial"), View()))
    assert any("to force it" in line for line in lines) is is_forcible


def test_report_lines_name_the_undo_of_a_redo() -> None:
    lines = list(report_lines(report(item("a", "reversed"), kind="redo"), View()))
    assert lines[-1] == "undo this with: git agent-undo undo op-1"
    named = report(item("a", "reversed"), kind="redo", op_short="u7")
    assert (
        list(report_lines(named, View()))[-1]
        == "undo this with: git agent-undo undo u7"
    )


def test_report_lines_offer_no_way_back_where_nothing_was_done() -> None:
    document = report(item("a", "reversed"), status="planned", op_id=None)
    assert list(report_lines(document, View())) == [
        "will restore 1 file",
        "  revert    a",
        "apply exactly this plan with: --token t",
    ]


def test_report_says_that_nothing_was_changed_where_all_was_left() -> None:
    left = report(
        item("a", "not_reversed", reason="binary"), status="partial", op_id=None
    )
    last = list(report_lines(left, View()))[-1]
    assert last == "nothing was changed, so there is nothing to redo"


def test_report_lines_show_the_systems_own_words() -> None:
    """UNDO-30: an item that could not be written has the system's reason."""
    failed = item("a", "not_reversed", reason="io_error", detail="Permission denied")
    lines = list(report_lines(report(failed, status="partial"), View()))
    assert "  skipped   a: could not be read or written (Permission denied)" in lines


def test_report_lines_show_a_diffstat() -> None:
    """UX-04: the plan has a diffstat."""
    changed = item("a", "reversed", added=2, removed=10)
    lines = list(report_lines(report(changed, status="planned"), View()))
    assert lines[1] == "  revert    a  (+2 -10)"


def test_plan_says_first_whose_work_it_is_about() -> None:
    ago = datetime.now(UTC) - timedelta(minutes=2, seconds=5)
    turn = {
        "actor": "agent",
        "agent": "claude-code",
        "ordinal": 3,
        "turns": 3,
        "turn_short": "t12",
        "files": 4,
        "prompt": "Clean up: delete the old extras folder and whatever refers to it",
        "ts": ago.isoformat(),
    }
    plan = report(item("a", "reversed"), status="planned") | {"about": [turn]}
    first, second, *_ = report_lines(plan, View())
    assert first == (
        'claude-code, 2 min ago: "Clean up: delete the old extras folder and whatever refers…"'
        "  (turn t12, 4 files)"
    )
    assert second == "will restore 1 file"
    done = plan | {"status": "reversed"}
    assert next(iter(report_lines(done, View()))) == "restored 1 file"


def test_plan_on_a_terminal_has_the_graph_of_a_diffstat() -> None:
    """UX-04: as `diff --stat` draws it; a pipe and a report that is done have the counts."""
    plan = report(
        item("a", "reversed", added=2, removed=1),
        item("name", "reversed", action="chmod", added=0, removed=0),
        item("link", "reversed", action="link"),
        item("new", "reversed", action="delete", added=0, removed=30),
        status="planned",
    )
    assert list(report_lines(plan, View(terminal=True))) == [
        "will restore 4 files",
        "  revert    a  (+2 -1)    ++-",
        "  revert    name  (mode)",
        "  revert    link  (link)",
        "  delete    new  (-30)    ------------------------------",
        " 4 files changed, 2 insertions(+), 31 deletions(-)",
        "apply exactly this plan with: --token t",
    ]
    coloured = list(report_lines(plan, View(terminal=True, colour=True)))
    assert coloured[1].endswith(")    \033[32m++\033[m\033[31m-\033[m")
    assert "++-" not in "".join(report_lines(plan, View()))
    done = {**plan, "status": "reversed"}
    assert "++-" not in "".join(report_lines(done, View(terminal=True)))


def test_moves_of_head_are_said_once() -> None:
    moved = "HEAD moved from main (1) to main (2)"
    document = report(item("a", "reversed"), notes=["it moved"], head_moved=[moved])
    lines = list(report_lines(document, View()))
    assert lines[:2] == ["restored 1 file", "note: it moved"]
    assert not any(moved in line for line in lines)


def test_report_lines_show_both_names_of_a_rename() -> None:
    moved = item("a", "reversed", action="rename", old_path="d")
    assert "  renamed   d → a" in report_lines(report(moved), View())


def test_report_lines_show_paths_from_the_current_directory() -> None:
    """UX-01: relative to the cwd."""
    lines = list(report_lines(report(item("a", "reversed")), View(prefix=b"sub")))
    assert lines[1] == "  reverted  ../a"


def test_report_lines_cut_a_long_list_for_a_person_and_say_so() -> None:
    document = report(*(item(f"f{n}", "reversed") for n in range(100)))
    short = list(report_lines(document, View(terminal=True)))
    assert short[0] == "restored 100 files"
    assert short[-2] == "  … and 60 more"
    assert len(list(report_lines(document, View()))) == 102


def test_report_lines_print_no_control_character() -> None:
    """ROB-12: neither names nor reasons reach the terminal raw."""
    document = report(
        item("a\x1b[2J", "not_reversed", reason="io_error", detail="x\n\x07"),
        status="partial",
        notes=["\x1b]0;title\x07"],
        not_covered=[{"what": "y\r", "why": "\x9bz"}],
    )
    assert all(line.isprintable() for line in report_lines(document, View()))


def test_counts_sum_to_the_items() -> None:
    """UX-06: counts are those of the items."""
    assert counts(PARTIAL) == {
        "reversed": 3,
        "compensated": 0,
        "not_reversed": 1,
        "no_effect": 1,
    }


def test_report_of_unexpected_shape_still_prints() -> None:
    odd: dict[str, object] = {"items": "none", "status": 3, "not_covered": [1]}
    assert list(report_lines(odd, View())) == ["no file affected"]


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (item("a", "reversed"), False),
        (item("a", "not_reversed", reason="excluded"), False),
        (item("a", "not_reversed", reason="conflict"), True),
        (item("a", "not_reversed", reason="binary"), True),
        (item("a", "reversed", overwrites=True), True),
    ],
)
def test_would_overwrite_decides_what_enter_means(
    one: Mapping[str, object], expected: bool
) -> None:
    """UX-04: Enter means no where anything is overwritten or left in conflict."""
    assert would_overwrite(report(one)) is expected
