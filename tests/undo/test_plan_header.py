"""What a plan says first: whose work it is about, of which turn, and what is elsewhere."""

from pathlib import Path

from gitshadow.store.journal import events
from gitshadow.store.journal.events import EventFilter
from gitshadow.undo import about as undo_about
from tests.support.repo import Repo
from tests.support.reports import uncovered
from tests.support.sql_work import counted_sql
from tests.support.studio import Document, Studio, studio_of


def plan(studio: Studio, verb: str, *targets: str, apply: bool = False) -> Document:
    rows = [{"text": target, "path_only": False} for target in targets]
    return studio.run("undo", verb=verb, targets=rows, yes=apply)


def about(document: Document) -> list[tuple[object, ...]]:
    rows = document["about"]
    assert isinstance(rows, list)
    names = ("agent", "prompt", "ordinal", "turns", "files")
    return [tuple(row[name] for name in names) for row in rows]


def two_turns(studio: Studio) -> None:
    studio.start("S1")
    studio.prompt("S1", "Tidy up\nand more")
    studio.write("S1", "a", "1\n")
    studio.stop("S1")
    studio.prompt("S1", "Clean up: delete the old folder")
    studio.write("S1", "b", "2\n")
    studio.write("S1", "c", "2\n")
    studio.stop("S1")


def test_plan_says_whose_work_it_is_about(studio: Studio) -> None:
    two_turns(studio)
    newest = ("claude-code", "Clean up: delete the old folder", 2, 2, 2)
    assert about(plan(studio, "oops")) == [newest]
    whole = about(plan(studio, "undo", studio.session("S1")))
    assert whole == [newest, ("claude-code", "Tidy up and more", 1, 2, 1)]


def test_prompt_is_found_without_reading_the_other_turns(studio: Studio) -> None:
    """LAW-08: `oops`, `stage` and the list of undos ask for it."""
    two_turns(studio)
    ws, session, many = studio.context.workspace, studio.session("S1"), 2000
    ws.db.run_many(
        "INSERT INTO turns (session, id, ordinal, started_ns, ended_ns)"
        " VALUES (?, ?, ?, 1, 2)",
        [(session, f"turn-{number}", number) for number in range(3, many + 3)],
    )
    (row, *_) = events.writes(ws.db, EventFilter(sessions=frozenset({session})))
    with counted_sql(ws.db) as work:
        (found,) = undo_about.about(ws.db, ws.layout.worktree, [row])
    newest = ("Clean up: delete the old folder", 2, 2002)
    assert (found.prompt, found.ordinal, found.turns) == newest
    assert work.steps < many


def test_newer_turns_that_did_nothing_are_not_looked_up_one_by_one(
    studio: Studio,
) -> None:
    """LAW-08: a plan names what they did elsewhere."""
    two_turns(studio)
    ws, session, many = studio.context.workspace, studio.session("S1"), 500
    now_ns = ws.clock.now_ns()
    ws.db.run_many(
        "INSERT INTO turns (session, id, ordinal, started_ns, ended_ns)"
        " VALUES (?, ?, ?, ?, ?)",
        [
            (session, f"turn-{number}", number, now_ns + number, now_ns + number)
            for number in range(3, many + 3)
        ],
    )
    with counted_sql(ws.db) as work:
        plan(studio, "oops")
    assert len(work.statements) < many


def test_redo_and_list_of_undos_say_whose_work_was_undone(studio: Studio) -> None:
    two_turns(studio)
    newest = ("claude-code", "Clean up: delete the old folder", 2, 2, 2)
    plan(studio, "oops", apply=True)
    assert about(plan(studio, "redo")) == [newest]
    plan(studio, "redo", apply=True)
    rows = studio.run("ops")["rows"]
    assert isinstance(rows, list)
    assert [about(row) for row in rows] == [[newest], [newest]]


def test_conflict_markers_name_the_turn_by_its_prompt(
    repo: Repo, studio: Studio
) -> None:
    two_turns(studio)
    studio.hand("b", "mine\n")
    studio.run("undo", verb="oops", yes=True, on_conflict="markers")
    first, *_, last = repo.read("b").decode().splitlines()
    assert first == '<<<<<<< before the turn "Clean up: delete the old folder"'
    assert last == ">>>>>>> now"


def test_report_names_what_the_turn_wrote_in_another_worktree(
    repo: Repo, studio: Studio, tmp_path: Path
) -> None:
    linked = Repo(tmp_path / "linked")
    repo.git("worktree", "add", "-q", str(linked.root))
    studio.start("S1")
    studio.prompt("S1", "both")
    studio.write("S1", "a", "1\n")
    with studio_of(linked) as other:
        other.turns = studio.turns
        other.write("S1", "a", "2\n")
        other.write("S1", "n", "2\n")
        here = uncovered(plan(studio, "oops"))
        (what, why), *more = here.items()
        assert (what, more) == (f"a, n in {linked.root}", [])
        assert f"git -C {linked.root} agent-undo undo b-" in why
        plan(other, "undo", why.rpartition(" ")[2], apply=True)
    assert uncovered(plan(studio, "oops")) == {}
