"""review marks, and both verbs where there is no journal."""

import os
from collections.abc import Callable

import pytest

from gitshadow.errors import NotInitialisedError, RefusedError, UsageError
from gitshadow.service import in_process
from tests.support.checking import (
    LINES,
    check,
    demand,
    findings,
    runs_in_this_process,
    said,
    stage,
)
from tests.support.repo import Repo
from tests.support.studio import Studio, layout_of


@pytest.fixture
def reviewing(studio: Studio) -> Studio:
    """Return a studio in which every line of an agent needs a review."""
    demand(studio, review="refuse", reviewLines="0")
    studio.write("S1", "a", LINES)
    studio.stop("S1")
    stage(studio)
    return studio


def test_agents_lines_need_a_review(reviewing: Studio) -> None:
    document = check(reviewing)
    assert said(document) == [("review", "refuse", "a", [[1, 2]])]
    assert str(findings(document)[0]["remedy"]).endswith(
        "git agent-undo review --staged"
    )


def test_review_of_what_is_staged_settles_it(reviewing: Studio) -> None:
    mark = reviewing.run("review")
    assert (mark["lines"], mark["files"], mark["paths"]) == (2, 1, ["a"])
    assert mark["who"] == "Test User <test@example.com>"
    assert mark["sessions"] == [reviewing.session("S1")]
    assert check(reviewing)["status"] == "passed"


@pytest.mark.parametrize("target", ["a", "."])
def test_review_of_a_path_settles_it(reviewing: Studio, target: str) -> None:
    reviewing.run("review", targets=[target])
    assert check(reviewing)["status"] == "passed"


def test_review_of_a_session_settles_its_lines_alone(reviewing: Studio) -> None:
    reviewing.write("S2", "b", LINES)
    reviewing.stop("S2")
    stage(reviewing)
    reviewing.run("review", targets=[reviewing.session("S1")])
    assert said(check(reviewing)) == [("review", "refuse", "b", [[1, 2]])]


def test_lines_that_an_agent_writes_later_need_a_new_review(reviewing: Studio) -> None:
    reviewing.run("review")
    reviewing.write("S1", "a", LINES + "a third line of the agent\n")
    reviewing.stop("S1")
    stage(reviewing)
    assert said(check(reviewing)) == [("review", "refuse", "a", [[3, 3]])]


def test_same_text_that_is_written_anew_needs_a_new_review(reviewing: Studio) -> None:
    reviewing.run("review")
    reviewing.write("S1", "b", LINES)
    reviewing.stop("S1")
    stage(reviewing)
    assert said(check(reviewing)) == [("review", "refuse", "b", [[1, 2]])]


def test_persons_changes_leave_reviewed_lines_reviewed(reviewing: Studio) -> None:
    reviewing.run("review")
    reviewing.hand("a", "by hand\n" + LINES)
    stage(reviewing)
    assert check(reviewing)["status"] == "passed"


def test_review_that_is_taken_back_counts_no_more(reviewing: Studio) -> None:
    mark = reviewing.run("review")
    rows = reviewing.run("reviews")["rows"]
    assert isinstance(rows, list)
    assert [row["id"] for row in rows] == [mark["id"]]
    assert reviewing.run("unreview", id=str(mark["id"])[:12])["deleted"] is True
    assert reviewing.run("reviews")["rows"] == []
    assert check(reviewing)["status"] == "refused"


def test_review_that_is_not_there_cannot_be_taken_back(studio: Studio) -> None:
    with pytest.raises(UsageError, match="cannot find review x"):
        studio.run("unreview", id="x")


def test_review_of_nothing_leaves_no_mark(studio: Studio) -> None:
    assert studio.run("review")["id"] is None
    assert studio.run("reviews")["rows"] == []


def test_agent_in_whose_environment_it_runs_is_refused(reviewing: Studio) -> None:
    with pytest.raises(RefusedError, match="for codex: a person must review"):
        reviewing.run("review", agent="codex")


def test_agent_in_whose_shell_it_runs_is_refused(reviewing: Studio) -> None:
    told = {"tool_name": "Bash", "tool_input": {"command": "x"}, "tool_use_id": "t"}
    reviewing.hook("S1", "PreToolUse", **told)
    runs_in_this_process(reviewing, "S1")
    with pytest.raises(RefusedError, match="for claude-code: a person must review"):
        reviewing.run("review", pid=os.getpid())


