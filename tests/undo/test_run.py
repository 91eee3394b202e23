"""The acceptance rows of undo, over the real journal, object store and working tree."""

import os
import shutil

import pytest

from gitshadow.errors import RefusedError
from gitshadow.model import (
    Confidence,
)
from gitshadow.store.journal import ops
from tests.support.engine import Engine
from tests.support.repo import ten_lines
from tests.undo.words import reasons


def test_oops_takes_a_turn_back_when_it_edits_deletes_and_creates(
    engine: Engine,
) -> None:
    """UNDO-01: edits and deletions come back, creations go, the rest is not touched."""
    before = engine.tree_now()
    engine.by("s1", turn="t1")
    engine.write("a", "agent\n")
    engine.remove("b")
    engine.write("d", "new\n")
    engine.write("e", "")
    report = engine.oops()
    assert engine.tree_now() == before
    assert report.status == "reversed"
    assert [(item.path, item.action.value) for item in report.items] == [
        ("a", "write"),
        ("b", "create"),
        ("d", "delete"),
        ("e", "delete"),
    ]
    assert report.op_id is not None
    assert report.commit is not None
    assert engine.litter() == []


def test_redo_and_undo_of_the_op_go_back_and_forth(engine: Engine) -> None:
    """UNDO-02: each state exactly, one op for each command."""
    before = engine.tree_now()
    engine.by("s1", turn="t1")
    engine.write("a", "agent\n")
    engine.remove("b")
    engine.write("d", "new\n")
    after = engine.tree_now()
    engine.oops()
    engine.redo()
    assert engine.tree_now() == after
    again = engine.oops()
    assert engine.tree_now() == before
    assert again.op_id is not None
    engine.undo(again.op_id)
    assert engine.tree_now() == after
    assert len(ops.list_ops(engine.db)) == 4


def test_oops_goes_further_back_and_redo_comes_forward(engine: Engine) -> None:
    """UNDO-03: v1, v0, v1, v2."""
    engine.by("s1").write("a", "v1\n")
    engine.by("s2").write("a", "v2\n")
    seen = []
    for verb in (engine.oops, engine.oops, engine.redo, engine.redo):
        verb()
        seen.append(engine.read("a"))
    assert seen == [b"v1\n", ten_lines("a").encode(), b"v1\n", b"v2\n"]
    assert engine.redo().status == "nothing_to_do"


def test_oops_leaves_the_human_file_when_it_came_right_after(engine: Engine) -> None:
    """UNDO-04: only the agent's file."""
    engine.by("s1").write("agent.txt", "x\n")
    engine.by("human").write("human.txt", "y\n")
    report = engine.oops()
    assert not engine.exists("agent.txt")
    assert engine.read("human.txt") == b"y\n"
    assert not any("later edits" in note for note in report.notes)


def test_note_counts_later_edits_of_merged_files_alone(engine: Engine) -> None:
    """A skipped file has its own reason, and a file of a person's own is no matter of the unit."""
    engine.by("s1").write("a", "agent\n" + ten_lines("a"))
    engine.write("b", "agent\n")
    engine.by("human").write("a", "agent\n" + ten_lines("a") + "human\n")
    engine.write("b", "mine\n")
    engine.write("mine", "mine\n")
    report = engine.undo("s1")
    assert engine.read("a").decode() == ten_lines("a") + "human\n"
    assert engine.read("b") == b"mine\n"
    assert "your later edits to 1 file are kept" in report.notes


def test_oops_keeps_the_human_line_when_both_added_one(engine: Engine) -> None:
    """UNDO-05: the agent's line goes, the human's stays."""
    engine.by("s1").write("a", "agent\n" + ten_lines("a"))
    engine.by("human").write("a", "agent\n" + ten_lines("a") + "human\n")
    report = engine.oops()
    assert engine.read("a").decode() == ten_lines("a") + "human\n"
    assert (report.status, report.items[0].action.value) == ("reversed", "merge")


def test_oops_merges_what_was_written_before_it_and_not_recorded(
    engine: Engine,
) -> None:
    """An undo looks at the files first, so an unrecorded line is no conflict."""
    engine.by("s1").write("a", "agent\n" + ten_lines("a"))
    text = "agent\n" + ten_lines("a") + "human\n"
    engine.put("a", 0o644, text.encode())
    assert engine.oops().status == "reversed"
    assert engine.read("a").decode() == ten_lines("a") + "human\n"


