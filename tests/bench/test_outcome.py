"""The page of the accuracy benchmark names every goal that was missed."""

from bench.cost import Block, Cost
from bench.evidence import Findings, Save, Seen, Shells
from bench.levels import Level
from bench.outcome import Outcome, misses, table
from bench.scoring import Verdict

QUIET = Shells(1, "sleep", 0)
TWO = Shells(2, "write", 8)
LARGE = Save("plain", "large")


def seen(level: Level, verdict: Verdict, save: Save | None = LARGE) -> Seen:
    shells = TWO if save is None else QUIET
    return Seen(shells, level, 0, save, verdict, "high, by timing only")


def goals(rows: list[Seen], costs: list[Cost] | None = None) -> dict[str, str]:
    """Return by their first words which goals a page says were met."""
    missing = dict.fromkeys(Level)
    found = Outcome(
        evidence=Findings(rows, {0: (1.0, 2.0)}, missing), costs=costs or []
    )
    lines = table(found).partition("## One agent")[0].splitlines()
    cells = [line.split(" | ") for line in lines if line.startswith("| ")][2:]
    told = {one[0].removeprefix("| ")[:20]: one[-1].removesuffix(" |") for one in cells}
    return {goal: met for goal, met in told.items() if met != "no goal"}


def test_every_goal_is_met_when_nobody_is_wrong() -> None:
    rows = [
        seen(Level.LEDGER, Verdict.RIGHT),
        seen(Level.LEDGER, Verdict.RIGHT, None),
        seen(Level.NOTHING, Verdict.WRONG),
    ]
    cost = Cost(1, Level.LEDGER, [Block(5.0, 9.0)], [0.2])
    assert set(goals(rows, [cost]).values()) == {"yes"}
    assert misses(Findings(rows, {}, {})) == []


def test_goals_are_missed_when_an_agent_gets_a_persons_save() -> None:
    rows = [seen(Level.LEDGER, Verdict.WRONG), seen(Level.LEDGER, Verdict.GAP, None)]
    cost = Cost(4, Level.LEDGER, [Block(5.0, 9.0)], [0.4])
    assert set(goals(rows, [cost]).values()) == {"**no**"}
    (miss,) = misses(Findings(rows, {}, {}))
    assert "1 agent, sleep, 0 busy processes, ledger" in miss


def test_missing_row_fails_the_run_at_every_level() -> None:
    rows = [seen(Level.NOTHING, Verdict.MISSING)]
    assert len(misses(Findings(rows, {}, {}))) == 1


def test_level_that_was_not_measured_is_named_with_its_reason() -> None:
    found = Findings([], {0: (1.0, 2.0)}, {Level.WITNESS: "there is none"})
    assert "Not measured: *witness*, because there is none." in table(
        Outcome(evidence=found)
    )
