"""The accuracy benchmark in small: real hooks, a real daemon, a few writes."""

from collections.abc import Sequence

import pytest

from bench import accuracy, evidence, levels, saves
from bench.accuracy import REQUIRED
from bench.agents import watched
from bench.evidence import Seen, Shells
from bench.levels import Level, places
from bench.outcome import Cell, Outcome
from bench.scoring import Tally, Verdict, failures
from bench.shells import QUIET

pytestmark = [pytest.mark.uncounted, pytest.mark.release]


@pytest.mark.parametrize("style", ["named", "shell", "mixed"])
def test_sessions_side_by_side_are_told_apart_or_called_ambiguous(style: str) -> None:
    """ATT-01, ATT-03, ATT-04: no wrong author at `certain` and `high`."""
    with watched() as place:
        tally = accuracy.measure(place, Cell(style, 2, 10), writes=4)
    assert failures(style, tally, REQUIRED) == []
    assert tally.writes >= 8
    assert tally.unknown + tally.human == 0
    if style == "named":
        assert tally.recall("certain") == 1.0


def test_agent_without_hooks_is_never_named_above_low() -> None:
    with watched() as place:
        alone = accuracy.measure(place, Cell("none", 1, 0), writes=4)
        two = accuracy.measure(place, Cell("none", 2, 0), writes=2)
    assert (alone.precision("low"), alone.missing) == (1.0, 0)
    assert (two.unknown, two.right.total(), two.wrong.total()) == (4, 0, 0)


def test_person_beside_a_shell_call_is_scored_whoever_gets_the_save() -> None:
    """The error of `high` that is published: a plain write looks like the shell's."""
    with watched() as place:
        tally = accuracy.beside(place, next(iter(saves.PATTERNS)), writes=2)
    assert (tally.writes, tally.missing) == (2, 0)
    assert tally.wrong["certain"] == 0


@pytest.mark.parametrize("name", [one for one in saves.PATTERNS if "(VS" not in one])
def test_editor_that_leaves_a_trace_is_never_taken_for_the_shell(name: str) -> None:
    """Rung 3: its save pattern speaks for somebody else, also when it is gone already."""
    with watched() as place:
        tally = accuracy.beside(place, name, writes=2)
    assert (tally.writes, tally.missing) == (2, 0)
    assert tally.wrong.total() == 0


@pytest.mark.parametrize("work", QUIET)
def test_large_save_beside_a_quiet_shell_has_no_wrong_author(work: str) -> None:
    large = [one for one in seen_beside(Shells(1, work, 0)) if size(one) == "large"]
    assert len(large) == 3
    assert not wrong(large)


def test_write_of_one_of_two_shells_is_never_the_others() -> None:
    seen = seen_beside(Shells(2, "write", 0))
    agents = [one for one in seen if one.save is None]
    assert len(agents) >= 4
    assert not wrong(agents)


def test_witness_reports_again_for_the_next_session() -> None:
    why = levels.missing(Level.WITNESS)
    if why is not None:
        pytest.skip(why)
    shells = [Shells(1, "write", 0)]
    with levels.places({Level.WITNESS: None}) as found:
        for _ in range(2):
            seen = evidence.beside(found, shells, rounds=1)
            assert {one.verdict for one in seen} == {Verdict.RIGHT}


def seen_beside(shells: Shells) -> Sequence[Seen]:
    with places({Level.LEDGER: None}) as found:
        return evidence.beside(found, [shells], rounds=1)


def size(seen: Seen) -> str | None:
    return None if seen.save is None else seen.save.size


def wrong(seen: Sequence[Seen]) -> list[Seen]:
    return [one for one in seen if one.verdict in (Verdict.WRONG, Verdict.MISSING)]


@pytest.mark.parametrize("part", accuracy.LIMITS)
def test_edits_outside_every_window_are_no_agents(part: str) -> None:
    """ATT-16."""
    with watched() as place:
        count, wrong = accuracy.outside(place, part, accuracy.LIMITS[part], saved=2)
    assert count >= 2
    assert wrong == []


def test_run_fails_when_a_requirement_was_missed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = Tally(writes=1)
    bad.wrong["certain"] = 1
    seeded = Outcome({Cell("named", 1, 0): bad}, failed=failures("x", bad, REQUIRED))
    texts: list[str] = []
    monkeypatch.setattr(accuracy, "run", lambda scale: seeded)
    assert accuracy.main(1.0, texts.append) == 1
    assert "0 %" in texts[0]
    assert "name the wrong writer" in capsys.readouterr().err
    monkeypatch.setattr(accuracy, "run", lambda scale: Outcome())
    assert accuracy.main(1.0, texts.append) == 0