def test_undo_keeps_the_next_line_of_another_session(engine: Engine) -> None:
    """UNDO-06: also where the changed lines touch."""
    engine.by("s1").write("a", ten_lines("a", line_1="one"))
    engine.by("s2").write("a", ten_lines("a", line_1="one", line_2="two"))
    engine.undo("s1")
    assert engine.read("a").decode() == ten_lines("a", line_2="two")


def test_undo_keeps_a_line_that_was_appended_behind_the_agents(engine: Engine) -> None:
    engine.by("s1").write("a", ten_lines("a") + "agent\n")
    engine.by("human").write("a", ten_lines("a") + "agent\nhuman\n")
    assert engine.oops().status == "reversed"
    assert engine.read("a").decode() == ten_lines("a") + "human\n"


@pytest.mark.parametrize("choice", ["skip", "overwrite", "markers"])
def test_oops_does_as_told_when_both_changed_a_line(
    engine: Engine, choice: str
) -> None:
    """UNDO-07: left and named; the old line, with the human's back after redo; both."""
    engine.by("s1").write("a", ten_lines("a", line_3="agent"))
    human = ten_lines("a", line_3="human")
    engine.by("human").write("a", human)
    report = engine.oops(on_conflict=choice)
    if choice == "skip":
        assert reasons(report) == [("a", "conflict")]
        assert (report.status, report.op_id) == ("partial", None)
        assert engine.read("a").decode() == human
    elif choice == "overwrite":
        assert report.status == "reversed"
        assert report.items[0].overwrites
        assert engine.read("a").decode() == ten_lines("a")
        engine.redo()
        assert engine.read("a").decode() == human
    else:
        assert report.status == "partial"
        text = engine.read("a").decode()
        assert "<<<<<<< before b-" in text
        assert "a line 3\n=======\nhuman\n>>>>>>> now\n" in text
        engine.redo()
        assert engine.read("a").decode() == human


@pytest.fixture
def branched(engine: Engine) -> Engine:
    """Return R on `main`, with a branch `other` that has another `a`."""
    engine.by("human").git("checkout", "-q", "-b", "other")
    engine.write("a", "other branch\n")
    engine.git("commit", "-qam", "other")
    engine.git("checkout", "-q", "main")
    return engine


def test_undo_reverses_when_head_moved_and_the_path_did_not(engine: Engine) -> None:
    """UNDO-10: as before the session; the report says that HEAD moved."""
    engine.by("s1").write("a", "agent\n")
    engine.by("unknown").git("checkout", "-q", "-b", "other")
    at = engine.repo.resolve("HEAD")
    assert at is not None
    report = engine.undo("s1")
    assert engine.read("a").decode() == ten_lines("a")
    assert report.head_moved == (
        f"HEAD moved from main ({at[:10]}) to other ({at[:10]})",
    )


def test_undo_leaves_a_switched_path_until_it_is_switched_back(
    branched: Engine,
) -> None:
    """UNDO-11: on the other branch not a byte changes; back on main it is reversed."""
    branched.by("s1").write("a", "agent\n")
    branched.by("unknown").git("commit", "-qam", "agent")
    branched.git("checkout", "-q", "other")
    report = branched.undo("s1")
    assert reasons(report) == [("a", "head_moved")]
    assert branched.read("a") == b"other branch\n"
    branched.by("unknown").git("checkout", "-q", "main")
    branched.by("human").write("a", "agent\nhuman\n")
    assert branched.undo("s1").status == "reversed"
    assert branched.read("a").decode() == ten_lines("a") + "human\n"


def test_undo_sees_through_a_branch_trip_when_git_keeps_no_permissions(
    branched: Engine,
) -> None:
    branched.by("s1").write("a", "agent\n", 0o600)
    branched.by("unknown").git("commit", "-qam", "agent")
    for branch in ("other", "main"):
        branched.git("checkout", "-q", branch)
    assert branched.mode("a") == 0o644
    assert branched.undo("s1").status == "reversed"
    assert branched.read("a").decode() == ten_lines("a")


def test_oops_removes_only_the_directories_of_the_unit(engine: Engine) -> None:
    """UNDO-12: new directories go when they are empty; a person's file stays."""
    engine.by("s1").write("x/y/z/new.py", "x\n")
    engine.by("human").write("x/own.txt", "mine\n")
    engine.oops()
    assert engine.directories() == {"x"}
    assert engine.read("x/own.txt") == b"mine\n"


