"""The acceptance rows of undo, over the real journal, object store and working tree."""

import os
import shutil
from pathlib import Path

import pytest

from gitshadow.errors import RefusedError
from gitshadow.model import (
    Confidence,
)
from gitshadow.store.journal import ops, turns
from tests.undo.recorder_world import Yard
from tests.undo.words import call, lines, reasons


def test_oops_takes_a_turn_back_when_it_edits_deletes_and_creates(yard: Yard) -> None:
    """UNDO-01: edits and deletions come back, creations go, the rest is not touched."""
    before = yard.tree_now()
    yard.by("s1", turn="t1")
    yard.write("a", "agent\n")
    yard.remove("b")
    yard.write("d", "new\n")
    yard.write("e", "")
    report = yard.oops()
    assert yard.tree_now() == before
    assert report.status == "reversed"
    assert [(item.path, item.action.value) for item in report.items] == [
        ("a", "write"),
        ("b", "create"),
        ("d", "delete"),
        ("e", "delete"),
    ]
    assert report.op_id is not None
    assert report.commit is not None
    assert yard.litter() == []


def test_redo_and_undo_of_the_op_go_back_and_forth(yard: Yard) -> None:
    """UNDO-02: each state exactly, one op for each command."""
    before = yard.tree_now()
    yard.by("s1", turn="t1")
    yard.write("a", "agent\n")
    yard.remove("b")
    yard.write("d", "new\n")
    after = yard.tree_now()
    yard.oops()
    yard.redo()
    assert yard.tree_now() == after
    again = yard.oops()
    assert yard.tree_now() == before
    assert again.op_id is not None
    yard.undo(again.op_id)
    assert yard.tree_now() == after
    assert len(ops.list_ops(yard.db)) == 4


def test_oops_goes_further_back_and_redo_comes_forward(yard: Yard) -> None:
    """UNDO-03: v1, v0, v1, v2."""
    yard.by("s1").write("a", "v1\n")
    yard.by("s2").write("a", "v2\n")
    seen = []
    for verb in (yard.oops, yard.oops, yard.redo, yard.redo):
        verb()
        seen.append(yard.read("a"))
    assert seen == [b"v1\n", lines("a").encode(), b"v1\n", b"v2\n"]
    assert yard.redo().status == "nothing_to_do"


def test_oops_leaves_the_human_file_when_it_came_right_after(yard: Yard) -> None:
    """UNDO-04: only the agent's file."""
    yard.by("s1").write("agent.txt", "x\n")
    yard.by("human").write("human.txt", "y\n")
    report = yard.oops()
    assert not yard.exists("agent.txt")
    assert yard.read("human.txt") == b"y\n"
    assert any("later edits" in note for note in report.notes)


def test_oops_keeps_the_human_line_when_both_added_one(yard: Yard) -> None:
    """UNDO-05: the agent's line goes, the human's stays."""
    yard.by("s1").write("a", "agent\n" + lines("a"))
    yard.by("human").write("a", "agent\n" + lines("a") + "human\n")
    report = yard.oops()
    assert yard.read("a").decode() == lines("a") + "human\n"
    assert (report.status, report.items[0].action.value) == ("reversed", "merge")


def test_undo_keeps_the_next_line_of_another_session(yard: Yard) -> None:
    """UNDO-06: also where the changed lines touch."""
    yard.by("s1").write("a", lines("a", line_1="one"))
    yard.by("s2").write("a", lines("a", line_1="one", line_2="two"))
    yard.undo("s1")
    assert yard.read("a").decode() == lines("a", line_2="two")


def test_undo_keeps_a_line_that_was_appended_behind_the_agents(yard: Yard) -> None:
    yard.by("s1").write("a", lines("a") + "agent\n")
    yard.by("human").write("a", lines("a") + "agent\nhuman\n")
    assert yard.oops().status == "reversed"
    assert yard.read("a").decode() == lines("a") + "human\n"


