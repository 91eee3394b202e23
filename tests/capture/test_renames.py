"""Which deletion and which creation are one rename: pure."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitshadow.capture.drafts import End, pair_renames
from gitshadow.model import RepoPath
from gitshadow.store.object_format import SHA1


def end(
    path: str,
    content: str = "x",
    inode: int = 0,
    there: int | None = None,
) -> End:
    """Return one end."""
    oid = SHA1.blob(content.encode())
    return End(RepoPath(path.encode()), oid, inode, there)


def pairs(gone: list[End], came: list[End]) -> list[tuple[str, str]]:
    """Return the pairs as text."""
    return [(old.decode(), new.decode()) for old, new in pair_renames(gone, came)]


def test_same_inode_and_bytes_are_a_rename_whatever_the_names() -> None:
    """CAP-15: rename(2) keeps the inode."""
    assert pairs([end("a", inode=7)], [end("d", inode=7)]) == [("a", "d")]


def test_same_inode_with_other_bytes_is_no_rename() -> None:
    assert pairs([end("a", "old", 7)], [end("d", "new", 7)]) == []


def test_same_bytes_are_a_rename_when_the_choice_is_single() -> None:
    assert pairs([end("a", inode=7)], [end("d", inode=8)]) == [("a", "d")]


@pytest.mark.parametrize(
    ("inode", "born", "same"),
    [(8, 1, False), (7, 1, True), (7, 2, False), (7, 3, False), (7, None, False)],
)
def test_empty_files_are_paired_only_where_the_file_is_proven_to_be_the_old_one(
    inode: int, born: int | None, same: bool
) -> None:
    """An inode that was used again is a file created since; all empty files are alike."""
    gone = [end("a", "", inode=7, there=2)]
    came = [end("d", "", inode=inode, there=born)]
    assert pairs(gone, came) == [("a", "d")] * same


def test_two_candidates_are_told_apart_by_their_base_name() -> None:
    gone = [end("src/a", inode=1), end("src/b", inode=2)]
    came = [end("lib/b", inode=3), end("lib/a", inode=4)]
    assert pairs(gone, came) == [("src/a", "lib/a"), ("src/b", "lib/b")]


def test_two_candidates_without_a_name_are_not_guessed() -> None:
    gone = [end("a", inode=1), end("b", inode=2)]
    assert pairs(gone, [end("c", inode=3)]) == []


def test_one_deletion_is_not_two_renames() -> None:
    came = [end("b", inode=2), end("c", inode=3)]
    assert pairs([end("a", inode=1)], came) == []


def test_inode_decides_before_names_do() -> None:
    gone = [end("x/a", inode=1), end("y/a", inode=2)]
    came = [end("z/a", inode=2)]
    assert pairs(gone, came) == [("y/a", "z/a")]


def test_moved_directory_is_a_rename_for_each_file() -> None:
    """CAP-16: fifty files under one new name."""
    gone = [end(f"src/{n}", f"{n % 3}", n) for n in range(50)]
    came = [end(f"lib/{n}", f"{n % 3}", n) for n in range(50)]
    found = pairs(gone, came)
    assert len(found) == 50
    assert all(old.removeprefix("src") == new.removeprefix("lib") for old, new in found)


_ENDS = st.builds(
    end,
    st.text("ab/", min_size=1, max_size=4),
    st.sampled_from(["x", "y", ""]),
    st.integers(0, 3),
)
_SIDES = st.lists(_ENDS, max_size=8, unique_by=lambda one: one.path)


@given(_SIDES, _SIDES)
def test_every_end_is_used_once_and_bytes_are_equal(
    gone: list[End], came: list[End]
) -> None:
    found = pair_renames(gone, came)
    olds = {one.path: one for one in gone}
    news = {one.path: one for one in came}
    assert (
        len({old for old, _ in found}) == len({new for _, new in found}) == len(found)
    )
    assert all(olds[old].oid == news[new].oid for old, new in found)
    assert [new for _, new in found] == sorted(new for _, new in found)


@given(_SIDES, _SIDES)
def test_order_of_what_is_gone_does_not_matter(
    gone: list[End], came: list[End]
) -> None:
    single = list({one.inode: one for one in gone}.values())
    assert pair_renames(single, came) == pair_renames(single[::-1], came)
