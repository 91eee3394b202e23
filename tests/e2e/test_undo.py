"""UNDO: plan, apply, redo and report, by the installed command."""

import os
import re
import time
from collections.abc import Callable

import pytest

from tests.support.claude import Claude
from tests.support.repo import Repo, TreeEntry, ten_lines
from tests.support.reports import actions, items, reasons, states, uncovered
from tests.support.shadow import Document, Shadow

pytestmark = pytest.mark.usefixtures("untouched")

Untouched = Callable[[], None]
Tree = dict[str, tuple[int, bytes]]


def tree_of(repo: Repo) -> Tree:
    """Return bytes and mode of every path, without times."""
    return {
        path: (entry.mode, entry.data) for path, entry in repo.tree_snapshot().items()
    }


def others(repo: Repo, *named: str) -> dict[str, TreeEntry]:
    """Return what V3 speaks of: everything but the paths that a row names."""
    tree = repo.tree_snapshot()
    return {path: entry for path, entry in tree.items() if path not in named}


def text_of(repo: Repo, path: str) -> str:
    return repo.read(path).decode()


def with_line(name: str, number: int, text: str) -> str:
    """Return R's ten lines of a file with one of them replaced."""
    lines = ten_lines(name).splitlines(keepends=True)
    lines[number - 1] = text + "\n"
    return "".join(lines)


def undo(shadow: Shadow, *args: str) -> Document:
    """Run `undo --yes` and return its report, whatever its exit code."""
    return shadow("undo", "--yes", "--json", *args).json()


def redo(shadow: Shadow) -> Document:
    return shadow("redo", "--yes", "--json").json()


def session_id(shadow: Shadow, native: str) -> str:
    rows = shadow.ok("sessions", "--json").rows()
    (found,) = [row["id"] for row in rows if row["native_id"] == native]
    return str(found)


def one_turn(agent: Claude) -> None:
    """Do UNDO-01: edit `a`, delete `b`, create `d` and an empty `e`."""
    agent.prompt("go")
    agent.write("a", with_line("a", 3, "agent"))
    agent.shell("rm b; echo new > d; : > e")
    agent.stop()


@pytest.mark.kinds
@pytest.mark.both_modes
def test_turn_is_taken_back_and_forth(agent: Claude) -> None:
    """UNDO-01, UNDO-02: each state exactly, one command and one op each."""
    shadow, repo = agent.shadow, agent.shadow.repo
    before, kept = tree_of(repo), others(repo, "a", "b", "d", "e")
    one_turn(agent)
    after = tree_of(repo)
    result = shadow("oops", "--yes", "--json")
    report = result.json()
    assert (result.code, report["status"], report["kind"]) == (0, "reversed", "oops")
    assert actions(report) == {
        "a": "write",
        "b": "create",
        "d": "delete",
        "e": "delete",
    }
    assert tree_of(repo) == before
    redone = redo(shadow)
    assert (redone["status"], redone["kind"]) == ("reversed", "redo")
    assert tree_of(repo) == after
    again = shadow.oops()
    assert tree_of(repo) == before
    undone = undo(shadow, str(again["op_id"]))
    assert undone["status"] == "reversed"
    assert tree_of(repo) == after
    ops = shadow.ok("ops", "--json").rows()
    assert [op["op_id"] for op in reversed(ops)] == [
        one["op_id"] for one in (report, redone, again, undone)
    ]
    assert [op["kind"] for op in reversed(ops)] == ["oops", "redo", "oops", "undo"]
    assert [op["undone_by"] for op in reversed(ops)] == [
        redone["op_id"],
        None,
        undone["op_id"],
        None,
    ]
    assert others(repo, "a", "b", "d", "e") == kept


def test_oops_goes_further_back_and_redo_comes_forward(shadow: Shadow) -> None:
    """UNDO-03: v1, v0, v1, v2."""
    repo = shadow.repo
    Claude(shadow, "one").write("a", "v1\n")
    Claude(shadow, "two").write("a", "v2\n")
    seen = []
    for verb in ("oops", "oops", "redo", "redo"):
        report = shadow(verb, "--yes", "--json").json()
        assert (report["status"], report["kind"]) == ("reversed", verb)
        seen.append(text_of(repo, "a"))
    assert seen == ["v1\n", ten_lines("a"), "v1\n", "v2\n"]


