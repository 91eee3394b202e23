"""An agent's own work: whose session it is follows from processes, and nothing else is touched."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from gitshadow.attribution.process import ProcessId, ancestors
from gitshadow.errors import RefusedError, ShadowError, UsageError
from gitshadow.model import Confidence
from gitshadow.store.journal import events, sessions
from gitshadow.store.journal.events import EventFilter
from tests.support.repo import Repo
from tests.support.studio import Document, Studio, studio_of

ME = ancestors(os.getpid())


@pytest.fixture
def studio(repo: Repo) -> Iterator[Studio]:
    """Return a recorded repository."""
    with studio_of(repo) as made:
        yield made


@pytest.fixture
def other() -> Iterator[ProcessId]:
    """Return a living process that is not above this one."""
    sleeper = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with closing(sleeper.stdin):  # type: ignore[type-var]
        yield ancestors(sleeper.pid)[0]
    sleeper.wait()


def runs_in(studio: Studio, who: str, process: ProcessId) -> None:
    """Have a session be that of a process."""
    db = studio.context.workspace.db
    known = sessions.get(db, studio.session(who))
    assert known is not None
    bound = replace(known, pid=process.pid, pid_started=process.started)
    with db.write():
        sessions.put(db, bound)


def ask(studio: Studio, verb: str, **params: object) -> Document:
    """Ask as a program that stands where this one stands."""
    return studio.run(verb, ancestors=[list(one) for one in ME], **params)


def undo(studio: Studio, target: str, *paths: str) -> Document:
    """Plan and apply, as an agent is to."""
    plan = ask(studio, "own_undo", target=target, paths=list(paths))
    return ask(
        studio, "own_undo", target=target, paths=list(paths), token=plan["token"]
    )


def changes(studio: Studio, **params: object) -> list[Document]:
    """Return what the session wrote."""
    rows = ask(studio, "own_changes", **params)["rows"]
    assert isinstance(rows, list)
    return rows


def text(studio: Studio, path: str) -> str:
    """Return what a file holds."""
    return (studio.repo.root / path).read_text()


def test_the_session_of_the_nearest_process_is_ones_own(
    studio: Studio, other: ProcessId
) -> None:
    studio.write("S1", "x", "1\n")
    studio.write("S2", "y", "1\n")
    runs_in(studio, "S1", ME[0])
    runs_in(studio, "S2", other)
    assert ask(studio, "own_session")["native_id"] == "S1"
    assert [row["path"] for row in changes(studio)] == ["x"]


def test_an_agent_inside_another_one_is_itself(studio: Studio) -> None:
    studio.write("outer", "x", "1\n")
    studio.write("inner", "y", "1\n")
    runs_in(studio, "outer", ME[1])
    runs_in(studio, "inner", ME[0])
    assert ask(studio, "own_session")["native_id"] == "inner"


def test_two_sessions_in_one_process_are_nobodys(studio: Studio) -> None:
    studio.write("S1", "x", "1\n")
    studio.write("S2", "y", "1\n")
    runs_in(studio, "S1", ME[0])
    runs_in(studio, "S2", ME[0])
    with pytest.raises(RefusedError, match="this process has several"):
        ask(studio, "own_undo", target="session")


def test_an_agent_above_is_known_even_where_its_session_is_not(studio: Studio) -> None:
    """So that whoever records calls of its own does not claim what its hooks tell of."""
    assert ask(studio, "own_above") == {"sessions": []}
    studio.write("S1", "x", "1\n")
    studio.write("S2", "y", "1\n")
    runs_in(studio, "S1", ME[0])
    assert ask(studio, "own_above") == {"sessions": [studio.session("S1")]}
    runs_in(studio, "S2", ME[0])
    found = ask(studio, "own_above")["sessions"]
    assert isinstance(found, list)
    assert set(found) == {studio.session("S1"), studio.session("S2")}


def test_without_a_session_nothing_is_ones_own(studio: Studio) -> None:
    studio.write("S1", "x", "1\n")
    for verb in ("own_session", "own_changes", "own_undone", "own_undo"):
        with pytest.raises(RefusedError, match="cannot identify the current session"):
            ask(studio, verb, target="session")


def test_the_pid_of_a_dead_agent_given_to_another_process_is_not_believed(
    studio: Studio,
) -> None:
    studio.write("S1", "x", "1\n")
    runs_in(studio, "S1", ProcessId(ME[0].pid, ME[0].started - 1))
    with pytest.raises(RefusedError, match="cannot identify the current session"):
        ask(studio, "own_session")


def test_a_person_who_opened_a_session_is_no_agent(studio: Studio) -> None:
    studio.hand("x", "1\n")
    (mine,) = [
        one
        for one in sessions.live(studio.context.workspace.db)
        if one.actor.value in ("human", "unknown")
    ][:1]
    db = studio.context.workspace.db
    with db.write():
        bound = replace(mine, pid=ME[0].pid, pid_started=ME[0].started)
        sessions.put(db, bound)
    with pytest.raises(RefusedError, match="cannot identify the current session"):
        ask(studio, "own_session")


@pytest.mark.parametrize("how", ["session", "turn", "call", "seq", "burst"])
def test_own_work_is_taken_back_by_any_id_that_is_shown(
    studio: Studio, how: str
) -> None:
    studio.write("S1", "x", "1\n")
    runs_in(studio, "S1", ME[0])
    (row,) = changes(studio)
    report = undo(studio, "session" if how == "session" else str(row[how]))
    assert (report["status"], (studio.repo.root / "x").exists()) == ("reversed", False)
    (undone,) = _rows(ask(studio, "own_undone"))
    assert (undone["by"], undone["paths"]) == ("you", ["x"])
    assert changes(studio)[-1]["undone_by"] == report["op_id"]


def test_a_plan_changes_nothing(studio: Studio) -> None:
    studio.write("S1", "x", "1\n")
    runs_in(studio, "S1", ME[0])
    assert ask(studio, "own_undo", target="session")["status"] == "planned"
    assert text(studio, "x") == "1\n"


@pytest.mark.parametrize("token", ["", "0", "ffffffff0000001"])
def test_an_undo_without_the_token_of_its_plan_is_refused(
    studio: Studio, token: str
) -> None:
    studio.write("S1", "x", "1\n")
    runs_in(studio, "S1", ME[0])
    with pytest.raises(RefusedError, match="cannot apply plan"):
        ask(studio, "own_undo", target="session", token=token)
    assert (studio.repo.root / "x").exists()


def test_what_is_anothers_is_refused_by_every_id(
    studio: Studio, other: ProcessId
) -> None:
    """Hostile: ids of another agent's session, a person's event, an undo."""
    studio.write("S1", "x", "1\n")
    studio.write("S2", "y", "1\n")
    studio.hand("z", "1\n")
    runs_in(studio, "S1", ME[0])
    runs_in(studio, "S2", other)
    op = undo(studio, "session")["op_id"]
    rows = studio.run("log")["rows"]
    assert isinstance(rows, list)
    theirs = next(row for row in rows if row["path"] == "y")
    persons = next(row for row in rows if row["path"] == "z")
    wanted = [
        *(studio.session("S2"), "S2", theirs["turn"], theirs["call"]),
        *(theirs["seq"], theirs["burst"], persons["seq"], persons["session"], op),
    ]
    for target in wanted:
        with pytest.raises(RefusedError, match="not work of this session"):
            ask(studio, "own_undo", target=str(target), token="x")
    assert text(studio, "y") == "1\n"
    assert text(studio, "z") == "1\n"


@pytest.mark.parametrize("target", ["", "z", "./z", "../..", "no-such", "%", "*"])
def test_a_path_is_no_target(studio: Studio, target: str) -> None:
    studio.hand("z", "1\n")
    studio.write("S1", "x", "1\n")
    runs_in(studio, "S1", ME[0])
    with pytest.raises(UsageError):
        ask(studio, "own_undo", target=target)


@pytest.mark.parametrize("path", ["../out", "/etc/passwd"])
def test_a_path_outside_is_refused(studio: Studio, path: str) -> None:
    studio.write("S1", "x", "1\n")
    runs_in(studio, "S1", ME[0])
    for verb in ("own_undo", "own_changes"):
        with pytest.raises(UsageError, match="outside"):
            ask(studio, verb, target="session", paths=[path])


def test_a_persons_file_is_not_chosen_by_its_path(studio: Studio) -> None:
    """Hostile: a path that only a person wrote."""
    studio.hand("z", "1\n")
    studio.write("S1", "x", "1\n")
    runs_in(studio, "S1", ME[0])
    with pytest.raises(UsageError, match="none of its paths is selected"):
        undo(studio, "session", "z")
    assert text(studio, "z") == "1\n"


def test_lines_that_a_person_added_later_stay(studio: Studio) -> None:
    studio.write("S1", "a", "agent\n" + text(studio, "a"))
    runs_in(studio, "S1", ME[0])
    before = text(studio, "a")
    studio.hand("a", before + "person\n")
    report = undo(studio, "session", "a")
    assert report["status"] == "reversed"
    assert text(studio, "a") == before[len("agent\n") :] + "person\n"


def test_where_lines_conflict_the_persons_stay(studio: Studio) -> None:
    studio.write("S1", "x", "agent\n")
    runs_in(studio, "S1", ME[0])
    studio.hand("x", "person\n")
    report = undo(studio, "session")
    assert report["status"] == "partial"
    assert text(studio, "x") == "person\n"


def test_what_is_only_thought_to_be_ones_own_is_named_and_left(studio: Studio) -> None:
    """A write in an open turn without a call may be a person's."""
    studio.write("S1", "x", "1\n")
    runs_in(studio, "S1", ME[0])
    db = studio.context.workspace.db
    (event,) = events.changes(
        db, EventFilter(sessions=(studio.session("S1"),), limit=1)
    )
    with db.write():
        db.run(
            "UPDATE events SET confidence = ?, call = NULL WHERE seq = ?",
            (Confidence.MEDIUM.value, event.seq),
        )
    for target in ("session", str(event.seq)):
        plan = ask(studio, "own_undo", target=target)
        assert (plan["status"], plan["maybe"]) == ("nothing_to_do", ["x"])


