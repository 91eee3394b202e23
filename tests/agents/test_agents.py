"""Real agents write, and what they wrote is theirs and can be undone."""

import os
import signal
import subprocess
import threading
from collections.abc import Callable

import pytest

from gitshadow.adapters import registry
from tests.agents.drivers import DRIVERS
from tests.agents.judge import (
    check_healthy,
    check_turns,
    check_unheard,
    check_uninstalled,
    check_writes,
    expected,
    hook_times,
)
from tests.agents.scripts import SAVED
from tests.agents.studio import AgentStudio
from tests.support.waiting import until

QUICK = ("claude-code",)


def agents(*, having: Callable[[str], bool] = lambda _: True) -> pytest.MarkDecorator:
    """Run a test for every agent of which something is true; the quick ones in each run."""
    return pytest.mark.parametrize(
        "agent",
        [
            pytest.param(name, marks=[pytest.mark.quick] if name in QUICK else [])
            for name in DRIVERS
            if having(name)
        ],
    )


def slow(*, having: Callable[[str], bool] = lambda _: True) -> pytest.MarkDecorator:
    """Run a test for every agent of which something is true, in `make agents` only."""
    return pytest.mark.parametrize("agent", [one for one in DRIVERS if having(one)])


def follows(studio: AgentStudio, *scripts: str) -> None:
    """Let the agent follow scripts, one turn each."""
    for script in scripts:
        turn = studio.turn(script)
        assert turn.code == 0, turn.printed[-2000:]
        said = studio.model.requests[-1].answer
        assert "no tool for" not in said, said


def left_of(studio: AgentStudio, script: str) -> set[str]:
    """Let the agent follow one script, check its writes and undo them; return what is left."""
    studio.prepare()
    follows(studio, script)
    check_writes(studio, expected(studio, script))
    studio.command("oops", "--yes")
    return studio.changes()


@agents()
def test_turns_are_recorded_undone_and_redone(
    agent: str, studio: AgentStudio, record_property: Callable[[str, object], None]
) -> None:
    studio.record_hooks()
    studio.prepare()
    again = studio.driver.again is not None
    scripts = ("basic", "second") if again else ("basic",)
    follows(studio, *scripts)
    wanted = expected(studio, *scripts)
    check_writes(studio, wanted)
    check_turns(studio, wanted)
    check_unheard(studio)
    check_healthy(studio)
    if not studio.driver.wrapped:
        record_property("hook_ms", hook_times(studio))

    by_turns = studio.changes()
    second = {" M list.txt", "?? second.txt"} if again else by_turns
    assert second <= by_turns
    studio.repo.write("person.txt", "a person's file, changed later\n")
    person = {" M person.txt"}
    if again:
        studio.command("undo", turn_of(studio, "basic"), "--yes")
        assert studio.changes() == second | person
        studio.command("redo", "--yes")
        assert studio.changes() == by_turns | person
    studio.command("oops", "--yes")
    assert studio.changes() == by_turns - second | person
    studio.command("redo", "--yes")
    assert studio.changes() == by_turns | person
    studio.command("oops", "--yes")
    if again:
        studio.command("undo", turn_of(studio, "basic"), "--yes")
    assert studio.changes() == person
    if not studio.driver.wrapped:
        check_uninstalled(studio, "--user")


def turn_of(studio: AgentStudio, script: str) -> str:
    """Return the id of the turn that followed a script."""
    (found,) = (
        str(row["id"])
        for row in studio.rows("turns", "--json")
        if row["prompt"] == studio.reported(script)
    )
    return found


@slow(having=lambda name: DRIVERS[name].project is not None)
def test_hooks_of_a_project_record_as_those_of_a_user_do(
    agent: str, studio: AgentStudio
) -> None:
    studio.prepare("--project")
    turn = studio.turn("basic", more=studio.driver.project or ())
    assert turn.code == 0, turn.printed[-2000:]
    check_writes(studio, expected(studio, "basic"))
    studio.command("oops", "--yes")
    assert studio.changes() == set()
    check_uninstalled(studio, "--project")


@agents(having=lambda name: DRIVERS[name].subagents is not None)
def test_a_subagents_writes_are_undone_with_the_turn_that_started_it(
    agent: str, studio: AgentStudio
) -> None:
    studio.prepare()
    turn = studio.turn("task", more=studio.driver.subagents or ())
    assert turn.code == 0, turn.printed[-2000:]
    wanted = expected(studio, "task")
    check_writes(studio, wanted)
    check_turns(studio, wanted)
    studio.command("oops", "--yes")
    assert studio.changes() == set()


@slow(having=lambda name: DRIVERS[name].parallel)
def test_calls_side_by_side_each_have_their_own_files(
    agent: str, studio: AgentStudio
) -> None:
    assert left_of(studio, "parallel") == set()


