"""What verbs take, and which words are paths."""

from contextvars import copy_context

import click
import pytest

from gitshadow.commands import find, load
from gitshadow.commands.options import separated


def read(name: str, words: str) -> tuple[dict[str, object], list[str]]:
    """Return what click reads, and the words after `--`."""
    found = find(name)
    assert found is not None
    command = load(name, found)
    assert isinstance(command, click.Command)
    with command.make_context(name, words.split()) as context:
        return context.params, separated()


@pytest.mark.parametrize(
    ("name", "words", "expected"),
    [
        ("log", "-n 50 -- a b", {"limit": 50, "paths": ("a", "b")}),
        ("log", "-n50 --kind create --kind=modify", {"kinds": ("create", "modify")}),
        ("log", "--since=-5m a", {"since": "-5m", "paths": ("a",)}),
        ("show", "-s e-1", {"id": "e-1", "no_patch": True, "paths": ()}),
        ("show", "--stat", {"id": None, "stat": True, "patch": False}),
        ("pin", "-d a", {"name": "a", "delete": True, "listed": False}),
        ("turns", "", {"session": None, "as_json": False}),
        ("oops", "--yes", {"yes": True, "on_conflict": "skip", "token": None}),
        ("undo", "a --only b", {"targets": ("a",), "only": ("b",), "leave": ()}),
    ],
)
def test_words_are_read(name: str, words: str, expected: dict[str, object]) -> None:
    values, _ = copy_context().run(read, name, words)
    assert {key: values[key] for key in expected} == expected


def test_words_after_two_dashes_are_kept_apart() -> None:
    values, behind = copy_context().run(read, "stats", "a -- --yes b")
    assert (values["words"], behind) == (("a",), ["--yes", "b"])
