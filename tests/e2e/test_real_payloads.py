"""What real agents sent, through the files that `hooks install` wrote, as children of a process.

Only there is the agent the hook's ancestor, as it is in life: its session lives as long as it.
"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.real_agents import FIXTURES, RealAgent, make_repository
from tests.support.shadow import Document, Shadow

CASES = sorted(path.name for path in FIXTURES.iterdir() if path.is_dir())
WITHOUT_TURNS = ("droid",)
BASIC = {
    "deep/er/f.txt": "high",
    "list.txt": "high",
    "made.txt": "certain",
    "name2.txt": "high",
    "old.txt": "high",
    "sh.txt": "high",
    "src/app.py": "certain",
}
CODEX_BASIC = {
    path: sure for path, sure in BASIC.items() if path not in ("list.txt", "src/app.py")
}
PARENT = {"parent.txt": "certain"}
SUBAGENT = {"sub.txt": "certain", "subsh.txt": "high"}
GIVEN: dict[str, dict[str, str]] = {
    "claude": BASIC | PARENT | SUBAGENT,
    "cline": {path: sure for path, sure in BASIC.items() if path != "src/app.py"}
    | SUBAGENT,
    "codex": CODEX_BASIC,
    "codex-subagent": dict.fromkeys(("parent.txt", "sub.txt", "subsh.txt"), "high"),
    "copilot": BASIC | PARENT | SUBAGENT,
    "droid": BASIC,
    "grok": BASIC | PARENT | SUBAGENT,
    "grok-background": PARENT | SUBAGENT,
    "opencode": BASIC | PARENT,
    "pi": BASIC | PARENT,
}
"""Which paths each agent wrote, and how surely that is known."""


@pytest.fixture
def play(
    tmp_path: Path, make_shadow: Callable[..., Shadow]
) -> Callable[[str], RealAgent]:
    def run(case: str) -> RealAgent:
        shadow = make_shadow(make_repository(tmp_path / "repo"))
        shadow.init()
        agent = RealAgent(case, shadow)
        agent.play()
        return agent

    return run


@pytest.mark.parametrize("case", CASES)
def test_writes_are_the_agents_and_undone_when_its_payloads_come_by_its_own_file(
    case: str, play: Callable[[str], RealAgent]
) -> None:
    agent = play(case)
    rows = [row for row in agent.shadow.log() if row["kind"] != "baseline"]
    assert {str(row["path"]): row["confidence"] for row in rows} == GIVEN[case]
    assert {row["agent"] for row in rows} == {agent.agent}
    check_calls(agent, rows)
    check_sessions(agent, rows)
    check_undo(agent)


def check_calls(agent: RealAgent, rows: list[Document]) -> None:
    """Check that each write has the call and the prompt that it was made for."""
    told = {str(row["id"]): row for row in agent.shadow.ok("turns", "--json").rows()}
    for row in rows:
        assert row["call"], row
        fits = [call for call in agent.calls if call.id in (None, row["call"])]
        assert row["confidence"] in {call.confidence for call in fits}, row
        if agent.case in WITHOUT_TURNS:
            assert row["turn"] is None
        else:
            top = str(row["turn"]).split("/", maxsplit=1)[0]
            assert told[top]["prompt"] in {call.prompt for call in fits}, row
    prompts = {told[turn]["prompt"] for turn in told if "/" not in turn}
    assert prompts - {None} == set(agent.prompts)
    assert (None in prompts) == (agent.case == "cline")


def check_sessions(agent: RealAgent, rows: list[Document]) -> None:
    """Check that what a subagent did is in a session below the first, and all else there."""
    known = {
        row["id"]: row
        for row in agent.shadow.ok("sessions", "--json").rows()
        if row["agent"] == agent.agent
    }
    tops = {row["native_id"] for row in known.values() if row["parent"] is None}
    assert tops == set(agent.sessions())
    for row in rows:
        session = known[row["session"]]
        below = str(row["path"]) in SUBAGENT
        assert (session["parent"] is not None) == below, row


def check_undo(agent: RealAgent) -> None:
    """Check that `oops` undoes the last prompt's files, its subagent's too, then the rest."""
    repo = agent.shadow.repo
    agent.shadow.oops()
    last = {*PARENT, *SUBAGENT}
    assert not [path for path in last if os.path.lexists(repo.path(path))]
    if last & GIVEN[agent.case].keys() and "made.txt" in GIVEN[agent.case]:
        assert os.path.lexists(repo.path("made.txt"))
        agent.shadow.oops()
    assert repo.git("status", "--porcelain") == ""
