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
from tests.agents.replay import Replay, recorded


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
        call = str(row["call"] or "h-")
        assert call.startswith("h-") or call in sent, row
    for session in studio.rows("sessions", "--json"):
        if session["agent"] == studio.name and not studio.driver.wrapped:
            assert str(session["native_id"]).rpartition("/")[2] in sent, session
    told = studio.rows("turns", "--json")
    prompts = {row["prompt"] for row in told if "/" not in str(row["id"])} - {None}
    asked = {studio.reported(script) for script in replay.turns}
    assert prompts == (asked if studio.driver.turns else set())
