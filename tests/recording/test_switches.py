"""What Git switched: recorded as Git's own, and seen through by an undo."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.support.repo import Repo
from tests.support.studio import Document, Studio

ROT = "tr a-z n-za-m"
LINES = [f"line {number}" for number in range(1, 31)]


def text(**changed: str) -> str:
    """Return thirty lines with some of them replaced (`line_3="x"`)."""
    rows = list(LINES)
    for key, said in changed.items():
        rows[int(key.removeprefix("line_")) - 1] = said
    return "".join(f"{row}\n" for row in rows)


def log(studio: Studio) -> list[tuple[str, str, bool]]:
    """Return kind, path or note, and whether Git switched it, oldest first.

    After each move of HEAD are the paths that Git switched by it.
    """
    rows = studio.rows("log")
    found: list[tuple[str, str, bool]] = []
    for row in reversed(rows):
        if row["kind"] == "baseline":
            continue
        shown = studio.run("show", id=str(row["seq"])) if row.get("files") else {}
        listed = shown.get("events", ())
        assert isinstance(listed, list | tuple)
        assert len(listed) == row.get("files", 0)
        found += [
            (one["kind"], one["path"] or one["note"], bool(one.get("switched")))
            for one in (row, *listed)
        ]
    return found


def switched(studio: Studio) -> list[str]:
    return [path for _, path, by_git in log(studio) if by_git]


def written(studio: Studio) -> list[str]:
    return [path for kind, path, by_git in log(studio) if not by_git and kind != "head"]


def states(report: Document) -> Mapping[str, tuple[str, str | None]]:
    items = report["items"]
    assert isinstance(items, list)
    return {item["path"]: (item["state"], item["reason"]) for item in items}


@pytest.fixture
def forked(repo: Repo) -> Repo:
    """Return R with thirty lines in `n`, and a branch `old` at the same commit."""
    repo.write("n", text())
    repo.commit("start")
    repo.git("branch", "old")
    return repo


@pytest.fixture
def edited(forked: Repo, studio: Studio) -> Studio:
    """Return a studio where an agent and then a person wrote in `n`."""
    studio.write("S", "n", text(line_10="TEN"))
    studio.stop("S")
    studio.hand("n", text(line_10="TEN", line_25="MINE"))
    return studio


def go(studio: Studio, *commands: str, look: bool) -> None:
    """Run git commands, looked at after each or after all of them."""
    for command in commands:
        studio.repo.git(*command.split())
        if look:
            studio.context.observer.settle()
    studio.context.observer.settle()


TRIPS = {
    "switch": ("commit -qam all", "checkout -q old", "checkout -q main"),
    "twice": (
        *("commit -qam all", "checkout -q old", "checkout -q main"),
        *("checkout -q old", "checkout -q main"),
    ),
    "commit there": (
        *("commit -qam all", "checkout -q old", "commit -q --allow-empty -m there"),
        *("checkout -q main",),
    ),
    "commit here": (
        *("commit -qam all", "checkout -q old", "checkout -q main"),
        *("commit -q --allow-empty -m here",),
    ),
    "three branches": (
        *("commit -qam all", "checkout -q old", "checkout -q --detach HEAD~1"),
        *("checkout -q main",),
    ),
    "stash": ("stash push -q", "stash pop -q"),
    "stash elsewhere": (
        *("stash push -q", "checkout -q HEAD~1", "checkout -q main"),
        *("stash pop -q",),
    ),
    "reset": ("commit -qam all", "reset -q --hard HEAD~1", "reset -q --hard HEAD@{1}"),
    "rebase": (
        *("commit -qam all", "checkout -q old", "commit -q --allow-empty -m there"),
        *("checkout -q main", "rebase -q old"),
    ),
    "bisect": (
        *("commit -qam all", "commit -q --allow-empty -m more", "bisect start -q"),
        *("bisect bad HEAD", "bisect good HEAD~3", "bisect bad", "bisect reset"),
    ),
}


@pytest.mark.parametrize("look", [True, False], ids=["looked", "at once"])
@pytest.mark.parametrize("trip", TRIPS)
@pytest.mark.sampled
def test_undo_is_as_if_never_switched_when_git_went_there_and_back(
    edited: Studio, trip: str, look: bool
) -> None:
    go(edited, *TRIPS[trip], look=look)
    assert edited.repo.read("n").decode() == text(line_10="TEN", line_25="MINE")
    assert states(edited.oops())["n"] == ("reversed", None)
    assert edited.repo.read("n").decode() == text(line_25="MINE")


@pytest.mark.parametrize("look", [True, False], ids=["looked", "at once"])
def test_undo_keeps_what_was_written_before_the_trip_and_never_seen(
    forked: Repo, studio: Studio, look: bool
) -> None:
    studio.write("S", "n", text(line_10="TEN"))
    forked.write("n", text(line_10="TEN", line_25="MINE"))
    go(studio, *TRIPS["switch"], look=look)
    assert states(studio.oops())["n"] == ("reversed", None)
    assert forked.read("n").decode() == text(line_25="MINE")


def test_undo_sees_through_a_trip_when_the_other_branch_was_written(
    edited: Studio,
) -> None:
    go(edited, "commit -qam all", "checkout -q old", look=True)
    edited.hand("n", text(line_1="ONE"))
    go(edited, "commit -qam there", "checkout -q main", look=True)
    assert states(edited.oops())["n"] == ("reversed", None)
    assert edited.repo.read("n").decode() == text(line_25="MINE")


def test_undo_leaves_what_the_agent_wrote_on_the_other_branch(
    forked: Repo, studio: Studio
) -> None:
    studio.hand("n", text(line_1="MAIN"))
    go(studio, "commit -qam main", "checkout -q old", look=True)
    studio.write("S", "n", text(line_10="TEN"))
    go(studio, "commit -qam agent", "checkout -q main", look=True)
    assert states(studio.undo("S")) == {"n": ("not_reversed", "head_moved")}
    assert forked.read("n").decode() == text(line_1="MAIN")


@pytest.mark.parametrize("look", [True, False], ids=["looked", "at once"])
def test_undo_says_head_moved_when_the_branch_has_bytes_of_its_own(
    forked: Repo, studio: Studio, look: bool
) -> None:
    """UNDO-11: also where the commit and the checkout come between two commands."""
    forked.git("checkout", "-q", "old")
    forked.write("n", text(line_10="other"))
    forked.commit("other")
    forked.git("checkout", "-q", "main")
    studio.context.observer.settle()
    studio.write("S", "n", text(line_10="TEN"))
    go(studio, "commit -qam agent", "checkout -q old", look=look)
    assert states(studio.undo("S")) == {"n": ("not_reversed", "head_moved")}
    assert forked.read("n").decode() == text(line_10="other")
    go(studio, "checkout -q main", look=True)
    assert states(studio.undo("S")) == {"n": ("reversed", None)}


@pytest.mark.parametrize("look", [True, False], ids=["looked", "at once"])
@pytest.mark.parametrize("command", ["merge -q --no-edit old", "rebase -q old"])
def test_undo_goes_into_what_git_merged(
    forked: Repo, studio: Studio, command: str, look: bool
) -> None:
    studio.write("S", "n", text(line_10="TEN"))
    go(studio, "commit -qam agent", "checkout -q old", look=look)
    forked.write("n", text(line_20="OTHER"))
    go(studio, "commit -qam other", "checkout -q main", command, look=look)
    assert switched(studio)[-1] == "n"
    assert states(studio.undo("S")) == {"n": ("reversed", None)}
    assert forked.read("n").decode() == text(line_20="OTHER")


def test_undo_leaves_a_deletion_when_the_branch_never_had_the_lines(
    forked: Repo, studio: Studio
) -> None:
    """Nothing says that the lines are gone from there because of the agent."""
    forked.git("checkout", "-q", "old")
    forked.write("n", text().replace("line 10\n", "").replace("line 30", "END"))
    forked.commit("other")
    forked.git("checkout", "-q", "main")
    studio.context.observer.settle()
    studio.write("S", "n", text().replace("line 10\n", ""))
    go(studio, "commit -qam agent", "checkout -q old", look=True)
    kept = forked.read("n")
    assert states(studio.undo("S")) == {"n": ("not_reversed", "head_moved")}
    assert forked.read("n") == kept


def test_switch_is_gits_when_a_commit_came_right_before_it(
    forked: Repo, studio: Studio
) -> None:
    """The two ends are the same commit: only the reflog has what happened."""
    studio.write("S", "n", text(line_10="TEN"))
    go(studio, "commit -qam work", "checkout -q old", look=False)
    assert (switched(studio), written(studio)) == (["n"], ["n"])
    notes = [said for kind, said, _ in log(studio) if kind == "head"]
    assert notes[-2].startswith("commit ")
    assert notes[-2].endswith(' "work"')
    assert notes[-1].startswith("HEAD moved from main (")


def test_write_comes_before_its_commit_when_one_look_finds_both(
    forked: Repo, studio: Studio
) -> None:
    """T10: after the commit, no undo of the write could say that HEAD has moved since."""
    forked.write("n", text(line_10="TEN"))
    forked.git("commit", "-qam", "one")
    forked.write("new/file", "agent\n")
    forked.git("add", "new")
    go(studio, "commit -qm two", look=False)
    kinds = [(kind, said.split()[-1]) for kind, said, _ in log(studio)]
    assert kinds == [
        ("modify", "n"),
        ("head", '"one"'),
        ("create", "new/file"),
        ("head", '"two"'),
    ]


def test_write_comes_after_a_commit_of_other_bytes_when_one_look_finds_both(
    forked: Repo, studio: Studio
) -> None:
    """A part can be staged that never was on the disk, so the commit proves no order."""
    forked.write("n", text(line_10="TEN"))
    forked.git("commit", "-qam", "one")
    forked.write("n", text(line_10="TEN", line_20="MORE"))
    go(studio, look=False)
    assert [kind for kind, _, _ in log(studio)] == ["head", "modify"]


def test_file_was_not_moved_in_when_it_was_committed_and_never_seen(
    forked: Repo, studio: Studio
) -> None:
    """A commit tells no age of a file, so nothing says that it came from elsewhere."""
    forked.git("checkout", "-q", "old")
    forked.write("x", "theirs\n")
    go(studio, "add x", "commit -qm theirs", "checkout -q main", look=True)
    forked.write("x", "mine\n")
    go(studio, "add x", "commit -qm mine", "checkout -q old", look=False)
    rows = studio.run("log")["rows"]
    assert isinstance(rows, list)
    mine, theirs = [
        row for row in rows if (row["path"], row["kind"]) == ("x", "create")
    ]
    assert mine["seq"] > theirs["seq"]
    assert "moved_in" not in mine


def test_trip_leaves_two_moves_and_no_files_when_nothing_differs_after_it(
    forked: Repo, studio: Studio
) -> None:
    studio.hand("n", text(line_1="ONE"))
    studio.commit("more")
    before = len(log(studio))
    go(studio, "checkout -q old", "checkout -q main", look=False)
    added = log(studio)[before:]
    assert [(kind, by_git) for kind, _, by_git in added] == [("head", False)] * 2


@pytest.mark.parametrize("logged", ["true", "false"])
def test_switch_is_gits_whatever_the_reflog_has(
    forked: Repo, studio: Studio, logged: str
) -> None:
    forked.git("config", "core.logAllRefUpdates", logged)
    if logged == "false":
        (forked.git_dir / "logs" / "HEAD").unlink()
    studio.hand("n", text(line_1="ONE"))
    studio.commit("more")
    go(studio, "checkout -q old", look=False)
    assert switched(studio) == ["n"]
    notes = [said for kind, said, _ in log(studio) if kind == "head"]
    assert ("does not show" in notes[-1]) == (logged == "false")


FILTERS = {
    "filter": ("*.dat filter=rot", "hello\n", "world\n"),
    "ident": ("*.dat ident", "$Id$\nhello\n", "$Id$\nworld\n"),
    "eol": ("*.dat text eol=crlf", "hello\r\n", "world\r\n"),
    "encoding": ("*.dat text working-tree-encoding=UTF-16LE", "h\0\n\0", "w\0\n\0"),
}


def converted(repo: Repo, how: str) -> None:
    """Make a branch `other` where a converted file differs from main."""
    attributes, here, there = FILTERS[how]
    repo.git("config", "filter.rot.clean", ROT)
    repo.git("config", "filter.rot.smudge", ROT)
    repo.write(".gitattributes", attributes + "\n")
    for branch, data in (("other", there), ("main", here)):
        if branch == "other":
            repo.git("checkout", "-q", "-b", "other")
        else:
            repo.git("checkout", "-q", "-B", "main", "HEAD")
        repo.write("m.dat", data)
        repo.write("more.dat", data)
        repo.commit(branch)
    for name in ("m.dat", "more.dat"):
        (repo.root / name).unlink()
    repo.git("checkout", "-q", "--", ".")


def never_run(repo: Repo, tmp_path: Path) -> Path:
    """Have the filter tell from now on when it is run."""
    ran = tmp_path / "ran"
    repo.git("config", "filter.rot.clean", f"touch {ran}; {ROT}")
    return ran


@pytest.mark.parametrize("how", FILTERS)
def test_switch_of_converted_files_is_gits(
    repo: Repo, open_studio: Callable[[Repo], Studio], how: str, tmp_path: Path
) -> None:
    converted(repo, how)
    studio = open_studio(repo)
    repo.git("checkout", "-q", "other")
    kept = repo.read("m.dat")
    ran = never_run(repo, tmp_path)
    studio.context.observer.settle()
    assert log(studio)[1:] == [("modify", "m.dat", True), ("modify", "more.dat", True)]
    assert studio.oops()["status"] == "nothing_to_do"
    assert repo.read("m.dat") == kept
    assert not ran.exists()


def test_committed_line_is_a_persons_where_the_date_of_the_commit_is_false(
    forked: Repo, studio: Studio
) -> None:
    """Git's log dates the commit long before the agent's call, so the order alone counts."""
    studio.start("S")
    studio.prompt("S", "ten")
    told = {
        "tool_name": "Write",
        "tool_input": {"file_path": str(forked.root / "n"), "content": ""},
        "tool_use_id": "toolu_1",
    }
    studio.hook("S", "PreToolUse", **told)
    forked.write("n", text(line_10="TEN"))
    studio.context.observer.settle()  # seen before the hook that ends the call
    studio.hook("S", "PostToolUse", **told, tool_response={"success": True})
    forked.write("n", text(line_10="TEN", line_25="MINE"))
    go(studio, "commit -qam all", "checkout -q old", look=False)
    rows = studio.rows("log")
    assert [row["agent"] for row in rows[::-1] if row["path"] == "n"] == [
        "claude-code",
        None,
    ]
    assert (rows[0]["kind"], rows[0]["files"], rows[0]["agent"]) == ("head", 1, None)


@pytest.mark.parametrize("how", FILTERS)
def test_converted_file_that_a_branch_has_not_is_switched(
    repo: Repo, studio: Studio, how: str
) -> None:
    converted(repo, how)
    repo.git("checkout", "-q", "-b", "less")
    repo.git("rm", "-q", "m.dat")
    repo.git("commit", "-qm", "less")
    repo.git("checkout", "-q", "main")
    studio.context.observer.settle()
    before = len(log(studio))
    go(studio, "checkout -q less", "checkout -q main", look=True)
    rows = [row for row in log(studio)[before:] if row[0] != "head"]
    assert rows == [("delete", "m.dat", True), ("create", "m.dat", True)]


def test_agents_write_to_a_converted_file_is_undone_after_a_trip(
    repo: Repo, studio: Studio
) -> None:
    converted(repo, "filter")
    studio.context.observer.settle()
    was = repo.read("m.dat")
    studio.write("S", "m.dat", "agent\n")
    go(studio, "commit -qam agent", "checkout -q other", "checkout -q main", look=True)
    assert states(studio.oops())["m.dat"] == ("reversed", None)
    assert repo.read("m.dat") == was


def test_write_to_a_converted_file_after_the_switch_is_somebodys(
    repo: Repo, studio: Studio
) -> None:
    """The index has another stat of it than the file."""
    converted(repo, "filter")
    studio.context.observer.settle()
    repo.git("checkout", "-q", "other")
    repo.write("m.dat", "dlrow\n")
    studio.context.observer.settle()
    assert "m.dat" not in switched(studio)
    assert written(studio)[-1] == "m.dat"


def test_converted_file_is_somebodys_when_it_was_only_committed(
    repo: Repo, studio: Studio
) -> None:
    """After a commit the index says of it what it says after a switch."""
    converted(repo, "filter")
    studio.context.observer.settle()
    before = len(log(studio))
    repo.write("m.dat", "mine\n")
    go(studio, "commit -qam mine", "checkout -q other", "checkout -q main", look=False)
    rows = [row for row in log(studio)[before:] if row[0] != "head"]
    assert rows == [("modify", "m.dat", False)]


def test_reset_that_discards_a_converted_file_is_somebodys(
    repo: Repo, open_studio: Callable[[Repo], Studio]
) -> None:
    """Its bytes are like no blob: what was written after Git had last done so was discarded."""
    converted(repo, "filter")
    studio = open_studio(repo)
    studio.hand("m.dat", "mine\n")
    go(studio, "reset -q --hard HEAD~1", look=True)
    rows = [row for row in log(studio)[1:] if row[0] != "head"]
    assert rows == [("modify", "more.dat", True), ("modify", "m.dat", False)]


def test_removed_file_is_gits_when_a_switch_writes_it_again(
    forked: Repo, studio: Studio
) -> None:
    """What is removed and not committed keeps Git from no switch."""
    studio.hand("n", text(line_10="MINE"))
    go(studio, "commit -qam mine", look=True)
    forked.delete("n")
    studio.context.observer.settle()
    before = len(log(studio))
    go(studio, "checkout -q old", look=True)
    rows = [row for row in log(studio)[before:] if row[0] != "head"]
    assert rows == [("create", "n", True)]


def test_removed_file_is_somebodys_when_a_write_after_the_switch_made_it_again(
    forked: Repo, studio: Studio
) -> None:
    """It has the bytes of the branch, but Git's index has another stat of it."""
    studio.hand("n", text(line_10="MINE"))
    go(studio, "commit -qam mine", look=True)
    forked.delete("n")
    studio.context.observer.settle()
    before = len(log(studio))
    forked.git("checkout", "-q", "old")
    forked.delete("n")
    forked.write("n", text())
    studio.context.observer.settle()
    rows = [row for row in log(studio)[before:] if row[0] != "head"]
    assert rows == [("create", "n", False)]