@pytest.mark.parametrize("choice", ["skip", "overwrite", "markers"])
def test_oops_does_as_told_when_both_changed_a_line(yard: Yard, choice: str) -> None:
    """UNDO-07: left and named; the old line, with the human's back after redo; both."""
    yard.by("s1").write("a", lines("a", line_3="agent"))
    human = lines("a", line_3="human")
    yard.by("human").write("a", human)
    report = yard.oops(on_conflict=choice)
    if choice == "skip":
        assert reasons(report) == [("a", "conflict")]
        assert (report.status, report.op_id) == ("partial", None)
        assert yard.read("a").decode() == human
    elif choice == "overwrite":
        assert report.status == "reversed"
        assert report.items[0].overwrites
        assert yard.read("a").decode() == lines("a")
        yard.redo()
        assert yard.read("a").decode() == human
    else:
        assert report.status == "partial"
        text = yard.read("a").decode()
        assert "<<<<<<< before b-" in text
        assert "a line 3\n=======\nhuman\n>>>>>>> now\n" in text
        yard.redo()
        assert yard.read("a").decode() == human


def test_undo_reverses_when_head_moved_and_the_path_did_not(yard: Yard) -> None:
    """UNDO-10: as before the session; the report says that HEAD moved."""
    yard.by("s1").write("a", "agent\n")
    yard.switch("HEAD moved from main to other")
    report = yard.undo("s1")
    assert yard.read("a").decode() == lines("a")
    assert report.head_moved == ("HEAD moved from main to other",)


def test_undo_leaves_a_switched_path_until_it_is_switched_back(yard: Yard) -> None:
    """UNDO-11: on the other branch not a byte changes; back on main it is reversed."""
    yard.by("s1").write("a", "agent\n")
    Path(yard.root, "a").write_text("other branch\n")
    yard.switch()
    report = yard.undo("s1")
    assert reasons(report) == [("a", "head_moved")]
    assert yard.read("a") == b"other branch\n"
    Path(yard.root, "a").write_text("agent\n")
    yard.switch()
    yard.by("human").write("a", "agent\nhuman\n")
    assert yard.undo("s1").status == "reversed"
    assert yard.read("a").decode() == lines("a") + "human\n"


def test_undo_sees_through_a_branch_trip_when_a_person_wrote_before_it(
    yard: Yard,
) -> None:
    """What counts is what Git switched away, not what the agent had left."""
    here = lines("a", line_3="agent", line_8="mine")
    yard.by("s1").write("a", lines("a", line_3="agent"))
    yard.by("human").write("a", here)
    for data in ("other branch\n", here):
        Path(yard.root, "a").write_text(data)
        yard.switch()
    assert yard.undo("s1").status == "reversed"
    assert yard.read("a").decode() == lines("a", line_8="mine")


def test_undo_sees_through_a_branch_trip_when_git_keeps_no_permissions(
    yard: Yard,
) -> None:
    yard.by("s1").write("a", "agent\n", 0o600)
    Path(yard.root, "a").write_text("other branch\n")
    yard.switch()
    Path(yard.root, "a").write_text("agent\n")
    os.chmod(yard.path("a"), 0o644)
    yard.switch()
    assert yard.undo("s1").status == "reversed"
    assert yard.read("a").decode() == lines("a")


def test_undo_sees_through_a_restore_inside_its_turn(yard: Yard) -> None:
    """The restore brings back what the first write had left: that is the turn's."""
    yard.by("s1", turn="t1").write("a", "first\n" + lines("a"))
    yard.write("a", lines("a") + "second\n")
    yard.restore("a")
    assert yard.read("a").decode() == "first\n" + lines("a")
    assert yard.undo("s1:t1").status == "reversed"
    assert yard.read("a").decode() == lines("a")


def test_oops_removes_only_the_directories_of_the_unit(yard: Yard) -> None:
    """UNDO-12: new directories go when they are empty; a person's file stays."""
    yard.by("s1").write("x/y/z/new.py", "x\n")
    yard.by("human").write("x/own.txt", "mine\n")
    yard.oops()
    assert yard.directories() == {"x"}
    assert yard.read("x/own.txt") == b"mine\n"


