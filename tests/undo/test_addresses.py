"""Addresses: `t12`, `u3`, `last`, `last~1`, `last:FILE`, `@agent`, and `ID^`."""

import base64
from dataclasses import replace

import pytest

from gitshadow.api import run as run_verb
from gitshadow.attribution.process import ProcessId
from gitshadow.errors import UsageError
from gitshadow.model import Confidence, Oid, RepoPath
from gitshadow.store.journal import ops, sessions, short_ids, turns
from gitshadow.store.journal.switches import SwitchedTrees
from gitshadow.store.trees import Ends
from gitshadow.undo.effective import Undone
from tests.support.engine import Engine
from tests.support.repo import ten_lines
from tests.support.sql_work import counted_sql


def turn(engine: Engine, who: str, name: str) -> str:
    return short_ids.of(engine.db, short_ids.TURN, name, who)


@pytest.fixture
def three(engine: Engine) -> Engine:
    """Return the engine after three turns of two agents, and a person's write."""
    engine.by("one", "first").write("a", "1\n")
    engine.by("two", "second").write("b", "2\n")
    with engine.db.write():
        known = sessions.get(engine.db, "two")
        assert known is not None
        sessions.put(engine.db, replace(known, agent="codex"))
    engine.by("one", "third").write("c", "3\n")
    engine.by("human").write("d", "mine\n")
    return engine


def test_last_is_the_newest_turn_of_an_agent(three: Engine) -> None:
    three.undo("last")
    assert three.read("c").decode() == ten_lines("c")
    assert (three.read("b"), three.read("d")) == (b"2\n", b"mine\n")


@pytest.mark.parametrize(
    ("typed", "path"),
    [
        ("last~1", "b"),
        ("last~2", "a"),
        ("@codex", "b"),
        ("@claude-code", "c"),
        ("@claude-code~1", "a"),
        ("last:a", "a"),
        ("last~0:b", "b"),
        ("@claude-code:a", "a"),
    ],
)
def test_address_names_one_turn(three: Engine, typed: str, path: str) -> None:
    report = three.undo(typed)
    assert [item.path for item in report.items] == [path]
    assert three.read(path).decode() == ten_lines(path)


def test_last_of_a_directory_is_the_turn_that_wrote_below_it(engine: Engine) -> None:
    engine.by("one", "first").write("src/deep/x", "1\n")
    engine.by("one", "second").write("other", "2\n")
    engine.undo("last:src")
    assert not engine.exists("src/deep/x")
    assert engine.exists("other")


def test_turns_and_undos_have_numbers_in_order(three: Engine) -> None:
    assert [
        turn(three, "one", "first"),
        turn(three, "two", "second"),
        turn(three, "one", "third"),
    ] == ["t1", "t2", "t3"]
    three.undo("t2")
    assert three.read("b").decode() == ten_lines("b")
    (op,) = ops.list_ops(three.db)
    assert short_ids.of(three.db, short_ids.OP, op.id) == "u1"
    three.undo("u1")
    assert three.read("b") == b"2\n"


def test_number_stays_when_its_turn_changes(three: Engine) -> None:
    known = turns.get_turn(three.db, "one", "first")
    assert known is not None
    with three.db.write():
        turns.put_turn(three.db, replace(known, prompt="another"))
    assert turn(three, "one", "first") == "t1"


@pytest.mark.parametrize("typed", ["last~9", "@nobody", "last:nothing", "t99", "u1"])
def test_address_of_nothing_is_an_error_with_a_remedy(
    three: Engine, typed: str
) -> None:
    with pytest.raises(UsageError) as found:
        three.undo(typed)
    assert found.value.hint is not None


def test_last_never_means_what_only_may_be_an_agents(engine: Engine) -> None:
    engine.by("one", "first").write("a", "1\n")
    engine.by("two", "second", confidence=Confidence.LOW).write("b", "2\n")
    engine.undo("last")
    assert engine.read("a").decode() == ten_lines("a")
    assert engine.read("b") == b"2\n"


def test_subagents_work_is_the_turn_of_its_parent(engine: Engine) -> None:
    engine.by("one", "first").write("a", "1\n")
    engine.start("child", parent="one")
    engine.by("child", "first/child").write("b", "2\n")
    engine.undo("last")
    assert engine.read("a").decode() == ten_lines("a")
    assert engine.read("b").decode() == ten_lines("b")


def test_native_id_that_looks_like_another_turns_number_is_ambiguous(
    engine: Engine,
) -> None:
    engine.by("one", "t2").write("a", "1\n")
    engine.by("one", "other").write("b", "2\n")
    with pytest.raises(UsageError, match="ambiguous"):
        engine.undo("t2")
    engine.undo("one:t2")
    assert (engine.read("a").decode(), engine.read("b")) == (ten_lines("a"), b"2\n")


def test_file_that_is_called_last_needs_dashes_only_beside_a_turn(
    engine: Engine,
) -> None:
    engine.by("unknown").write("last", "1\n")
    assert engine.undo("last").items[0].path == "last"
    engine.by("one", "first").write("a", "2\n")
    with pytest.raises(UsageError, match="ambiguous"):
        engine.undo("last")


def test_caret_is_the_moment_before(three: Engine) -> None:
    cwd = str(three.root)
    for at, expected in (("t2", b"2\n"), ("t2^", ten_lines("b").encode())):
        answer = run_verb(three.context, "cat", {"path": "b", "at": at, "cwd": cwd})
        assert base64.b64decode(str(answer["data_base64"])) == expected


def test_what_ops_undid_is_found_without_reading_all_calls(engine: Engine) -> None:
    """LAW-08: `oops`, `log`, `check` and the prompt ask for it."""
    engine.by("one").write("a", "1\n")
    engine.undo("one")
    costs: list[int] = []
    for first in (0, 2000):
        put = "INSERT INTO calls (session, id, tool, tool_class, opened_ns, worktree)"
        rows = [(f"toolu_{first + number:04}",) for number in range(2000)]
        engine.db.run_many(f"{put} VALUES ('one', ?, 'Edit', 'write', 1, 'w')", rows)
        with counted_sql(engine.db) as work:
            Undone(engine.db, engine.worktree)
            assert len(turns.calls_by_prefix(engine.db, "toolu_001")) == 10
        costs.append(work.steps)
    assert 0 < costs[1] < costs[0] * 1.2


class CountedTrees(SwitchedTrees):
    """Count the moves of HEAD whose trees are read."""

    reads = 0

    def ends(self, commit: Oid, path: RepoPath) -> Ends:
        self.reads += 1
        return super().ends(commit, path)


def test_no_tree_of_a_move_is_read_for_a_path_without_a_row(engine: Engine) -> None:
    """LAW-08: whoever switches branches often has thousands of moves."""
    engine.write("tracked", "1\n")
    engine.git("add", "tracked")
    engine.git("commit", "-qm", "1")
    engine.git("checkout", "-qb", "other")
    engine.write("tracked", "2\n")
    engine.git("commit", "-qam", "2")
    for branch in ("-", "-", "-"):
        engine.git("checkout", "-q", branch)
    engine.db.switched = trees = CountedTrees(engine.repo)
    engine.by("one", "first", confidence=Confidence.MEDIUM)
    engine.context.commits.begin(ProcessId(1, 1), 0)  # what hooks restore is asked for
    engine.write("a", "1\n")
    assert engine.undo("last", apply=False).items[0].path == "a"
    assert trees.reads == 0
