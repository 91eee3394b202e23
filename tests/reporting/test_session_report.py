"""The facts of a report: turns, files, what was undone, what is in doubt and not covered."""

import json
from collections.abc import Iterator

import pytest

from gitshadow.errors import UsageError
from gitshadow.reporting import session_report as story_module
from tests.support.repo import Repo
from tests.support.reports import rows_of
from tests.support.studio import Studio, studio_of

Rows = list[dict[str, object]]


@pytest.fixture
def studio(repo: Repo) -> Iterator[Studio]:
    with studio_of(repo) as made:
        yield made


def told(found: Rows, *names: str) -> list[tuple[object, ...]]:
    return [tuple(row.get(name) for name in names) for row in found]


def two_turns(studio: Studio) -> None:
    studio.prompt("S1", "first\nmore")
    studio.write("S1", "a", "x\n")
    studio.write("S1", "n", "1\n2\n")
    studio.stop("S1")
    studio.prompt("S1", "second")
    studio.write("S1", "n", "1\n3\n")
    studio.stop("S1")


def test_turns_are_told_in_order_with_their_own_changes(studio: Studio) -> None:
    two_turns(studio)
    steps = rows_of(studio.run("report"), "steps")
    assert told(steps, "kind", "prompt", "events", "confidence", "undone") == [
        ("turn", "first\nmore", 2, "certain", None),
        ("turn", "second", 1, "certain", None),
    ]
    assert told(rows_of(steps[0], "files"), "path", "kind", "added", "removed") == [
        ("a", "modify", 1, 10),
        ("n", "create", 2, 0),
    ]
    assert told(rows_of(steps[1], "files"), "path", "patch") == [
        ("n", "@@ -1,2 +1,2 @@\n 1\n-2\n+3")
    ]
    assert steps[0]["tools"] == [{"tool": "Write", "calls": 2}]


def test_files_are_told_once_with_their_turns(studio: Studio) -> None:
    two_turns(studio)
    files = rows_of(studio.run("report"), "files")
    assert told(files, "path", "kind", "added", "removed", "steps", "now") == [
        ("a", "modify", 1, 10, [1], "as left"),
        ("n", "create", 2, 0, [1, 2], "as left"),
    ]


def test_what_is_taken_back_says_so_until_it_is_redone(studio: Studio) -> None:
    two_turns(studio)
    studio.run("undo", verb="oops", yes=True)
    document = studio.run("report")
    assert told(rows_of(document, "steps"), "undone") == [(None,), ("whole",)]
    assert told(rows_of(document, "files"), "path", "undone", "now") == [
        ("a", None, "as left"),
        ("n", "partly", "changed since"),
    ]
    assert told(rows_of(document, "ops"), "kind", "outcome", "steps", "undone_by") == [
        ("oops", "reversed", [2], None)
    ]
    studio.run("undo", verb="redo", yes=True)
    document = studio.run("report")
    assert told(rows_of(document, "steps"), "undone") == [(None,), (None,)]
    assert told(rows_of(document, "ops"), "kind", "steps") == [
        ("oops", [2]),
        ("redo", [2]),
    ]


def test_undo_of_somebody_else_is_none_of_its_business(studio: Studio) -> None:
    studio.write("S1", "a", "x\n")
    studio.stop("S1")
    studio.write("S2", "b", "y\n")
    studio.stop("S2")
    studio.run("undo", verb="oops", yes=True)
    assert rows_of(studio.run("report", session="S1"), "ops") == []
    assert len(rows_of(studio.run("report", session="S2"), "ops")) == 1


def test_what_git_switched_and_undos_of_its_own_are_no_changes(studio: Studio) -> None:
    studio.repo.git("checkout", "-qb", "side")
    studio.repo.write("b", "on the side\n")
    studio.commit("side")
    studio.write("S1", "a", "x\n")
    call = {"tool_name": "Bash", "tool_use_id": "c1"}
    studio.hook("S1", "PreToolUse", **call, tool_input={"command": "git checkout main"})
    studio.repo.git("stash", "-q")
    studio.repo.git("checkout", "-q", "main")
    studio.hook("S1", "PostToolUse", **call, tool_input={}, tool_response={})
    document = studio.run("report", session="S1")
    listed = studio.run("log", session=studio.session("S1"))
    moves = [row for row in rows_of(listed, "rows") if row.get("files")]
    shown = [studio.run("show", id=str(move["seq"])) for move in moves]
    assert "b" in [
        path for one in shown for (path,) in told(rows_of(one, "events"), "path")
    ]
    assert "b" not in [path for (path,) in told(rows_of(document, "files"), "path")]


def test_later_work_of_others_is_marked(studio: Studio) -> None:
    two_turns(studio)
    studio.hand("n", "1\n3\n4\n")
    studio.hand("a", "x\n" * 2)
    studio.repo.delete("a")
    files = rows_of(studio.run("report"), "files")
    assert told(files, "path", "now", "others") == [
        ("a", "deleted since", True),
        ("n", "changed since", True),
    ]