def test_human_file_stays_when_it_came_right_after(agent: Claude) -> None:
    """UNDO-04: only `agent.txt`."""
    repo = agent.shadow.repo
    agent.write("agent.txt", "x\n")
    repo.write("human.txt", "y\n")
    kept = others(repo, "agent.txt")
    report = agent.shadow.oops()
    assert (report["status"], actions(report)) == ("reversed", {"agent.txt": "delete"})
    assert not repo.exists("agent.txt")
    assert others(repo) == kept


def test_human_line_stays_when_the_agents_goes(agent: Claude) -> None:
    """UNDO-05: the agent's line at the top is gone, the human's at the bottom stays."""
    repo = agent.shadow.repo
    agent.write("a", "agent\n" + ten_lines("a"))
    repo.append("a", "human\n")
    report = agent.shadow.oops()
    assert (report["status"], actions(report)) == ("reversed", {"a": "merge"})
    assert text_of(repo, "a") == ten_lines("a") + "human\n"


def test_other_sessions_line_stays_when_a_session_is_undone(shadow: Shadow) -> None:
    """UNDO-06: line 1 as before, line 5 S2's."""
    repo = shadow.repo
    Claude(shadow, "one").write("a", with_line("a", 1, "one"))
    both = text_of(repo, "a").replace("a line 5\n", "two\n")
    Claude(shadow, "two").write("a", both)
    report = undo(shadow, session_id(shadow, "one"))
    assert report["status"] == "reversed"
    assert text_of(repo, "a") == with_line("a", 5, "two")


@pytest.fixture
def conflict(agent: Claude) -> Shadow:
    """Return R after an agent and then a human have changed the same line of `a`."""
    agent.write("a", with_line("a", 4, "agent"))
    agent.shadow.repo.write("a", with_line("a", 4, "human"))
    return agent.shadow


def test_conflict_is_left_and_named(conflict: Shadow) -> None:
    """UNDO-07: not a byte changed, reason `conflict`, exit 4."""
    kept = conflict.repo.tree_snapshot()
    result = conflict("oops", "--yes", "--json")
    assert (result.code, result.json()["status"]) == (4, "partial")
    assert reasons(result.json()) == {"a": "conflict"}
    assert conflict.repo.tree_snapshot() == kept


def test_conflict_is_overwritten_when_told_and_redo_brings_it_back(
    conflict: Shadow,
) -> None:
    """UNDO-07: the old line; the human version was recorded first."""
    report = conflict.oops("--on-conflict=overwrite")
    assert report["status"] == "reversed"
    assert text_of(conflict.repo, "a") == ten_lines("a")
    assert redo(conflict)["status"] == "reversed"
    assert text_of(conflict.repo, "a") == with_line("a", 4, "human")


def test_conflict_is_marked_when_told(conflict: Shadow) -> None:
    """UNDO-07: both sides stand there, labelled."""
    conflict.oops("--on-conflict=markers")
    marked = text_of(conflict.repo, "a").splitlines()
    begin = next(at for at, line in enumerate(marked) if line.startswith("<<<<<<< "))
    middle, end = marked.index("======="), len(marked) - 1
    while not marked[end].startswith(">>>>>>> "):
        end -= 1
    sides = {*marked[begin + 1 : middle], *marked[middle + 1 : end]}
    assert {"human", "a line 4"} <= sides
    assert marked[:begin] == ten_lines("a").splitlines()[:3]
    assert marked[end + 1 :] == ten_lines("a").splitlines()[4:]
    assert redo(conflict)["status"] == "reversed"
    assert text_of(conflict.repo, "a") == with_line("a", 4, "human")


@pytest.mark.both_modes
def test_users_own_files_are_not_touched(
    shadow_new: Shadow, untouched: Untouched
) -> None:
    """UNDO-08: dirty, untracked and later files are identical in bytes and mtime."""
    repo = shadow_new.repo
    repo.write("u1", "committed\n")
    repo.git("add", "u1")
    repo.git("commit", "--quiet", "-m", "u1")
    repo.write("u1", "dirty\n")
    repo.write("u2", "untracked\n")
    untouched()
    shadow_new.init()
    agent = Claude(shadow_new)
    agent.write("a", "agent\n")
    repo.write("u3", "later\n")
    kept = others(repo, "a")
    assert shadow_new.oops()["status"] == "reversed"
    assert others(repo, "a") == kept
    assert text_of(repo, "a") == ten_lines("a")


