"""What several verbs share: typed paths and the question."""

import io
import os
import sys

import pytest

from gitshadow.commands.client import spelled
from gitshadow.commands.options import ask_yes


@pytest.mark.parametrize(
    ("answer", "default", "expected"),
    [
        ("\n", True, True),
        ("\n", False, False),
        ("y\n", False, True),
        ("No\n", True, False),
        ("what?\nyes\n", False, True),
        ("", True, False),
    ],
)
def test_ask_yes_takes_enter_as_the_default_and_the_end_as_no(
    monkeypatch: pytest.MonkeyPatch, answer: str, default: bool, expected: bool
) -> None:
    """UX-04: Enter means what the brackets say."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(answer))
    assert ask_yes("apply this?", default=default) is expected


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("../a b", "../a b"),
        ("größe", "größe"),
        (os.fsdecode(b"a\xff"), r'"a\377"'),
        (r'"a\377"', r'"a\377"'),
        ('"unbalanced', r'"\"unbalanced"'),
    ],
)
def test_spelled_takes_back_what_our_own_output_prints(
    typed: str, expected: str
) -> None:
    """FID-05: a name from the JSON is a valid argument, any other name too."""
    assert spelled(typed) == expected
