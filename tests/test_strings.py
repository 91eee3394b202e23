"""The stored list of visible texts is that of the program, so that its language is reviewed."""

import ast

import pytest

from tests.support import strings


def test_visible_texts_are_the_stored_ones() -> None:
    stored = strings.STORED.read_text(encoding="utf-8").splitlines()
    assert strings.texts() == stored, "run `make docs`"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            "raise UsageError(f'missing {name}', hint='name it')",
            ["missing {name}", "name it"],
        ),
        ("raise StoreError('damaged')", ["damaged"]),
        ("x = option('--json', help='Print')", ["Print"]),
        ("@click.command()\ndef f():\n    'Undo a turn.'", ["Undo a turn."]),
        ("@server.tool()\ndef f():\n    'Undo a turn.'", ["Undo a turn."]),
        ("@tools.tool()\ndef f():\n    pass", []),
        ("def f():\n    'Undo a turn.'", []),
        ("x = 'two words'", ["two words"]),
        ("x = 'word'", []),
        ("x = 'SELECT id FROM turns WHERE id = ?'", []),
    ],
)
def test_a_text_is_visible_by_its_place(source: str, expected: list[str]) -> None:
    assert list(strings.visible(ast.parse(source))) == expected


def test_a_single_word_is_visible_in_a_package_of_texts() -> None:
    tree = ast.parse("words = {'merge': 'merged'}")
    assert list(strings.visible(tree, is_text_package=True)) == ["merged"]
