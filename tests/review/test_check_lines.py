"""check: whose lines a change adds, what was undone, what has gaps; and what a change is."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gitshadow.errors import UsageError
from gitshadow.model import RepoPath
from tests.support.checking import (
    LINES,
    check,
    demand,
    findings,
    said,
    stage,
    undo,
)
from tests.support.repo import Repo
from tests.support.studio import Studio, studio_of


def test_lines_that_nobody_is_known_to_have_written(studio: Studio) -> None:
    demand(studio, unknown="warn")
    studio.hand("new", "by hand\nby hand too\n")
    stage(studio)
    document = check(studio)
    assert document["status"] == "warned"
    assert said(document) == [("unknown", "warn", "new", [[1, 2]])]
    studio.run("review")
    assert check(studio)["status"] == "passed"


def test_undone_lines_that_are_staged_still(studio: Studio) -> None:
    studio.write("S1", "a", LINES)
    studio.stop("S1")
    stage(studio)
    report = undo(studio, "oops")
    document = check(studio)
    assert said(document) == [("undone", "warn", "a", [[1, 2]])]
    row = findings(document)[0]
    assert row["about"] == report["op_id"]
    assert row["remedy"] == f"git add a, or: git agent-undo redo {report['op_id']}"


def test_undone_lines_that_were_redone_are_fine(studio: Studio) -> None:
    studio.write("S1", "a", LINES)
    studio.stop("S1")
    stage(studio)
    undo(studio, "oops")
    undo(studio, "redo")
    assert check(studio)["status"] == "passed"


def test_short_lines_are_no_proof_of_an_undone_change(studio: Studio) -> None:
    studio.write("S1", "new", "}\n")
    studio.stop("S1")
    stage(studio)
    undo(studio, "oops")
    assert check(studio)["status"] == "passed"


def test_gap_while_a_session_ran_is_told(studio: Studio) -> None:
    studio.write("S1", "new", LINES)
    studio.context.pipeline.gap("the watcher lost events")
    studio.stop("S1")
    stage(studio)
    document = check(studio)
    assert said(document) == [("gaps", "warn", "new", [])]
    row = findings(document)[0]
    assert row["session"] == studio.session("S1")
    assert "the watcher lost events" in str(row["reason"])


def test_gap_of_another_file_is_not_told(studio: Studio) -> None:
    studio.write("S1", "new", LINES)
    studio.context.pipeline.gap("could not read it", RepoPath(b"b"))
    studio.stop("S1")
    stage(studio)
    assert check(studio)["status"] == "passed"


def test_only_what_is_staged_is_judged(studio: Studio) -> None:
    demand(studio, review="refuse", reviewLines="0")
    studio.write("S1", "a", LINES)
    stage(studio)
    studio.write("S1", "a", LINES + "a third line of the agent\n")
    studio.stop("S1")
    assert said(check(studio)) == [("review", "refuse", "a", [[1, 2]])]


def test_part_of_a_file_is_judged_by_its_own_lines(studio: Studio) -> None:
    """As `git add -p` leaves it: a content that never stood on disk."""
    demand(studio, review="refuse", reviewLines="0")
    ten = studio.repo.read("a").decode()
    studio.write("S1", "a", f"first line of the agent\n{ten}last line of the agent\n")
    studio.stop("S1")
    blob = studio.repo.git(
        "hash-object", "-w", "--stdin", stdin=f"{ten}last line of the agent\n".encode()
    )
    studio.repo.git("update-index", "--cacheinfo", f"100644,{blob},a")
    assert said(check(studio)) == [("review", "refuse", "a", [[11, 11]])]


def test_commit_and_range_are_judged_like_what_is_staged(studio: Studio) -> None:
    demand(studio, review="refuse", reviewLines="0")
    base = studio.repo.git("rev-parse", "HEAD")
    studio.write("S1", "a", LINES)
    studio.stop("S1")
    tip = studio.commit("by the agent")
    expected = [("review", "refuse", "a", [[1, 2]])]
    assert said(check(studio, rev="HEAD")) == expected
    assert said(check(studio, range=f"{base}..{tip}")) == expected
    assert said(check(studio, range=f"{base}..")) == expected
    assert check(studio, range="HEAD..HEAD")["status"] == "passed"
    change = check(studio, range=f"{base}..{tip}")["change"]
    assert change == {"kind": "range", "base": base, "tip": tip, "files": 1, "lines": 2}


def test_range_is_compared_with_where_it_left(studio: Studio) -> None:
    """What the other side did meanwhile is not the range's doing."""
    demand(studio, review="refuse", reviewLines="0")
    studio.repo.git("checkout", "-q", "-b", "topic")
    studio.hand("mine", "by hand\n")
    studio.commit("mine")
    studio.repo.git("checkout", "-q", "main")
    studio.write("S1", "a", LINES)
    studio.stop("S1")
    studio.commit("theirs")
    assert check(studio, range="main..topic")["status"] == "passed"


@pytest.mark.parametrize(
    "words", [{"rev": "nowhere"}, {"range": "HEAD"}, {"range": "x..y"}]
)
def test_change_that_is_none_is_a_usage_error(
    studio: Studio, words: dict[str, str]
) -> None:
    with pytest.raises(UsageError):
        check(studio, **words)


