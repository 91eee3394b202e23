"""UNDO and UX, beside the rows: targets, moments, what was interrupted, stashes."""

import re
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from gitshadow.model import Op, OpKind, OpStatus
from gitshadow.store.journal import ops
from gitshadow.store.journal.db import Db
from tests.support.claude import Claude
from tests.support.repo import Repo, ten_lines
from tests.support.reports import actions
from tests.support.shadow import Document, Shadow

pytestmark = pytest.mark.usefixtures("untouched")

Untouched = Callable[[], None]


def text_of(repo: Repo, path: str) -> str:
    return repo.read(path).decode()


def undo(shadow: Shadow, *args: str) -> Document:
    return shadow("undo", "--yes", "--json", *args).json()


def now() -> str:
    return datetime.now(UTC).isoformat()


def work_in_directories(agent: Claude) -> str:
    """Write into three directories in one turn; return the turn."""
    agent.prompt("go")
    for path in ("src/one", "src/deep/two", "src/keep", "docs/three"):
        agent.write(path, "agent\n")
    agent.stop()
    return str(agent.prompt_id)


def test_only_and_except_take_directories(agent: Claude) -> None:
    """UNDO-31: a directory means what is in it, `--except` comes before `--only`."""
    shadow, repo = agent.shadow, agent.shadow.repo
    turn = work_in_directories(agent)
    report = undo(shadow, turn, "--only", "src", "--except", "src/keep")
    assert sorted(actions(report)) == ["src/deep/two", "src/one"]
    assert report["status"] == "reversed"
    assert not (repo.root / "src" / "deep").exists()
    assert text_of(repo, "src/keep") == text_of(repo, "docs/three") == "agent\n"
    report = undo(shadow, turn, "--except", "docs")
    assert [path for path, how in actions(report).items() if how != "none"] == [
        "src/keep"
    ]
    result = shadow("undo", turn, "--yes", "--only", "nowhere")
    assert result.code == 2
    assert "none of its paths is selected" in result.err


def test_only_is_relative_to_the_current_directory(agent: Claude) -> None:
    """UX-01: as every path is."""
    turn = work_in_directories(agent)
    src = agent.shadow.repo.root / "src"
    args = ("undo", turn, "--yes", "--json", "--only", "deep", "--only", "../docs")
    report = agent.shadow(*args, cwd=src).json()
    assert sorted(actions(report)) == ["docs/three", "src/deep/two"]


@pytest.mark.parametrize(
    "args",
    [
        ("cat", "a", "--at", "10 minutes ago"),
        ("restore", "--yes", "--at", "10 minutes ago"),
        ("restore", "a", "--yes", "--at", "10 minutes ago"),
        ("diff", "10 minutes ago"),
    ],
)
def test_moment_before_the_history_is_named(
    shadow_n: Shadow, args: tuple[str, ...]
) -> None:
    """UNDO-33: one usage error for all that take a moment; it says when history begins."""
    Claude(shadow_n).write("a", "agent\n")
    first = shadow_n.log("--all")[-1]
    result = shadow_n(*args)
    assert (result.code, result.raw) == (2, b"")
    assert "the history begins later" in result.err
    assert f"it begins {first['ts']}" in result.err
    assert text_of(shadow_n.repo, "a") == "agent\n"


def test_moments_are_times_ids_and_pins(agent: Claude) -> None:
    """UNDO-33: `cat`, `diff` and `restore` take the same words."""
    shadow, repo = agent.shadow, agent.shadow.repo
    agent.prompt("one")
    call = agent.write("a", "one\n")
    agent.stop()
    shadow.ok("pin", "good")
    moment = now()
    agent.prompt("two")
    agent.write("a", "two\n")
    agent.stop()
    turn = str(agent.prompt_id)
    for words in (call, "good", moment):
        assert shadow.ok("cat", "a", "--at", words).out == "one\n"
        assert "-one\n+two\n" in shadow.ok("diff", words, turn).out
        shadow.ok("restore", "--yes", "--at", words)
        assert text_of(repo, "a") == "one\n"
        shadow.ok("redo", "--yes")
        assert text_of(repo, "a") == "two\n"
    assert "-one\n+two\n" in shadow.ok("diff", turn).out
    assert "-a line 1\n" in shadow.ok("diff", call).out
    assert "-one\n+two\n" in shadow.ok("diff", "good").out
    assert shadow("cat", "a", "--at", "nothing").code == 2