def test_commit_stays_when_what_it_holds_is_undone(
    agent: Claude, untouched: Untouched
) -> None:
    """UNDO-09: the commit is at HEAD, `a` is old and shows as modified."""
    shadow, repo = agent.shadow, agent.shadow.repo
    agent.write("a", "agent\n")
    commit = repo.commit("all")
    untouched()
    assert shadow.oops()["status"] == "reversed"
    assert repo.git("rev-parse", "HEAD") == commit
    assert text_of(repo, "a") == ten_lines("a")
    assert repo.git("status", "--porcelain") == " M a"
    untouched()


def test_session_is_undone_after_commit_amend_and_rebase(
    agent: Claude, untouched: Untouched
) -> None:
    """UNDO-10: `a` as before, HEAD untouched, the report says that HEAD moved."""
    shadow, repo = agent.shadow, agent.shadow.repo
    repo.git("branch", "base")
    agent.write("a", "agent\n")
    repo.commit("all")
    repo.git("commit", "--quiet", "--amend", "-m", "amended")
    repo.git("checkout", "--quiet", "base")
    repo.write("c", "moved\n")
    repo.commit("another base")
    repo.git("checkout", "--quiet", "main")
    repo.git("rebase", "--quiet", "base")
    head = repo.git("rev-parse", "HEAD")
    untouched()
    report = undo(shadow, session_id(shadow, "s1"))
    assert states(report)["a"] == "reversed"
    assert (text_of(repo, "a"), text_of(repo, "c")) == (ten_lines("a"), "moved\n")
    assert repo.git("rev-parse", "HEAD") == head
    assert report["head_moved"]


@pytest.mark.both_modes
def test_report_says_that_a_unit_committed_what_it_wrote(
    shadow: Shadow, untouched: Untouched
) -> None:
    """T10: also where one look found the writes and the commits of them."""
    script = "echo A >>a; git commit -qam one; echo B >>b; git commit -qam two"
    shadow.ok("exec", "--agent", "agent", "--", "sh", "-c", script)
    untouched()
    report = shadow.oops()
    assert states(report) == {"a": "reversed", "b": "reversed"}
    assert report["head_moved"]


def test_switch_is_not_undone(agent: Claude, untouched: Untouched) -> None:
    """UNDO-11: on the other branch no byte changes; back on main it is reversed."""
    shadow, repo = agent.shadow, agent.shadow.repo
    repo.git("checkout", "--quiet", "-b", "other")
    repo.write("a", "other\n")
    repo.commit("other")
    repo.git("checkout", "--quiet", "main")
    agent.write("a", "agent\n")
    repo.commit("agent's")
    shadow.ok("flush")
    repo.git("checkout", "--quiet", "other")
    untouched()
    session = session_id(shadow, "s1")
    kept = repo.tree_snapshot()
    report = undo(shadow, session)
    assert (report["status"], reasons(report)) == ("partial", {"a": "head_moved"})
    assert repo.tree_snapshot() == kept
    repo.git("checkout", "--quiet", "main")
    untouched()
    assert undo(shadow, session)["status"] == "reversed"
    assert text_of(repo, "a") == ten_lines("a")


def test_undo_is_as_if_never_switched_when_head_came_back(
    agent: Claude, untouched: Untouched
) -> None:
    """A person's line, a commit and a checkout within a moment, and later the way back."""
    shadow, repo = agent.shadow, agent.shadow.repo
    repo.git("branch", "old")
    agent.write("a", with_line("a", 2, "agent"))
    mine = with_line("a", 2, "agent").replace("a line 9\n", "mine\n")
    repo.write("a", mine)
    repo.git("commit", "--quiet", "-am", "all")
    repo.git("checkout", "--quiet", "old")
    shadow.ok("flush")
    rows = shadow.ok("log", "--json", "a").rows()
    assert [row.get("files") for row in rows] == [1, None, None]
    repo.git("checkout", "--quiet", "main")
    untouched()
    report = undo(shadow, session_id(shadow, "s1"))
    assert (report["status"], states(report)) == ("reversed", {"a": "reversed"})
    assert text_of(repo, "a") == ten_lines("a").replace("a line 9\n", "mine\n")


