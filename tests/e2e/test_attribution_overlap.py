"""Several agents at once: who wrote what, and LAW-04 when one of them is undone."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.claude import Claude
from tests.support.repo import Repo, ten_lines
from tests.support.reports import items, reasons
from tests.support.shadow import COMMAND, Document, Shadow
from tests.support.waiting import until

pytestmark = pytest.mark.usefixtures("untouched")


def undo(shadow: Shadow, unit: str) -> Document:
    return shadow("undo", "--yes", "--json", unit).json()


def test_att03_four_sessions_at_once_are_told_apart(shadow: Shadow) -> None:
    """Every window is open while the others write; each file is its own agent's."""
    agents = [Claude(shadow, f"s{number}") for number in range(4)]
    calls = {}
    for agent in agents:
        agent.prompt("go")
        path = str(shadow.repo.root / agent.session)
        calls[agent.session] = agent.pre("Write", {"file_path": path})
    for agent in agents[::-1]:
        shadow.repo.write(agent.session, f"of {agent.session}\n")
    for agent in agents:
        agent.post(calls[agent.session])
    rows = shadow.newest()
    assert {path: (row["session"], row["call"]) for path, row in rows.items()} == {
        name: (shadow.session(name)["id"], call) for name, call in calls.items()
    }
    assert {row["confidence"] for row in rows.values()} == {"certain"}


def test_att03_same_line_of_another_session_is_left_and_named(shadow: Shadow) -> None:
    """LAW-04: what was written over is in conflict and stays, byte for byte."""
    one, two = Claude(shadow, "one"), Claude(shadow, "two")
    one.write("a", ten_lines("a", line_4="one"))
    two.write("a", ten_lines("a", line_4="two"))
    one.write("c", "of one\n")
    report = undo(shadow, "one")
    assert (report["status"], reasons(report)) == ("partial", {"a": "conflict"})
    assert shadow.repo.read("a").decode() == ten_lines("a", line_4="two")
    assert shadow.repo.read("c") == ten_lines("c").encode()


def test_att14_parallel_calls_of_one_session_close_in_any_order(agent: Claude) -> None:
    shadow = agent.shadow
    agent.prompt("go")
    names = ["p0", "p1", "p2"]
    root = shadow.repo.root
    calls = {
        name: agent.pre("Write", {"file_path": str(root / name)}) for name in names
    }
    shell = agent.pre("Bash", {"command": "make"})
    for name in reversed(names):
        shadow.repo.write(name, "x\n")
    subprocess.run(["sh", "-c", "echo x > made"], cwd=root, check=True)
    agent.post(shell)
    for name in ("p1", "p0", "p2"):
        agent.post(calls[name])
    rows = shadow.newest()
    found = {path: row["call"] for path, row in rows.items()}
    assert found == {**calls, "made": shell}, rows["made"]["reason"]
    report = undo(shadow, calls["p1"])
    assert list(items(report)) == ["p1"]
    assert [shadow.repo.exists(name) for name in names] == [True, False, True]


def test_att04_named_write_is_certain_beside_the_shells_of_others(
    shadow: Shadow,
) -> None:
    """Two shells are open: what nobody names is ambiguous, what a hook names is not."""
    one, two, three = (Claude(shadow, name) for name in ("one", "two", "three"))
    shells = [agent.pre("Bash", {"command": "make"}) for agent in (one, two)]
    call = three.write("named", "x\n")
    subprocess.run(["sh", "-c", "echo x > built"], cwd=shadow.repo.root, check=True)
    for agent, shell in zip((one, two), shells, strict=True):
        agent.post(shell)
    rows = shadow.newest()
    assert (rows["named"]["call"], rows["named"]["confidence"]) == (call, "certain")
    candidates = rows["built"]["candidates"]
    assert isinstance(candidates, list)
    assert set(candidates) == {shadow.session(one)["id"] for one in ("one", "two")}
    report = undo(shadow, "three")
    assert (report["status"], list(items(report))) == ("reversed", ["named"])
    assert shadow.repo.exists("built")


