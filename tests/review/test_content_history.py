"""Which events led from one content of a file to another."""

from gitshadow.model import (
    Actor,
    Attribution,
    Confidence,
    EventKind,
    FileVersion,
    Oid,
    PathChange,
    RepoPath,
)
from gitshadow.review.check import led_here

A, B = RepoPath(b"a"), RepoPath(b"b")
WHO = Attribution(
    actor=Actor.UNKNOWN, session="s", confidence=Confidence.UNKNOWN, reason="r"
)
KINDS = {"restore": EventKind.RESTORE, "coverage": EventKind.COVERAGE}


def history(*rows: str) -> list[PathChange]:
    """Return events from `path: before > after [kind]`; `-` stands for nothing."""
    found = []
    for seq, row in enumerate(rows, 1):
        path, _, rest = row.partition(": ")
        before, _, rest = rest.partition(" > ")
        after, _, kind = rest.partition(" ")
        old = kind.removeprefix("from ") if kind.startswith("from ") else None
        found.append(
            PathChange(
                seq=seq,
                ts_ns=seq,
                worktree="main",
                kind=KINDS.get(kind, EventKind.MODIFY),
                path=RepoPath(path.encode()),
                attribution=WHO,
                commit=Oid("c" * 40),
                old_path=None if old is None else RepoPath(old.encode()),
                before=version(before),
                after=version(after),
                switched=kind == "switched",
            )
        )
    return found


def version(oid: str) -> FileVersion | None:
    return None if oid == "-" else FileVersion(Oid(oid), 0o100644)


def led(
    rows: list[PathChange], old: str | None, new: str | None, *, whole: bool = True
) -> list[int]:
    oids = [None if one is None else Oid(one) for one in (old, new)]
    return [row.seq for row in led_here(rows, {A}, *oids, whole=whole)]


def test_writes_between_two_contents_are_named() -> None:
    assert led(history("a: 0 > 1", "a: 1 > 2", "a: 2 > 3", "a: 3 > 4"), "1", "3") == [
        2,
        3,
    ]


def test_what_was_taken_back_meanwhile_does_not_count() -> None:
    rows = history("a: 0 > 1", "a: 1 > 0 restore", "a: 0 > 2")
    assert led(rows, "0", "2") == [3]


def test_first_recorded_write_counts_from_what_stood_before() -> None:
    assert led(history("a: 0 > 1"), "0", "1") == [1]


def test_later_writes_are_not_the_changes() -> None:
    assert led(history("a: 0 > 1", "a: 1 > 2"), "0", "1") == [1]


def test_new_file_begins_with_nothing() -> None:
    rows = history("a: - > 1", "a: 1 > -", "a: - > 2", "a: 2 > 3")
    assert led(rows, None, "3") == [3, 4]


def test_deletion_ends_with_nothing() -> None:
    assert led(history("a: 0 > 1", "a: 1 > -"), "0", None) == [1, 2]


def test_content_that_was_never_recorded_may_be_part_of_the_last() -> None:
    """As after `git add -p`: what is staged stood nowhere on disk."""
    rows = history("a: 0 > 1", "a: 1 > 2")
    assert led(rows, "0", "part") == [1, 2]
    assert led(rows, "0", "part", whole=False) == []


def test_nothing_is_said_where_the_old_content_is_not_known() -> None:
    assert led(history("a: 0 > 1"), "other", "1") == []


def test_what_git_and_coverage_brought_is_nobodys_write() -> None:
    rows = history("a: 0 > 1 switched", "a: 1 > 2 coverage", "a: 2 > 3")
    assert led(rows, "0", "3") == [3]


def test_names_that_a_rename_left_are_followed() -> None:
    rows = history("b: 0 > 1", "a: 1 > 1 from b", "a: 1 > 2", "c: 5 > 6")
    found = led_here(rows, {A, B}, Oid("0"), Oid("2"), whole=True)
    assert [row.seq for row in found] == [1, 2, 3]
