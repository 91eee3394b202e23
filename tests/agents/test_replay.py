"""What real agents sent, through the hook files that are installed today."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.agents.judge import (
    Expected,
    check_hooks,
    check_turns,
    check_writes,
    expected,
)
from tests.agents.model_server import ModelServer
from tests.agents.recording import hook_places
from tests.agents.replay import Replay, recorded

WITHOUT_CALL_IDS = ("copilot", "droid", "gemini", "openhands")


@pytest.fixture
def make_replay(
    tmp_path: Path, model: ModelServer
) -> Iterator[Callable[[str], Replay]]:
    """Return a function that prepares the replay of an agent."""
    with ExitStack() as stack:

        def make(name: str) -> Replay:
            replay = Replay.create(name, tmp_path, model)
            stack.callback(replay.studio.close)
            replay.prepare()
            return replay

        yield make


@pytest.mark.parametrize("name", recorded())
def test_stored_turns_are_recorded_and_undone_as_those_of_the_agent(
    name: str, make_replay: Callable[[str], Replay]
) -> None:
    replay = make_replay(name)
    studio = replay.studio
    # Only the real agent can show that it reads hooks at another place.
    assert hook_places(studio) == replay.places
    wanted: dict[str, Expected] = {}
    for script in replay.turns:
        replay.play(script)
        wanted |= expected(studio, script)
    check_writes(studio, wanted)
    check_turns(studio, wanted, views=False)
    if replay.runs_commands:
        check_hooks(studio)
    studio.command("doctor")
    check_names(replay)
    for _ in replay.turns:
        studio.command("oops", "--yes")
    assert studio.repo.git("status", "--porcelain", "--untracked-files=all") == ""


def check_names(replay: Replay) -> None:
    """Check that calls and sessions have the agent's own ids, and turns its prompts alone."""
    studio, sent = replay.studio, replay.sent()
    for row in (one for rows in studio.writes().values() for one in rows):
        if row["call"]:
            assert (str(row["call"]) in sent) == (
                studio.name not in WITHOUT_CALL_IDS
            ), row
    for session in studio.rows("sessions", "--json"):
        if session["agent"] == studio.name and not studio.driver.wrapped:
            assert str(session["native_id"]).rpartition("/")[2] in sent, session
    told = studio.rows("turns", "--json")
    prompts = {row["prompt"] for row in told if "/" not in str(row["id"])} - {None}
    asked = {studio.reported(script) for script in replay.turns}
    assert prompts == (asked if studio.driver.turns else set())