def test_directories_that_the_unit_made_go_unless_in_use(agent: Claude) -> None:
    """UNDO-12: the file and the empty new directories go, `x/own.txt` stays."""
    repo = agent.shadow.repo
    agent.write("x/y/z/new.py", "agent\n")
    repo.write("x/own.txt", "human\n")
    assert agent.shadow.oops()["status"] == "reversed"
    assert set(repo.tree_snapshot()) == {"a", "b", "c", "x", "x/own.txt"}
    assert text_of(repo, "x/own.txt") == "human\n"


def test_deletions_come_back(shadow_new: Shadow, untouched: Untouched) -> None:
    """UNDO-13: tracked, untracked and a whole directory, with bytes and mode."""
    repo = shadow_new.repo
    repo.write("t", "tracked\n", 0o640)
    for number in range(6):
        below = "src" if number < 3 else "src/deep/er"
        repo.write(f"{below}/{number}", f"{number}\n", 0o755 if number % 2 else 0o600)
    repo.commit("more")
    untouched()
    repo.write("n", "untracked\n", 0o600)
    before = tree_of(repo)
    shadow_new.init()
    agent = Claude(shadow_new)
    agent.prompt("clean up")
    agent.shell("rm t")
    agent.shell("rm n")
    agent.shell("rm -rf src")
    report = shadow_new.oops()
    assert (report["status"], len(items(report))) == ("reversed", 8)
    assert set(actions(report).values()) == {"create"}
    assert tree_of(repo) == before


def test_burst_that_writes_deletes_and_writes_is_one_item(agent: Claude) -> None:
    """UNDO-14: the content before the burst; `redo`: the last content."""
    shadow, repo = agent.shadow, agent.shadow.repo
    agent.prompt("go")
    agent.write("a", "first\n")
    agent.shell("rm a")
    agent.write("a", "last\n")
    report = shadow.oops()
    assert (report["status"], list(items(report))) == ("reversed", ["a"])
    assert text_of(repo, "a") == ten_lines("a")
    assert redo(shadow)["status"] == "reversed"
    assert text_of(repo, "a") == "last\n"


def test_write_is_undone_at_once(agent: Claude) -> None:
    """UNDO-15: no pause between a write in an open call and `oops`."""
    shadow, repo = agent.shadow, agent.shadow.repo
    agent.prompt("first")
    agent.write("b", "before\n")
    agent.prompt("second")
    agent.pre("Write", {"file_path": str(repo.root / "a")})
    repo.write("a", "agent\n")
    report = shadow.oops()
    assert (report["status"], list(items(report))) == ("reversed", ["a"])
    assert (text_of(repo, "a"), text_of(repo, "b")) == (ten_lines("a"), "before\n")


@pytest.mark.parametrize("same_line", [False, True], ids=["lines", "line"])
def test_interleaved_sessions_are_undone_apart(
    shadow: Shadow, *, same_line: bool
) -> None:
    """UNDO-16: S1's files and lines back, S2's stay; the same line: left + named."""
    repo = shadow.repo
    one, two = Claude(shadow, "one"), Claude(shadow, "two")
    one.write("a", "one\n")
    two.write("b", "two\n")
    text = with_line("c", 1, "one")
    one.write("c", text)
    text = text.replace("c line 5\n", "two\n")
    two.write("c", text)
    text = text.replace("c line 9\n", "one again\n")
    one.write("c", text)
    text = text.replace("one again\n" if same_line else "c line 7\n", "two again\n")
    two.write("c", text)
    report = undo(shadow, session_id(shadow, "one"))
    assert (text_of(repo, "a"), text_of(repo, "b")) == (ten_lines("a"), "two\n")
    if same_line:
        assert (report["status"], reasons(report)) == ("partial", {"c": "conflict"})
        assert text_of(repo, "c") == text
    else:
        assert report["status"] == "reversed"
        expected = with_line("c", 5, "two").replace("c line 7\n", "two again\n")
        assert text_of(repo, "c") == expected


