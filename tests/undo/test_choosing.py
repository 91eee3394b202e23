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
from gitshadow.store.journal import ops, prune, state
from gitshadow.undo.report import Status
from tests.support.engine import Engine
from tests.support.repo import ten_lines
from tests.undo.words import reasons


def test_undo_takes_chosen_paths_and_redo_brings_them_back(engine: Engine) -> None:
    """UNDO-31: `b` old, `a` stays; the rest can still be undone."""
    engine.by("s1", "t1").write("a", "1\n")
    engine.write("b", "2\n")
    engine.undo("t1", only=["b"])
    assert (engine.read("a"), engine.read("b").decode()) == (b"1\n", ten_lines("b"))
    engine.redo()
    assert engine.read("b") == b"2\n"
    engine.undo("t1", leave=["b"])
    assert (engine.read("a").decode(), engine.read("b")) == (ten_lines("a"), b"2\n")
    assert engine.undo("t1").status == "reversed"
    assert engine.read("b").decode() == ten_lines("b")


def test_report_mentions_what_was_excepted(engine: Engine) -> None:
    engine.by("s1", "t1").write("a", "1\n")
    engine.write("b", "2\n")
    assert "skipped because of --except: b" in engine.undo("t1", leave=["b"]).notes


def test_only_refuses_a_path_that_the_unit_does_not_have(engine: Engine) -> None:
    engine.by("s1", "t1").write("a", "1\n")
    with pytest.raises(UsageError):
        engine.undo("t1", only=["nothere"])


def test_oops_has_nothing_to_do_when_nothing_is_recorded(engine: Engine) -> None:
    """UNDO-32: it says which."""
    report = engine.oops()
    assert (report.status, report.exit_code) == ("nothing_to_do", 0)
    assert "no agent has changed anything here" in report.headline


def test_undo_has_nothing_to_do_when_the_unit_is_undone(engine: Engine) -> None:
    """UNDO-32: a unit that is taken back already names the op."""
    engine.by("s1", "t1").write("n", "1\n")
    done = engine.oops()
    engine.by("human").write("n", "mine\n")
    report = engine.undo("t1")
    assert report.status == "nothing_to_do"
    assert str(done.op_id) in report.headline
    assert engine.read("n") == b"mine\n"
    engine.start("s9")
    assert "changed nothing" in engine.undo("s9").headline


def test_file_that_came_and_went_is_no_item(engine: Engine) -> None:
    """Nobody misses a file that never was; what stood there before is another matter."""
    engine.by("s1", "t1").write("a", "1\n")
    engine.write("tmp", "x\n")
    engine.move("tmp", "tmp2")
    engine.remove("tmp2")
    engine.remove("b")
    report = engine.oops()
    assert [item.path for item in report.items] == ["a", "b"]
    assert engine.undo("t1").status == "nothing_to_do"


def test_file_that_a_person_removed_is_named(engine: Engine) -> None:
    engine.by("s1", "t1").write("a", "1\n")
    engine.write("n", "x\n")
    engine.by("human").remove("n")
    report = engine.oops()
    assert [(item.path, item.state) for item in report.items] == [
        ("a", "reversed"),
        ("n", "no_effect"),
    ]


def test_oops_goes_past_temporary_files(engine: Engine) -> None:
    """A turn that only made and removed a temporary file bars no way back."""
    engine.by("s1", "t1").write("a", "1\n")
    engine.by("s1", "t2").write("tmp", "x\n")
    engine.remove("tmp")
    report = engine.oops()
    assert engine.read("a").decode() == ten_lines("a")
    assert [item.path for item in report.items] == ["a"]
    assert report.notes[0] == "later changes left nothing to undo"
    again = engine.oops()
    assert (again.status, again.items) == ("nothing_to_do", ())
    assert again.headline.startswith("nothing to undo: the latest changes of b-")
    engine.redo()
    assert engine.read("a") == b"1\n"


def test_oops_stays_with_what_a_person_took_away(engine: Engine) -> None:
    """By hand, or into a stash: an older turn is nobody's wish, but how to have it is said."""
    engine.by("s1", "t1").write("a", "1\n")
    older = str(engine.changes()[0].burst)
    engine.by("s1", "t2").write("b", "2\n")
    engine.by("human").write("b", ten_lines("b"))
    report = engine.oops()
    assert (report.status, engine.read("a")) == ("nothing_to_do", b"1\n")
    assert report.notes == (f"to go back further: git agent-undo undo {older}",)
    assert engine.undo(older).status == "reversed"


