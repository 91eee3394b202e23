"""Places that are not recorded, and who writes there next."""

import os

from tests.support.repo import Repo
from tests.support.reports import items
from tests.support.studio import studio_of


def test_a_file_that_replaced_a_fifo_is_created_by_who_wrote_it(repo: Repo) -> None:
    os.mkfifo(repo.path("pipe"))
    with studio_of(repo) as studio:
        studio.context.observer.settle()
        repo.delete("pipe")
        studio.write("S1", "pipe", "agent\n")
        report = studio.run("undo", verb="oops", yes=True)
        assert (report["status"], repo.exists("pipe")) == ("reversed", False)


def test_ignore_file_that_hides_itself_comes_back_with_what_it_hid(repo: Repo) -> None:
    """The files are Git's to ignore, so only what is not tracked leaves the recording."""
    repo.write(".gitignore", "*.log\n")
    repo.write("draft", "mine\n")
    with studio_of(repo) as studio:
        studio.write("S1", "draft", "agent\n")
        studio.write("S1", "made", "agent\n")
        studio.write("S1", ".gitignore", "*\n")
        studio.write("S1", "made", "hidden\n")
        report = studio.run("undo", verb="oops", yes=True)
        found = {path: item["reason"] for path, item in items(report).items()}
        assert found == {"draft": None, ".gitignore": None, "made": "conflict"}
        assert repo.read(".gitignore") == b"*.log\n"
        assert repo.read("draft") == b"mine\n"
        assert repo.read("made") == b"hidden\n"


def test_plan_restores_what_a_nested_rule_file_hid(repo: Repo) -> None:
    """The rule file that is restored uncovers another one, which is restored too."""
    repo.write("sub/.gitignore", "x\n")
    repo.write("sub/y", "mine\n")
    with studio_of(repo) as studio:
        studio.write("S1", "sub/y", "agent\n")
        studio.write("S1", "sub/.gitignore", "y\n")
        studio.write("S1", ".agent-undoignore", "sub/\n")
        report = studio.run("undo", verb="oops", yes=True)
        assert report["status"] == "reversed"
        assert repo.read("sub/.gitignore") == b"x\n"
        assert repo.read("sub/y") == b"mine\n"
        assert not repo.exists(".agent-undoignore")
