"""Moments as people type them."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gitshadow.commands.times import (
    find_moment,
    parse_length,
    parse_moment,
    state_named,
)
from gitshadow.errors import UsageError

SECOND = 10**9
NOW = 1_795_248_000 * SECOND  # 2026-11-21T08:00:00Z


@pytest.mark.parametrize(
    ("words", "before_now_seconds"),
    [
        ("now", 0),
        ("5m", 300),
        ("2h30m", 9000),
        ("2h05m", 7500),
        ("10 minutes ago", 600),
        ("1 hour 5 min ago", 3900),
        ("1 day, 2 hours ago", 93600),
        ("2w", 1209600),
        ("today", 8 * 3600),
        ("yesterday", 32 * 3600),
        ("2026-11-21", 8 * 3600),
        ("2026-11-21T07:59:00Z", 60),
        ("2026-11-21 09:59:00+02:00", 60),
    ],
)
def test_moment_is_read(words: str, before_now_seconds: int) -> None:
    """UX-10: `--since 5m` and its like."""
    assert parse_moment(words, NOW) == NOW - before_now_seconds * SECOND


def test_moment_keeps_its_microseconds() -> None:
    assert parse_moment("2026-11-21T08:00:00.123457Z", 0) == NOW + 123_457_000


@pytest.mark.parametrize(
    "words",
    [
        "soon",
        "",
        "5",
        "5 parsecs",
        "m",
        "2026-13-01",
        "99999999999w",
        "0001-01-01",
        "-5m",
    ],
)
def test_moment_that_cannot_be_read_is_a_usage_error(words: str) -> None:
    """UX-10: `--since soon` is exit 2."""
    with pytest.raises(UsageError) as caught:
        parse_moment(words, NOW)
    assert caught.value.exit_code == 2


@given(st.text())
def test_moment_is_never_before_the_epoch(words: str) -> None:
    found = find_moment(words, NOW)
    assert found is None or found >= 0


def test_length_is_read_in_nanoseconds() -> None:
    assert parse_length("30d") == 30 * 86400 * SECOND
    assert parse_length("30") is None


def test_state_named_by_an_id_goes_on_as_typed() -> None:
    assert state_named("17") == "17"
    assert state_named("claude-code-20261121-7f3a9c") == "claude-code-20261121-7f3a9c"
    assert state_named("good") == "good"
    assert state_named(None) is None


def test_state_named_by_neither_time_nor_id_is_a_usage_error() -> None:
    with pytest.raises(UsageError):
        state_named("some time ago")


@given(st.text("0123456789d", min_size=7, max_size=40))
@example("12d228d")
@example("012345d")
@example("123456d")
@example("1d00000")
def test_state_named_by_the_beginning_of_an_object_id_is_no_length(words: str) -> None:
    assert state_named(words) == words
