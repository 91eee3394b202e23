"""Targets, units, moments and what the report says around them."""

import json
import os
import shutil

import pytest

from gitshadow.errors import UsageError
from gitshadow.messages.codec import decode
from gitshadow.messages.undo import FileUndoAnswer
from gitshadow.model import (
    Confidence,
    EventKind,
    OpKind,
    OpStatus,
    RepoPath,
    Touch,
)
from gitshadow.store.journal import ops, prune, state, turns
from gitshadow.undo.report import Status
from tests.undo.recorder_world import Yard
from tests.undo.words import call, lines, reasons


def test_undo_takes_chosen_paths_and_redo_brings_them_back(yard: Yard) -> None:
    """UNDO-31: `b` old, `a` stays; the rest can still be undone."""
    yard.by("s1", "t1").write("a", "1\n")
    yard.write("b", "2\n")
    yard.undo("t1", only=["b"])
    assert (yard.read("a"), yard.read("b").decode()) == (b"1\n", lines("b"))
    yard.redo()
    assert yard.read("b") == b"2\n"
    yard.undo("t1", leave=["b"])
    assert (yard.read("a").decode(), yard.read("b")) == (lines("a"), b"2\n")
    assert yard.undo("t1").status == "reversed"
    assert yard.read("b").decode() == lines("b")


def test_report_mentions_what_was_excepted(yard: Yard) -> None:
    yard.by("s1", "t1").write("a", "1\n")
    yard.write("b", "2\n")
    assert "skipped because of --except: b" in yard.undo("t1", leave=["b"]).notes


def test_only_refuses_a_path_that_the_unit_does_not_have(yard: Yard) -> None:
    yard.by("s1", "t1").write("a", "1\n")
    with pytest.raises(UsageError):
        yard.undo("t1", only=["nothere"])


def test_oops_has_nothing_to_do_when_nothing_is_recorded(yard: Yard) -> None:
    """UNDO-32: it says which."""
    report = yard.oops()
    assert (report.status, report.exit_code) == ("nothing_to_do", 0)
    assert "no agent has changed anything here" in report.headline


def test_undo_has_nothing_to_do_when_the_unit_is_undone(yard: Yard) -> None:
    """UNDO-32: a unit that is taken back already names the op."""
    yard.by("s1", "t1").write("n", "1\n")
    done = yard.oops()
    yard.by("human").write("n", "mine\n")
    report = yard.undo("t1")
    assert report.status == "nothing_to_do"
    assert str(done.op_id) in report.headline
    assert yard.read("n") == b"mine\n"
    yard.start("s9")
    assert "changed nothing" in yard.undo("s9").headline


def test_file_that_came_and_went_is_no_item(yard: Yard) -> None:
    """Nobody misses a file that never was; what stood there before is another matter."""
    yard.by("s1", "t1").write("a", "1\n")
    yard.write("tmp", "x\n")
    yard.move("tmp", "tmp2")
    yard.remove("tmp2")
    yard.remove("b")
    report = yard.oops()
    assert [item.path for item in report.items] == ["a", "b"]
    assert yard.undo("t1").status == "nothing_to_do"


def test_file_that_a_person_removed_is_named(yard: Yard) -> None:
    yard.by("s1", "t1").write("a", "1\n")
    yard.write("n", "x\n")
    yard.by("human").remove("n")
    report = yard.oops()
    assert [(item.path, item.state) for item in report.items] == [
        ("a", "reversed"),
        ("n", "no_effect"),
    ]


def test_oops_goes_past_temporary_files(yard: Yard) -> None:
    """A turn that only made and removed a temporary file bars no way back."""
    yard.by("s1", "t1").write("a", "1\n")
    yard.by("s1", "t2").write("tmp", "x\n")
    yard.remove("tmp")
    report = yard.oops()
    assert yard.read("a").decode() == lines("a")
    assert [item.path for item in report.items] == ["a"]
    assert report.notes[0] == "later changes left nothing to undo"
    again = yard.oops()
    assert (again.status, again.items) == ("nothing_to_do", ())
    assert again.headline.startswith("nothing to undo: the latest changes of b-")
    yard.redo()
    assert yard.read("a") == b"1\n"