def test_oops_goes_no_further_than_what_may_be_theirs(engine: Engine) -> None:
    """A turn whose sure writes came and went has others that a person should see."""
    engine.by("s1", "t1").write("a", "1\n")
    engine.by("s1", "t2").write("tmp", "x\n")
    engine.remove("tmp")
    engine.by("s1", "t2", confidence=Confidence.LOW).write("b", "maybe\n")
    report = engine.oops()
    assert (report.status, report.maybe) == ("nothing_to_do", ("b",))
    assert engine.read("a") == b"1\n"


def test_oops_goes_no_further_than_what_is_in_conflict(engine: Engine) -> None:
    engine.by("s1", "t1").write("a", "1\n")
    engine.by("s1", "t2").write("b", "2\n")
    engine.by("human").write("b", "3\n")
    assert engine.oops().status == "partial"
    assert engine.read("a") == b"1\n"


def test_oops_does_not_call_undone_what_the_one_before_skipped(engine: Engine) -> None:
    engine.by("s1", "t1").write("a", "1\n")
    engine.write("b", "2\n")
    engine.by("human").write("b", "3\n")
    assert engine.oops().status == "partial"
    assert engine.oops().headline.endswith("is already undone or was skipped")


def test_clock_that_was_set_back_confuses_no_order(engine: Engine) -> None:
    """UNDO-03: what counts is which row came first."""
    engine.by("s1", "t1").write("a", "1\n")
    engine.oops()
    with engine.db.write():
        engine.db.run("UPDATE ops SET ts_ns = ts_ns + 3600000000000")
    engine.by("s1", "t1").write("b", "2\n")
    assert engine.oops().status == "reversed"
    assert engine.read("b").decode() == ten_lines("b")
    engine.redo()
    assert (engine.read("a").decode(), engine.read("b")) == (ten_lines("a"), b"2\n")


def test_restore_gives_a_pin_and_a_moment_back(engine: Engine) -> None:
    """UNDO-33: each state exact; what came later and is not an agent's stays, named."""
    engine.by("human").write("p", "pinned\n", 0o600)
    engine.pin("good")
    good = engine.tree_now()
    moment = engine.clock.now_ns()
    engine.by("s1", "t1").write("a", "agent\n")
    engine.remove("b")
    engine.write("agent/new", "x\n")
    os.chmod(engine.path("p"), 0o644)
    engine.record()
    engine.by("human").write("own", "mine\n")
    edited = engine.tree_now()
    own = {"own": edited["own"]}
    report = engine.restore(pin="good")
    assert engine.tree_now() == good | own
    assert reasons(report)[-1][0] == "p"
    assert ("own", "not_created_by_unit") in reasons(report)
    assert not engine.exists("agent")
    engine.redo()
    assert engine.tree_now() == edited
    engine.restore(at_ns=moment)
    assert engine.tree_now() == good | own
    engine.redo()
    engine.restore("a")
    assert engine.read("a").decode() == ten_lines("a")


def test_restore_takes_one_file_at_a_moment(engine: Engine) -> None:
    moment = engine.clock.now_ns()
    engine.by("human").write("a", "1\n")
    engine.write("b", "2\n")
    engine.restore("a", at_ns=moment)
    assert (engine.read("a").decode(), engine.read("b")) == (ten_lines("a"), b"2\n")


def test_restore_asks_when_no_agent_wrote_a_file(engine: Engine) -> None:
    engine.by("human").write("a", "mine\n")
    with pytest.raises(UsageError, match="no agent has written it"):
        engine.restore("a")


def test_restore_brings_a_missing_file_back_whoever_deleted_it(engine: Engine) -> None:
    """As it was recorded last, also where an agent wrote it before."""
    engine.by("s1", "t1").write("a", "agent\n")
    engine.by("human").remove("a")
    engine.remove("b")
    engine.restore("a")
    engine.restore("b")
    assert (engine.read("a"), engine.read("b").decode()) == (b"agent\n", ten_lines("b"))


def test_restore_brings_back_what_went_with_a_directory(engine: Engine) -> None:
    engine.by("human").write("dir/old", "1\n")
    engine.by("s1", "t1").remove("dir/old")
    engine.by("human").write("dir/x", "2\n")
    engine.write("dir/in/y", "3\n")
    shutil.rmtree(engine.path("dir"))
    engine.record()
    engine.restore("dir")
    assert (engine.read("dir/x"), engine.read("dir/in/y")) == (b"2\n", b"3\n")
    assert not engine.exists("dir/old")


