"""The states in memory: what is known below a directory, whatever came and went."""

from collections.abc import Iterator, Mapping
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitshadow.capture.states import StateTable
from gitshadow.model import Digest, FileState, FileVersion, Oid, RepoPath, StatKey
from gitshadow.store.journal.db import Db

STATE = FileState(
    FileVersion(Oid("1" * 40), 0o100644), Digest(b"x"), StatKey(1, 1, 1, 1), 1
)


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Db]:
    path = tmp_path_factory.mktemp("journal") / "journal.db"
    with closing(Db.open(str(path), create=True)) as opened:
        yield opened


def path(text: str) -> RepoPath:
    return RepoPath(text.encode())


def update(db: Db, table: StateTable, changes: Mapping[str, bool]) -> None:
    """Put and drop paths in one transaction."""
    put = {path(name): STATE for name, stays in changes.items() if stays}
    drop = [path(name) for name, stays in changes.items() if not stays]
    with db.write():
        table.update(put, drop)


def test_file_that_took_a_directory_s_place_is_still_known(db: Db) -> None:
    """CAP-10: when its parent vanishes, its deletion is not overlooked."""
    table = StateTable(db, "place")
    table.all()
    update(db, table, {"top/dir/inner": True})
    update(db, table, {"top/dir": True, "top/dir/inner": False})
    assert table.below(path("top")) == [b"top/dir"]


_NAMES = st.lists(st.sampled_from("ab"), min_size=1, max_size=4).map("/".join)
_UPDATES = st.lists(st.dictionaries(_NAMES, st.booleans(), max_size=4), max_size=6)


@given(_UPDATES)
def test_below_is_every_known_path_with_that_prefix(
    db: Db, updates: list[dict[str, bool]]
) -> None:
    table = StateTable(db, "law")
    with db.write():
        table.update({}, list(table.all()))
    for changes in updates:
        update(db, table, changes)
    known = sorted(table.all())
    for directory in ("", "a", "a/b", "b/a/a"):
        prefix = path(directory) + b"/" if directory else b""
        expected = [one for one in known if one.startswith(prefix)]
        assert table.below(path(directory)) == expected
        assert StateTable(db, "law").below(path(directory)) == expected or not directory
