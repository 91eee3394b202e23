"""`-L` as git-blame(1) has it."""

import re

import pytest

from gitshadow.blame.scope import has_search, numbered_lines
from gitshadow.errors import UsageError
from tests.support.repo import Repo

BOUNDS = ["", "0", "1", "2", "5", "10", "11", "99"]
ENDS = [*BOUNDS, "+0", "+1", "+3", "+99", "-0", "-1", "-3", "-99"]


@pytest.mark.parametrize(
    ("specs", "expected"),
    [
        ([], [1, 2, 3, 4, 5]),
        (["2,3"], [2, 3]),
        (["2"], [2, 3, 4, 5]),
        ([",2"], [1, 2]),
        ([",+3"], [1, 2, 3]),
        (["3,1"], [1, 2, 3]),
        (["2,+2"], [2, 3]),
        (["3,-2"], [2, 3]),
        (["2,-9"], [1, 2]),
        (["4,99"], [4, 5]),
        (["1,2", "2,3", "5"], [1, 2, 3, 5]),
    ],
)
def test_ranges_name_lines(specs: list[str], expected: list[int]) -> None:
    assert numbered_lines(specs, 5) == expected


@pytest.mark.parametrize("spec", ["", "0", "6", "x", "1,+0", "1,,2", "-3", "+2", "1-3"])
def test_what_is_no_range_is_refused(spec: str) -> None:
    with pytest.raises(UsageError):
        numbered_lines([spec], 5)


@pytest.mark.parametrize(
    ("spec", "searches"),
    [("1,/x/", True), ("/x/", True), (":f", True), ("^:f", True), ("1,2", False)],
)
def test_what_is_searched_for_is_told_from_numbers(spec: str, searches: bool) -> None:
    assert has_search(["1,1", spec]) == searches


def test_numbers_mean_what_git_takes_them_for(repo: Repo) -> None:
    """Every pair of bounds, on a file of ten lines, beside `git blame -L`.

    But for `,+3`: there git 2.39 gives two lines, and the whole file for `,+1`, where its manual
    (and ours) gives three and one.
    """
    for start in BOUNDS:
        for end in ENDS:
            spec = f"{start},{end}" if end else start
            if spec and not spec.startswith(",+"):
                assert ours(spec) == gits(repo, spec), spec


def ours(spec: str) -> list[int] | None:
    try:
        return numbered_lines([spec], 10)
    except UsageError:
        return None


def gits(repo: Repo, spec: str) -> list[int] | None:
    said = repo.git("blame", "-s", "-L", spec, "HEAD", "--", "a", check=False)
    return [int(n) for n in re.findall(r"^\S+ +(\d+)\)", said, re.M)] or None
