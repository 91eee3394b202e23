"""What the last `make agents` run saw, kept for the documentation.

One file of JSON per agent in `tests/agents/verified/`: version, date and the end of each test.
"""

import datetime
import json
from pathlib import Path

from gitshadow.hookfiles.catalog import AGENTS
from tests.agents.install import packages

DIRECTORY = Path(__file__).parent / "verified"
_TESTS = {
    "test_turns_are_recorded_undone_and_redone": "turns",
    "test_hooks_of_a_project_record_as_those_of_a_user_do": "project",
    "test_a_subagents_writes_are_undone_with_the_turn_that_started_it": "subagent",
    "test_calls_side_by_side_each_have_their_own_files": "parallel",
    "test_a_persons_file_between_two_calls_is_nobody_elses": "person",
    "test_files_of_a_tool_that_failed_are_the_agents": "failures",
    "test_no_write_of_one_agent_is_given_to_another_beside_it": "two at once",
    "test_what_a_turn_wrote_before_ctrl_c_is_undone": "Ctrl-C",
    "test_the_model_is_told_of_an_undo_with_the_next_prompt": "notice",
}
_SHOWN = {"passed": "yes", "failed": "**no**"}


def note(agent: str, test: str, outcome: str) -> None:
    """Keep how a test of an agent ended, beside its other tests of the same version and day."""
    path = DIRECTORY / f"{agent}.json"
    version = packages()[agent].installed()
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    known = json.loads(path.read_text()) if path.exists() else {}
    if known.get("version") != version or known.get("date") != today:
        known = {"version": version, "date": today, "tests": {}}
    known["tests"][test] = outcome
    known["tests"] = dict(sorted(known["tests"].items()))
    DIRECTORY.mkdir(exist_ok=True)
    path.write_text(json.dumps(known, indent=2) + "\n")


def versions(directory: Path = DIRECTORY) -> dict[str, str]:
    """Return the version of each agent with hooks whose turns were last seen to be right."""
    first = next(iter(_TESTS))
    runs = {
        path.stem: json.loads(path.read_text()) for path in directory.glob("*.json")
    }
    return {
        name: run["version"]
        for name, run in sorted(runs.items())
        if name in AGENTS and run["tests"].get(first) == "passed"
    }


def table() -> str:
    """Return what the stored runs saw, as a table of the documentation."""
    names = list(_TESTS.values())
    rows = [["agent", "version", "date", *names], ["---"] * (3 + len(names))]
    for path in sorted(DIRECTORY.glob("*.json")):
        seen = json.loads(path.read_text())
        ends = [_SHOWN.get(seen["tests"].get(test), "–") for test in _TESTS]
        rows.append([f"`{path.stem}`", seen["version"], seen["date"], *ends])
    known = {path.stem for path in DIRECTORY.glob("*.json")}
    others = ", ".join(f"`{name}`" for name in AGENTS if name not in known)
    lines = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    return f"{lines}\nNot run, and written from their documentation alone: {others}.\n"
