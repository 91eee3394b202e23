"""history: turns, people's changes, undos and moves of HEAD, newest first."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from gitshadow.api.history import history
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
