"""What a write costs is the same in a small repository and in a large one."""

from pathlib import Path

import pytest

from tests.conftest import FULL
from tests.support.packed import Shelf
from tests.support.repo import Repo
from tests.support.studio import studio_of
from tests.support.walks import traced_walk

_WRITES = 100 if FULL else 20
_PER_DIRECTORY = 20


def grown(root: Path, files: int) -> Repo:
    """Make a repository of so many committed files, two directories deep."""
    repo = Repo.create(root, files=())
    for number in range(files):
        directory = f"d{number // 400}/e{number // _PER_DIRECTORY}"
        repo.write(f"{directory}/f{number}", f"file {number}\n")
    repo.commit("all of it")
    return repo


@pytest.mark.parametrize("files", [200, 20_000 if FULL else 2_000])
def test_a_write_makes_five_objects_whatever_the_repository_holds(
    tmp_path: Path, files: int
) -> None:
    """KEEP-04: one blob, one tree per directory above it, one commit; nothing else is touched."""
    repo = grown(tmp_path / "r", files)
    with studio_of(repo) as studio:
        path = f"d0/e0/f{_PER_DIRECTORY - 1}"
        studio.hand(path, "first\n")
        before, tree = Shelf(repo).loose(), repo.tree_snapshot(exclude=[path])
        for number in range(_WRITES):
            studio.hand(path, f"version {number}\n")
        assert len(Shelf(repo).loose() - before) == 5 * _WRITES
        assert repo.tree_snapshot(exclude=[path]) == tree


# A quick machine looks at the file in the same tick in which it was written. Such a file is read
# again and its state stored, by two more statements and a batch than where that took longer.
@pytest.mark.uncounted
@pytest.mark.parametrize(
    ("name", "statements", "batches"),
    [("hook", 16, 8), ("oops", 66, 9), ("turn", 172, 12)],
)
def test_a_hook_and_an_undo_run_few_statements(
    name: str, statements: int, batches: int
) -> None:
    """Somebody waits for each of them; a batch is one statement for many rows."""
    walk = traced_walk(name)
    assert walk.statements <= statements
    assert walk.batches <= batches
