"""Review marks travel with sessions, and push and fetch say what went and came."""

import pytest

from gitshadow.errors import RefusedError
from tests.support.checking import check, demand, said
from tests.support.sharing import rows_of, shared
from tests.support.studio import Studio

SECRET = "AKIA" + "IOSFODNN7EXAMPLE"


def test_review_of_a_colleagues_session_comes_back_to_her(
    ann: Studio, bob: Studio
) -> None:
    """The mark names her lines by what she recorded, so her own check takes it."""
    session = shared(ann, bob)
    demand(ann, review="refuse", reviewLines="0")
    assert said(check(ann, rev="HEAD")) == [("review", "refuse", "a", [[1, 2]])]
    mark = bob.run("review", targets=[session])
    assert (mark["lines"], mark["sessions"]) == (2, [session])
    pushed = bob.run("push", remote="origin")
    assert pushed["marks"] == [mark["id"]]
    fetched = ann.run("fetch", remote="origin")
    assert fetched["marks"] == [
        {"id": mark["id"], "who": mark["who"], "target": session}
    ]
    assert check(ann, rev="HEAD")["status"] == "passed"
    assert ann.run("fetch", remote="origin")["marks"] == []


def test_marks_of_one_fetched_session_are_sent_alone(ann: Studio, bob: Studio) -> None:
    session = shared(ann, bob)
    bob.write("S2", "b", "of bob\n")
    about = bob.run("review", targets=[session])
    bob.run("review", targets=["b"])
    pushed = bob.run("push", remote="origin", sessions=[session])
    assert (pushed["sessions"], pushed["marks"]) == ([], [about["id"]])


def test_marks_of_others_about_others_are_not_sent_on(ann: Studio, bob: Studio) -> None:
    session = shared(ann, bob)
    theirs = ann.run("review", targets=[session])
    ann.run("push", remote="origin")
    bob.run("fetch", remote="origin")
    own = bob.run("review", targets=[session])
    assert [row["id"] for row in rows_of(bob.run("reviews"))] == [
        own["id"],
        theirs["id"],
    ]
    assert bob.run("push", remote="origin")["marks"] == [own["id"]]


def test_mark_that_stands_here_is_not_replaced_by_another_of_its_name(
    ann: Studio, bob: Studio
) -> None:
    session = shared(ann, bob)
    mark = bob.run("review", targets=[session])
    other = bob.repo.git("commit-tree", "HEAD^{tree}", "-m", "x")
    bob.repo.git("push", "--quiet", "origin", f"{other}:{mark['ref']}")
    ann.write("S1", "b", "more\n")
    ann.run("push", remote="origin")
    fetched = bob.run("fetch", remote="origin")
    assert (fetched["sessions"], fetched["marks"]) == ([session], [])
    assert [row["id"] for row in rows_of(bob.run("reviews"))] == [mark["id"]]


def test_push_tells_what_is_new_from_what_is_there_already(
    ann: Studio, bob: Studio
) -> None:
    session = shared(ann, bob)
    again = ann.run("push", remote="origin")
    assert again["changed"] == []
    assert session in str(again["sessions"])
    ann.write("S1", "b", "more\n")
    ref = f"refs/agent-undo/{session}"
    assert ann.run("push", remote="origin")["changed"] == [ref]


def test_refused_push_names_session_path_and_line(ann: Studio) -> None:
    ann.write("S1", "conf.txt", f"a = 1\nkey = {SECRET}\n")
    ann.write("S1", ".env", "PASSWORD=x\n")
    with pytest.raises(RefusedError) as caught:
        ann.run("push", remote="origin")
    session = ann.session("S1")
    assert caught.value.message == (
        "cannot push: the history contains files that look secret:"
        f" .env in {session}; conf.txt:2: an AWS key in {session}"
    )
