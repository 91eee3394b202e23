"""check: open turns, protected paths and the policy file, over real histories."""

import os
import subprocess
from dataclasses import replace

import pytest

from gitshadow.store.journal import sessions
from tests.support.checking import (
    LINES,
    check,
    demand,
    findings,
    runs_in,
    runs_in_this_process,
    said,
    stage,
    undo,
)
from tests.support.studio import Studio

MINUTE_NS = 60 * 10**9


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
    runs_in_this_process(studio, "S1")
    stage(studio)
    document = check(studio, pid=os.getpid())
    assert (document["status"], document["own"]) == ("passed", [studio.session("S1")])


def test_own_session_is_not_exempt_from_another_ones_turn(studio: Studio) -> None:
    studio.write("S1", "new", LINES)
    studio.write("S2", "new", LINES + "a third one\n")
    runs_in_this_process(studio, "S1")
    stage(studio)
    rows = findings(check(studio, pid=os.getpid()))
    assert [row["session"] for row in rows] == [studio.session("S2")]


def test_subagent_of_the_own_session_is_exempt_too(studio: Studio) -> None:
    studio.write("S1", "new", LINES)
    runs_in_this_process(studio, "S1")
    db = studio.context.workspace.db
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
    db = studio.context.workspace.db
    session = sessions.get(db, studio.session("S1"))
    assert session is not None
    long_ago = studio.context.workspace.clock.now_ns() - 11 * MINUTE_NS
    with db.write():
        sessions.put(db, replace(session, last_seen_ns=long_ago))
    stage(studio)
    assert check(studio)["status"] == "passed"


def test_turn_whose_process_is_gone_has_expired(studio: Studio) -> None:
    studio.write("S1", "new", LINES)
    stage(studio)
    with subprocess.Popen(["sleep", "60"]) as child:
        runs_in(studio, "S1", child.pid)
        assert check(studio)["status"] == "refused"
        child.kill()
        child.wait()
    assert check(studio)["status"] == "passed"


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


def test_broken_policy_in_the_change_is_refused(studio: Studio) -> None:
    studio.hand(".agent-undo.toml", "[check\n")
    stage(studio)
    row = findings(check(studio))[0]
    assert (row["rule"], row["level"], row["path"]) == (
        "policy",
        "refuse",
        ".agent-undo.toml",
    )
    assert row["remedy"] == "fix the file, then: git add .agent-undo.toml"


def test_broken_policy_can_be_mended(studio: Studio) -> None:
    studio.hand(".agent-undo.toml", "[check\n")
    studio.commit("broken")
    studio.hand(".agent-undo.toml", "[check]\n")
    stage(studio)
    document = check(studio)
    assert document["status"] == "passed"
    warnings = document["warnings"]
    assert isinstance(warnings, list)
    assert ".agent-undo.toml before this change: it is not valid TOML" in str(
        warnings[0]
    )


def test_linked_policy_is_not_followed(studio: Studio) -> None:
    studio.repo.write("elsewhere", "[check]\ngaps = 'refuse'\n")
    studio.repo.symlink(".agent-undo.toml", "elsewhere")
    stage(studio)
    row = findings(check(studio))[0]
    assert row["reason"] == (
        "cannot use the policy: it is a symbolic link, which is not followed"
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
