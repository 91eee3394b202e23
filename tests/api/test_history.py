"""history: turns, people's changes, undos and moves of HEAD, newest first."""

import random
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from gitshadow.api.history import history
from gitshadow.errors import UsageError
from gitshadow.messages.history import HistoryRequest, HistoryRow
from gitshadow.model import Confidence
from gitshadow.store.journal import turns
from tests.support.engine import Engine
from tests.support.repo import Repo


@pytest.fixture
def engine(repo: Repo) -> Iterator[Engine]:
    made = Engine.open(repo.root)
    yield made
    made.close()


ALL = HistoryRequest()


def rows(engine: Engine, request: HistoryRequest = ALL) -> tuple[HistoryRow, ...]:
    return history(engine.context, request._replace(cwd=str(engine.root))).rows


def asked(engine: Engine, who: str, name: str, prompt: str) -> None:
    known = turns.get_turn(engine.db, who, name)
    assert known is not None
    with engine.db.write():
        turns.put_turn(engine.db, replace(known, prompt=prompt))


def test_each_turn_is_one_row_with_prompt_files_and_lines(engine: Engine) -> None:
    engine.by("one", "first").write("n", "1\n2\n3\n")
    engine.write("m", "1\n")
    engine.write("n", "1\n2\n")
    asked(engine, "one", "first", "Tidy\n  up")
    (row,) = rows(engine)
    assert (row.kind, row.id, row.agent) == ("turn", "t1", "claude-code")
    assert row.prompt == "Tidy up"
    assert (row.files, row.added, row.removed) == (2, 3, 0)
    assert row.paths == ("m", "n")


def test_people_are_between_turns_and_undos_are_rows(engine: Engine) -> None:
    engine.by("one", "first").write("n", "1\n")
    engine.by("human").write("mine", "1\n")
    engine.by("one", "second").write("m", "1\n")
    engine.by("human")
    engine.undo("t2")
    found = rows(engine)
    assert [(row.kind, row.actor) for row in found] == [
        ("undo", "human"),
        ("turn", "agent"),
        ("changes", "human"),
        ("turn", "agent"),
    ]
    assert found[0].note == "t2"
    assert [(row.undone, row.files) for row in found[1::2]] == [(1, 1), (0, 1)]


def test_partly_undone_turn_says_how_many_files(engine: Engine) -> None:
    engine.by("one", "first").write("n", "1\n")
    engine.write("m", "1\n")
    engine.undo("t1", only=["m"])
    turn = next(row for row in rows(engine) if row.kind == "turn")
    assert (turn.undone, turn.files) == (1, 2)


def test_limit_says_that_there_is_more(engine: Engine) -> None:
    for number in range(3):
        engine.by("one", f"turn {number}").write("n", f"{number}\n")
    request = HistoryRequest(limit=2, cwd=str(engine.root))
    answer = history(engine.context, request)
    assert [row.id for row in answer.rows] == ["t3", "t2"]
    assert answer.more
    assert not history(engine.context, request._replace(limit=3)).more


def test_filters_choose_by_path_text_session_agent_and_time(engine: Engine) -> None:
    engine.by("one", "first").write("src/n", "1\n")
    asked(engine, "one", "first", "Make the parser")
    engine.by("two", "second").write("m", "1\n")
    assert [row.id for row in rows(engine, HistoryRequest(paths=("src",)))] == ["t1"]
    assert [row.id for row in rows(engine, HistoryRequest(text="parser"))] == ["t1"]
    assert [row.id for row in rows(engine, HistoryRequest(session="two"))] == ["t2"]
    assert [row.id for row in rows(engine, HistoryRequest(agent="codex"))] == []
    assert [
        row.id for row in rows(engine, HistoryRequest(until=engine.log()[-1].ts_ns))
    ] == []


def test_move_of_head_is_one_row(engine: Engine) -> None:
    engine.by("human").git("switch", "-q", "-c", "other")
    assert [row.kind for row in rows(engine)] == ["head"]
    assert "other" in rows(engine)[0].note


def test_switch_of_many_files_is_one_row_also_by_path(engine: Engine) -> None:
    engine.by("human").git("switch", "-q", "-c", "other")
    for number in range(5):
        (engine.root / f"f{number}").write_text("other\n")
    engine.git("add", ".")
    engine.git("commit", "-qm", "other")
    engine.git("switch", "-q", "main")
    (newest, *_) = rows(engine)
    assert (newest.kind, newest.files) == ("head", 5)
    of_path = rows(engine, HistoryRequest(paths=("f3",)))
    assert [row.kind for row in of_path] == ["head", "changes"]


def test_change_of_coverage_is_one_row(engine: Engine) -> None:
    engine.by("human")
    for number in range(5):
        engine.write(f"f{number}.log", "x\n")
    engine.write(".gitignore", "*.log\n")
    (row,) = [row for row in rows(engine) if row.kind == "coverage"]
    assert (row.files, len(row.paths)) == (5, 3)


def test_unsure_files_are_counted(engine: Engine) -> None:
    engine.by("one", "first").write("n", "1\n")
    engine.by("one", "first", confidence=Confidence.LOW).write("m", "1\n")
    (row,) = rows(engine)
    assert (row.files, row.unsure) == (2, 1)