def test_oops_brings_a_whole_directory_back(yard: Yard) -> None:
    """UNDO-13: deleted files come back with bytes and mode."""
    yard.by("human")
    for number in range(6):
        yard.write(f"src/{number}", f"{number}\n", 0o640)
    before = yard.tree_now()
    yard.by("s1")
    shutil.rmtree(yard.path("src"))
    yard.record()
    assert yard.oops().status == "reversed"
    assert yard.tree_now() == before


def test_oops_is_one_item_when_a_burst_rewrote_a_file(yard: Yard) -> None:
    """UNDO-14: content before the burst, then the last content."""
    yard.by("s1", turn="t1").write("a", "1\n")
    yard.remove("a")
    yard.write("a", "2\n")
    report = yard.oops()
    assert yard.read("a").decode() == lines("a")
    assert len(report.items) == 1
    yard.redo()
    assert yard.read("a") == b"2\n"


def test_undo_takes_runs_on_both_sides_of_another_session(yard: Yard) -> None:
    """UNDO-16: the lines of S1 from before and after S2 go, those of S2 stay."""
    yard.by("s1").write("a", lines("a", line_1="s1"))
    yard.by("s2").write("a", lines("a", line_1="s1", line_5="s2"))
    yard.by("s1").write("a", lines("a", line_1="s1", line_5="s2", line_9="s1"))
    yard.by("s2").write("b", "s2\n")
    report = yard.undo("s1")
    assert yard.read("a").decode() == lines("a", line_5="s2")
    assert yard.read("b") == b"s2\n"
    assert report.status == "reversed"


def test_undo_takes_one_call_of_three(yard: Yard) -> None:
    """UNDO-17: only its lines."""
    yard.by("s1", "t1", "c1").write("a", lines("a", line_1="1"))
    yard.by("s1", "t1", "c2").write("a", lines("a", line_1="1", line_5="2"))
    done = lines("a", line_1="1", line_5="2", line_9="3")
    yard.by("s1", "t1", "c3").write("a", done)
    with yard.db.write():
        for number in (1, 2, 3):
            turns.open_call(yard.db, call(f"c{number}"))
    yard.undo("c2")
    assert yard.read("a").decode() == lines("a", line_1="1", line_9="3")


def test_undo_takes_one_turn_of_two(yard: Yard) -> None:
    """UNDO-18: `b` keeps only turn 2's change."""
    yard.by("s1", "t1").write("a", "t1\n")
    yard.write("b", lines("b", line_1="t1"))
    yard.by("s1", "t2").write("b", lines("b", line_1="t1", line_9="t2"))
    yard.write("c", "t2\n")
    yard.undo("t1")
    assert yard.read("a").decode() == lines("a")
    assert yard.read("b").decode() == lines("b", line_9="t2")
    assert yard.read("c") == b"t2\n"


def test_oops_takes_the_newest_turn_alone(yard: Yard) -> None:
    """UNDO-19: a new turn begins a burst."""
    yard.by("s1", "t1").write("a", "1\n")
    yard.by("s1", "t2").write("b", "2\n")
    yard.oops()
    assert yard.read("a") == b"1\n"
    assert yard.read("b").decode() == lines("b")


def test_oops_passes_over_unattributed_writes(yard: Yard) -> None:
    """UNDO-20: the newest agent burst; the later writes stay and are spoken of."""
    yard.by("s1").write("a", "agent\n")
    yard.by("unknown").write("b", "who\n")
    report = yard.oops()
    assert yard.read("a").decode() == lines("a")
    assert yard.read("b") == b"who\n"
    assert any("later edits to 1 file are kept" in note for note in report.notes)


@pytest.mark.parametrize("include", [False, True])
def test_oops_lists_what_may_be_theirs(yard: Yard, include: bool) -> None:
    """UNDO-21: taken only when asked for."""
    yard.by("s1", "t1").write("a", "agent\n")
    yard.by("s1", "t1", confidence=Confidence.LOW).write("x", "maybe\n")
    report = yard.oops(include_low=include)
    assert yard.read("a").decode() == lines("a")
    assert yard.exists("x") is not include
    assert report.maybe == (() if include else ("x",))


