"""Real agents write, and what they wrote is theirs and can be undone."""

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.agents.drivers import DRIVERS
from tests.agents.judge import check_healthy, check_turns, check_writes, expected
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


def status(studio: AgentStudio) -> str:
    """Return what Git says has changed."""
    return studio.repo.git("status", "--porcelain", "--untracked-files=all")


def settings(studio: AgentStudio) -> Mapping[Path, bytes]:
    """Return all files at home and in the repository that hooks can be installed in."""
    tops = (studio.home, studio.repo.root)
    return {
        path: path.read_bytes()
        for top in tops
        for path in top.rglob("*")
        if path.is_file() and ".git/" not in str(path)
    }


@agents()
def test_turns_are_recorded_undone_and_redone(agent: str, studio: AgentStudio) -> None:
    before = settings(studio)
    studio.record_hooks()
    studio.prepare()
    again = studio.driver.again is not None
    scripts = ("basic", "second") if again else ("basic",)
    follows(studio, *scripts)
    wanted = expected(studio, *scripts)
    check_writes(studio, wanted)
    check_turns(studio, wanted)
    check_healthy(studio)
    first = first_turn(studio)

    after = status(studio)
    studio.command("oops", "--yes")
    assert ("second.txt" in status(studio)) is False
    assert ("made.txt" in status(studio)) is again
    studio.command("redo", "--yes")
    assert status(studio) == after
    if again:
        studio.command("oops", "--yes")
        studio.command("undo", first, "--yes")
    else:
        studio.command("oops", "--yes")
    assert status(studio) == ""

    if not studio.driver.wrapped:
        studio.command("hooks", "uninstall", "--user", agent, "--yes")
        left = settings(studio)
        changed = {path for path, data in before.items() if left.get(path) != data}
        assert changed <= own_files(studio), changed


def first_turn(studio: AgentStudio) -> str:
    """Return the id of the turn of the basic script, or of the session where none is reported."""
    if not studio.driver.turns:
        return "last"
    (found,) = (
        str(row["id"])
        for row in studio.rows("turns", "--json")
        if "[[basic " in str(row["prompt"])
    )
    return found


def own_files(studio: AgentStudio) -> set[Path]:
    """Return files that the agent itself rewrites when it runs."""
    names = {
        "gemini": (".gemini/settings.json",),
        "qwen": (".qwen/settings.json",),
        "grok": (".grok/config.toml",),
        "droid": (".factory/settings.json",),
        "codex": (".codex/config.toml",),
        "opencode": (".config/opencode/opencode.json",),
    }
    return {studio.home / name for name in names.get(studio.name, ())}


@slow(having=lambda name: DRIVERS[name].project is not None)
def test_hooks_of_a_project_record_as_those_of_a_user_do(
    agent: str, studio: AgentStudio
) -> None:
    studio.prepare("--project")
    turn = studio.turn("basic", more=studio.driver.project or ())
    assert turn.code == 0, turn.printed[-2000:]
    found = {
        path: rows
        for path, rows in studio.writes().items()
        if path in expected(studio, "basic")
    }
    assert {row["agent"] for rows in found.values() for row in rows} == {agent}
    assert len(found) == len(expected(studio, "basic"))


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
    assert status(studio) == ""


@slow(having=lambda name: DRIVERS[name].parallel)
def test_calls_side_by_side_each_have_their_own_files(
    agent: str, studio: AgentStudio
) -> None:
    studio.prepare()
    follows(studio, "parallel")
    check_writes(studio, expected(studio, "parallel"))
    studio.command("oops", "--yes")
    assert status(studio) == ""


@slow(having=lambda name: not DRIVERS[name].wrapped)
def test_a_persons_file_between_two_calls_is_nobody_elses(
    agent: str, studio: AgentStudio
) -> None:
    studio.prepare()
    follows(studio, "person")
    check_writes(studio, expected(studio, "person"))
    studio.command("oops", "--yes")
    assert status(studio) == "?? between.txt"


@slow(having=lambda name: not DRIVERS[name].wrapped)
def test_files_of_a_tool_that_failed_are_the_agents(
    agent: str, studio: AgentStudio
) -> None:
    studio.prepare()
    follows(studio, "fail")
    check_writes(studio, expected(studio, "fail"))
    studio.command("oops", "--yes")
    assert status(studio) == ""


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


@slow(having=lambda name: not DRIVERS[name].wrapped)
def test_no_write_of_one_agent_is_given_to_another_beside_it(
    agent: str, studio: AgentStudio, second_studio: AgentStudio
) -> None:
    other = second_studio
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
    claimed: dict[str, set[object]] = {"a": set(), "b": set()}
    for path, rows in found.items():
        sure = {
            row["session"] for row in rows if row["confidence"] in ("certain", "high")
        }
        claimed[path[0]] |= sure
    assert not claimed["a"] & claimed["b"]


@slow(having=lambda name: not DRIVERS[name].wrapped)
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
    assert status(studio) == ""


def _drain(leader: int) -> None:
    try:
        while os.read(leader, 65536):
            pass
    except OSError:
        os.close(leader)
