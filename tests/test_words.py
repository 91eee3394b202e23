"""How numbers and near misses are said."""

from gitshadow.words import counted, did_you_mean


def test_one_is_said_as_one() -> None:
    assert counted(1, "file") == "1 file"


def test_none_and_several_are_said_as_several() -> None:
    assert [counted(n, "entry", "entries") for n in (0, 2)] == [
        "0 entries",
        "2 entries",
    ]


def test_what_is_spelled_nearly_so_is_named() -> None:
    assert (
        did_you_mean("statsu", ["status", "stats"]) == "did you mean stats or status?"
    )


def test_what_nothing_is_near_to_is_not_guessed() -> None:
    assert did_you_mean("zzz", ["status"]) is None
