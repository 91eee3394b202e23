"""What the last `make agents` run saw, kept for the documentation.

One file of JSON per agent in `tests/agents/verified/`: the version, how each test ended and when,
and how long its hooks took. A failure is kept as one until the test passes. Which tests there are
for an agent is read from the tests themselves.
"""

import datetime
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from gitshadow.hookfiles.catalog import AGENTS
from tests.agents import test_agents, test_modes
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
_MODULES = (test_agents, test_modes)
_PASSED = "passed"
NOTHING = "–"
NOT_RUN = "not run"


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
    function, _, values = test.rpartition("::")[2].partition("[")
    more = values.removesuffix("]").removeprefix(agent).removeprefix("-")
    name = _name(function, more)
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
        offered = set(_offered(path.stem))
        ends = [
            _end(
                tests,
                [one for one in offered | tests.keys() if _function(one) in names],
            )
            for names in _COLUMNS.values()
        ]
        others = [one for one in offered | tests.keys() if _function(one) not in shown]
        oldest = min(one["date"] for one in tests.values())
        about = [f"`{path.stem}`", seen["version"], oldest]
        times = NOTHING if DRIVERS[path.stem].wrapped else _times(seen)
        rows.append([*about, *ends, _end(tests, others), times])
    known = {path.stem for path in paths}
    lines = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    for what, names in (
        ("No test has run with the present version of", DRIVERS.keys() - known),
        ("Written from their documentation alone", AGENTS.keys() - DRIVERS.keys()),
    ):
        if names:
            lines += f"\n{what}: {', '.join(f'`{name}`' for name in sorted(names))}.\n"
    return lines


def _name(function: str, more: str) -> str:
    """Return the name of a test of one agent, with its values besides the agent."""
    return f"{function}[{more}]" if more else function


def _function(name: str) -> str:
    return name.partition("[")[0]


def _offered(agent: str) -> Iterator[str]:
    """Yield the tests that there are for an agent, by what they are parametrized with."""
    for module in _MODULES:
        for function, test in vars(module).items():
            for mark in getattr(test, "pytestmark", ()):
                if function.startswith("test_") and mark.name == "parametrize":
                    for given in mark.args[1]:
                        one = getattr(given, "values", given)
                        first, *more = (one,) if isinstance(one, str) else one
                        if first == agent:
                            yield _name(function, "-".join(more))


def _end(tests: Mapping[str, Mapping[str, str]], names: Iterable[str]) -> str:
    """Return how some tests ended: one that failed counts for all."""
    wanted = list(names)
    ends = [tests[name]["outcome"] for name in wanted if name in tests]
    if not wanted:
        return NOTHING
    if not ends:
        return NOT_RUN
    if set(ends) != {_PASSED}:
        return "**no**"
    return "yes" if len(ends) == len(wanted) else f"{len(ends)} of {len(wanted)}"


def _times(seen: Mapping[str, Mapping[str, int]]) -> str:
    took = seen.get("hook_ms")
    if took is None:
        return NOT_RUN
    return f"{took['calls']}: {took['median']} ms, at most {took['most']} ms"
