"""A unit is carried to another worktree, where others' work stays and an undo takes it out."""

from tests.staging.ground import Ground, opened, states
from tests.staging.test_stage import lines


def test_a_turn_is_applied_to_another_worktree(ground: Ground) -> None:
    there = ground.worktree("there")
    ground.by("human").write("a", lines(l1="MINE"))
    engine = ground.by("s1")
    engine.write("a", lines(l1="MINE", l5="AGENT"))
    engine.write("d/new", "x\n", 0o755)
    engine.move("b", "moved")
    engine.remove("c")
    asked = ground.carry_from("s1:t1")
    before = engine.tree_now()
    with opened(there) as other:
        other.by("human").write("a", lines(l9="THERE"))
        answer = other.carry(asked)
        assert states(answer) == {
            "a": "modify",
            "c": "delete",
            "d/new": "create",
            "moved": "rename",
        }
        now = other.engine
        assert now.read("a") == lines(l5="AGENT", l9="THERE").encode()
        assert now.mode("d/new") == 0o755
        assert (now.exists("b"), now.exists("c")) == (False, False)
        assert answer.op_id is not None
        now.undo(answer.op_id)
        assert now.read("a") == lines(l9="THERE").encode()
        assert now.exists("b")
        assert not now.exists("d/new")
    assert engine.tree_now() == before


def test_what_an_undo_would_make_is_carried_as_the_base(ground: Ground) -> None:
    """The file without the turn was never on the disk."""
    there = ground.worktree("there")
    ground.by("s1").write("a", lines(l5="AGENT"))
    ground.by("human").write("a", lines(l1="MINE", l5="AGENT"))
    asked = ground.carry_from("s1:t1")
    with opened(there) as other:
        assert states(other.carry(asked)) == {"a": "modify"}
        assert other.engine.read("a") == lines(l5="AGENT").encode()


def test_a_conflict_there_is_skipped(ground: Ground) -> None:
    there = ground.worktree("there")
    ground.by("s1").write("a", lines(l5="AGENT"))
    ground.by("s1").write("new", "x\n")
    asked = ground.carry_from("s1:t1")
    with opened(there) as other:
        other.by("human").write("a", lines(l5="THERE"))
        other.by("human").write("new", "there\n")
        answer = other.carry(asked)
        assert states(answer) == {"a": "conflict", "new": "conflict"}
        assert answer.status == "partial"
        assert answer.op_id is None
        assert other.engine.read("new") == b"there\n"


def test_a_directory_there_is_in_the_way(ground: Ground) -> None:
    there = ground.worktree("there")
    ground.by("s1").write("new", "x\n")
    asked = ground.carry_from("s1:t1")
    with opened(there) as other:
        other.by("human").write("new/inside", "x\n")
        assert states(other.carry(asked)) == {"new": "type_clash"}


def test_an_ignored_file_there_is_kept(ground: Ground) -> None:
    there = ground.worktree("there")
    ground.by("s1").write("new", "x\n")
    asked = ground.carry_from("s1:t1")
    with opened(there) as other:
        other.by("human").write(".gitignore", "new\n")
        other.engine.path("new")
        with open(other.engine.path("new"), "w") as file:
            file.write("secret\n")
        answer = other.carry(asked)
        assert set(states(answer).values()) <= {"excluded", "conflict"}
        assert other.engine.read("new") == b"secret\n"


def test_what_is_there_already_is_no_op(ground: Ground) -> None:
    there = ground.worktree("there")
    ground.by("s1").write("a", lines(l5="AGENT"))
    asked = ground.carry_from("s1:t1")
    with opened(there) as other:
        other.by("human").write("a", lines(l5="AGENT"))
        answer = other.carry(asked)
        assert (answer.status, answer.op_id) == ("nothing_to_do", None)


def test_what_cannot_be_separated_is_not_carried(ground: Ground) -> None:
    ground.by("s1").write("a", lines(l5="AGENT"))
    ground.by("human").write("a", lines(l5="MINE"))
    assert ground.carry_from("s1:t1").files == ()
