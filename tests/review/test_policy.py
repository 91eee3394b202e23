"""`.agent-undo.toml` as hostile input: understood, or refused in words; never run, never slow."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitshadow.capture.patterns import parse_patterns
from gitshadow.model import Demands, Level
from gitshadow.review import policy
from gitshadow.review.policy import PolicyReading, read


def test_read_takes_every_key() -> None:
    text = b"""
    [check]
    openTurn = "warn"
    protected = "warn"
    protectedPaths = ["/deploy/", "*.lock"]
    review = "refuse"
    reviewLines = 20
    unknown = "warn"
    undone = "refuse"
    gaps = "refuse"
    """
    assert read(text) == PolicyReading(
        Demands(
            open_turn=Level.WARN,
            protected=Level.WARN,
            protected_paths=("/deploy/", "*.lock"),
            review=Level.REFUSE,
            review_lines=20,
            unknown=Level.WARN,
            undone=Level.REFUSE,
            gaps=Level.REFUSE,
        )
    )


@pytest.mark.parametrize("text", [b"", b"# nothing\n", b"[check]\n"])
def test_file_that_demands_nothing_adds_nothing(text: bytes) -> None:
    assert read(text) == PolicyReading(Demands())


def test_patterns_and_numbers_are_meant_when_no_level_stands_beside_them() -> None:
    text = b'[check]\nprotectedPaths = ["a"]\nreviewLines = 0\n'
    demands = read(text).demands
    assert (demands.protected, demands.review) == (Level.REFUSE, Level.REFUSE)


def test_level_beside_them_stands() -> None:
    text = b'[check]\nprotected = "off"\nprotectedPaths = ["a"]\n'
    assert read(text).demands.protected is Level.OFF


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("protectedPath = []", "unknown key 'protectedPath'; did you mean protectedPaths?"),
        ("open_turn = 'off'", "unknown key 'open_turn'; did you mean openTurn?"),
        ("zzz = 1", "unknown key 'zzz'"),
    ],
)  # fmt: skip
def test_unknown_key_is_a_warning_that_names_the_nearest(text: str, said: str) -> None:
    reading = read(f"[check]\n{text}\n".encode())
    assert reading == PolicyReading(warnings=(said,))


def test_unknown_table_is_a_warning() -> None:
    assert read(b"[chek]\n").warnings == ("unknown table 'chek'; did you mean check?",)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"[check", "it is not valid TOML: "),
        (b"\xff", "it is not UTF-8"),
        (b"a = " + b"[" * 60_000, "it is not valid TOML: "),
        (b"a = 1" + b"0" * 60_000, "it is not valid TOML: "),
        (b"#" * 65_537, "it is larger than 65536 bytes"),
        (b"check = 1", "check is not a table"),
        (b"[[check]]", "check is not a table"),
    ],
)
def test_file_that_cannot_be_read_is_an_error(text: bytes, said: str) -> None:
    reading = read(text)
    assert len(reading.errors) == 1
    assert reading.errors[0].startswith(said)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("undone = 'refues'", "undone must be one of off, warn, refuse; did you mean 'refuse'?"),
        ("undone = true", "undone must be one of off, warn, refuse"),
        ("reviewLines = -1", "reviewLines must be a whole number, at least 0"),
        ("reviewLines = true", "reviewLines must be a whole number, at least 0"),
        ("reviewLines = 1e3", "reviewLines must be a whole number, at least 0"),
        ("protectedPaths = 'a'", "protectedPaths must be a list of patterns"),
        ("protectedPaths = ['a', 1]", "protectedPaths must be a list of patterns"),
        ('protectedPaths = ["a\\nb"]', "protectedPaths has a pattern over several lines"
         " or of more than 1000 characters"),
        (f"protectedPaths = ['{'a' * 1001}']", "protectedPaths has a pattern over several"
         " lines or of more than 1000 characters"),
        ("protectedPaths = [" + 501 * "'a'," + "]", "protectedPaths has more than 500 patterns"),
    ],
)  # fmt: skip
def test_value_that_cannot_be_used_is_an_error(line: str, said: str) -> None:
    assert read(f"[check]\n{line}\n".encode()).errors == (said,)


def test_rest_of_a_broken_file_still_counts() -> None:
    reading = read(b"[check]\nundone = 'never'\ngaps = 'refuse'\n")
    assert reading.demands == Demands(gaps=Level.REFUSE)


def test_hostile_patterns_take_no_time() -> None:
    patterns = ["/".join(["**"] * 300), "a*" * 400 + "b", "[a-z]*" * 160 + "!"] * 20
    found = read(f"[check]\nprotectedPaths = {patterns!r}\n".encode())
    assert len(found.demands.protected_paths) == 60
    began = time.process_time()
    rules = parse_patterns(found.demands.protected_paths)
    assert rules.decide(b"a/" * 1000 + b"a" * 1000, is_dir=False) is not None
    assert time.process_time() - began < 20


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_read_never_raises(data: bytes) -> None:
    reading = read(data)
    assert all(said for said in (*reading.warnings, *reading.errors))
    assert len(reading.demands.protected_paths) <= policy.MOST_PATTERNS