def test_the_work_of_a_subagent_belongs_to_its_parent(
    studio: Studio, other: ProcessId
) -> None:
    studio.write("S1", "x", "1\n")
    studio.write("sub", "y", "1\n")
    runs_in(studio, "S1", ME[0])
    db = studio.context.workspace.db
    sub = sessions.get(db, studio.session("sub"))
    assert sub is not None
    with db.write():
        sessions.put(db, replace(sub, parent=studio.session("S1")))
    runs_in(studio, "sub", ME[0])
    assert {row["path"] for row in changes(studio)} == {"x", "y"}
    runs_in(studio, "S1", other)
    assert ask(studio, "own_session")["native_id"] == "sub"
    with pytest.raises(RefusedError, match="not work of this session"):
        ask(studio, "own_undo", target=studio.session("S1"))


def test_what_a_person_undid_is_shown(studio: Studio) -> None:
    studio.write("S1", "x", "1\n")
    runs_in(studio, "S1", ME[0])
    studio.run("undo", verb="oops", yes=True)
    (row,) = _rows(ask(studio, "own_undone"))
    assert (row["kind"], row["by"], row["paths"]) == ("oops", "the user", ["x"])


def test_an_undo_of_ones_own_is_recorded_as_ones_own(studio: Studio) -> None:
    studio.write("S1", "x", "1\n")
    runs_in(studio, "S1", ME[0])
    report = undo(studio, "session")
    (op,) = _rows(studio.run("ops"))
    assert (op["id"], op["session"]) == (report["op_id"], studio.session("S1"))
    studio.run("undo", verb="redo", yes=True)
    assert text(studio, "x") == "1\n"
    assert _rows(ask(studio, "own_undone")) == []