def test_att15_two_subagents_at_once_are_undone_apart(agent: Claude) -> None:
    """Each has its own session; the parent's turn takes both, a child's session one."""
    shadow = agent.shadow
    agent.prompt("go")
    task = agent.pre("Task", {"description": "two at once", "prompt": "x"})
    children = [
        Claude(
            shadow,
            extra={"agent_id": name, "agent_type": "helper"},
            prompt_id=agent.prompt_id,
        )
        for name in ("sub-1", "sub-2")
    ]
    first = children[0].pre("Write", {"file_path": str(shadow.repo.root / "a")})
    second = children[1].pre("Write", {"file_path": str(shadow.repo.root / "b")})
    shadow.repo.write("b", "second\n")
    shadow.repo.write("a", "first\n")
    children[0].post(first)
    children[1].post(second)
    agent.post(task)
    agent.write("c", "parent\n")
    rows = shadow.newest()
    assert (rows["a"]["call"], rows["b"]["call"]) == (first, second)
    assert len({row["session"] for row in rows.values()}) == 3
    report = undo(shadow, str(rows["a"]["session"]))
    assert list(items(report)) == ["a"]
    assert shadow.repo.read("b") == b"second\n"
    report = undo(shadow, str(agent.prompt_id))
    assert report["status"] == "reversed"
    for name in "abc":
        assert shadow.repo.read(name) == ten_lines(name).encode()


def test_att05_named_write_of_an_agent_beside_a_command(shadow: Shadow) -> None:
    """An agent's file tool while somebody else's `exec` runs."""
    agent = Claude(shadow, "one")
    gate = shadow.repo.root.parent / "gate"
    script = f"echo x > mine; until [ -e {gate} ]; do sleep 0.02; done; echo y > end"
    running = shadow.spawn("exec", "--agent", "tool", "--", "sh", "-c", script)
    try:
        until(lambda: shadow.repo.exists("mine") and shadow.repo.read("mine") == b"x\n")
        call = agent.write("a", ten_lines("a", line_4="agent"))
    finally:
        gate.touch()
    assert running.wait() == 0
    running.communicate()
    rows = shadow.newest()
    assert (rows["a"]["call"], rows["a"]["confidence"]) == (call, "certain")
    assert (rows["mine"]["agent"], rows["end"]["agent"]) == ("tool", "tool")
    report = undo(shadow, str(rows["mine"]["session"]))
    assert (report["status"], set(items(report))) == ("reversed", {"mine", "end"})
    assert shadow.repo.read("a").decode() == ten_lines("a", line_4="agent")


@pytest.mark.parametrize("daemon", [True, False], ids=["daemon", "nodaemon"])
def test_att11_linked_worktrees_at_once_are_kept_apart(
    repo: Repo,
    make_shadow: Callable[..., Shadow],
    untouched: Callable[[], None],
    tmp_path: Path,
    daemon: bool,
) -> None:
    """Two worktrees, each with its own daemon, and one session that works in both."""
    repo.git("worktree", "add", "-q", "-b", "side", str(tmp_path / "linked"))
    untouched()
    places = [
        make_shadow(one, daemon=daemon) for one in (repo, Repo(tmp_path / "linked"))
    ]
    for place in places:
        place.init()
    agents = [Claude(place, "both") for place in places]
    calls = []
    for agent in agents:
        path = str(agent.shadow.repo.root / "a")
        calls.append(agent.pre("Write", {"file_path": path}))
    for number, agent in enumerate(agents):
        agent.shadow.repo.write("a", f"in {number}\n")
    for agent, call in zip(agents, calls, strict=True):
        agent.post(call)
    for place, call in zip(places, calls, strict=True):
        (row,) = place.log("a")
        assert (row["call"], row["confidence"]) == (call, "certain")
    report = undo(places[1], "both")
    assert (report["status"], list(items(report))) == ("reversed", ["a"])
    assert places[1].repo.read("a") == ten_lines("a").encode()
    assert places[0].repo.read("a") == b"in 0\n"


def test_att05_nested_commands_at_once_are_never_mixed_up(shadow: Shadow) -> None:
    """Two commands inside one, side by side: their own, or nobody's and both are named."""
    inner = "for i in 1 2 3; do echo $i > {0}$i; done"
    script = " & ".join(
        f"{COMMAND} exec --agent {name} -- sh -c '{inner.format(name)}'"
        for name in ("left", "right")
    )
    shadow.ok(
        "exec", "--agent", "out", "--", "sh", "-c", f"{script} & wait; echo o > o"
    )
    rows = shadow.newest()
    assert len(rows) == 7
    assert rows["o"]["agent"] == "out"
    for path, row in rows.items():
        if row["confidence"] == "ambiguous":
            candidates = row["candidates"]
            assert isinstance(candidates, list)
            assert len(candidates) == 2
        else:
            assert row["agent"] == {"l": "left", "r": "right", "o": "out"}[path[0]]
