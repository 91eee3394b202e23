"""The accuracy benchmark in small: real hooks, a real daemon, a few writes."""

import pytest

from bench import accuracy, saves
from bench.accuracy import REQUIRED
from bench.outcome import Cell, Outcome
from bench.scoring import Tally, failures

pytestmark = [pytest.mark.uncounted, pytest.mark.release]


@pytest.mark.parametrize("style", ["named", "shell", "mixed"])
def test_sessions_side_by_side_are_told_apart_or_called_ambiguous(style: str) -> None:
    """ATT-01, ATT-03, ATT-04: no wrong author at `certain` and `high`."""
    with accuracy.watched() as place:
        tally = accuracy.measure(place, Cell(style, 2, 10), writes=4)
    assert failures(style, tally, REQUIRED) == []
    assert tally.writes >= 8
    assert tally.unknown + tally.human == 0
    if style == "named":
        assert tally.recall("certain") == 1.0


def test_agent_without_hooks_is_never_named_above_low() -> None:
    with accuracy.watched() as place:
        alone = accuracy.measure(place, Cell("none", 1, 0), writes=4)
        two = accuracy.measure(place, Cell("none", 2, 0), writes=2)
    assert (alone.precision("low"), alone.missing) == (1.0, 0)
    assert (two.unknown, two.right.total(), two.wrong.total()) == (4, 0, 0)


def test_person_beside_a_shell_call_is_scored_whoever_gets_the_save() -> None:
    """The error of `high` that is published: a plain write looks like the shell's."""
    with accuracy.watched() as place:
        tally = accuracy.beside(place, next(iter(saves.PATTERNS)), writes=2)
    assert (tally.writes, tally.missing) == (2, 0)
    assert tally.wrong["certain"] == 0


@pytest.mark.parametrize("name", [one for one in saves.PATTERNS if "(VS" not in one])
def test_editor_that_leaves_a_trace_is_never_taken_for_the_shell(name: str) -> None:
    """Rung 3: its save pattern speaks for somebody else, also when it is gone already."""
    with accuracy.watched() as place:
        tally = accuracy.beside(place, name, writes=2)
    assert (tally.writes, tally.missing) == (2, 0)
    assert tally.wrong.total() == 0


@pytest.mark.parametrize("part", accuracy.LIMITS)
def test_edits_outside_every_window_are_no_agents(part: str) -> None:
    """ATT-16."""
    with accuracy.watched() as place:
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