def test_restore_says_that_a_name_was_never_recorded(engine: Engine) -> None:
    with pytest.raises(
        UsageError, match="cannot restore nosuch: it was never recorded"
    ):
        engine.restore("nosuch")


def test_undo_refuses_a_word_that_is_a_file_and_the_beginning_of_an_id(
    engine: Engine,
) -> None:
    """Neither reading is taken in silence."""
    engine.by("claude-code-1", "t1").write("claude", "1\n")
    with pytest.raises(
        UsageError, match="it is a file and also an id of session claude-code-1"
    ):
        engine.undo("claude")
    assert engine.exists("claude")
    assert engine.undo("claude-code-1").status == "reversed"


def test_undo_takes_a_short_word_for_a_file(engine: Engine) -> None:
    """Bursts begin with `b-`: a file named `b` would never be meant."""
    engine.by("s1", "t1").write("b", "1\n")
    assert engine.undo("b").status == "reversed"


def test_undo_says_that_a_session_was_pruned(engine: Engine) -> None:
    with engine.db.write():
        prune.bury(engine.db, "claude-code-7", 1, [])
    with pytest.raises(UsageError, match="session claude-code-7 was pruned"):
        engine.undo("claude-code-7")


def test_undo_leaves_what_is_ambiguous(engine: Engine) -> None:
    """ATT-04: named, with the candidates."""
    engine.by("s2").write("b", "2\n")
    engine.by("s1").write("a", "1\n")
    engine.by(
        "unknown", confidence=Confidence.AMBIGUOUS, candidates=("s1", "s2")
    ).write("x", "?\n")
    report = engine.undo("s1")
    assert reasons(report) == [("a", None), ("x", "ambiguous")]
    assert engine.read("x") == b"?\n"
    assert report.items[1].detail == "could be from s1 or s2"


def test_undo_of_a_turn_takes_its_subagents(engine: Engine) -> None:
    """ATT-15: a child session's part of the turn goes along, in oops too."""
    engine.by("s1", "t1").write("a", "1\n")
    engine.start("s1-child", parent="s1")
    engine.by("s1-child", "t1/x").write("b", "2\n")
    before = engine.tree_now()
    engine.undo("t1")
    assert engine.read("b").decode() == ten_lines("b")
    engine.redo()
    assert engine.tree_now() == before
    engine.oops()
    assert (engine.read("a").decode(), engine.read("b").decode()) == (
        ten_lines("a"),
        ten_lines("b"),
    )


def test_oops_of_a_subagents_work_names_what_its_parent_left(engine: Engine) -> None:
    """The turn is the parent's, which itself changed nothing that is recorded for sure."""
    engine.by("s1", "t1")
    touch = Touch(
        worktree="main",
        path=RepoPath(b"logs/x"),
        why="ignored",
        ts_ns=engine.clock.now_ns(),
        session="s1",
        turn="t1",
    )
    with engine.db.write():
        state.put_touches(engine.db, [touch])
    engine.by(
        "unknown", confidence=Confidence.AMBIGUOUS, candidates=("s1", "s2")
    ).write("x", "?\n")
    engine.start("s1-child", parent="s1")
    engine.by("s1-child", "t1/x").write("b", "2\n")
    report = engine.oops()
    assert [(one.what, one.why) for one in report.not_covered] == [
        ("logs/x", "ignored")
    ]
    assert report.maybe == ("x",)


def test_undo_takes_a_file_s_newest_burst(engine: Engine) -> None:
    engine.by("s1", "t1").write("a", "1\n")
    engine.write("b", "1\n")
    engine.by("s1", "t2").write("a", "2\n")
    engine.undo("a")
    assert (engine.read("a"), engine.read("b")) == (b"1\n", b"1\n")
    engine.undo("a")
    assert engine.read("a").decode() == ten_lines("a")
    assert "no agent change to a" in engine.undo("a").headline
    engine.redo()
    assert engine.read("a") == b"1\n"


def test_undo_takes_unique_beginnings_and_refuses_others(engine: Engine) -> None:
    """UX-03: ambiguous with the candidates, unknown with a hint."""
    engine.by("session-one", "turn-1").write("a", "1\n")
    engine.by("session-two", "turn-2").write("b", "2\n")
    with pytest.raises(UsageError, match="matches 2 objects") as found:
        engine.undo("session-")
    assert "session session-one" in str(found.value.hint)
    assert "session session-two" in str(found.value.hint)
    with pytest.raises(UsageError) as unknown:
        engine.undo("nothing-like-it")
    assert unknown.value.hint is not None
    engine.undo("session-o")
    assert (engine.read("a").decode(), engine.read("b")) == (ten_lines("a"), b"2\n")


