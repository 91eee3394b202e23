"""Records what real agents send to their hooks: `make agents AGENTS_RECORD=1`."""

import os
from pathlib import Path

import pytest

from tests.agents.drivers import DRIVERS
from tests.agents.judge import check_turns, check_writes, expected
from tests.agents.recording import (
    FIXTURES,
    Recorder,
    hook_places,
    scripts_of,
    store,
)
from tests.agents.studio import AgentStudio

TARGET = os.environ.get("GITSHADOW_AGENTS_RECORD")


@pytest.mark.quick
@pytest.mark.skipif(TARGET is None, reason="only where payloads are recorded")
@pytest.mark.parametrize("agent", DRIVERS)
def test_what_an_agent_sends_is_recorded(agent: str, studio: AgentStudio) -> None:
    recorder = Recorder(studio)
    recorder.prepare()
    turns = {}
    for script in scripts_of(agent):
        parts = studio.driver.again if studio.turns else None
        before, after = parts or studio.driver.turn
        more = studio.driver.subagents or () if script == "task" else ()
        turn = studio.start(script, before, [*after, *more])
        assert turn.code == 0, turn.printed[-2000:]
        turns[script] = recorder.turn()
    top = Path(TARGET) if TARGET else FIXTURES
    store(agent, turns, top, hook_places(studio))
    wanted = expected(studio, *scripts_of(agent))
    check_writes(studio, wanted)
    check_turns(studio, wanted)