def test_oops_stays_with_what_a_person_took_away(yard: Yard) -> None:
    """By hand, or into a stash: an older turn is nobody's wish, but how to have it is said."""
    yard.by("s1", "t1").write("a", "1\n")
    older = str(yard.changes()[0].burst)
    yard.by("s1", "t2").write("b", "2\n")
    yard.by("human").write("b", lines("b"))
    report = yard.oops()
    assert (report.status, yard.read("a")) == ("nothing_to_do", b"1\n")
    assert report.notes == (f"to go back further: git agent-undo undo {older}",)
    assert yard.undo(older).status == "reversed"


def test_oops_goes_no_further_than_what_may_be_theirs(yard: Yard) -> None:
    """A turn whose sure writes came and went has others that a person should see."""
    yard.by("s1", "t1").write("a", "1\n")
    yard.by("s1", "t2").write("tmp", "x\n")
    yard.remove("tmp")
    yard.by("s1", "t2", confidence=Confidence.LOW).write("b", "maybe\n")
    report = yard.oops()
    assert (report.status, report.maybe) == ("nothing_to_do", ("b",))
    assert yard.read("a") == b"1\n"


def test_oops_goes_no_further_than_what_is_in_conflict(yard: Yard) -> None:
    yard.by("s1", "t1").write("a", "1\n")
    yard.by("s1", "t2").write("b", "2\n")
    yard.by("human").write("b", "3\n")
    assert yard.oops().status == "partial"
    assert yard.read("a") == b"1\n"


def test_clock_that_was_set_back_confuses_no_order(yard: Yard) -> None:
    """UNDO-03: what counts is which row came first."""
    yard.by("s1", "t1").write("a", "1\n")
    yard.oops()
    with yard.db.write():
        yard.db.run("UPDATE ops SET ts_ns = ts_ns + 3600000000000")
    yard.by("s1", "t1").write("b", "2\n")
    assert yard.oops().status == "reversed"
    assert yard.read("b").decode() == lines("b")
    yard.redo()
    assert (yard.read("a").decode(), yard.read("b")) == (lines("a"), b"2\n")


def test_restore_gives_a_pin_and_a_moment_back(yard: Yard) -> None:
    """UNDO-33: each state exact; what came later and is not an agent's stays, named."""
    yard.by("human").write("p", "pinned\n", 0o600)
    yard.pin("good")
    good = yard.tree_now()
    moment = yard.clock.now_ns()
    yard.by("s1", "t1").write("a", "agent\n")
    yard.remove("b")
    yard.write("agent/new", "x\n")
    os.chmod(yard.path("p"), 0o644)
    yard.record()
    yard.by("human").write("own", "mine\n")
    edited = yard.tree_now()
    own = {"own": edited["own"]}
    report = yard.restore(pin="good")
    assert yard.tree_now() == good | own
    assert reasons(report)[-1][0] == "p"
    assert ("own", "not_created_by_unit") in reasons(report)
    assert not yard.exists("agent")
    yard.redo()
    assert yard.tree_now() == edited
    yard.restore(at_ns=moment)
    assert yard.tree_now() == good | own
    yard.redo()
    yard.restore("a")
    assert yard.read("a").decode() == lines("a")


def test_restore_takes_one_file_at_a_moment(yard: Yard) -> None:
    moment = yard.clock.now_ns()
    yard.by("human").write("a", "1\n")
    yard.write("b", "2\n")
    yard.restore("a", at_ns=moment)
    assert (yard.read("a").decode(), yard.read("b")) == (lines("a"), b"2\n")


def test_restore_asks_when_no_agent_wrote_a_file(yard: Yard) -> None:
    yard.by("human").write("a", "mine\n")
    with pytest.raises(UsageError, match="no agent has written it"):
        yard.restore("a")


def test_restore_brings_a_missing_file_back_whoever_deleted_it(yard: Yard) -> None:
    """As it was recorded last, also where an agent wrote it before."""
    yard.by("s1", "t1").write("a", "agent\n")
    yard.by("human").remove("a")
    yard.remove("b")
    yard.restore("a")
    yard.restore("b")
    assert (yard.read("a"), yard.read("b").decode()) == (b"agent\n", lines("b"))


