"""The table of what was seen of the real agents."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.agents import verified

TURNS = "tests/agents/test_agents.py::test_turns_are_recorded_undone_and_redone[pi]"
CTRL_C = (
    "tests/agents/test_agents.py::test_what_a_turn_wrote_before_ctrl_c_is_undone[pi]"
)
ANOTHER = "tests/agents/test_other.py::test_that_no_column_names[pi]"


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> SimpleNamespace:
    """Return a program whose version can be changed, with no results yet."""
    program = SimpleNamespace(version="1.0")
    program.installed = lambda: program.version
    monkeypatch.setattr(verified, "DIRECTORY", tmp_path)
    programs = dict.fromkeys(("aider", "grok", "pi"), program)
    monkeypatch.setattr(verified, "packages", lambda: programs)
    return program


def cells() -> dict[str, str]:
    """Return the row of the only agent in the table, by column."""
    heads, _, row = verified.table().splitlines()[:3]
    return dict(
        zip(
            [one.strip() for one in heads.strip("|").split("|")],
            [one.strip() for one in row.strip("|").split("|")],
            strict=True,
        )
    )


def test_a_failed_test_is_shown_until_it_passes(installed: SimpleNamespace) -> None:
    verified.note(TURNS, "passed", {"agent": "pi"})
    verified.note(CTRL_C, "failed", {"agent": "pi"})
    verified.note(ANOTHER, "failed", {"agent": "pi"})
    shown = cells()
    assert (shown["agent"], shown["version"]) == ("`pi`", "1.0")
    assert (shown["turns"], shown["Ctrl-C"], shown["others"]) == (
        "yes",
        "**no**",
        "**no**",
    )
    assert (shown["project"], shown["subagent"]) == ("not run", "–")
    verified.note(CTRL_C, "passed", {"agent": "pi"})
    assert cells()["Ctrl-C"] == "yes"


def test_what_an_agent_has_nothing_of_is_told_from_what_was_not_run(
    installed: SimpleNamespace,
) -> None:
    verified.note(TURNS.replace("pi]", "aider]"), "passed", {"agent": "aider"})
    shown = cells()
    assert (shown["turns"], shown["hooks"]) == ("yes", "–")
    assert {shown[one] for one in ("project", "subagent", "Ctrl-C", "others")} == {"–"}


def test_one_of_several_values_that_failed_counts_until_it_passes(
    installed: SimpleNamespace,
) -> None:
    assert cells_after("background", "failed")["others"] == "**no**"
    assert cells_after("detached", "passed")["others"] == "**no**"
    many = cells_after("background", "passed")["others"]
    assert many.startswith("2 of ")


def cells_after(value: str, outcome: str) -> dict[str, str]:
    """Return the cells of Grok after one of the tests with several values for it has ended."""
    test = "test_what_is_left_running_writes_for_the_turn_that_started_it"
    nodeid = f"tests/agents/test_modes.py::{test}[grok-{value}]"
    verified.note(nodeid, outcome, {"agent": "grok"})
    return cells()


def test_results_of_another_version_are_not_kept(installed: SimpleNamespace) -> None:
    verified.note(TURNS, "passed", {"agent": "pi"})
    installed.version = "1.1"
    verified.note(CTRL_C, "passed", {"agent": "pi"})
    shown = cells()
    assert (shown["version"], shown["turns"], shown["Ctrl-C"]) == (
        "1.1",
        "not run",
        "yes",
    )


def test_the_table_names_how_long_hooks_took_and_agents_that_were_not_run(
    installed: SimpleNamespace,
) -> None:
    took = {"calls": 12, "median": 60, "most": 140}
    verified.note(TURNS, "passed", {"agent": "pi", "hook_ms": took})
    assert cells()["hooks"] == "12: 60 ms, at most 140 ms"
    *_, not_yet, _, never = verified.table().splitlines()
    assert "`codex`" in not_yet
    assert "`cursor`" in never
    assert "`pi`" not in not_yet + never