def test_commit_whose_parent_a_shallow_clone_lacks_is_a_usage_error(
    studio: Studio, tmp_path: Path
) -> None:
    """Else a check on a build server would pass without a look."""
    studio.hand("a", "by hand\n")
    studio.commit("second")
    url, where = f"file://{studio.repo.root}", tmp_path / "shallow"
    studio.repo.git("clone", "-q", "--depth", "1", url, str(where))
    with studio_of(Repo(where)) as there, pytest.raises(UsageError) as caught:
        check(there, rev="HEAD")
    assert caught.value.hint == "in a shallow clone: git fetch --unshallow"


def test_other_index_is_read_where_git_names_one(studio: Studio) -> None:
    studio.write("S1", "new", LINES)
    index = str(studio.repo.root / ".git" / "other-index")
    os.environ["GIT_INDEX_FILE"] = index
    try:
        studio.repo.git("add", "new")
    finally:
        del os.environ["GIT_INDEX_FILE"]
    assert check(studio)["findings"] == []
    assert [row[0] for row in said(check(studio, index=index))] == ["openTurn"]


def test_branch_without_a_commit_is_judged(make_repo: Callable[..., Repo]) -> None:
    repo = make_repo("unborn", files=())
    repo.git("update-ref", "-d", "HEAD")
    with studio_of(repo) as studio:
        studio.write("S1", "new", LINES)
        stage(studio)
        assert said(check(studio)) == [("openTurn", "refuse", "new", [[1, 2]])]


def test_odd_files_are_judged_too(studio: Studio) -> None:
    """Binary, empty, a link, a name that is no UTF-8, one line of a megabyte."""
    demand(studio, review="refuse", reviewLines="0", openTurn="off")
    studio.write("S1", "binary", b"\0\1\2" * 100)
    studio.write("S1", "empty", b"")
    studio.write("S1", b"\xff\n", "an odd name\n")
    studio.write("S1", "long", "x" * 1_000_000)
    studio.start("S2")
    studio.prompt("S2", "link it")
    told = {"tool_name": "Bash", "tool_input": {"command": "ln"}, "tool_use_id": "t"}
    studio.hook("S2", "PreToolUse", **told)
    studio.repo.symlink("link", "a")
    studio.hook("S2", "PostToolUse", **told, tool_response={})
    stage(studio)
    assert said(check(studio)) == [
        ("review", "refuse", "binary", []),
        ("review", "refuse", "link", [[1, 1]]),
        ("review", "refuse", "long", [[1, 1]]),
        ("review", "refuse", '"\\377\\n"', [[1, 1]]),
    ]


def test_file_over_the_limit_is_not_looked_at(studio: Studio) -> None:
    demand(studio, unknown="warn")
    ws = studio.context.workspace
    ws.config = replace(ws.config, max_file_size_bytes=100)
    studio.repo.write("big", "x\n" * 100)
    stage(studio)
    row = findings(check(studio))[0]
    assert (row["rule"], row["path"], row["lines"]) == ("unknown", "big", [])
    assert str(row["reason"]).endswith("too large to check")


def test_submodule_is_left_alone(
    studio: Studio, make_repo: Callable[..., Repo]
) -> None:
    other = make_repo("other")
    head = other.git("rev-parse", "HEAD")
    studio.repo.git("update-index", "--add", "--cacheinfo", f"160000,{head},sub")
    document = check(studio)
    assert (document["status"], document["change"]) == (
        "passed",
        {"kind": "staged", "base": studio.repo.git("rev-parse", "HEAD"), "tip": None,
         "files": 0, "lines": 0},
    )  # fmt: skip


def test_remedy_is_typed_where_the_user_stands(studio: Studio) -> None:
    studio.hand(".agent-undo.toml", '[check]\nprotectedPaths = ["it\'s"]\n')
    studio.write("S1", "sub/it's", "x\n")
    studio.stop("S1")
    stage(studio)
    row = findings(check(studio, cwd=str(studio.repo.root / "sub")))[0]
    assert str(row["remedy"]).endswith("""then: git add 'it'"'"'s'""")


def test_nothing_that_a_repository_configures_is_run(
    studio: Studio, tmp_path: Path
) -> None:
    """GIT-03: hooks, fsmonitor, filters, text conversion, external diff."""
    ran = tmp_path / "ran"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\necho x >>{ran}\ncat\n")
    program.chmod(0o755)
    studio.repo.write(".gitattributes", "* filter=x diff=x merge=x\n")
    studio.write("S1", "a", LINES)
    stage(studio)
    for key in (
        *("core.fsmonitor", "diff.external", "diff.x.textconv", "diff.x.command"),
        *("filter.x.clean", "filter.x.smudge", "gpg.program", "core.pager"),
    ):
        studio.repo.git("config", key, str(program))
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for event in ("post-index-change", "reference-transaction", "pre-commit"):
        (hooks / event).symlink_to(program)
    studio.repo.git("config", "core.hooksPath", str(hooks))
    assert check(studio)["status"] == "refused"
    studio.run("review")
    check(studio, range="HEAD..HEAD")
    assert not ran.exists()


def test_other_worktree_is_judged_by_what_was_written_there(
    studio: Studio, tmp_path: Path
) -> None:
    """The turn is open on a file of that name, in another working tree; a call names it, too."""
    studio.repo.git("worktree", "add", "-q", str(tmp_path / "linked"))
    studio.write("S1", "a", LINES)
    asked = {"file_path": str(studio.repo.root / "a"), "content": ""}
    told = {"tool_name": "Write", "tool_input": asked, "tool_use_id": "t1"}
    studio.hook("S1", "PreToolUse", **told)
    linked = Repo(tmp_path / "linked")
    with studio_of(linked) as there:
        there.hand("a", "by hand\n")
        stage(there)
        assert check(there)["status"] == "passed"