def test_oops_brings_a_whole_directory_back(engine: Engine) -> None:
    """UNDO-13: deleted files come back with bytes and mode."""
    engine.by("human")
    for number in range(6):
        engine.write(f"src/{number}", f"{number}\n", 0o640)
    before = engine.tree_now()
    engine.by("s1")
    shutil.rmtree(engine.path("src"))
    engine.record()
    assert engine.oops().status == "reversed"
    assert engine.tree_now() == before


def test_oops_is_one_item_when_a_burst_rewrote_a_file(engine: Engine) -> None:
    """UNDO-14: content before the burst, then the last content."""
    engine.by("s1", turn="t1").write("a", "1\n")
    engine.remove("a")
    engine.write("a", "2\n")
    report = engine.oops()
    assert engine.read("a").decode() == ten_lines("a")
    assert len(report.items) == 1
    engine.redo()
    assert engine.read("a") == b"2\n"


def test_undo_takes_runs_on_both_sides_of_another_session(engine: Engine) -> None:
    """UNDO-16: the lines of S1 from before and after S2 go, those of S2 stay."""
    engine.by("s1").write("a", ten_lines("a", line_1="s1"))
    engine.by("s2").write("a", ten_lines("a", line_1="s1", line_5="s2"))
    engine.by("s1").write("a", ten_lines("a", line_1="s1", line_5="s2", line_9="s1"))
    engine.by("s2").write("b", "s2\n")
    report = engine.undo("s1")
    assert engine.read("a").decode() == ten_lines("a", line_5="s2")
    assert engine.read("b") == b"s2\n"
    assert report.status == "reversed"


def test_undo_takes_one_call_of_three(engine: Engine) -> None:
    """UNDO-17: only its lines."""
    engine.by("s1", "t1", "c1").write("a", ten_lines("a", line_1="1"))
    engine.by("s1", "t1", "c2").write("a", ten_lines("a", line_1="1", line_5="2"))
    done = ten_lines("a", line_1="1", line_5="2", line_9="3")
    engine.by("s1", "t1", "c3").write("a", done)
    engine.undo("c2")
    assert engine.read("a").decode() == ten_lines("a", line_1="1", line_9="3")


def test_undo_takes_one_turn_of_two(engine: Engine) -> None:
    """UNDO-18: `b` keeps only turn 2's change."""
    engine.by("s1", "t1").write("a", "t1\n")
    engine.write("b", ten_lines("b", line_1="t1"))
    engine.by("s1", "t2").write("b", ten_lines("b", line_1="t1", line_9="t2"))
    engine.write("c", "t2\n")
    engine.undo("t1")
    assert engine.read("a").decode() == ten_lines("a")
    assert engine.read("b").decode() == ten_lines("b", line_9="t2")
    assert engine.read("c") == b"t2\n"


def test_oops_takes_the_newest_turn_alone(engine: Engine) -> None:
    """UNDO-19: a new turn begins a burst."""
    engine.by("s1", "t1").write("a", "1\n")
    engine.by("s1", "t2").write("b", "2\n")
    engine.oops()
    assert engine.read("a") == b"1\n"
    assert engine.read("b").decode() == ten_lines("b")


def test_oops_passes_over_unattributed_writes(engine: Engine) -> None:
    """UNDO-20: the newest agent burst; later writes to other files stay and are not its matter."""
    engine.by("s1").write("a", "agent\n")
    engine.by("unknown").write("b", "who\n")
    report = engine.oops()
    assert engine.read("a").decode() == ten_lines("a")
    assert engine.read("b") == b"who\n"
    assert not any("later edits" in note for note in report.notes)


@pytest.mark.parametrize("include", [False, True])
def test_oops_lists_what_may_be_theirs(engine: Engine, include: bool) -> None:
    """UNDO-21: taken only when asked for."""
    engine.by("s1", "t1").write("a", "agent\n")
    engine.by("s1", "t1", confidence=Confidence.LOW).write("x", "maybe\n")
    report = engine.oops(include_low=include)
    assert engine.read("a").decode() == ten_lines("a")
    assert engine.exists("x") is not include
    assert report.maybe == (() if include else ("x",))


