"""The laws of staging by turn over random histories of two agents and a person."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.staging.ground import Ground, opened
from tests.support.engine import Engine, memory_directory
from tests.support.examples import SHARED_FIXTURE
from tests.support.repo import Repo

_FILES = ("a", "b", "d/c")
_NEW = ("n", "d/m")
_ROWS = 12
_WRITERS = ("s1", "s2", "human")
FEW = settings(
    max_examples=max(settings().max_examples // 2, 10),
    suppress_health_check=SHARED_FIXTURE,
)

Edit = tuple[int, int, int, int]
"""Who writes, in which file, in which line, and what."""
ROW_EDITS = st.lists(
    st.tuples(
        st.integers(0, 2), st.integers(0, 2), st.integers(0, _ROWS // 3 - 1), st.just(0)
    ),
    min_size=1,
    max_size=8,
)
ANY_EDITS = st.lists(
    st.tuples(
        st.integers(0, 2), st.integers(0, 4), st.integers(0, 14), st.integers(0, 9)
    ),
    min_size=1,
    max_size=9,
)


@pytest.fixture(scope="module")
def template() -> Iterator[Path]:
    """Return a recorded repository with three committed files."""
    with TemporaryDirectory(dir=memory_directory(Path("/tmp"))) as made:
        yield Path(made)


def _made(at: Path) -> Path:
    root = at / "template"
    if not root.exists():
        repo = Repo.create(root, ())
        for name in _FILES:
            repo.write(name, "".join(f"{name} {row}\n" for row in range(_ROWS)))
        repo.commit("first")
        shutil.rmtree(root / ".git" / "hooks", ignore_errors=True)
        Engine.open(root).close()
    return root


def _copy(template: Path) -> Path:
    to = template / "work"
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(_made(template), to, symlinks=True)
    return to


def _play(ground: Ground, edits: list[Edit]) -> list[str]:
    """Have writers edit; return the units in the order in which they began, each turn once.

    A turn ends when another writer comes.
    """
    units: list[str] = []
    last, count = "", 0
    for number, edit in enumerate(edits):
        who = _WRITERS[edit[0]]
        if who != last:
            last, count = who, count + 1
        turn = f"t{count}"
        engine = ground.by(who, turn)
        _edit(ground, edit, number)
        name = f"{who}:{turn}" if who != "human" else "human"
        if engine.record() or name not in units:
            units.append(name)
    return list(dict.fromkeys(units))


def _edit(ground: Ground, edit: Edit, number: int) -> None:
    engine = ground.engine
    _, file, at, how = edit
    path = (*_FILES, *_NEW)[file]
    if not engine.exists(path):
        engine.write(path, f"{path} made {number}\n")
        return
    if how == 9:
        engine.remove(path)
        return
    rows = engine.read(path).decode().splitlines(keepends=True)
    place = min(at, len(rows))
    if how < 5:
        rows.insert(place, f"inserted {number}\n")
    elif how < 7 and rows:
        rows[min(place, len(rows) - 1)] = f"changed {number}\n"
    elif rows:
        del rows[min(place, len(rows) - 1)]
    engine.write(path, "".join(rows), 0o755 if how == 8 else None)


def _tree(ground: Ground) -> bytes:
    """Return the tree that `git add -A` and a commit would make of the files."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GIT_INDEX_FILE", str(ground.engine.root / ".git" / "whole"))
        ground.git("add", "-A")
        return ground.git("write-tree")


@FEW
@given(edits=ROW_EDITS)
def test_a_unit_has_exactly_its_own_rows(template: Path, edits: list[Edit]) -> None:
    """Each writer changes rows of its own; then what every unit wrote is known."""
    with opened(_copy(template)) as ground:
        engine = ground.engine
        mine: dict[str, dict[tuple[str, int], str]] = {one: {} for one in _WRITERS}
        for number, (writer, file, row, _) in enumerate(edits):
            who, path, at = _WRITERS[writer], _FILES[file], row * 3 + writer
            rows = engine.read(path).decode().splitlines(keepends=True)
            rows[at] = mine[who][path, at] = f"{who} {number}\n"
            ground.by(who).write(path, "".join(rows))
        chosen = _WRITERS[edits[0][0]]
        before = engine.tree_now()
        expected = {path: _committed_rows(path) for path in _FILES}
        for (path, at), text in mine[chosen].items():
            expected[path][at] = text
        ground.stage(chosen)
        for path in _FILES:
            assert ground.staged(path) == "".join(expected[path]).encode()
        ground.git("commit", "-qm", "staged")
        for path in _FILES:
            assert ground.committed(path) == "".join(expected[path]).encode()
        # The other changes are the difference that is left, and the files did not change.
        left = {path for who in mine if who != chosen for path, _ in mine[who]}
        assert {line[3:] for line in ground.changed()} == left
        assert engine.tree_now() == before


def _committed_rows(path: str) -> list[str]:
    return [f"{path} {row}\n" for row in range(_ROWS)]


@FEW
@given(edits=ANY_EDITS)
def test_all_units_one_after_another_are_the_tree(
    template: Path, edits: list[Edit]
) -> None:
    """What is not skipped with a reason is staged as it is on the disk."""
    with opened(_copy(template)) as ground:
        units = _play(ground, edits)
        before = ground.engine.tree_now()
        skipped: set[str] = set()
        for unit in units:
            answer = ground.stage(unit)
            skipped |= {item.path for item in answer.items if item.state == "skipped"}
        differs = {line[3:] for line in ground.changed() if line[1] != " "}
        assert differs <= skipped
        assert ground.engine.tree_now() == before
        ground.git("add", "-A")
        assert ground.git("write-tree") == _tree(ground)


@FEW
@given(edits=ANY_EDITS)
def test_turns_that_do_not_interleave_are_staged_whole(
    template: Path, edits: list[Edit]
) -> None:
    """One turn after another, by agents alone: nothing is ever skipped."""
    with opened(_copy(template)) as ground:
        units = _play(ground, [(edit[0] % 2, *edit[1:]) for edit in edits])
        for unit in units:
            answer = ground.stage(unit)
            assert [item for item in answer.items if item.state == "skipped"] == []
        assert [line for line in ground.changed() if line[1] != " "] == []


@FEW
@given(edits=ANY_EDITS)
def test_unstaging_gives_the_former_index(template: Path, edits: list[Edit]) -> None:
    with opened(_copy(template)) as ground:
        units = _play(ground, edits)
        states = [ground.index()]
        states += [
            ground.index() for unit in units if ground.stage(unit).way_back is not None
        ]
        for state in reversed(states[:-1]):
            ground.unstage()
            assert ground.index() == state


@FEW
@given(edits=ANY_EDITS)
def test_apply_after_undo_is_identity(template: Path, edits: list[Edit]) -> None:
    with opened(_copy(template)) as ground:
        unit = _play(ground, edits)[0]
        asked = ground.carry_from(unit)
        before = ground.engine.tree_now()
        ground.engine.undo(unit)
        answer = ground.carry(asked)
        left = {item.path for item in answer.items if item.state == "skipped"}
        now = ground.engine.tree_now()
        differs = {
            path for path in {*now, *before} if now.get(path) != before.get(path)
        }
        assert differs <= left