def test_writes_without_a_turn_are_bursts(studio: Studio) -> None:
    started = studio.run("session_start", agent="helper")
    studio.repo.write("a", "x\n")
    studio.run("record", paths=["a"], session=started["id"])
    document = studio.run("report", session=started["id"])
    assert told(rows_of(document, "steps"), "kind", "prompt", "events") == [
        ("turn", None, 0),  # `session start` begins one
        ("burst", None, 1),
    ]


def test_work_of_a_subagent_belongs_to_the_turn_that_started_it(
    studio: Studio,
) -> None:
    studio.prompt("S1", "delegate")
    told_call = {"tool_name": "Write", "tool_use_id": "t1", "agent_id": "sub"}
    asked = {"file_path": str(studio.repo.root / "a"), "content": ""}
    studio.hook("S1", "PreToolUse", **told_call, tool_input=asked)
    studio.repo.write("a", "by a subagent\n")
    studio.hook("S1", "PostToolUse", **told_call, tool_input=asked, tool_response={})
    studio.stop("S1")
    document = studio.run("report", session="S1")
    assert told(rows_of(document, "steps"), "prompt", "events") == [("delegate", 1)]
    session = document["session"]
    assert isinstance(session, dict)
    assert session["subagents"] == 1


def test_writes_that_may_be_anybodys_are_listed_for_both(studio: Studio) -> None:
    for who in ("S1", "S2"):
        studio.prompt(who, "run something")
        call = {"tool_name": "Bash", "tool_use_id": f"call-{who}"}
        studio.hook(who, "PreToolUse", **call, tool_input={"command": "make"})
    studio.hand("a", "x\n")
    (row,) = rows_of(studio.run("log", paths=["a"]), "rows")
    assert row["confidence"] == "ambiguous"
    for who in ("S1", "S2"):
        unsure = rows_of(studio.run("report", session=who), "unsure")
        whose = "its own" if row["session"] == studio.session(who) else "another author"
        assert told(unsure, "path", "confidence") == [("a", "ambiguous")]
        assert whose in str(unsure[0]["whose"])


def test_gaps_and_uncovered_paths_are_named(studio: Studio) -> None:
    studio.repo.write(".gitignore", "build/\n")
    studio.repo.write("build/out", "made\n")
    two_turns(studio)
    studio.run("journal_gap", why="the daemon was killed")
    covered = studio.run("report")["not_covered"]
    assert isinstance(covered, dict)
    assert told(covered["gaps"], "reason") == [("the daemon was killed",)]
    assert told(covered["excluded"], "path", "reason", "rule") == [
        ("build", "ignored", ".gitignore:1:build/")
    ]


def test_timeline_has_a_lane_for_each_writer(studio: Studio) -> None:
    two_turns(studio)
    studio.write("S2", "b", "y\n")
    studio.stop("S2")
    studio.hand("c", "mine\n")
    timeline = studio.run("report", session="S1")["timeline"]
    assert isinstance(timeline, dict)
    assert told(timeline["lanes"], "kind", "label") == [
        ("session", "this session"),
        ("agent", "claude-code"),
        ("person", "you?"),
    ]
    assert [len(lane["spans"]) for lane in timeline["lanes"]] == [2, 1, 1]


def test_timeline_of_a_moment_has_room_around_it(studio: Studio) -> None:
    two_turns(studio)
    document = studio.run("report")
    timeline, session = document["timeline"], document["session"]
    assert isinstance(timeline, dict)
    assert isinstance(session, dict)
    assert timeline["begin"] < session["started"]
    assert timeline["end"] > session["last"]


def test_newest_session_of_an_agent_is_meant_where_none_is_named(
    studio: Studio,
) -> None:
    with pytest.raises(UsageError, match="no agent session is recorded here"):
        studio.run("report")
    studio.write("S1", "a", "x\n")
    studio.write("S2", "b", "y\n")
    studio.hand("c", "mine\n")
    session = studio.run("report")["session"]
    assert isinstance(session, dict)
    assert session["id"] == studio.session("S2")


def test_no_path_outside_of_the_repository_is_told(studio: Studio) -> None:
    """A page is passed on."""
    two_turns(studio)
    studio.run("undo", verb="oops", yes=True)
    text = json.dumps(studio.run("report"))
    assert str(studio.repo.root.parent) not in text
    assert '"name": "repo"' in text


def test_what_the_limits_leave_out_is_counted(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    two_turns(studio)
    monkeypatch.setattr(story_module, "STEPS", 1)
    monkeypatch.setattr("gitshadow.api.report.STEPS", 1)
    document = studio.run("report")
    assert len(rows_of(document, "steps")) == 1
    assert told(rows_of(document, "left_out"), "what") == [("1 turns",)]


def test_model_is_told_where_it_was_named(studio: Studio) -> None:
    studio.start("S1", model="claude-opus-9")
    two_turns(studio)
    session = studio.run("report")["session"]
    assert isinstance(session, dict)
    assert session["models"] == ["claude-opus-9"]
