"""A loose ref moves by compare-and-swap, as Git moves it, or not at all."""

import threading
from pathlib import Path

import pytest

from gitshadow.model import Oid
from gitshadow.store.loose_refs import LooseRefs

REF = "refs/agent-undo/s-1"
OLD, NEW, OTHER = Oid("1" * 40), Oid("2" * 40), Oid("3" * 40)


@pytest.fixture
def refs(tmp_path: Path) -> LooseRefs:
    (tmp_path / REF).parent.mkdir(parents=True)
    (tmp_path / REF).write_text(f"{OLD}\n")
    return LooseRefs(str(tmp_path))


def test_move_replaces_the_value_and_removes_the_lock(
    refs: LooseRefs, tmp_path: Path
) -> None:
    assert refs.move(REF, OLD, NEW)
    assert (tmp_path / REF).read_text() == f"{NEW}\n"
    assert [path.name for path in (tmp_path / REF).parent.iterdir()] == ["s-1"]


@pytest.mark.parametrize("content", [f"{OTHER}\n", "ref: refs/heads/main\n", "", "x"])
def test_move_does_nothing_where_the_ref_has_another_value(
    refs: LooseRefs, tmp_path: Path, content: str
) -> None:
    (tmp_path / REF).write_text(content)
    assert not refs.move(REF, OLD, NEW)
    assert (tmp_path / REF).read_text() == content
    assert not (tmp_path / f"{REF}.lock").exists()


def test_move_does_nothing_where_the_ref_is_packed(
    refs: LooseRefs, tmp_path: Path
) -> None:
    (tmp_path / REF).unlink()
    assert not refs.move(REF, OLD, NEW)
    assert not list((tmp_path / REF).parent.iterdir())


def test_move_leaves_the_lock_of_another_process(
    refs: LooseRefs, tmp_path: Path
) -> None:
    (tmp_path / f"{REF}.lock").write_text("")
    assert not refs.move(REF, OLD, NEW)
    assert (tmp_path / REF).read_text() == f"{OLD}\n"
    assert (tmp_path / f"{REF}.lock").exists()


def test_move_follows_no_link(refs: LooseRefs, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (tmp_path / REF).rename(outside)
    (tmp_path / REF).symlink_to(outside)
    assert not refs.move(REF, OLD, NEW)
    assert outside.read_text() == f"{OLD}\n"


@pytest.mark.parametrize(
    "name", ["refs/heads/main", "refs/agent-undo/../heads/main", "refs/agent-undo/x y"]
)
def test_nothing_but_a_ref_of_ours_is_moved(
    refs: LooseRefs, tmp_path: Path, name: str
) -> None:
    main = tmp_path / "refs/heads/main"
    main.parent.mkdir()
    main.write_text(f"{OLD}\n")
    assert not refs.move(name, OLD, NEW)
    assert main.read_text() == f"{OLD}\n"


def test_one_of_several_movers_wins(refs: LooseRefs, tmp_path: Path) -> None:
    values = [Oid(f"{number:x}" * 40) for number in range(4, 12)]
    won: list[Oid] = []
    ready = threading.Barrier(len(values))

    def try_to_move(value: Oid) -> None:
        ready.wait()
        if refs.move(REF, OLD, value):
            won.append(value)

    movers = [threading.Thread(target=try_to_move, args=(one,)) for one in values]
    for mover in movers:
        mover.start()
    for mover in movers:
        mover.join()
    assert [(tmp_path / REF).read_text()] == [f"{one}\n" for one in won]