def test_pages_go_on_below_and_above_an_event(engine: Engine) -> None:
    for number in range(5):
        engine.by("one", f"turn {number}").write("n", f"{number}\n")
    newest = rows(engine, HistoryRequest(limit=2))
    assert [row.id for row in newest] == ["t5", "t4"]
    below = rows(engine, HistoryRequest(limit=2, below=newest[-1].seq))
    assert [row.id for row in below] == ["t3", "t2"]
    above = rows(engine, HistoryRequest(limit=2, above=below[-1].seq))
    assert [row.id for row in above] == ["t4", "t3"]
    oldest = history(engine.context, HistoryRequest(limit=2, above=0))
    assert [row.id for row in oldest.rows] == ["t2", "t1"]
    assert oldest.more


def test_turn_that_was_newer_is_not_on_the_page_below(engine: Engine) -> None:
    """Its older changes are below, but the turn is where its newest change is."""
    engine.by("one", "first").write("n", "1\n")
    engine.by("two", "second").write("m", "1\n")
    engine.by("one", "first").write("n", "2\n")
    newest = rows(engine, HistoryRequest(limit=1))
    assert [row.id for row in newest] == ["t1"]
    below = rows(engine, HistoryRequest(below=newest[0].seq))
    assert [row.id for row in below] == ["t2"]


def test_row_of_an_event_is_found_and_has_its_changes(engine: Engine) -> None:
    engine.by("one", "first").write("n", "1\n")
    first = rows(engine)[0].seq
    engine.by("two", "second").write("m", "1\n")
    engine.by("one", "first").write("n", "2\n")
    (row, *older) = rows(engine, HistoryRequest(of=first, events=True))
    assert row.id == "t1"
    assert [row.id for row in older] == ["t2"]
    assert [(one.path, one.kind) for one in row.events] == [
        ("n", "modify"),
        ("n", "create"),
    ]
    with pytest.raises(UsageError, match="cannot find event"):
        rows(engine, HistoryRequest(of=9999))


def test_undo_is_found_by_an_event_of_it_and_named_by_what_it_undid(
    engine: Engine,
) -> None:
    engine.by("one", "first").write("n", "1\n")
    engine.by("human")
    op = engine.undo("t1").op_id
    (undo, turn) = rows(engine)
    assert (turn.undone_by, undo.undone_by) == (op, "")
    assert rows(engine, HistoryRequest(of=undo.seq, limit=1)) == (undo,)


def test_kinds_choose_the_changes_that_count(engine: Engine) -> None:
    engine.by("one", "first").write("n", "1\n")
    engine.write("m", "1\n")
    engine.by("one", "second").write("n", "2\n")
    engine.by("human").git("switch", "-q", "-c", "other")
    found = rows(engine, HistoryRequest(kinds=("create",)))
    assert [(row.id, row.files) for row in found] == [("t1", 2)]
    assert [row.kind for row in rows(engine, HistoryRequest(kinds=("head",)))] == [
        "head"
    ]
    with pytest.raises(UsageError, match="no such kind: nothing"):
        rows(engine, HistoryRequest(kinds=("nothing",)))


def test_text_is_found_in_capital_and_small_letters(engine: Engine) -> None:
    engine.by("one", "first").write("src/Parser.py", "1\n")
    assert [row.id for row in rows(engine, HistoryRequest(text="pARSER"))] == ["t1"]


def test_rows_of_several_worktrees_are_in_one_order(
    engine: Engine, tmp_path: Path
) -> None:
    engine.by("one", "first").write("n", "1\n")
    linked = tmp_path / "linked"
    engine.run_git("worktree", "add", "-q", "-b", "side", str(linked))
    with closing(Engine.open(linked)) as there:
        there.by("two", "second").write("m", "1\n")
        other = rows(there)
    engine.by("one", "third").write("n", "2\n")
    both = HistoryRequest(worktrees=("main", "linked"), kinds=("create", "modify"))
    assert [(row.worktree, row.id) for row in rows(engine, both)] == [
        ("main", "t3"),
        ("linked", "t2"),
        ("main", "t1"),
    ]
    assert rows(engine, HistoryRequest(of=other[0].seq)) == ()


def test_filters_find_what_a_child_session_changed(engine: Engine) -> None:
    """It is part of its parent's turn; what is found is what the whole list shows."""
    engine.by("one", "first").write("n", "1\n")
    engine.start("kid", parent="one")
    engine.by("kid").write("c", "1\n")
    listed = [row.id for row in rows(engine) if "c" in row.paths]
    assert listed
    for request in (HistoryRequest(paths=("c",)), HistoryRequest(text="C")):
        assert [row.id for row in rows(engine, request)] == listed


@pytest.mark.parametrize("seed", range(6))
def test_rows_are_the_same_without_what_is_between_writes_alike(
    engine: Engine, seed: int
) -> None:
    """A turn that wrote a file often is summed up by the first and the last of these writes."""
    chosen = random.Random(seed)
    for number in range(40):
        who, turn = chosen.choice([("one", "1"), ("one", "2"), ("human", None)])
        unsure = turn is not None and chosen.random() < 0.2
        engine.by(who, turn, confidence=Confidence.LOW if unsure else None)
        name = chosen.choice("ab")
        doing = chosen.random()
        if doing < 0.1 and engine.exists(name):
            engine.remove(name)
        elif doing < 0.2 and turn is not None:
            engine.undo("t1")
        else:
            engine.write(name, "line\n" * number)
    whole = rows(engine, ALL._replace(events=True))
    assert rows(engine) == tuple(one._replace(events=()) for one in whole)
    assert max(len(one.events) for one in whole) > 4