def test_oops_takes_the_low_writes_when_asked_after_the_rest(yard: Yard) -> None:
    yard.by("s1", "t1").write("a", "agent\n")
    yard.by("s1", "t1", confidence=Confidence.LOW).write("x", "maybe\n")
    yard.oops()
    assert yard.oops(include_low=True).status == "reversed"
    assert not yard.exists("x")
    assert yard.oops().status == "nothing_to_do"


def test_oops_takes_unclaimed_writes_when_no_agent_is_known(yard: Yard) -> None:
    """UNDO-22: the first line says that nobody claimed them."""
    before = yard.tree_now()
    yard.by("unknown")
    for name in ("a", "b", "c", "d", "e"):
        yard.write(name, "plain\n")
    report = yard.oops()
    assert yard.tree_now() == before
    assert report.headline == "no agent reported these changes: restored 5 files"


def test_oops_moves_a_renamed_file_back_with_the_human_line(yard: Yard) -> None:
    """UNDO-23: `a` with the human's line, `d` gone; redo brings it back."""
    yard.by("s1").move("a", "d")
    yard.by("human").write("d", lines("a") + "human\n")
    after = yard.tree_now()
    report = yard.oops()
    assert yard.read("a").decode() == lines("a") + "human\n"
    assert not yard.exists("d")
    assert (report.items[0].path, report.items[0].old_path) == ("a", "d")
    yard.redo()
    assert yard.tree_now() == after


@pytest.mark.parametrize("choice", ["skip", "overwrite", "markers"])
def test_oops_never_deletes_what_was_changed_since(yard: Yard, choice: str) -> None:
    """UNDO-24: LAW-03 holds whatever the choice."""
    yard.by("s1").write("n", "agent\n")
    yard.by("human").write("n", "human\n")
    report = yard.oops(on_conflict=choice)
    assert reasons(report) == [("n", "conflict")]
    assert yard.read("n") == b"human\n"


def test_undo_returns_uncommitted_bytes(yard: Yard) -> None:
    """UNDO-25: what an agent's checkout overwrote."""
    yard.by("human").write("a", "mine\n")
    yard.by("s1").write("a", lines("a"))
    yard.undo("s1")
    assert yard.read("a") == b"mine\n"


def test_dry_run_gives_the_same_items_and_changes_nothing(yard: Yard) -> None:
    """UNDO-27: the plan is what happens."""
    yard.by("s1", "t1").write("a", "agent\n")
    yard.remove("b")
    yard.write("d", "new\n")
    before = yard.tree_now()
    plan = yard.oops(apply=False)
    assert plan.status == "planned"
    assert yard.tree_now() == before
    assert yard.oops(token=plan.token).items == plan.items


def test_token_is_refused_when_the_world_changed(yard: Yard) -> None:
    """UNDO-28: nothing changed, and it says what moved."""
    yard.by("s1").write("a", "agent\n")
    plan = yard.oops(apply=False)
    yard.by("human").write("a", "human\n")
    with pytest.raises(RefusedError, match="files changed since: a changed since"):
        yard.oops(token=plan.token)
    assert yard.read("a") == b"human\n"


def test_the_restore_commit_holds_the_whole_op(yard: Yard) -> None:
    """GIT-15: the tip's tree is the working tree, its diff the restore."""
    yard.by("s1", "t1").write("a", "1\n")
    yard.remove("b")
    done = yard.oops()
    assert done.commit is not None
    info = yard.repo.commit(done.commit)
    changes = yard.repo.diff(yard.repo.commit(info.parents[0]).tree, info.tree)
    assert [change.path for change in changes] == [b"a", b"b"]
    flat = {os.fsdecode(path) for path in yard.repo.flat(info.tree)}
    assert flat == set(yard.tree_now())
