"""Vectors of owners: what a change keeps, adds and takes away."""

from gitshadow.blame.owners import (
    BlamedContent,
    OriginSource,
    Owner,
    carried,
    count_lines,
    fill,
    fresh,
    kept_lines,
    new_lines,
    removed,
    split_lines,
    whole,
)
from gitshadow.model import Oid, RepoPath
from gitshadow.store.content_diff import line_hunks

A = Owner(source=OriginSource.EVENT, path=RepoPath(b"f"))
B = Owner(source=OriginSource.EVENT, path=RepoPath(b"f"))


def change(old: bytes, new: bytes) -> str:
    hunks = line_hunks(whole(old), whole(new))
    vector = carried(fresh(A, count_lines(old)), hunks, B)
    assert len(vector) == count_lines(new)
    return "".join("A" if origin.owner is A else "B" for origin in vector)


def test_only_a_newline_ends_a_line() -> None:
    assert split_lines(b"a\rb\x0bc\x0cd\x85\ne\r\n") == [b"a\rb\x0bc\x0cd\x85", b"e\r"]
    assert (count_lines(b""), count_lines(b"a"), count_lines(b"a\n")) == (0, 1, 1)
    assert count_lines(b"\n\n") == 2


def test_kept_lines_keep_their_owner() -> None:
    assert change(b"1\n2\n3\n", b"0\n1\n3\n4\n") == "BAAB"
    assert change(b"", b"x\n") == "B"
    assert change(b"x\n", b"") == ""


def test_last_line_that_gains_a_newline_keeps_its_owner() -> None:
    assert change(b"1\n2", b"1\n2\n") == "AA"
    assert change(b"1\n2\n", b"1\n2") == "AA"
    assert change(b"1\n2", b"1\n2\n3") == "AAB"


def test_new_lines_are_those_that_a_change_brought() -> None:
    def brought(old: bytes, new: bytes) -> list[bytes]:
        return new_lines(new, line_hunks(whole(old), whole(new)))

    assert brought(b"1\n2\n3\n", b"0\n1\n3\n4") == [b"0", b"4"]
    assert brought(b"1\n2\n3\n4\n", b"0\n2\n4\n") == [b"0"]
    assert brought(b"1\n2\n", b"2\n") == brought(b"", b"") == []
    assert brought(b"", b"\n\n") == [b"", b""]


def test_binary_content_has_lines_too() -> None:
    assert change(b"\0a\n\0b\n", b"\0a\n\0c\n\0b\n") == "ABA"


def test_line_endings_that_change_make_new_lines() -> None:
    assert change(b"1\n2\n", b"1\r\n2\r\n") == "BB"


def test_ten_thousand_equal_lines_lose_only_one() -> None:
    assert change(b"x\n" * 10_000, b"x\n" * 10_001).count("B") == 1


def test_origin_remembers_its_line_number() -> None:
    hunks = line_hunks(b"1\n2\n", b"0\n1\n2\n")
    vector = carried(fresh(A, 2), hunks, B)
    assert [origin.line for origin in vector] == [1, 1, 2]


def test_removed_lines_come_with_their_owners() -> None:
    hunks = line_hunks(b"1\n2\n3\n", b"3\n")
    assert [(n, o.line) for n, o in removed(fresh(A, 3), hunks)] == [(1, 1), (2, 2)]


def test_kept_lines_pair_both_sides() -> None:
    hunks = line_hunks(b"1\n2\n3\n4\n", b"1\n3\n5\n4\n")
    assert list(kept_lines(hunks, 4)) == [(0, 0), (2, 1), (3, 3)]
    assert list(kept_lines([], 2)) == [(0, 0), (1, 1)]


def test_fill_takes_only_what_is_missing() -> None:
    source = BlamedContent(Oid("0" * 40), b"1\n2\n", fresh(A, 2))
    vector = fresh(B, 3)
    missing = {1}
    fill(vector, missing, source, line_hunks(b"1\n2\n", b"1\n2\n3\n"))
    assert [origin.owner is A for origin in vector] == [False, True, False]
    assert not missing