def test_one_call_of_three_is_undone(agent: Claude) -> None:
    """UNDO-17: only its lines; the calls 1 and 3 stay."""
    repo = agent.shadow.repo
    agent.prompt("go")
    text, calls = ten_lines("a"), []
    for number in (1, 5, 9):
        text = text.replace(f"a line {number}\n", f"call {number}\n")
        calls.append(agent.write("a", text))
    report = undo(agent.shadow, calls[1])
    assert report["status"] == "reversed"
    assert text_of(repo, "a") == text.replace("call 5\n", "a line 5\n")


def test_earlier_turn_is_undone_and_the_later_stays(agent: Claude) -> None:
    """UNDO-18: `a` old, `b` only turn 2's change, `c` stays."""
    repo = agent.shadow.repo
    agent.prompt("one")
    first = str(agent.prompt_id)
    agent.write("a", "one\n")
    agent.write("b", with_line("b", 1, "one"))
    agent.prompt("two")
    agent.write("b", text_of(repo, "b").replace("b line 8\n", "two\n"))
    agent.write("c", "two\n")
    report = undo(agent.shadow, first)
    assert report["status"] == "reversed"
    assert text_of(repo, "a") == ten_lines("a")
    assert text_of(repo, "b") == with_line("b", 8, "two")
    assert text_of(repo, "c") == "two\n"


def test_new_turn_begins_a_burst(agent: Claude) -> None:
    """UNDO-19: turn 2 only, with no pause between."""
    repo = agent.shadow.repo
    agent.prompt("one")
    agent.write("a", "one\n")
    agent.prompt("two")
    agent.write("b", "two\n")
    report = agent.shadow.oops()
    assert (report["status"], list(items(report))) == ("reversed", ["b"])
    assert (text_of(repo, "a"), text_of(repo, "b")) == ("one\n", ten_lines("b"))


def test_burst_before_nobodys_writes_is_taken(agent: Claude) -> None:
    """UNDO-20: the newest agent burst; later writes to other files stay, and are not its matter."""
    shadow, repo = agent.shadow, agent.shadow.repo
    agent.write("a", "agent\n")
    repo.write("b", "nobody\n")
    repo.write("n", "nobody\n")
    kept = others(repo, "a")
    plan = shadow.ok("oops", "--dry-run").out
    assert re.search(r"\ba\b", plan)
    assert "later edits" not in plan
    report = shadow.oops()
    assert (report["status"], list(items(report))) == ("reversed", ["a"])
    assert others(repo, "a") == kept


@pytest.mark.parametrize("include_low", [False, True], ids=["oops", "include-low"])
def test_low_write_is_listed_and_taken_when_asked(
    agent: Claude, *, include_low: bool
) -> None:
    """UNDO-21: `x` is listed as "uncertain"; with `--include-low` both go."""
    shadow, repo = agent.shadow, agent.shadow.repo
    agent.prompt("go")
    agent.write("a", "agent\n")
    repo.write("x", "somebody\n")
    (row,) = shadow.log("x")
    assert (row["confidence"], row["turn"]) == ("low", agent.prompt_id)
    report = shadow.oops(*(["--include-low"] if include_low else []))
    assert report["status"] == "reversed"
    assert list(items(report)) == (["a", "x"] if include_low else ["a"])
    assert report["maybe"] == ([] if include_low else ["x"])
    assert text_of(repo, "a") == ten_lines("a")
    assert repo.exists("x") is not include_low


def test_low_write_is_named_in_the_text(agent: Claude) -> None:
    """UNDO-21: "uncertain", and how to take it."""
    agent.prompt("go")
    agent.write("a", "agent\n")
    agent.shadow.repo.write("x", "somebody\n")
    out = agent.shadow.ok("oops", "--yes").out
    assert re.search(r"uncertain.*--include-low.*:\n  x$", out, re.MULTILINE)


def test_ambiguous_write_is_not_promised_to_include_low(shadow: Shadow) -> None:
    """UNDO-21, ATT-04: what may be two sessions' is named, and not taken with `low` ones."""
    one, two = Claude(shadow, "one"), Claude(shadow, "two")
    two.prompt("wait")
    one.prompt("go")
    one.write("a", "agent\n")
    shadow.repo.write("x", "somebody\n")
    (row,) = shadow.log("x")
    assert row["confidence"] == "ambiguous"
    for options in ((), ("--include-low",)):
        out = shadow.ok("oops", "--dry-run", *options).out
        assert "--include-low" not in out
        assert re.search(r"^ambiguous, skipped.*:\n  x$", out, re.MULTILINE)


