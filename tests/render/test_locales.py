"""Signs beyond ASCII where there are none."""

import codecs

import pytest

from gitshadow.render.locales import PLAIN, is_plain_locale, plainly

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
