"""Names and paths on their way to a terminal, also to one without signs beyond ASCII."""

import codecs
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitshadow.model import RepoPath
from gitshadow.render.style import PLAIN, View, is_plain_locale, plainly, printable
from gitshadow.store.refs import display_path, parse_path


def test_printable_keeps_what_is_harmless() -> None:
    assert printable("größe 漢字\u3000👩\u200d💻") == "größe 漢字\u3000👩\u200d💻"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred", r"\x1b[31mred"),
        ("two\nlines", r"two\nlines"),
        ("\x9b2J", r"\x9b2J"),
        ("a\u202etxt.exe", r"a\u202etxt.exe"),
        ("lone \udc80", r"lone \udc80"),
    ],
)
def test_printable_escapes_what_a_terminal_obeys(text: str, shown: str) -> None:
    """ROB-12: no control character of a name reaches the terminal."""
    assert printable(text) == shown


@given(st.text(st.characters()))
def test_printable_never_holds_a_control_character(text: str) -> None:
    """ROB-12: for every text."""
    categories = {unicodedata.category(char) for char in printable(text)}
    assert categories & {"Cc", "Cs", "Zl", "Zp"} == set()


@pytest.mark.parametrize(
    ("prefix", "path", "shown"),
    [
        (b"", "src/a.py", "src/a.py"),
        (b"sub", "a", "../a"),
        (b"sub", "sub/b", "b"),
        (b"sub/deep", "sub/b", "../b"),
    ],
)
def test_path_is_relative_to_the_current_directory(
    prefix: bytes, path: str, shown: str
) -> None:
    """UX-01: paths are shown relative to where the command was typed."""
    assert View(prefix=prefix).path(path) == shown


def test_path_that_is_not_safe_is_shown_c_quoted() -> None:
    assert View().path("a\x1b[31m\n") == r'"a\033[31m\n"'


def test_path_that_is_not_utf8_stays_c_quoted() -> None:
    assert View(prefix=b"sub").path(r'"sub/a\377"') == r'"a\377"'


@given(
    st.binary(min_size=1).filter(lambda name: b"\0" not in name and b"/" not in name)
)
def test_path_shown_at_the_top_names_the_same_file(name: bytes) -> None:
    """FID-05: what is shown can be typed again."""
    path = display_path(RepoPath(name))
    assert parse_path(View().path(path)) == name


def test_paint_adds_nothing_without_colour() -> None:
    assert View().paint("text", "bad") == "text"


def test_paint_encloses_the_text_with_colour() -> None:
    assert View(colour=True).paint("text", "bad") == "\033[31mtext\033[m"


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("a b c", 0, ["a b c"]),
        ("one two three", 9, ["one two", "  three"]),
        ("  kept lead", 8, ["  kept", "  lead"]),
        ("a /very/long/path b", 6, ["a", "  /very/long/path", "  b"]),
    ],
)
def test_fold_breaks_at_spaces_alone(text: str, width: int, lines: list[str]) -> None:
    assert list(View(width=width).fold(text, 2)) == lines


codecs.register_error(PLAIN, plainly)


def test_our_own_signs_have_plain_forms() -> None:
    said = "a → b … ⟲ – ≤".encode("ascii", PLAIN)
    assert said == b"a -> b ... <- - <="


def test_what_has_no_plain_form_is_named() -> None:
    assert "größe 漢".encode("ascii", PLAIN) == b"gr\\xf6\\xdfe \\u6f22"


def test_nothing_that_can_be_said_is_changed() -> None:
    assert "größe …".encode("latin-1", PLAIN) == b"gr\xf6\xdfe ..."


@pytest.mark.parametrize(
    ("environ", "plain"),
    [
        ({}, True),
        ({"LANG": "C"}, True),
        ({"LANG": "de_DE.UTF-8", "LC_ALL": "POSIX"}, True),
        ({"LANG": "C.UTF-8"}, False),
        ({"LANG": "C", "LC_CTYPE": "en_US.UTF-8"}, False),
    ],
)
def test_a_locale_is_plain_where_it_says_so(
    environ: dict[str, str], plain: bool
) -> None:
    assert is_plain_locale(environ) is plain