def test_newest_burst_is_taken_where_no_agent_is_known(shadow: Shadow) -> None:
    """UNDO-22: all five plain writes; the first line says that nobody claimed them."""
    repo = shadow.repo
    before = tree_of(repo)
    for name in ("a", "b", "c", "n", "d/m"):
        repo.write(name, "plain\n")
    result = shadow("oops", "--yes")
    assert result.code == 0
    assert "no agent reported these changes" in result.out.splitlines()[0]
    assert tree_of(repo) == before


def test_human_line_moves_back_with_a_rename(agent: Claude) -> None:
    """UNDO-23: `a` with the human's line; `d` gone."""
    repo = agent.shadow.repo
    agent.shell("mv a d")
    repo.append("d", "human\n")
    report = agent.shadow.oops()
    assert report["status"] == "reversed"
    assert text_of(repo, "a") == ten_lines("a") + "human\n"
    assert not repo.exists("d")


def test_created_file_that_a_human_has_rewritten_is_not_deleted(agent: Claude) -> None:
    """UNDO-24: left + named (LAW-03)."""
    shadow, repo = agent.shadow, agent.shadow.repo
    agent.write("n", "agent\n")
    repo.write("n", "all of it is mine\n")
    kept = repo.tree_snapshot()
    result = shadow("oops", "--yes", "--json")
    assert (result.code, result.json()["status"]) == (4, "partial")
    assert list(reasons(result.json())) == ["n"]
    assert repo.tree_snapshot() == kept


def test_uncommitted_bytes_come_back_after_a_checkout(
    agent: Claude, untouched: Untouched
) -> None:
    """UNDO-25: `git checkout -- a` over a human's uncommitted work."""
    shadow, repo = agent.shadow, agent.shadow.repo
    repo.write("a", "mine, uncommitted\n")
    call = agent.shell("git checkout -- a")
    untouched()
    assert text_of(repo, "a") == ten_lines("a")
    assert undo(shadow, call)["status"] == "reversed"
    assert text_of(repo, "a") == "mine, uncommitted\n"


def test_agents_commit_stays_and_is_named(agent: Claude, untouched: Untouched) -> None:
    """UNDO-26: the file is reversed, exit 0; the commit is in `not_covered`."""
    shadow, repo = agent.shadow, agent.shadow.repo
    agent.prompt("go")
    agent.write("a", "agent\n")
    agent.shell("git commit -qam x")
    head = repo.git("rev-parse", "HEAD")
    untouched()
    result = shadow("oops", "--yes", "--json")
    assert (result.code, result.json()["status"]) == (0, "reversed")
    assert text_of(repo, "a") == ten_lines("a")
    assert repo.git("rev-parse", "HEAD") == head
    named = " ".join(uncovered(result.json()))
    assert "commit" in named


def plan_and_run(shadow: Shadow) -> None:
    """Check that a dry run changes nothing and plans what the real run then does."""
    repo = shadow.repo
    shadow.ok("flush")
    disk, refs = repo.tree_snapshot(), repo.shadow_refs()
    plan = shadow.ok("oops", "--dry-run", "--json").json()
    assert plan["status"] == "planned"
    assert (plan["op_id"], plan["commit"]) == (None, None)
    assert (repo.tree_snapshot(), repo.shadow_refs()) == (disk, refs)
    report = shadow.oops()
    assert report["items"] == plan["items"]
    assert report["token"] == plan["token"]


def test_dry_run_plans_what_is_done_for_a_turn(agent: Claude) -> None:
    """UNDO-27: the state of UNDO-01."""
    one_turn(agent)
    plan_and_run(agent.shadow)


def test_dry_run_plans_what_is_done_for_a_conflict(agent: Claude) -> None:
    """UNDO-27: the state of UNDO-07, with a file beside it that can be reversed."""
    agent.prompt("go")
    agent.write("a", with_line("a", 4, "agent"))
    agent.write("b", "agent\n")
    agent.shadow.repo.write("a", with_line("a", 4, "human"))
    plan_and_run(agent.shadow)