def test_diff_counts_lines_as_git_does(agent: Claude) -> None:
    """The net change of a session, and between two moments, with a graph."""
    shadow, repo = agent.shadow, agent.shadow.repo
    shadow.ok("pin", "start")
    agent.write("a", ten_lines("a").replace("a line 3\n", "x\ny\n"))
    agent.write("new", "1\n2\n3\n")
    agent.shell("rm b")
    session = str(shadow.log()[0]["session"])
    repo.write("mine", "mine\n")
    expected = [
        " a   |   3 ++-",
        " b   |  10 ----------",
        " new |   3 +++",
        " 3 files changed, 5 insertions(+), 11 deletions(-)",
    ]
    assert (
        shadow.ok("diff", "--session", session, "--stat").out.splitlines() == expected
    )
    whole = shadow.ok("diff", "start", "--stat").out.splitlines()
    assert whole[1] == " b    |  10 ----------"
    assert whole[-1] == " 4 files changed, 6 insertions(+), 11 deletions(-)"
    rows = shadow.ok("diff", "start", "--json").json()["stat"]
    assert isinstance(rows, list)
    assert rows[0] == {"path": "a", "kind": "modify", "added": 2, "removed": 1}


def test_stash_is_left_alone_and_its_return_can_be_undone(
    agent: Claude, untouched: Untouched
) -> None:
    """UNDO-09: what a stash took is gone already; what it brings back is the agent's again."""
    shadow, repo = agent.shadow, agent.shadow.repo
    agent.prompt("go")
    agent.write("a", "agent\n")
    agent.stop()
    repo.git("stash")
    untouched()
    report = shadow.oops()
    assert report["status"] == "nothing_to_do"
    assert text_of(repo, "a") == ten_lines("a")
    repo.git("stash", "pop")
    untouched()
    assert actions(shadow.oops()) == {"a": "write"}
    assert text_of(repo, "a") == ten_lines("a")


def test_interrupted_undo_is_told_by_any_verb(shadow_n: Shadow) -> None:
    """ROB-01, UX-07: once, on standard error, and as a field where there is one document."""
    agent = Claude(shadow_n)
    agent.write("a", "agent\n")
    interrupt(shadow_n.repo)
    first = shadow_n.ok("log", "--json")
    assert re.fullmatch(
        r"note: op op-dead was interrupted and has been rolled back\n", first.err
    )
    assert all("recovered" not in row for row in first.rows())
    assert shadow_n.ok("log").err == ""
    interrupt(shadow_n.repo)
    status = shadow_n.ok("status", "--json")
    assert status.json()["recovered"] == [
        "op op-dead was interrupted and has been rolled back"
    ]
    interrupt(shadow_n.repo)
    report = shadow_n.oops()
    notes = report["notes"]
    assert isinstance(notes, list)
    assert notes[0] == "op op-dead was interrupted and has been rolled back"
    assert "recovered" not in report


def interrupt(repo: Repo) -> None:
    """Leave an op as a killed apply leaves it right at its begin."""
    db = Db.open(str(repo.state_dir / "journal.db"), create=False)
    op = Op(
        id="op-dead",
        kind=OpKind.OOPS,
        ts_ns=1,
        worktree="main",
        session="nobody",
        target="t",
        undoes=(),
        status=OpStatus.APPLYING,
        token="0" * 16,
    )
    with db.write():
        ops.put(db, op)
    db.close()


def test_undo_of_an_undo_and_of_that(agent: Claude) -> None:
    """UNDO-02: `undo OP` takes any op back, that of a `redo` too."""
    shadow, repo = agent.shadow, agent.shadow.repo
    agent.write("a", "agent\n")
    states = []
    last = str(shadow.oops()["op_id"])
    for _ in range(3):
        report = undo(shadow, last)
        last = str(report["op_id"])
        states.append(text_of(repo, "a"))
    assert states == ["agent\n", ten_lines("a"), "agent\n"]
    assert undo(shadow, last)["status"] == "reversed"
    kinds = [row["kind"] for row in shadow.ok("ops", "--json").rows()]
    assert kinds == ["undo"] * 4 + ["oops"]
    shown = shadow.ok("ops").out.splitlines()
    ops = [line.split("  ")[0] for line in shown if not line.startswith(" ")]
    undone = [
        line.rpartition("undid ")[2].split()[0]
        for line in shown
        if not line.startswith(" ")
    ]
    assert undone[:-1] == ops[1:]
