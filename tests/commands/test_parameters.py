"""What a verb takes: read without click, as click reads it."""

import os
import subprocess
import sys
from contextvars import copy_context

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitshadow.commands import find, load, names
from gitshadow.commands.options import chosen_colour, separated
from gitshadow.commands.parameters import DeclaredVerb, Option
from gitshadow.ipc import client
from tests.support.counting import CountingEngine, initialised, serving
from tests.support.repo import Repo
from tests.support.waiting import until

VERBS = {
    name: verb
    for name in names()
    if (found := find(name)) is not None
    and isinstance(verb := load(found), DeclaredVerb)
}
HEAVY = {"click", "dataclasses", "gitshadow.model", "pygit2", "sqlite3", "subprocess"}
WORDS = [
    "a",
    "b/c",
    "-",
    "--",
    "-n",
    "-n5",
    "-n=5",
    "-3",
    "5",
    "",
    "--x",
    "always",
    "é",
]


def by_click(verb: DeclaredVerb, words: list[str]) -> object:
    """Return what click reads; None where it reports an error or prints a help text."""
    command = verb.for_click
    try:
        with command.make_context(verb.name, list(words)) as context:
            return context.params, separated(), chosen_colour()
    except (click.ClickException, click.exceptions.Exit):
        return None


def by_us(verb: DeclaredVerb, words: list[str]) -> object:
    values = verb.read(words)
    return None if values is None else (values, separated(), chosen_colour())


@st.composite
def lines(draw: st.DrawFn) -> tuple[str, list[str]]:
    """Draw a verb and words that are mostly its own options and their values."""
    name = draw(st.sampled_from(sorted(VERBS)))
    options = [one for one in VERBS[name].parameters if isinstance(one, Option)]
    own = [spelling for one in options for spelling in one.names]
    own += [f"{spelling}=5" for spelling in own]
    own += [word for one in options if one.choices for word in one.choices()]
    return name, draw(st.lists(st.sampled_from(own + WORDS), max_size=6))


@given(line=lines())
def test_words_read_without_click_mean_what_click_reads(
    line: tuple[str, list[str]],
) -> None:
    """UX-01: a table is quicker than click, and never another command line."""
    verb, words = VERBS[line[0]], line[1]
    ours = copy_context().run(by_us, verb, words)
    if ours is not None:
        assert ours == copy_context().run(by_click, verb, words)


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
def test_plain_words_are_read_without_click(
    name: str, words: str, expected: dict[str, object]
) -> None:
    values = copy_context().run(VERBS[name].read, words.split())
    assert values is not None
    assert {key: values[key] for key in expected} == expected


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("log", "--help"),
        ("log", "--nothing"),
        ("log", "-n x"),
        ("log", "-n"),
        ("log", "--kind nothing"),
        ("log", "--since -5m"),
        ("log", "--all=yes"),
        ("cat", ""),
        ("pin", "a b"),
        ("restore", "--from-mirror a"),
    ],
)
def test_words_that_click_must_see_are_left_to_it(name: str, words: str) -> None:
    assert copy_context().run(VERBS[name].read, words.split()) is None


def test_words_after_two_dashes_are_kept_apart() -> None:
    read = (VERBS["stats"].read(["a", "--", "--yes", "b"]), separated())
    assert read[0] is not None
    assert (read[0]["words"], read[1]) == (("a",), ["--yes", "b"])


@pytest.mark.parametrize("words", ["log -n 5", "status", "oops", "blame a", "show x"])
def test_verb_that_asks_the_daemon_imports_next_to_nothing(
    repo: Repo, words: str
) -> None:
    """The process is what a person waits for, not the daemon."""
    code = (
        "import sys; from gitshadow import cli; cli.main(sys.argv[1:])\n"
        f"print(sorted({HEAVY} & sys.modules.keys()))"
    )
    layout = initialised(repo)
    with serving(layout, CountingEngine()):
        until(lambda: client.ready(layout) is not None)
        done = subprocess.run(
            [sys.executable, "-c", code, *words.split()],
            cwd=repo.root,
            env={k: v for k, v in os.environ.items() if not k.startswith("COV")},
            capture_output=True,
            text=True,
            check=True,
        )
    assert done.stdout.splitlines()[-1] == "[]"
