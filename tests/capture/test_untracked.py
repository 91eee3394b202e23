"""Untracked data: what is left out so that the rest fits, and what of it is recorded anyway."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from gitshadow.capture.untracked import SMALL_BYTES, LeftOutBytes, UntrackedData, choose
from gitshadow.model import RepoPath
from gitshadow.store.journal.db import Db

MIB = 1 << 20


def sizes(**files: int) -> dict[RepoPath, int]:
    return {RepoPath(name.replace("__", "/").encode()): n for name, n in files.items()}


@pytest.mark.parametrize(
    ("new", "room", "expected"),
    [
        (sizes(a=5, b=6), 11, {}),
        # Single files at the top.
        (sizes(a=9 * MIB, b=MIB), 2 * MIB, {b"a": (9 * MIB, SMALL_BYTES)}),
        # The directory in which the data is, not the one above it.
        (
            sizes(d__train__x=4 * MIB, d__train__y=4 * MIB, d__note=3),
            MIB,
            {b"d/train": (8 * MIB, SMALL_BYTES)},
        ),
        # The directory over two that share the data.
        (
            sizes(d__a__x=4 * MIB, d__b__y=4 * MIB, n=3),
            MIB,
            {b"d": (8 * MIB, SMALL_BYTES)},
        ),
        # Its small files are recorded where they fit.
        (
            sizes(d__x=9 * MIB, d__small=10),
            MIB,
            {b"d/x": (9 * MIB, SMALL_BYTES)},
        ),
        (
            sizes(d__x=4 * MIB, d__y=4 * MIB, d__small=10),
            MIB,
            {b"d": (8 * MIB + 10, SMALL_BYTES)},
        ),
        # They do not fit, so none of them is.
        (
            {RepoPath(b"d/%d" % n): SMALL_BYTES - 1 for n in range(8)},
            MIB,
            {b"d": (8 * (SMALL_BYTES - 1), 0)},
        ),
    ],
)
def test_places_are_left_out_that_cause_it(
    new: dict[RepoPath, int], room: int, expected: dict[bytes, tuple[int, int]]
) -> None:
    assert choose(new, room) == {
        RepoPath(top): LeftOutBytes(*one) for top, one in expected.items()
    }


NAMES = some.lists(some.sampled_from(["a", "b", "c"]), min_size=1, max_size=3)
TREES = some.dictionaries(
    NAMES.map(lambda names: RepoPath(("/".join(names) + "/f").encode())),
    some.integers(0, 4 * SMALL_BYTES),
)


@given(TREES, some.integers(0, 8 * SMALL_BYTES))
def test_the_rest_fits(new: dict[RepoPath, int], room: int) -> None:
    found = choose(new, room)

    def is_kept(path: RepoPath, size: int) -> bool:
        above = [top for top in found if path == top or path.startswith(top + b"/")]
        return all(size < found[top].from_bytes for top in above)

    assert sum(n for path, n in new.items() if is_kept(path, n)) <= room
    assert (found == {}) == (sum(new.values()) <= room)


def test_what_is_left_out_stays_so_until_the_limit_changes(tmp_path: Path) -> None:
    db = Db.open(str(tmp_path / "journal.db"), create=True)
    data = UntrackedData(db, "main", MIB, None)
    assert data.admit(sizes(d__x=4 * MIB, d__y=4 * MIB), 0) == [b"d"]
    text = db.rows("SELECT value FROM meta WHERE key = 'untracked_data:main'")[0][0]
    again = UntrackedData(db, "main", MIB, str(text))
    assert again.leaves_out(RepoPath(b"d/new"), MIB) == b"d"
    assert again.leaves_out(RepoPath(b"e"), MIB) is None
    raised = UntrackedData(db, "main", 2 * MIB, str(text))
    assert raised.leaves_out(RepoPath(b"d/new"), MIB) is None
    assert raised.held(RepoPath(b"d/x"), MIB)
    assert UntrackedData(db, "main", MIB, '{"another": "form"}').tops == {}
    db.close()


def test_small_file_is_recorded_where_the_limit_is_reached(tmp_path: Path) -> None:
    db = Db.open(str(tmp_path / "journal.db"), create=True)
    data = UntrackedData(db, "main", MIB, None)
    assert data.admit(sizes(new=1000), MIB) == []
    assert data.admit(sizes(large=SMALL_BYTES), MIB) == [b"large"]
    db.close()


def test_small_file_is_recorded_where_others_have_grown_beyond_the_limit(
    tmp_path: Path,
) -> None:
    """Files are looked at when they are made; how much a program writes then is not known."""
    db = Db.open(str(tmp_path / "journal.db"), create=True)
    data = UntrackedData(db, "main", MIB, None)
    assert data.admit(sizes(new=10_000), 2 * MIB) == []
    assert data.admit(sizes(empty=1), 2 * MIB) == [b"empty"]
    assert data.admit(sizes(more=10_000), 2 * MIB) == []
    data.is_now(sizes(new=MIB))
    assert data.admit(sizes(last=10_000), 3 * MIB) == [b"last"]
    db.close()


def test_files_that_come_one_by_one_are_left_out_as_their_directory(
    tmp_path: Path,
) -> None:
    db = Db.open(str(tmp_path / "journal.db"), create=True)
    data = UntrackedData(db, "main", MIB, None)
    assert data.admit(sizes(d__1=MIB), MIB) == [b"d/1"]
    assert data.admit(sizes(d__2=MIB), MIB) == [b"d"]
    assert data.tops == {b"d": LeftOutBytes(2 * MIB, SMALL_BYTES)}
    assert data.admit(sizes(e=MIB), MIB) == [b"e"]
    # Small files are recorded as far as the limit goes, without another word.
    assert data.admit(sizes(d__small=1000), 0) == []
    many = {RepoPath(b"d/%d" % number): 1000 for number in range(2000)}
    assert data.admit(many, 0) == [b"d"]
    assert data.leaves_out(RepoPath(b"d/small"), 1000) == b"d"
    db.close()