def test_restore_brings_back_what_went_with_a_directory(yard: Yard) -> None:
    yard.by("human").write("dir/old", "1\n")
    yard.by("s1", "t1").remove("dir/old")
    yard.by("human").write("dir/x", "2\n")
    yard.write("dir/in/y", "3\n")
    shutil.rmtree(yard.path("dir"))
    yard.record()
    yard.restore("dir")
    assert (yard.read("dir/x"), yard.read("dir/in/y")) == (b"2\n", b"3\n")
    assert not yard.exists("dir/old")


def test_restore_says_that_a_name_was_never_recorded(yard: Yard) -> None:
    with pytest.raises(
        UsageError, match="cannot restore nosuch: it was never recorded"
    ):
        yard.restore("nosuch")


def test_undo_refuses_a_word_that_is_a_file_and_the_beginning_of_an_id(
    yard: Yard,
) -> None:
    """Neither reading is taken in silence."""
    yard.by("claude-code-1", "t1").write("claude", "1\n")
    with pytest.raises(
        UsageError, match="it is a file and also an id of session claude-code-1"
    ):
        yard.undo("claude")
    assert yard.exists("claude")
    assert yard.undo("claude-code-1").status == "reversed"


def test_undo_takes_a_short_word_for_a_file(yard: Yard) -> None:
    """Bursts begin with `b-`: a file named `b` would never be meant."""
    yard.by("s1", "t1").write("b", "1\n")
    assert yard.undo("b").status == "reversed"


def test_undo_says_that_a_session_was_pruned(yard: Yard) -> None:
    with yard.db.write():
        prune.bury(yard.db, "claude-code-7", 1, [])
    with pytest.raises(UsageError, match="session claude-code-7 was pruned"):
        yard.undo("claude-code-7")


def test_undo_leaves_what_is_ambiguous(yard: Yard) -> None:
    """ATT-04: named, with the candidates."""
    yard.by("s2").write("b", "2\n")
    yard.by("s1").write("a", "1\n")
    yard.by("unknown", confidence=Confidence.AMBIGUOUS, candidates=("s1", "s2")).write(
        "x", "?\n"
    )
    report = yard.undo("s1")
    assert reasons(report) == [("a", None), ("x", "ambiguous")]
    assert yard.read("x") == b"?\n"
    assert report.items[1].detail == "could be from s1 or s2"


def test_undo_of_a_turn_takes_its_subagents(yard: Yard) -> None:
    """ATT-15: a child session's part of the turn goes along, in oops too."""
    yard.by("s1", "t1").write("a", "1\n")
    yard.start("s1-child", parent="s1")
    yard.by("s1-child", "t1/x").write("b", "2\n")
    before = yard.tree_now()
    yard.undo("t1")
    assert yard.read("b").decode() == lines("b")
    yard.redo()
    assert yard.tree_now() == before
    yard.oops()
    assert (yard.read("a").decode(), yard.read("b").decode()) == (
        lines("a"),
        lines("b"),
    )


def test_undo_takes_a_file_s_newest_burst(yard: Yard) -> None:
    yard.by("s1", "t1").write("a", "1\n")
    yard.write("b", "1\n")
    yard.by("s1", "t2").write("a", "2\n")
    yard.undo("a")
    assert (yard.read("a"), yard.read("b")) == (b"1\n", b"1\n")
    yard.undo("a")
    assert yard.read("a").decode() == lines("a")
    assert "no agent change to a" in yard.undo("a").headline
    yard.redo()
    assert yard.read("a") == b"1\n"


def test_undo_takes_unique_beginnings_and_refuses_others(yard: Yard) -> None:
    """UX-03: ambiguous with the candidates, unknown with a hint."""
    yard.by("session-one", "turn-1").write("a", "1\n")
    yard.by("session-two", "turn-2").write("b", "2\n")
    with pytest.raises(UsageError, match="matches 2 objects") as found:
        yard.undo("session-")
    assert "session session-one" in str(found.value.hint)
    with pytest.raises(UsageError) as unknown:
        yard.undo("nothing-like-it")
    assert unknown.value.hint is not None
    yard.undo("session-o")
    assert (yard.read("a").decode(), yard.read("b")) == (lines("a"), b"2\n")