def test_undo_takes_ids_as_documents_print_them(engine: Engine) -> None:
    engine.by("s1", "t1", "c1").write("a", "1\n")
    row = engine.changes()[0]
    assert row.burst is not None
    ids = ("c1", "s1:c1", "t1", "s1:t1", "s1", "native-s1", row.burst, str(row.seq))
    for identifier in ids:
        assert engine.undo(identifier).status == "reversed", identifier
        assert engine.read("a").decode() == ten_lines("a")
        engine.redo()
        assert engine.read("a") == b"1\n"


def test_undo_takes_several_targets_at_once(engine: Engine) -> None:
    """UNDO-17, UNDO-18: a turn, a call and a file; one op, one `redo`."""
    engine.by("s1", "t1").write("a", "1\n")
    engine.by("s1", "t2").write("b", "2\n")
    engine.by("s1", "t3", "c3").write("c", "3\n")
    engine.by("s1", "t3").write("new", "4\n")
    before = engine.tree_now()
    report = engine.undo("t1", "c3", "new")
    assert (engine.read("a").decode(), engine.read("b")) == (ten_lines("a"), b"2\n")
    assert engine.read("c").decode() == ten_lines("c")
    assert not engine.exists("new")
    assert report.target == "t1 c3 new"
    engine.redo()
    assert engine.tree_now() == before
    assert len(ops.list_ops(engine.db)) == 2


def test_oops_names_ignored_writes_and_gaps(engine: Engine) -> None:
    """CAP-05: what is not covered is in the report, nothing else happens to it."""
    engine.by("s1", "t1").write("a", "1\n")
    touch = Touch(
        worktree="main",
        path=RepoPath(b"logs/x"),
        why="ignored",
        ts_ns=engine.clock.now_ns(),
        session="s1",
        turn="t1",
    )
    with engine.db.write():
        state.put_touches(engine.db, [touch])
    engine.recorder.gap("too large", engine.clock.now_ns(), RepoPath(b"big"))
    report = engine.oops()
    assert [(one.what, one.why) for one in report.not_covered] == [
        ("logs/x", "ignored"),
        ("big", "too large"),
    ]
    assert report.status == "reversed"


def test_oops_names_the_commit_of_the_unit(engine: Engine) -> None:
    """UNDO-26: it stays; the file is reversed."""
    engine.by("s1", "t1").write("a", "1\n")
    who = engine.changes()[0].attribution
    moved = "HEAD moved from main (1) to main (2)"
    engine.recorder.record_head(moved, who, [], engine.clock.now_ns())
    report = engine.oops()
    assert report.status == "reversed"
    assert [one.what for one in report.not_covered] == [
        "commit: HEAD moved from main (1) to main (2)"
    ]


def test_report_survives_the_journal(engine: Engine) -> None:
    engine.by("s1", "t1").write("a", "1\n")
    engine.write("n", "2\n")
    done = engine.oops()
    assert done.op_id is not None
    op = ops.get(engine.db, done.op_id)
    assert op is not None
    assert op.report is not None
    assert decode(FileUndoAnswer, json.loads(op.report)) == done.answer()
    assert (op.status, op.commit) == (OpStatus.DONE, done.commit)


def test_undo_refuses_a_row_that_nobody_wrote(engine: Engine) -> None:
    engine.by("s1").write("a", "1\n")
    baseline = next(row for row in engine.log() if row.kind is EventKind.BASELINE)
    with pytest.raises(UsageError, match="not a file change"):
        engine.undo(str(baseline.seq))


def test_redo_takes_the_undo_that_is_named(engine: Engine) -> None:
    """UNDO-02, UNDO-03: an older one, while the newer stays."""
    engine.by("s1", "t1").write("a", "agent\n")
    engine.by("s1", "t2").write("b", "agent\n")
    newest, older = engine.oops(), engine.oops()
    assert older.op_id is not None
    report = engine.ask(OpKind.REDO, newest.op_id or "")
    assert (report.status, engine.read("b")) == (Status.REVERSED, b"agent\n")
    assert engine.read("a") != b"agent\n"
    with pytest.raises(UsageError, match="not an undo"):
        engine.ask(OpKind.REDO, report.op_id or "")
