"""UNDO: plan, apply, redo and report, by the installed command."""

import os
import re
import time
from collections.abc import Callable

import pytest

from tests.support.claude import Claude
from tests.support.repo import Repo, TreeEntry, ten_lines
from tests.support.reports import actions, items, states, uncovered
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


def undo(shadow: Shadow, *args: str) -> Document:
    """Run `undo --yes` and return its report, whatever its exit code."""
    return shadow("undo", "--yes", "--json", *args).json()


def redo(shadow: Shadow) -> Document:
    return shadow("redo", "--yes", "--json").json()


def one_turn(agent: Claude) -> None:
    """Do UNDO-01: edit `a`, delete `b`, create `d` and an empty `e`."""
    agent.prompt("go")
    agent.write("a", ten_lines("a", line_3="agent"))
    agent.shell("rm b; echo new > d; : > e")
    agent.stop()


@pytest.mark.kinds
@pytest.mark.both_modes
@pytest.mark.sampled
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
    report = undo(shadow, "s1")
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
    """UNDO-09, UNDO-26: the file is reversed, exit 0; the commit is in `not_covered`."""
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
    assert repo.git("status", "--porcelain") == " M a"
    named = " ".join(uncovered(result.json()))
    assert "commit" in named


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
def test_session_is_undone_and_the_users_own_state_stays(
    shadow_new: Shadow, untouched: Untouched
) -> None:
    """UNDO-08, UNDO-34: the agent's three changes are gone, all else is identical."""
    repo = shadow_new.repo
    repo.write(".gitignore", "*.log\n")
    for name in ("a.py", "b.py", "both.py", "dirty.py", "staged.py"):
        repo.write(name, ten_lines(name))
    repo.commit("more")
    repo.write("staged.py", "stashed\n")
    repo.git("stash", "--quiet")
    repo.write("staged.py", "staged\n")
    repo.git("add", "staged.py")
    repo.write("dirty.py", "mine\n")
    repo.write("untracked", "mine\n")
    repo.write("x.log", "ignored\n")
    os.utime(repo.path("c"), ns=(1_000_000_000, 1_000_000_000))
    untouched()
    shadow_new.init()
    agent = Claude(shadow_new)
    agent.write("a.py", "agent\n")
    agent.write("both.py", ten_lines("both.py", line_1="agent"))
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
    report = undo(shadow_new, "s1")
    assert report["status"] == "reversed"
    assert others(repo, "a.py", "both.py") == kept
    assert text_of(repo, "a.py") == ten_lines("a.py")
    assert text_of(repo, "both.py") == ten_lines("both.py") + "mine\n"
    assert repo.git("stash", "list") != ""
    assert repo.git("diff", "--cached", "--name-only") == "staged.py"