@slow(having=lambda name: not DRIVERS[name].wrapped)
def test_a_persons_files_between_and_during_calls_are_not_called_the_agents(
    agent: str, studio: AgentStudio
) -> None:
    # Nothing distinguishes a plain save from a write of the shell that runs, so it may be undone.
    kept = left_of(studio, "person") - {"?? saved.txt"}
    assert kept == {"?? between.txt", "?? edited.txt"}


@slow(having=lambda name: registry.traits(name).shells_below)
def test_a_persons_saves_during_a_quiet_shell_are_not_the_agents(
    agent: str, studio: AgentStudio
) -> None:
    kept = {"?? saved.txt", " M person.txt", " M list.txt"}
    assert left_of(studio, "quiet") == kept
    assert {studio.repo.read(one[3:]).decode() for one in kept} == {SAVED}


@slow(having=lambda name: not DRIVERS[name].by_text)
def test_files_of_a_tool_that_failed_are_the_agents(
    agent: str, studio: AgentStudio
) -> None:
    assert left_of(studio, "fail") == set()


@slow(having=lambda name: DRIVERS[name].told and DRIVERS[name].again is not None)
def test_the_model_is_told_of_an_undo_with_the_next_prompt(
    agent: str, studio: AgentStudio
) -> None:
    studio.prepare()
    follows(studio, "basic")
    studio.command("oops", "--yes")
    asked = len(studio.model.requests)
    follows(studio, "look")
    later = "".join(one.body for one in studio.model.requests[asked:])
    assert "made.txt" in later
    assert "undone" in later or "undid" in later


@slow(having=lambda name: not DRIVERS[name].by_text)
def test_no_write_of_one_agent_is_given_to_the_same_one_beside_it(
    agent: str, studio: AgentStudio, other_studio: AgentStudio
) -> None:
    check_side_by_side(studio, other_studio)


@pytest.mark.parametrize(("agent", "other"), [("claude-code", "codex")])
def test_no_write_of_one_agent_is_given_to_a_different_one_beside_it(
    agent: str, other: str, studio: AgentStudio, other_studio: AgentStudio
) -> None:
    check_side_by_side(studio, other_studio)


def check_side_by_side(studio: AgentStudio, other: AgentStudio) -> None:
    """Have two agents write at once; check that neither claims or undoes the other's files."""
    studio.prepare()
    other.prepare()
    runs = [
        threading.Thread(target=one.turn, args=(script,))
        for one, script in ((studio, "first_of_two"), (other, "second_of_two"))
    ]
    for run in runs:
        run.start()
    for run in runs:
        run.join()
    assert [one.code for one in (*studio.turns, *other.turns)] == [0, 0]
    names = {f"{who}{at}.txt" for who in "ab" for at in range(1, 5)}
    found = studio.writes()
    assert set(found) == names
    claimed: dict[str, set[str]] = {"a": set(), "b": set()}
    for path, rows in found.items():
        claimed[path[0]] |= {
            str(row["session"])
            for row in rows
            if row["confidence"] in ("certain", "high")
        }
    assert not claimed["a"] & claimed["b"]
    for session in claimed["a"]:
        # 4: files that either may have written are left.
        studio.command("undo", session, "--yes", ends=(0, 4))
    assert {f"?? b{at}.txt" for at in range(1, 5)} <= studio.changes()


@slow(having=lambda name: not DRIVERS[name].by_text)
def test_what_a_turn_wrote_before_ctrl_c_is_undone(
    agent: str, studio: AgentStudio
) -> None:
    studio.prepare()
    before, after = studio.driver.turn
    leader, follower = os.openpty()
    running = subprocess.Popen(
        studio.words("long", before, after),
        cwd=studio.repo.root,
        env=studio.environment(),
        stdin=follower,
        stdout=follower,
        stderr=follower,
        start_new_session=True,
    )
    os.close(follower)
    drain = threading.Thread(target=_drain, args=(leader,), daemon=True)
    drain.start()
    until(lambda: os.path.exists(studio.repo.path("half.txt")))
    for _ in range(3):  # several agents ask for a second Ctrl-C
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGINT)
            try:
                running.wait(5)
            except subprocess.TimeoutExpired:
                continue
    if running.poll() is None:
        os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    rows = studio.writes()
    assert {row["agent"] for row in rows["begun.txt"]} == {agent}
    assert {row["agent"] for row in rows["half.txt"]} == {agent}
    studio.command("oops", "--yes")
    assert studio.changes() == set()


def _drain(leader: int) -> None:
    try:
        while os.read(leader, 65536):
            pass
    except OSError:
        os.close(leader)
