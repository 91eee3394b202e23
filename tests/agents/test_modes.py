"""Real agents in their modes: servers of tools, background tasks, permissions, later sessions."""

import pytest

from tests.agents.judge import check_healthy, check_turns, check_writes, expected
from tests.agents.mcp_servers import SERVERS, add_note_server
from tests.agents.studio import AgentStudio
from tests.agents.test_agents import status


@pytest.mark.parametrize("agent", SERVERS)
def test_a_file_that_an_mcp_server_writes_is_the_calls_and_is_undone(
    agent: str, studio: AgentStudio
) -> None:
    studio.record_hooks()
    studio.prepare()
    turn = studio.turn("note", more=add_note_server(studio))
    assert turn.code == 0, turn.printed[-2000:]
    said = studio.model.requests[-1].answer
    assert "no tool for" not in said, said
    wanted = expected(studio, "note")
    check_writes(studio, wanted)
    check_turns(studio, wanted)
    check_healthy(studio)
    (row,) = studio.writes()["note.txt"]
    assert "write_note" in str(row["tool"])
    studio.command("oops", "--yes")
    assert status(studio) == ""
