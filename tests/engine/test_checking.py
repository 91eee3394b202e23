"""check and review over real histories, in this process."""

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gitshadow.attribution.process import process_start
from gitshadow.engine import local
from gitshadow.engine.verbs import Document, run
from gitshadow.errors import NotInitialisedError, RefusedError, UsageError
from gitshadow.model import RepoPath
from gitshadow.store.journal import sessions
from tests.support.repo import Repo
from tests.support.studio import Studio, layout_of, studio_of

LINES = "a line that an agent wrote\nand another one of its lines\n"
MINUTE_NS = 60 * 10**9


@pytest.fixture
def studio(repo: Repo) -> Iterator[Studio]:
    with studio_of(repo) as made:
        yield made


def check(studio: Studio, **params: object) -> Document:
    """Run check on what is staged, or on what is named."""
    return studio.run("check", **params)


def findings(document: Document) -> list[dict[str, object]]:
    found = document["findings"]
    assert isinstance(found, list)
    return found


def said(document: Document) -> list[tuple[object, object, object, object]]:
    """Return rule, level, path and lines of each finding."""
    rows = findings(document)
    return [(row["rule"], row["level"], row["path"], row["lines"]) for row in rows]


def demand(studio: Studio, **settings: str) -> None:
    """Set what the user demands."""
    for name, value in settings.items():
        studio.repo.git("config", "--add", f"agent-undo.check.{name}", value)


def undo(studio: Studio, verb: str, *targets: str) -> Document:
    """Run an undo verb and return its report."""
    named = [{"text": one} for one in targets]
    params = {"cwd": str(studio.repo.root), "verb": verb, "targets": named, "yes": True}
    return run(studio.desk, "undo", params)


def stage(studio: Studio, *paths: str) -> None:
    studio.repo.git("add", "--", *(paths or (".",)))


# -- open turns --------------------------------------------------------------------------------


def test_open_turn_of_another_session_refuses_what_it_wrote_to(studio: Studio) -> None:
    studio.write("S1", "new", LINES)
    stage(studio)
    document = check(studio)
    assert document["status"] == "refused"
    assert said(document) == [("openTurn", "refuse", "new", [[1, 2]])]
    row = findings(document)[0]
    session = studio.session("S1")
    assert (row["agent"], row["session"]) == ("claude-code", session)
    assert row["prompt"] == "prompt of S1"
    assert row["remedy"] == f"let it end, or: git agent-undo session end {session}"


def test_turn_that_ended_refuses_nothing(studio: Studio) -> None:
    studio.write("S1", "new", LINES)
    studio.stop("S1")
    stage(studio)
    assert check(studio)["status"] == "passed"


def test_open_turn_on_other_files_refuses_nothing(studio: Studio) -> None:
    studio.write("S1", "new", LINES)
    studio.hand("mine", "by hand\n")
    stage(studio, "mine")
    assert check(studio)["status"] == "passed"


def test_open_call_on_a_file_counts_before_it_wrote(studio: Studio) -> None:
    studio.start("S1")
    studio.prompt("S1", "go on")
    full = str(studio.repo.root / "mine")
    asked = {"file_path": full, "content": ""}
    studio.hook(
        "S1", "PreToolUse", tool_name="Write", tool_input=asked, tool_use_id="t1"
    )
    studio.hand("mine", "by hand\n")
    stage(studio)
    assert [row[0] for row in said(check(studio))] == ["openTurn"]


def test_writes_of_an_open_turn_that_were_taken_back_do_not_count(
    studio: Studio,
) -> None:
    studio.write("S1", "a", LINES)
    undo(studio, "undo", studio.session("S1"))
    studio.hand("a", "by hand\n")
    stage(studio)
    assert "openTurn" not in [row[0] for row in said(check(studio))]


def test_own_session_is_exempt_by_its_process(studio: Studio) -> None:
    """It commits its own work; the process of this test stands for the agent's."""
    studio.write("S1", "new", LINES)
    _runs_in_this_process(studio, "S1")
    stage(studio)
    document = check(studio, pid=os.getpid())
    assert (document["status"], document["own"]) == ("passed", [studio.session("S1")])


def test_own_session_is_not_exempt_from_another_ones_turn(studio: Studio) -> None:
    studio.write("S1", "new", LINES)
    studio.write("S2", "new", LINES + "a third one\n")
    _runs_in_this_process(studio, "S1")
    stage(studio)
    rows = findings(check(studio, pid=os.getpid()))
    assert [row["session"] for row in rows] == [studio.session("S2")]


def test_subagent_of_the_own_session_is_exempt_too(studio: Studio) -> None:
    studio.write("S1", "new", LINES)
    _runs_in_this_process(studio, "S1")
    db = studio.desk.workspace.db
    studio.write("S2", "other", LINES)
    child = sessions.get(db, studio.session("S2"))
    assert child is not None
    with db.write():
        sessions.put(db, replace(child, parent=studio.session("S1")))
    stage(studio)
    assert check(studio, pid=os.getpid())["status"] == "passed"