def test_dry_run_plans_what_is_done_for_links(shadow_new: Shadow) -> None:
    """UNDO-27: the state of FID-03."""
    repo = shadow_new.repo
    outside = repo.root.parent / "outside"
    outside.mkdir()
    (outside / "one").write_text("theirs\n")
    repo.symlink("l", "a")
    repo.write("d/one", "1\n")
    repo.write("d/two", "2\n")
    shadow_new.init()
    Claude(shadow_new).shell(f"ln -sfn b l; rm -r d; ln -s '{outside}' d")
    plan_and_run(shadow_new)
    assert repo.readlink("l") == b"a"
    assert (repo.read("d/one"), repo.read("d/two")) == (b"1\n", b"2\n")
    assert (outside / "one").read_text() == "theirs\n"


@pytest.mark.both_modes
def test_token_refuses_when_the_world_has_moved(agent: Claude) -> None:
    """UNDO-28: exit 5, nothing changed, says what moved."""
    shadow, repo = agent.shadow, agent.shadow.repo
    agent.write("a", "agent\n")
    token = str(shadow.ok("oops", "--dry-run", "--json").json()["token"])
    repo.append("a", "human\n")
    kept = repo.tree_snapshot()
    result = shadow("oops", "--yes", "--token", token)
    assert result.code == 5
    assert re.search(r"\ba\b", result.err + result.out)
    assert "Traceback" not in result.err
    assert repo.tree_snapshot() == kept
    assert shadow.ok("ops", "--json").rows() == []
    fresh = str(shadow.ok("oops", "--dry-run", "--json").json()["token"])
    assert fresh != token
    assert shadow.ok("oops", "--token", fresh, "--json").json()["status"] == "reversed"
    assert text_of(repo, "a") == ten_lines("a") + "human\n"


@pytest.mark.both_modes
def test_writes_during_an_apply_are_recorded(agent: Claude) -> None:
    """UNDO-29: a human's and an agent's write while it runs; neither is swallowed."""
    shadow, repo = agent.shadow, agent.shadow.repo
    agent.prompt("go")
    agent.shell("for i in $(seq 600); do echo x > f$i; done; echo agent > zz")
    shadow.ok("flush")
    repo.write("zz", "agent\n")
    with shadow.spawn("oops", "--yes", "--json") as undoing:
        while undoing.poll() is None and repo.exists("f1"):
            time.sleep(0.001)
        repo.write("a", "human\n")
        repo.write("new", "agent or not\n")
        undoing.communicate()
    rows = {row["path"]: row for row in shadow.log("a", "new")}
    assert {path: row["kind"] for path, row in rows.items()} == {
        "a": "modify",
        "new": "create",
    }
    assert (text_of(repo, "a"), text_of(repo, "new")) == ("human\n", "agent or not\n")


@pytest.mark.both_modes
def test_file_that_cannot_be_replaced_is_named(agent: Claude) -> None:
    """UNDO-30: two `reversed`, one `not_reversed` with the system's reason; exit 4."""
    shadow, repo = agent.shadow, agent.shadow.repo
    repo.write("d/in", "old\n")
    shadow.ok("flush")
    agent.prompt("go")
    agent.shell("echo agent > a; echo agent > b; rm -r d; echo agent > d")
    repo.delete("d")
    repo.mkdir("d/in/the/way")
    repo.write("d/in/the/way/mine", "human\n")
    result = shadow("oops", "--yes", "--json")
    report = result.json()
    assert (result.code, report["status"]) == (4, "partial")
    assert {path: states(report)[path] for path in ("a", "b")} == {
        "a": "reversed",
        "b": "reversed",
    }
    assert "d/in" in reasons(report)
    assert text_of(repo, "d/in/the/way/mine") == "human\n"


def test_only_takes_one_path_of_a_turn(agent: Claude) -> None:
    """UNDO-31: `b` old, `a` stays; `redo` brings `b` forward."""
    shadow, repo = agent.shadow, agent.shadow.repo
    agent.prompt("go")
    agent.write("a", "agent\n")
    agent.write("b", "agent\n")
    report = undo(shadow, str(agent.prompt_id), "--only", "b")
    assert (report["status"], list(items(report))) == ("reversed", ["b"])
    assert (text_of(repo, "a"), text_of(repo, "b")) == ("agent\n", ten_lines("b"))
    assert redo(shadow)["status"] == "reversed"
    assert (text_of(repo, "a"), text_of(repo, "b")) == ("agent\n", "agent\n")


