"""The states of a worktree: what is known below a directory, whatever came and went."""

from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitshadow.capture.states import StateTable
from gitshadow.model import FileState, FileVersion, Oid, RepoPath, StatKey
from gitshadow.store.journal.db import Db

STATE = FileState(FileVersion(Oid("1" * 40), 0o100644), StatKey(1, 1, 1, 1), 1)


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


@given(_UPDATES)
def test_states_in_use_answer_as_those_in_memory_alone_do(
    db: Db, updates: list[dict[str, bool]]
) -> None:
    apart, few = StateTable(db, "law"), StateTable(db, "law")
    few.shed()
    with db.write():
        few.update({}, list(apart.all()))
    for changes in updates:
        few.fetch([path(name) for name in changes])
        update(db, few, changes)
    names = [path(name) for name in ("", "a", "b", "a/a", "a/b", "a/b/a")]
    said = [_answers(few, name) for name in names]
    apart.forget()
    with db.write():
        apart.take_out()
    assert [_answers(apart, name) for name in names] == said


def _answers(table: StateTable, name: RepoPath) -> tuple[object, ...]:
    modes = table.odd_modes((0o600, 0o700))
    found = table.get(name), table.below(name), table.within(name)
    return *found, table.named([1, 2]), modes, table.count()


def test_names_within_a_directory_are_not_those_of_its_neighbours(db: Db) -> None:
    table = StateTable(db, "near")
    names = ("d", "d-/x", "d.txt", "d/a", "d/b/c", "d/b0", "d/b.txt", "d0", "e")
    update(db, table, dict.fromkeys(names, True))
    expected = {b"d/a", b"d/b", b"d/b0", b"d/b.txt"}
    assert table.within(path("d")) == expected
    with db.write():
        table.take_out()
    assert table.within(path("d")) == expected


def test_failed_transaction_leaves_no_state_in_memory(db: Db) -> None:
    table = StateTable(db, "failed")
    table.shed()
    assert table.get(path("a")) is None
    with suppress(ZeroDivisionError), table.consistent(), db.write():
        table.update({path("a"): STATE}, ())
        raise ZeroDivisionError
    assert table.get(path("a")) is None


def test_states_that_the_journal_does_not_have_are_not_dropped(db: Db) -> None:
    table = StateTable(db, "apart")
    update(db, table, {"a": True})
    with db.write():
        table.take_out()
    assert not table.shed()
    assert table.get(path("a")) == STATE


def test_odd_modes_are_found_without_loading_all_states(db: Db) -> None:
    table = StateTable(db, "modes")
    private = replace(STATE, version=FileVersion(STATE.version.oid, 0o100600))
    with db.write():
        table.update({path("a"): STATE, path("b"): private}, ())
    assert table.odd_modes((0o644, 0o755)) == {path("b"): 0o100600}
    with db.write():
        table.take_out()
    assert table.odd_modes((0o644, 0o755)) == {path("b"): 0o100600}


@pytest.mark.parametrize("apart", [False, True])
def test_names_of_a_file_are_those_of_its_worktree(
    tmp_path: Path, *, apart: bool
) -> None:
    with closing(Db.open(str(tmp_path / "journal.db"), create=True)) as db:
        fill(db, 5)
        table = StateTable(db, "w")
        if apart:
            with db.write():
                table.take_out()
        assert set(table.named([3, 77])) == {path("f3")}


def test_names_of_a_file_cost_the_same_however_many_files_there_are(
    tmp_path: Path,
) -> None:
    """A hook without a daemon asks in a process of its own, which has loaded nothing."""
    assert steps(tmp_path / "many.db", 5_000) < steps(tmp_path / "few.db", 50) + 10


def fill(db: Db, files: int) -> None:
    """Record files `f0`, `f1`, … with their numbers as inodes, in two worktrees."""
    found = {
        path(f"f{at}"): replace(STATE, stat=StatKey(1, 1, 1, at)) for at in range(files)
    }
    for worktree in ("w", "other"):
        with db.write():
            StateTable(db, worktree).begin(found)


def steps(place: Path, files: int) -> int:
    """Return in how many tens of its instructions SQLite finds the names of a file."""
    with closing(Db.open(str(place), create=True)) as db:
        fill(db, files)
        count = 0

        def step() -> int:
            nonlocal count
            count += 1
            return 0

        db._connection.set_progress_handler(step, 10)
        assert set(StateTable(db, "w").named([3])) == {path("f3")}
        return count
