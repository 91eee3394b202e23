"""The scorer of the accuracy benchmark notices what it is there to notice."""

import pytest

from bench.scoring import (
    PERSON,
    Said,
    Tally,
    Verdict,
    Wrote,
    failures,
    interval,
    judge,
    score,
    violations,
)

TRUTH = (Wrote("s1", "a", "1"), Wrote("s2", "b", "2"), Wrote(PERSON, "c", "3"))


def said(path: str, oid: str, session: str | None, confidence: str) -> Said:
    actor = "agent" if session else "unknown"
    return Said(path, oid, actor, session, confidence)


RIGHT = (
    said("a", "1", "s1", "certain"),
    said("b", "2", "s2", "high"),
    said("c", "3", None, "unknown"),
)


def test_nothing_fails_when_every_writer_is_right() -> None:
    tally = score(TRUTH, RIGHT)
    assert failures("cell", tally, ("certain", "high")) == []
    assert (tally.precision("certain"), tally.recall("certain")) == (1.0, 1 / 3)
    assert tally.unknown == 1


@pytest.mark.parametrize("confidence", ["certain", "high"])
def test_wrong_writer_is_noticed_when_one_is_seeded(confidence: str) -> None:
    seeded = (said("a", "1", "s2", confidence), *RIGHT[1:])
    found = failures("cell", score(TRUTH, seeded), ("certain", "high"))
    assert len(found) == 1
    assert f"at {confidence} name the wrong writer" in found[0]


def test_person_claimed_by_an_agent_is_wrong() -> None:
    seeded = (*RIGHT[:2], said("c", "3", "s1", "high"))
    assert score(TRUTH, seeded).precision("high") == 0.5


def test_write_is_missing_when_its_content_has_no_row() -> None:
    rows = (said("a", "other", "s1", "certain"), *RIGHT[1:])
    found = failures("cell", score(TRUTH, rows), ("certain",))
    assert found == ["cell: 1 of 3 writes have no row"]


def test_candidates_that_lack_the_writer_are_noticed() -> None:
    row = Said("a", "1", "unknown", None, "ambiguous", ("s2", "s3"))
    tally = score(TRUTH[:1], [row])
    assert failures("cell", tally, ()) == ["cell: 1 candidate lists lack the writer"]
    assert tally.ambiguous_share == 1.0


def test_tallies_add_up() -> None:
    both = Tally()
    both.add(score(TRUTH, RIGHT))
    both.add(score(TRUTH, RIGHT[:1]))
    assert (both.writes, both.right["certain"], both.missing) == (6, 2, 2)


@pytest.mark.parametrize(
    ("confidence", "limit", "wrong"),
    [
        ("medium", "low", True),
        ("low", "low", False),
        ("low", None, True),
        ("medium", "medium", False),
        ("high", "medium", True),
    ],
)
def test_claim_outside_every_window_is_a_violation_above_its_limit(
    confidence: str, limit: str | None, wrong: bool
) -> None:
    """ATT-16."""
    rows = [said("a", "1", "s1", confidence)]
    assert bool(violations(TRUTH[:1], rows, {"a": limit})) == wrong


BY_A_PERSON = Said("c", "3", "human", None, "medium")


@pytest.mark.parametrize(
    ("writer", "row", "verdict"),
    [
        (PERSON, said("c", "3", None, "unknown"), Verdict.RIGHT),
        (PERSON, BY_A_PERSON, Verdict.RIGHT),
        (PERSON, said("c", "3", None, "ambiguous"), Verdict.GAP),
        (PERSON, said("c", "3", "s1", "low"), Verdict.DOUBTED),
        (PERSON, said("c", "3", "s1", "high"), Verdict.WRONG),
        ("s1", said("c", "3", "s1", "low"), Verdict.RIGHT),
        ("s1", said("c", "3", None, "unknown"), Verdict.GAP),
        ("s1", BY_A_PERSON, Verdict.TIMED),
        ("s1", said("c", "3", "s2", "medium"), Verdict.TIMED),
        ("s1", said("c", "3", "s2", "certain"), Verdict.WRONG),
        ("s1", said("other", "3", "s1", "high"), Verdict.MISSING),
    ],
)
def test_write_is_judged_by_its_row(writer: str, row: Said, verdict: Verdict) -> None:
    assert judge(Wrote(writer, "c", "3"), [row])[0] is verdict


def test_write_is_wrong_when_a_file_beside_it_has_a_wrong_author() -> None:
    """A temporary file of an editor is a part of the save."""
    rows = [
        said("c", "3", None, "unknown"),
        said("c___jb_old___", "2", "s1", "high"),
    ]
    assert judge(Wrote(PERSON, "c", "3"), rows)[0] is Verdict.WRONG
    assert judge(Wrote(PERSON, "c", "3"), rows[:1])[0] is Verdict.RIGHT


@pytest.mark.parametrize(
    ("found", "of", "expected"),
    [(0, 12, (0.0, 0.2425)), (12, 12, (0.7575, 1.0)), (6, 12, (0.2538, 0.7462))],
)
def test_interval_says_how_little_few_writes_prove(
    found: int, of: int, expected: tuple[float, float]
) -> None:
    assert interval(found, of) == pytest.approx(expected, abs=1e-4)


def test_interval_is_everything_without_writes() -> None:
    assert interval(0, 0) == (0.0, 1.0)