def test_turn_that_nothing_was_heard_of_for_ten_minutes_has_expired(
    studio: Studio,
) -> None:
    """An interrupted turn: its agent lives, and waits for the next prompt."""
    studio.write("S1", "new", LINES)
    db = studio.desk.workspace.db
    session = sessions.get(db, studio.session("S1"))
    assert session is not None
    long_ago = studio.desk.workspace.clock.now_ns() - 11 * MINUTE_NS
    with db.write():
        sessions.put(db, replace(session, last_seen_ns=long_ago))
    stage(studio)
    assert check(studio)["status"] == "passed"


def _runs_in_this_process(studio: Studio, who: str) -> None:
    db = studio.desk.workspace.db
    session = sessions.get(db, studio.session(who))
    assert session is not None
    started = process_start(os.getpid())
    with db.write():
        sessions.put(db, replace(session, pid=os.getpid(), pid_started=started))


# -- protected paths ---------------------------------------------------------------------------


@pytest.fixture
def guarded(studio: Studio) -> Studio:
    """Return a studio in which agents may not touch `a` nor `deploy/`."""
    text = '[check]\nprotectedPaths = ["/a", "/deploy/"]\n'
    studio.hand(".agent-undo.toml", text)
    studio.commit("the policy")
    return studio


def test_protected_path_that_an_agent_wrote_is_refused(guarded: Studio) -> None:
    guarded.write("S1", "deploy/k", "x\n")
    guarded.stop("S1")
    stage(guarded)
    document = check(guarded)
    assert said(document) == [("protected", "refuse", "deploy/k", [[1, 1]])]
    session = guarded.session("S1")
    assert findings(document)[0]["remedy"] == (
        f"git agent-undo undo {session} --only deploy/k, then: git add deploy/k"
    )


def test_person_may_change_a_protected_path(guarded: Studio) -> None:
    guarded.hand("a", "by hand\n")
    stage(guarded)
    assert check(guarded)["status"] == "passed"


def test_agents_deletion_of_a_protected_path_is_refused(guarded: Studio) -> None:
    guarded.start("S1")
    guarded.prompt("S1", "clean up")
    asked = {"command": "rm a"}
    told = {"tool_name": "Bash", "tool_input": asked, "tool_use_id": "t1"}
    guarded.hook("S1", "PreToolUse", **told)
    os.unlink(guarded.repo.root / "a")
    guarded.hook("S1", "PostToolUse", **told, tool_response={})
    guarded.stop("S1")
    stage(guarded)
    assert said(check(guarded)) == [("protected", "refuse", "a", [])]


def test_file_that_an_agent_moved_out_of_a_protected_place_is_refused(
    guarded: Studio,
) -> None:
    guarded.start("S1")
    guarded.prompt("S1", "tidy up")
    told = {
        "tool_name": "Bash",
        "tool_input": {"command": "mv a z"},
        "tool_use_id": "t",
    }
    guarded.hook("S1", "PreToolUse", **told)
    os.rename(guarded.repo.root / "a", guarded.repo.root / "z")
    guarded.hook("S1", "PostToolUse", **told, tool_response={})
    guarded.stop("S1")
    stage(guarded)
    assert said(check(guarded)) == [("protected", "refuse", "z", [])]


def test_work_that_was_taken_back_leaves_a_protected_path_free(guarded: Studio) -> None:
    guarded.write("S1", "a", LINES)
    guarded.stop("S1")
    undo(guarded, "oops")
    guarded.hand("a", "by hand\n")
    stage(guarded)
    assert check(guarded)["status"] == "passed"


def test_change_that_deletes_the_policy_is_judged_by_it(guarded: Studio) -> None:
    guarded.write("S1", "a", LINES)
    guarded.stop("S1")
    os.unlink(guarded.repo.root / ".agent-undo.toml")
    stage(guarded)
    assert [row[0] for row in said(check(guarded))] == ["protected"]


# -- the policy file itself --------------------------------------------------------------------


def test_broken_policy_in_the_change_is_refused(studio: Studio) -> None:
    studio.hand(".agent-undo.toml", "[check\n")
    stage(studio)
    row = findings(check(studio))[0]
    assert (row["rule"], row["level"], row["path"]) == (
        "policy",
        "refuse",
        ".agent-undo.toml",
    )
    assert row["remedy"] == "mend the file, then: git add .agent-undo.toml"


def test_broken_policy_can_be_mended(studio: Studio) -> None:
    studio.hand(".agent-undo.toml", "[check\n")
    studio.commit("broken")
    studio.hand(".agent-undo.toml", "[check]\n")
    stage(studio)
    document = check(studio)
    assert document["status"] == "passed"
    warnings = document["warnings"]
    assert isinstance(warnings, list)
    assert ".agent-undo.toml before this change: it is no TOML" in str(warnings[0])


def test_linked_policy_is_not_followed(studio: Studio) -> None:
    studio.repo.write("elsewhere", "[check]\ngaps = 'refuse'\n")
    studio.repo.symlink(".agent-undo.toml", "elsewhere")
    stage(studio)
    row = findings(check(studio))[0]
    assert row["reason"] == (
        "the policy cannot be used: it is a symbolic link, and none is followed"
    )