def test_nothing_to_do_says_which(agent: Claude) -> None:
    """UNDO-32: nothing recorded, a session without writes, a unit already undone."""
    shadow, repo = agent.shadow, agent.shadow.repo
    kept = repo.tree_snapshot()
    nothing = shadow("oops", "--yes", "--json")
    agent.prompt("idle")
    agent.stop()
    idle = shadow("undo", "--yes", "--json", session_id(shadow, "s1"))
    assert repo.tree_snapshot() == kept
    agent.prompt("go")
    agent.write("a", "agent\n")
    turn = str(agent.prompt_id)
    assert undo(shadow, turn)["status"] == "reversed"
    again = shadow("undo", "--yes", "--json", turn)
    further = shadow("oops", "--yes", "--json")
    said = []
    for result in (nothing, idle, again, further):
        assert (result.code, result.json()["status"]) == (0, "nothing_to_do"), result
        said.append(str(result.json()["headline"]))
    assert all(said), said
    assert len(set(said)) == len(said), said
    assert text_of(repo, "a") == ten_lines("a")


def test_pin_time_and_file_are_restored(agent: Claude) -> None:
    """UNDO-33: each state exact; the present recorded first; later files stay, named."""
    shadow, repo = agent.shadow, agent.shadow.repo
    repo.write("a", "good\n")
    shadow.ok("pin", "good")
    good = tree_of(repo)
    agent.prompt("go")
    agent.write("a", "agent\n")
    agent.write("made", "agent\n")
    agent.shell("rm b")
    repo.write("c", "human\n")
    repo.write("mine", "human\n")
    repo.delete("mine")
    repo.write("mine", "human, later\n")
    bad = tree_of(repo)
    shadow.ok("flush")
    at = max(str(row["ts"]) for row in shadow.log())
    report = shadow("restore", "--pin", "good", "--yes", "--json").json()
    assert list(reasons(report)) == ["mine"]
    mine = {"mine": bad["mine"]}
    assert tree_of(repo) == good | mine
    assert redo(shadow)["status"] == "reversed"
    assert tree_of(repo) == bad
    shadow("restore", "--pin", "good", "--yes")
    assert tree_of(repo) == good | mine
    report = shadow("restore", "--at", at, "--yes", "--json").json()
    assert report["status"] == "reversed"
    assert tree_of(repo) == bad
    assert shadow("restore", "a", "--yes").code == 0
    assert text_of(repo, "a") == "good\n"


def test_session_is_undone_and_the_users_own_state_stays(
    shadow_new: Shadow, untouched: Untouched
) -> None:
    """UNDO-34: the agent's three changes are gone, all else is identical."""
    repo = shadow_new.repo
    repo.write(".gitignore", "*.log\n")
    for name in ("a.py", "b.py", "both.py", "staged.py"):
        repo.write(name, ten_lines(name))
    repo.commit("more")
    repo.write("staged.py", "stashed\n")
    repo.git("stash", "--quiet")
    repo.write("staged.py", "staged\n")
    repo.git("add", "staged.py")
    repo.write("untracked", "mine\n")
    repo.write("x.log", "ignored\n")
    os.utime(repo.path("c"), ns=(1_000_000_000, 1_000_000_000))
    untouched()
    shadow_new.init()
    agent = Claude(shadow_new)
    agent.write("a.py", "agent\n")
    agent.write("both.py", with_line("both.py", 1, "agent"))
    agent.write("agent_new.py", "agent\n")
    repo.append("both.py", "mine\n")
    repo.write("b.py", "mine\n")
    repo.git("commit", "--quiet", "-m", "b", "b.py")
    repo.write("user_new.txt", "mine\n")
    repo.append(".gitignore", "data/\n")
    repo.write("data/1", "one\n")
    repo.write("data/2", "two\n")
    untouched()
    kept = others(repo, "a.py", "both.py", "agent_new.py")
    report = undo(shadow_new, session_id(shadow_new, "s1"))
    assert report["status"] == "reversed"
    assert others(repo, "a.py", "both.py") == kept
    assert text_of(repo, "a.py") == ten_lines("a.py")
    assert text_of(repo, "both.py") == ten_lines("both.py") + "mine\n"
    assert repo.git("stash", "list") != ""
    assert repo.git("diff", "--cached", "--name-only") == "staged.py"