def test_undo_takes_ids_as_documents_print_them(yard: Yard) -> None:
    yard.by("s1", "t1", "c1").write("a", "1\n")
    with yard.db.write():
        turns.open_call(yard.db, call("c1"))
    row = yard.changes()[0]
    assert row.burst is not None
    ids = ("c1", "s1:c1", "t1", "s1:t1", "s1", "native-s1", row.burst, str(row.seq))
    for identifier in ids:
        assert yard.undo(identifier).status == "reversed", identifier
        assert yard.read("a").decode() == lines("a")
        yard.redo()
        assert yard.read("a") == b"1\n"


def test_undo_takes_several_targets_at_once(yard: Yard) -> None:
    yard.by("s1", "t1").write("a", "1\n")
    yard.by("s1", "t2").write("b", "2\n")
    yard.by("s1", "t3").write("c", "3\n")
    report = yard.undo("t1", "t3")
    assert (yard.read("a").decode(), yard.read("b")) == (lines("a"), b"2\n")
    assert yard.read("c").decode() == lines("c")
    assert report.target == "t1 t3"
    assert len(ops.list_ops(yard.db)) == 1


def test_oops_names_ignored_writes_and_gaps(yard: Yard) -> None:
    """CAP-05: what is not covered is in the report, nothing else happens to it."""
    yard.by("s1", "t1").write("a", "1\n")
    touch = Touch(
        worktree="main",
        path=RepoPath(b"logs/x"),
        why="ignored",
        ts_ns=yard.clock.now_ns(),
        session="s1",
        turn="t1",
    )
    with yard.db.write():
        state.put_touches(yard.db, [touch])
    yard.recorder.gap("too large", yard.clock.now_ns(), RepoPath(b"big"))
    report = yard.oops()
    assert [(one.what, one.why) for one in report.not_covered] == [
        ("logs/x", "ignored"),
        ("big", "too large"),
    ]
    assert report.status == "reversed"


def test_oops_names_the_commit_of_the_unit(yard: Yard) -> None:
    """UNDO-26: it stays; the file is reversed."""
    yard.by("s1", "t1").write("a", "1\n")
    yard.recorder.record_head(
        "HEAD moved from main (1) to main (2)", yard.claim(), [], yard.clock.now_ns()
    )
    report = yard.oops()
    assert report.status == "reversed"
    assert [one.what for one in report.not_covered] == [
        "commit: HEAD moved from main (1) to main (2)"
    ]


def test_report_survives_the_journal(yard: Yard) -> None:
    yard.by("s1", "t1").write("a", "1\n")
    yard.write("n", "2\n")
    done = yard.oops()
    assert done.op_id is not None
    op = ops.get(yard.db, done.op_id)
    assert op is not None
    assert op.report is not None
    assert decode(FileUndoAnswer, json.loads(op.report)) == done.answer()
    assert (op.status, op.commit) == (OpStatus.DONE, done.commit)


def test_undo_refuses_a_row_that_nobody_wrote(yard: Yard) -> None:
    yard.by("s1").write("a", "1\n")
    baseline = next(row for row in yard.log() if row.kind is EventKind.BASELINE)
    with pytest.raises(UsageError, match="not a file change"):
        yard.undo(str(baseline.seq))


def test_redo_takes_the_undo_that_is_named(yard: Yard) -> None:
    """UNDO-02, UNDO-03: an older one, while the newer stays."""
    yard.by("s1", "t1").write("a", "agent\n")
    yard.by("s1", "t2").write("b", "agent\n")
    newest, older = yard.oops(), yard.oops()
    assert older.op_id is not None
    report = yard.ask(OpKind.REDO, newest.op_id or "")
    assert (report.status, yard.read("b")) == (Status.REVERSED, b"agent\n")
    assert yard.read("a") != b"agent\n"
    with pytest.raises(UsageError, match="not an undo"):
        yard.ask(OpKind.REDO, report.op_id or "")