def test_huge_policy_is_not_read(studio: Studio) -> None:
    studio.hand(".agent-undo.toml", "#" * 1_000_000)
    stage(studio)
    assert "larger than" in str(findings(check(studio))[0]["reason"])


def test_repository_cannot_loosen_what_the_user_demands(studio: Studio) -> None:
    demand(studio, protectedPaths="/a")
    studio.hand(".agent-undo.toml", '[check]\nprotected = "off"\nopenTurn = "off"\n')
    studio.commit("loose")
    studio.write("S1", "a", LINES)
    stage(studio)
    assert sorted(str(row[0]) for row in said(check(studio))) == [
        "openTurn",
        "protected",
    ]


def test_policy_that_the_change_leaves_alone_is_named_once(guarded: Studio) -> None:
    guarded.hand("b", "by hand\n")
    stage(guarded)
    assert check(guarded)["policies"] == ["git config", ".agent-undo.toml"]


def test_policy_that_is_not_staged_does_not_count(studio: Studio) -> None:
    """The working tree is not part of the change, and an agent may be writing there."""
    studio.hand(".agent-undo.toml", '[check]\nprotectedPaths = ["*"]\n')
    studio.write("S1", "a", LINES)
    studio.stop("S1")
    stage(studio, "a")
    assert check(studio)["policies"] == ["git config"]


# -- review ------------------------------------------------------------------------------------


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
    with pytest.raises(UsageError, match="could not find review x"):
        studio.run("unreview", id="x")


def test_review_of_nothing_leaves_no_mark(studio: Studio) -> None:
    assert studio.run("review")["id"] is None
    assert studio.run("reviews")["rows"] == []


def test_agent_in_whose_environment_it_runs_is_refused(reviewing: Studio) -> None:
    with pytest.raises(RefusedError, match="codex asks for it, and a person reviews"):
        reviewing.run("review", agent="codex")


def test_agent_in_whose_shell_it_runs_is_refused(reviewing: Studio) -> None:
    told = {"tool_name": "Bash", "tool_input": {"command": "x"}, "tool_use_id": "t"}
    reviewing.hook("S1", "PreToolUse", **told)
    _runs_in_this_process(reviewing, "S1")
    with pytest.raises(RefusedError, match="claude-code asks for it"):
        reviewing.run("review", pid=os.getpid())


def test_review_survives_a_commit_and_the_loss_of_the_journal(
    reviewing: Studio,
) -> None:
    reviewing.run("review")
    reviewing.commit("reviewed")
    assert check(reviewing, rev="HEAD")["status"] == "passed"
    layout = layout_of(reviewing.repo)
    os.unlink(layout.journal)
    document = local.run(layout, "check", {"rev": "HEAD"})
    assert document["status"] == "passed"
    reviewing.run("unreview", id="review-")
    assert local.run(layout, "check", {"rev": "HEAD"})["status"] == "refused"


# -- unknown lines, undone lines, gaps ---------------------------------------------------------


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
    studio.desk.pipeline.gap("the watcher lost events")
    studio.stop("S1")
    stage(studio)
    document = check(studio)
    assert said(document) == [("gaps", "warn", "new", [])]
    row = findings(document)[0]
    assert row["session"] == studio.session("S1")
    assert "the watcher lost events" in str(row["reason"])


def test_gap_of_another_file_is_not_told(studio: Studio) -> None:
    studio.write("S1", "new", LINES)
    studio.desk.pipeline.gap("could not read it", RepoPath(b"b"))
    studio.stop("S1")
    stage(studio)
    assert check(studio)["status"] == "passed"


# -- what a change is --------------------------------------------------------------------------


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
    ws = studio.desk.workspace
    ws.config = replace(ws.config, max_file_size_bytes=100)
    studio.repo.write("big", "x\n" * 100)
    stage(studio)
    row = findings(check(studio))[0]
    assert (row["rule"], row["path"], row["lines"]) == ("unknown", "big", [])
    assert str(row["reason"]).endswith("too large to look at")


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
    """spec/provenance.md 4.2: hooks, fsmonitor, filters, text conversion, external diff."""
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
    """The turn is open on a file of that name, in another working tree."""
    studio.repo.git("worktree", "add", "-q", str(tmp_path / "linked"))
    studio.write("S1", "a", LINES)
    linked = Repo(tmp_path / "linked")
    with studio_of(linked) as there:
        there.hand("a", "by hand\n")
        stage(there)
        assert check(there)["status"] == "passed"


# -- without a journal -------------------------------------------------------------------------


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
    document = local.run(layout_of(clone), "check", {"range": "HEAD~1..HEAD"})
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
    document = local.run(layout_of(clone), "check", {"rev": "HEAD"})
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
    with pytest.raises(NotInitialisedError, match="journal or recorded sessions"):
        local.run(layout_of(repo), "check", {})
    assert not repo.state_dir.exists()