@pytest.mark.parametrize("kind", ["sparse", "split", "worktree"])
def test_index_of_any_kind_is_read(
    repo: Repo, open_studio: Callable[[Repo], Studio], kind: str, tmp_path: Path
) -> None:
    converted(repo, "filter")
    if kind == "sparse":
        repo.git("sparse-checkout", "set", "--cone", "--sparse-index")
    elif kind == "split":
        repo.git("update-index", "--split-index")
    else:
        repo.git("worktree", "add", "-q", str(tmp_path / "w"), "-b", "third", "main")
        repo = Repo(tmp_path / "w")
    studio = open_studio(repo)
    repo.git("checkout", "-q", "--ignore-other-worktrees", "other")
    studio.context.observer.settle()
    assert switched(studio) == ["m.dat", "more.dat"]


@pytest.mark.parametrize("is_undone", [False, True])
def test_undo_of_a_turn_goes_through_a_restore_inside_it(
    repo: Repo, studio: Studio, is_undone: bool
) -> None:
    """The restore brought back what the first call had left: the turn's, as blame says."""
    was = repo.read("a").decode()
    studio.write("S", "a", "A\n" + was)
    studio.write("S", "a", was + "B\n")
    restore(studio, "a")
    assert repo.read("a").decode() == "A\n" + was
    if is_undone:
        studio.run("undo", verb="redo", yes=True)
        assert repo.read("a").decode() == was + "B\n"
    assert states(studio.undo("S")) == {"a": ("reversed", None)}
    assert repo.read("a").decode() == was


def test_turn_goes_on_after_a_restore_inside_it(repo: Repo, studio: Studio) -> None:
    was = repo.read("a").decode()
    studio.write("S", "a", "A\n" + was)
    studio.write("S", "a", was + "B\n")
    restore(studio, "a")
    studio.write("S", "a", "A\nC\n" + was)
    studio.hand("a", "A\nC\n" + was + "mine\n")
    assert states(studio.undo("S")) == {"a": ("reversed", None)}
    assert repo.read("a").decode() == was + "mine\n"


def test_turn_that_a_restore_undid_has_nothing_left(repo: Repo, studio: Studio) -> None:
    was = repo.read("a").decode()
    studio.write("S", "a", "A\n" + was)
    restore(studio, "a")
    assert repo.read("a").decode() == was
    assert studio.undo("S")["status"] == "nothing_to_do"


def restore(studio: Studio, path: str) -> None:
    target = {"text": path}
    report = studio.run("undo", verb="restore", yes=True, targets=[target])
    assert report["status"] == "reversed"
