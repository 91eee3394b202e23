"""`-L` as git-blame(1) has it."""

import pytest

from gitshadow.blame.ranges import chosen_lines
from gitshadow.errors import UsageError

LINES = [b"one", b"two/2", b"three", b"two again", b"\xff five"]


@pytest.mark.parametrize(
    ("specs", "expected"),
    [
        ([], [1, 2, 3, 4, 5]),
        (["2,3"], [2, 3]),
        (["2"], [2, 3, 4, 5]),
        ([",2"], [1, 2]),
        (["3,1"], [1, 2, 3]),
        (["2,+2"], [2, 3]),
        (["3,-2"], [2, 3]),
        (["2,-9"], [1, 2]),
        (["4,99"], [4, 5]),
        (["/two/,+1"], [2]),
        (["/two/,/again/"], [2, 3, 4]),
        ([r"/two\/2/,2"], [2]),
        (["1,1", "/two/,+1", "/two/,+1"], [1, 2, 4]),
        (["1,2", "2,3"], [1, 2, 3]),
    ],
)
def test_ranges_name_lines(specs: list[str], expected: list[int]) -> None:
    assert chosen_lines(specs, LINES) == expected


@pytest.mark.parametrize("spec", ["", "0", "6", "x", "/none/", "/(/", "1,+0", ":f"])
def test_what_is_no_range_is_refused(spec: str) -> None:
    with pytest.raises(UsageError):
        chosen_lines([spec], LINES)
