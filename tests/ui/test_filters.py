"""Filters as they are typed, and texts as a terminal can show them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from gitshadow.errors import UsageError
from gitshadow.messages.history import HistoryRequest
from gitshadow.ui.filters import Filter, parse
from gitshadow.ui.glyphs import Glyphs

WORDS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=12)


def test_words_with_a_key_restrict_and_the_others_are_text() -> None:
    assert parse("agent:codex order file:src/a.py parser since:2h") == Filter(
        text="order parser", agent="codex", file="src/a.py", since="2h"
    )


def test_quotes_keep_words_together() -> None:
    assert parse("until:'2 hours ago' file:'a b'") == Filter(
        until="2 hours ago", file="a b"
    )


def test_word_with_a_colon_that_is_no_key_is_text() -> None:
    assert parse("http://x C:x").text == "http://x C:x"
    assert parse("text:fix:it").text == "fix:it"
    assert parse(str(parse("text:fix:it"))).text == "fix:it"


def test_unknown_key_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(UsageError, match="no such filter: foo:") as caught:
        parse("foo:bar")
    assert "agent, session, file, kind, since, until" in (caught.value.hint or "")


@pytest.mark.parametrize("line", ["agent:a agent:b", "don't"])
def test_what_cannot_be_read_is_an_error(line: str) -> None:
    with pytest.raises(UsageError, match="invalid filter"):
        parse(line)


@given(WORDS, WORDS, WORDS)
def test_filter_is_read_as_it_is_written(agent: str, file: str, since: str) -> None:
    wanted = Filter(agent=agent, file=file, since=since)
    assert parse(str(wanted)) == wanted


def test_filter_becomes_a_request_of_the_history() -> None:
    found = parse("kind:gap until:5m file:src x").request({"5m": 55}.__getitem__)
    assert found == HistoryRequest(text="x", paths=("src",), kinds=("gap",), until=55)


@given(st.text(max_size=60), st.integers(0, 20), st.booleans())
def test_text_is_cut_to_cells_and_safe(text: str, width: int, unicode: bool) -> None:
    """Whatever a name holds: one line, no control character, no wider than its place."""
    cut = Glyphs(unicode).cut(text, width)
    assert cell_len(cut) <= width
    assert all(char.isprintable() or char in "\u00a0\u200d\u202f\u3000" for char in cut)
    assert unicode or cut.isascii()
    assert cell_len(Glyphs(unicode).fit(text, width)) == width


def test_text_that_fits_is_left_alone() -> None:
    assert Glyphs().cut("größe 日本", 20) == "größe 日本"
    assert Glyphs().cut("日本日本", 5) == "日本…"
    assert Glyphs(unicode=False).cut("größe", 20) == "gr\\xf6\\xdfe"


def test_of_a_long_line_only_the_beginning_is_looked_at() -> None:
    """Lines of a megabyte are in repositories."""

    class Counted(str):
        taken = 0

        def __getitem__(self, key: object) -> str:
            found = super().__getitem__(key)  # type: ignore[index]
            Counted.taken = len(found)
            return found

    assert Glyphs().cut(Counted("x" * 1_000_000), 10) == "x" * 9 + "…"
    assert Counted.taken < 100