@pytest.mark.parametrize("given", [None, []])
def test_who_does_not_say_where_it_stands_gets_nothing(
    studio: Studio, given: object
) -> None:
    with pytest.raises(ShadowError, match="cannot identify the caller"):
        studio.run("own_session", ancestors=given)


@pytest.mark.parametrize("given", ["1", [[1]], [["1", 2]], [1], [[1, 2, 3]]])
def test_ancestors_that_are_no_processes_are_refused(
    studio: Studio, given: object
) -> None:
    with pytest.raises(
        UsageError, match="ancestors: expected a list of pairs of whole"
    ):
        studio.run("own_session", ancestors=given)


def _rows(document: Document) -> list[Document]:
    rows = document["rows"]
    assert isinstance(rows, list)
    return rows


def oops(studio: Studio, **params: object) -> Document:
    """Run `oops --own`, as an agent does."""
    above = [list(one) for one in ME]
    return studio.run("undo", verb="oops", ancestors=above, **params)


def test_oops_undoes_the_newest_turn_of_the_caller_alone(studio: Studio) -> None:
    studio.write("S1", "x", "1\n")
    studio.write("S2", "y", "1\n")
    runs_in(studio, "S1", ME[0])
    plan = oops(studio, dry_run=True)
    assert plan["status"] == "planned"
    assert [item["path"] for item in plan["items"]] == ["x"]  # type: ignore[attr-defined]
    assert oops(studio, yes=True, token=plan["token"])["status"] == "reversed"
    assert not (studio.repo.root / "x").exists()
    assert text(studio, "y") == "1\n"
    with pytest.raises(UsageError, match="no change of this session is in effect"):
        oops(studio)


def test_oops_of_a_caller_without_a_session_undoes_nothing(studio: Studio) -> None:
    studio.write("S1", "x", "1\n")
    with pytest.raises(RefusedError, match="cannot identify the current session"):
        oops(studio, yes=True)
    assert text(studio, "x") == "1\n"
