"""What the last `make agents` run saw, kept for the documentation.

One file of JSON per agent in `tests/agents/verified/`: the version, how each test ended and when,
and how long its hooks took. A failure is kept as one until the test passes.
"""

import datetime
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from gitshadow.hookfiles.catalog import AGENTS
from tests.agents.drivers import DRIVERS
from tests.agents.install import packages

DIRECTORY = Path(__file__).parent / "verified"
_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "turns": ("test_turns_are_recorded_undone_and_redone",),
    "project": ("test_hooks_of_a_project_record_as_those_of_a_user_do",),
    "subagent": ("test_a_subagents_writes_are_undone_with_the_turn_that_started_it",),
    "parallel": ("test_calls_side_by_side_each_have_their_own_files",),
    "person": (
        "test_a_persons_files_between_and_during_calls_are_not_called_the_agents",
    ),
    "failures": ("test_files_of_a_tool_that_failed_are_the_agents",),
    "two at once": (
        "test_no_write_of_one_agent_is_given_to_the_same_one_beside_it",
        "test_no_write_of_one_agent_is_given_to_a_different_one_beside_it",
    ),
    "Ctrl-C": ("test_what_a_turn_wrote_before_ctrl_c_is_undone",),
    "notice": ("test_the_model_is_told_of_an_undo_with_the_next_prompt",),
}
_PASSED = "passed"


def note(test: str, outcome: str, seen: Mapping[str, object]) -> None:
    """Keep how a test of an agent ended, with its other tests of the same version.

    Args:
        test: Its whole name, as pytest prints it.
        outcome: "passed" or "failed".
        seen: The agent, and what else the test recorded of it.
    """
    agent = str(seen["agent"])
    path = DIRECTORY / f"{agent}.json"
    version = packages()[agent].installed()
    known = json.loads(path.read_text()) if path.exists() else {}
    if known.get("version") != version:
        known = {"version": version, "tests": {}}
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    name = test.rpartition("::")[2].partition("[")[0]
    known["tests"][name] = {"outcome": outcome, "date": today}
    known["tests"] = dict(sorted(known["tests"].items()))
    known |= {key: value for key, value in seen.items() if key != "agent"}
    DIRECTORY.mkdir(exist_ok=True)
    path.write_text(json.dumps(known, indent=2) + "\n")


def versions(directory: Path = DIRECTORY) -> dict[str, str]:
    """Return the version of each agent with hooks whose turns were last seen to be right."""
    (turns,) = _COLUMNS["turns"]
    runs = {
        path.stem: json.loads(path.read_text()) for path in directory.glob("*.json")
    }
    return {
        name: run["version"]
        for name, run in sorted(runs.items())
        if name in AGENTS and _end(run["tests"], (turns,)) == "yes"
    }


def table() -> str:
    """Return what the stored runs saw, as a table of the documentation."""
    heads = ["agent", "version", "date", *_COLUMNS, "others", "hooks"]
    rows = [heads, ["---"] * len(heads)]
    paths = sorted(DIRECTORY.glob("*.json"))
    for path in paths:
        seen = json.loads(path.read_text())
        tests = seen["tests"]
        shown = {name for names in _COLUMNS.values() for name in names}
        ends = [_end(tests, names) for names in _COLUMNS.values()]
        others = _end(tests, tests.keys() - shown)
        oldest = min(one["date"] for one in tests.values())
        agent = f"`{path.stem}`"
        rows.append([agent, seen["version"], oldest, *ends, others, _times(seen)])
    known = {path.stem for path in paths}
    lines = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    for what, names in (
        ("No test has run with the present version of", DRIVERS.keys() - known),
        ("Written from their documentation alone", AGENTS.keys() - DRIVERS.keys()),
    ):
        if names:
            lines += f"\n{what}: {', '.join(f'`{name}`' for name in sorted(names))}.\n"
    return lines


def _end(tests: Mapping[str, Mapping[str, str]], names: Iterable[str]) -> str:
    """Return how some tests ended: one that failed counts for all, none is a dash."""
    ends = {tests[name]["outcome"] for name in names if name in tests}
    if not ends:
        return "–"
    return "yes" if ends == {_PASSED} else "**no**"


def _times(seen: Mapping[str, Mapping[str, int]]) -> str:
    took = seen.get("hook_ms")
    if took is None:
        return "–"
    return f"{took['calls']}: {took['median']} ms, at most {took['most']} ms"
