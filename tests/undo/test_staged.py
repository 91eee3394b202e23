"""An undo leaves the index alone (LAW-02), and says so where a move is staged."""

from tests.support.repo import Repo
from tests.support.studio import Studio, studio_of


def moved(studio: Studio, *command: str) -> dict[str, object]:
    """Have an agent's shell run git, and take its turn back."""
    told = {"tool_name": "Bash", "tool_use_id": "c1", "tool_input": {"command": "mv"}}
    studio.start("S1")
    studio.prompt("S1", "move it")
    studio.hook("S1", "PreToolUse", **told)
    studio.repo.git(*command)
    studio.hook("S1", "PostToolUse", **told, tool_response={"success": True})
    studio.stop("S1")
    return studio.run("undo", verb="oops", yes=True)


def test_a_move_that_git_mv_staged_is_named(repo: Repo) -> None:
    """LAW-05: the file is back, the index has the new name, and what helps is said."""
    with studio_of(repo) as studio:
        report = moved(studio, "mv", "a", "d e")
        assert report["status"] == "reversed"
        assert (repo.exists("a"), repo.exists("d e")) == (True, False)
        assert repo.git("ls-files") == "b\nc\nd e"
        assert report["not_covered"] == [
            {
                "what": "the index",
                "why": "the rename is still staged: git restore --staged -- a 'd e'",
                "path": "a",
            }
        ]
        repo.git("restore", "--staged", "--", "a", "d e")
        assert repo.git("status", "--short") == ""


def test_a_move_that_nobody_staged_needs_no_word(repo: Repo) -> None:
    with studio_of(repo) as studio:
        told = {"tool_name": "Bash", "tool_use_id": "c1", "tool_input": {}}
        studio.start("S1")
        studio.prompt("S1", "move it")
        studio.hook("S1", "PreToolUse", **told)
        repo.rename("a", "n")
        studio.hook("S1", "PostToolUse", **told, tool_response={"success": True})
        studio.stop("S1")
        report = studio.run("undo", verb="oops", yes=True)
        assert repo.exists("a")
        assert report["not_covered"] == []


def test_a_new_file_that_the_agent_staged_is_named(repo: Repo) -> None:
    """It is gone from the disk; the index is the user's, so it has the file still."""
    with studio_of(repo) as studio:
        studio.write("S1", "made.txt", "new\n")
        repo.git("add", "made.txt")
        report = studio.run("undo", verb="oops", yes=True)
        assert not repo.exists("made.txt")
        assert report["not_covered"] == [
            {
                "what": "the index",
                "why": "made.txt is still staged: git restore --staged -- made.txt",
                "path": "made.txt",
            }
        ]