def test_review_survives_a_commit_and_the_loss_of_the_journal(
    reviewing: Studio,
) -> None:
    reviewing.run("review")
    reviewing.commit("reviewed")
    assert check(reviewing, rev="HEAD")["status"] == "passed"
    layout = layout_of(reviewing.repo)
    os.unlink(layout.journal)
    document = in_process.run(layout, "check", {"rev": "HEAD"})
    assert document["status"] == "passed"
    reviewing.run("unreview", id="review-")
    assert in_process.run(layout, "check", {"rev": "HEAD"})["status"] == "refused"


def cloned(studio: Studio, make_repo: Callable[..., Repo]) -> Repo:
    """Return a clone into which the shadow refs were fetched, as on a build server."""
    there = make_repo("clone", files=())
    there.git(
        "fetch",
        "-q",
        str(studio.repo.root),
        "+refs/heads/main:refs/heads/main",
        "--update-head-ok",
    )
    there.git("reset", "-q", "--hard")
    there.git(
        "fetch", "-q", str(studio.repo.root), "refs/agent-undo/*:refs/agent-undo/*"
    )
    return there


@pytest.fixture
def on_server(studio: Studio, make_repo: Callable[..., Repo]) -> tuple[Studio, Repo]:
    """Return a studio with a commit of an agent's, and a clone of it with its policy."""
    text = '[check]\nreviewLines = 0\nprotectedPaths = ["/deploy/"]\n'
    studio.hand(".agent-undo.toml", text)
    studio.commit("the policy")
    studio.write("S1", "a", LINES)
    studio.write("S1", "deploy/k", "x\n")
    studio.stop("S1")
    studio.commit("by the agent")
    return studio, cloned(studio, make_repo)


def test_range_is_judged_in_a_clone_with_the_refs(
    on_server: tuple[Studio, Repo],
) -> None:
    studio, clone = on_server
    before = clone.snapshot()
    document = in_process.run(layout_of(clone), "check", {"range": "HEAD~1..HEAD"})
    assert said(document) == [
        ("review", "refuse", "a", [[1, 2]]),
        ("protected", "refuse", "deploy/k", [[1, 1]]),
        ("review", "refuse", "deploy/k", [[1, 1]]),
    ]
    assert findings(document)[0]["session"] == studio.session("S1")
    notes = document["notes"]
    assert isinstance(notes, list)
    assert "there is no journal here" in str(notes[0])
    assert clone.snapshot() == before
    assert not clone.state_dir.exists()


def test_review_marks_come_along_with_the_refs(
    on_server: tuple[Studio, Repo], make_repo: Callable[..., Repo]
) -> None:
    studio, clone = on_server
    studio.run("review", rev="HEAD")
    clone.git(
        "fetch", "-q", str(studio.repo.root), "refs/agent-undo/*:refs/agent-undo/*"
    )
    document = in_process.run(layout_of(clone), "check", {"rev": "HEAD"})
    assert [row[0] for row in said(document)] == ["protected"]


def test_push_sends_the_marks_of_its_sessions(
    reviewing: Studio, make_repo: Callable[..., Repo]
) -> None:
    there = make_repo("there", files=())
    reviewing.run("review")
    reviewing.write("S2", "b", LINES)
    reviewing.stop("S2")
    one, two = (reviewing.session(who) for who in ("S1", "S2"))
    reviewing.run("push", remote=str(there.root), sessions=[two])
    assert sorted(there.shadow_refs()) == [f"refs/agent-undo/{two}"]
    reviewing.run("push", remote=str(there.root), sessions=[one])
    assert len(there.shadow_refs()) == 3
    assert there.shadow_refs() == {
        ref: oid
        for ref, oid in reviewing.repo.shadow_refs().items()
        if "/unknown-" not in ref
    }


def test_clone_without_the_refs_cannot_be_judged(repo: Repo) -> None:
    with pytest.raises(NotInitialisedError, match="nothing is recorded or fetched"):
        in_process.run(layout_of(repo), "check", {})
    assert not repo.state_dir.exists()
