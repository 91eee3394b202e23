"""The view's engine: what it refuses, because files would be but a part of it."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from gitshadow.commands.here import HereEngine
from gitshadow.errors import RefusedError
from gitshadow.sdk.turns.policy import Policy
from gitshadow.sdk.turns.session import AgentUndo
from tests.sdk.turns.recorded import Recorded
from tests.support.repo import Repo
from tests.support.screens import wish_of
from tests.support.studio import studio_of

PROGRAM = "cannot undo {} here: it did more than change files"


@pytest.fixture
def recorded(repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recorded:
    """Return a repository in which a program has written a file, and an agent another."""
    monkeypatch.setenv("GITSHADOW_DAEMON", "off")
    made = Recorded.make(repo, tmp_path / "world")
    tools, policy = made.front.tools, Policy(non_reversible="allow")
    with (
        AgentUndo.open(str(repo.root), session="s", tools=tools, policy=policy) as au,
        au.turn("go") as turn,
    ):
        turn.call("draft.create", {"title": "x"}, call_id="d")
        turn.call("shell.run", {"path": "new", "text": "agent\n"}, call_id="w")
    with studio_of(repo) as studio:
        studio.prompt("S1", "go")
        studio.write("S1", "other", "other\n")
        studio.stop("S1")
    return made


def written(recorded: Recorded, path: str) -> Mapping[str, object]:
    """Return the row of the write of a file."""
    return next(row for row in recorded.rows("log") if row["path"] == path)


@pytest.mark.parametrize(
    ("unit", "named", "command"),
    [
        ("burst", "t-1", "undo t-1 --session s"),
        ("turn", "t-1", "undo t-1 --session s"),
        ("session", "session s", "rewind --before t-1 --effects --session s"),
    ],
)
def test_a_program_is_not_undone_in_its_files_alone(
    recorded: Recorded, unit: str, named: str, command: str
) -> None:
    """Block, turn and session alike: what does it whole is named."""
    wish = wish_of("undo", (str(written(recorded, "new")[unit]),))
    with pytest.raises(RefusedError) as refused:
        HereEngine(recorded.layout, print).plan(wish)
    assert refused.value.message == PROGRAM.format(named)
    assert refused.value.hint == f"in a shell: git agent-undo {command}"


@pytest.mark.parametrize("unit", ["burst", "turn", "session"])
def test_another_agent_is_undone_where_programs_are(
    recorded: Recorded, unit: str
) -> None:
    wish = wish_of("undo", (str(written(recorded, "other")[unit]),))
    plan = HereEngine(recorded.layout, print).plan(wish)
    assert plan.status == "planned"