def test_oops_takes_the_low_writes_when_asked_after_the_rest(engine: Engine) -> None:
    engine.by("s1", "t1").write("a", "agent\n")
    engine.by("s1", "t1", confidence=Confidence.LOW).write("x", "maybe\n")
    engine.oops()
    assert engine.oops(include_low=True).status == "reversed"
    assert not engine.exists("x")
    assert engine.oops().status == "nothing_to_do"


def test_oops_takes_unclaimed_writes_when_no_agent_is_known(engine: Engine) -> None:
    """UNDO-22: the first line says that nobody claimed them."""
    before = engine.tree_now()
    engine.by("unknown")
    for name in ("a", "b", "c", "d", "e"):
        engine.write(name, "plain\n")
    report = engine.oops()
    assert engine.tree_now() == before
    assert report.headline == "no agent reported these changes: restored 5 files"


def test_oops_moves_a_renamed_file_back_with_the_human_line(engine: Engine) -> None:
    """UNDO-23: `a` with the human's line, `d` gone; redo brings it back."""
    engine.by("s1").move("a", "d")
    engine.by("human").write("d", ten_lines("a") + "human\n")
    after = engine.tree_now()
    report = engine.oops()
    assert engine.read("a").decode() == ten_lines("a") + "human\n"
    assert not engine.exists("d")
    assert (report.items[0].path, report.items[0].old_path) == ("a", "d")
    engine.redo()
    assert engine.tree_now() == after


@pytest.mark.parametrize("choice", ["skip", "overwrite", "markers"])
def test_oops_never_deletes_what_was_changed_since(engine: Engine, choice: str) -> None:
    """UNDO-24: LAW-03 holds whatever the choice."""
    engine.by("s1").write("n", "agent\n")
    engine.by("human").write("n", "human\n")
    report = engine.oops(on_conflict=choice)
    assert reasons(report) == [("n", "conflict")]
    assert engine.read("n") == b"human\n"


def test_dry_run_gives_the_same_items_and_changes_nothing(engine: Engine) -> None:
    """UNDO-27: the plan is what happens."""
    engine.by("s1", "t1").write("a", "agent\n")
    engine.remove("b")
    engine.write("d", "new\n")
    before = engine.tree_now(), engine.repo.refs()
    plan = engine.oops(apply=False)
    assert plan.status == "planned"
    assert (engine.tree_now(), engine.repo.refs()) == before
    assert engine.oops(token=plan.token).items == plan.items


def test_token_is_refused_when_the_world_changed(engine: Engine) -> None:
    """UNDO-28: nothing changed, and it says what moved."""
    engine.by("s1").write("a", "agent\n")
    plan = engine.oops(apply=False)
    engine.by("human").write("a", "human\n")
    with pytest.raises(RefusedError, match="files changed since: a changed since"):
        engine.oops(token=plan.token)
    assert engine.read("a") == b"human\n"
    assert ops.list_ops(engine.db) == []


def test_the_restore_commit_holds_the_whole_op(engine: Engine) -> None:
    """GIT-15: the tip's tree is the working tree, its diff the restore."""
    engine.by("s1", "t1").write("a", "1\n")
    engine.remove("b")
    done = engine.oops()
    assert done.commit is not None
    info = engine.repo.commit(done.commit)
    changes = engine.repo.trees.diff(
        engine.repo.commit(info.parents[0]).tree, info.tree
    )
    assert [change.path for change in changes] == [b"a", b"b"]
    flat = {os.fsdecode(path) for path in engine.repo.trees.flat(info.tree)}
    assert flat == set(engine.tree_now())


@pytest.mark.parametrize("taken", [False, True])
def test_file_that_was_given_back_stays_when_its_like_had_taken_its_place(
    engine: Engine, taken: bool
) -> None:
    """An undo writes nothing there, and all the same the file is no longer the agent's."""
    before, data = engine.tree_now(), engine.read("a")
    engine.by("s1", "t1")
    if taken:
        engine.remove("b")
    engine.move("a", "b" if taken else "x")
    engine.write("a", data)
    after = engine.tree_now()
    assert engine.undo("s1").op_id is not None
    assert engine.tree_now() == before
    assert engine.undo("s1").op_id is None
    assert engine.tree_now() == before
    engine.redo()
    assert engine.tree_now() == after
    assert engine.undo("s1").op_id is not None
    assert engine.tree_now() == before
    assert engine.undo("s1").op_id is None
    assert engine.tree_now() == before
