"""Answers to questions about hunks, as `git add -p` takes them."""

import pytest

from gitshadow.messages.codec import decode, encode
from gitshadow.messages.undo import Hunk
from gitshadow.render.choosing import Choosing, HunkQuestion


def lines(*parts: int) -> Hunk:
    split = tuple(lines(part) for part in parts) if len(parts) > 1 else ()
    return Hunk("lines", parts, ("@@",), split)


ASKED = Choosing(
    (
        HunkQuestion(0, lines(1, 2)),
        HunkQuestion(0, lines(3)),
        HunkQuestion(2, lines(1)),
        HunkQuestion(2, lines(2)),
    )
)


@pytest.mark.parametrize(
    ("keys", "taken"),
    [
        ("yyyy", {0: {1, 2, 3}, 2: {1, 2}}),
        ("nnnn", {}),
        ("ynny", {0: {1, 2}, 2: {2}}),
        ("ad", {0: {1, 2, 3}}),
        ("da", {2: {1, 2}}),
        ("na", {0: {3}}),
        ("yq", {0: {1, 2}}),
        ("q", {}),
        ("synyd", {0: {1, 3}}),
        ("sya", {0: {1, 2, 3}}),
    ],
)
def test_answers_add_up_to_a_choice(keys: str, taken: dict[int, set[int]]) -> None:
    choosing = ASKED
    for key in keys:
        assert key in choosing.keys
        choosing = choosing.answer(key)
    while choosing.waiting:
        choosing = choosing.answer("n")
    assert choosing.taken == taken


def test_only_what_falls_into_parts_can_be_split() -> None:
    assert ASKED.keys == "ynqads"
    assert ASKED.answer("n").keys == "ynqad"


def test_hunk_survives_json() -> None:
    hunk = lines(1, 2, 3)
    assert decode(Hunk, encode(hunk)) == hunk
