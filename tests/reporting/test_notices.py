"""What a session is told of its work that came and went, prompt by prompt."""

from collections.abc import Iterator

import pytest

from tests.support.claude import Claude
from tests.support.context import Near, desk_of
from tests.support.repo import Repo

AGAIN = "gitshadow: an undo of this session's work was reversed: "


@pytest.fixture
def near(repo: Repo) -> Iterator[Near]:
    with desk_of(repo) as context:
        yield Near(repo, context)


def worked(agent: Claude, *paths: str) -> None:
    agent.prompt("go")
    for path in paths:
        agent.write(path, f"agent {agent.session}\n")
    agent.stop()


def test_redo_is_told_once_to_who_was_told_of_the_undo(near: Near) -> None:
    agent = near.agent()
    worked(agent, "a", "new")
    near.undo("oops")
    assert agent.prompt("x").endswith("(oops): a, new")
    near.undo("redo")
    assert agent.prompt("y") == AGAIN + "a, new. Read these files again."
    assert agent.prompt("z") == ""


def test_redo_is_not_told_where_the_undo_was_not(near: Near) -> None:
    agent = near.agent()
    worked(agent, "a")
    near.undo("oops")
    near.undo("redo")
    assert agent.prompt("x") == ""
    worked(agent, "b")
    near.undo("oops")
    assert agent.prompt("y").splitlines()[1:] == [agent_line(near, "oops", "b")]


def agent_line(near: Near, kind: str, paths: str) -> str:
    (when,) = near.context.workspace.db.rows(
        "SELECT strftime('%Y-%m-%dT%H:%M:%S', max(ts_ns) / 1000000000, 'unixepoch'),"
        " (max(ts_ns) / 1000) % 1000000 FROM ops"
    )
    return f"- {when[0]}.{when[1]:06d}Z, by the user ({kind}): {paths}"


def test_undo_and_redo_of_different_turns_are_told_together(near: Near) -> None:
    agent = near.agent()
    worked(agent, "a")
    worked(agent, "b")
    near.undo("oops")
    assert agent.prompt("x").endswith("(oops): b")
    near.undo("redo")
    near.undo("undo", "a")
    told = agent.prompt("y").splitlines()
    assert told[1].endswith("(undo): a")
    assert told[2:] == [AGAIN + "b. Read these files again."]


def test_undo_of_the_redo_is_told_again(near: Near) -> None:
    agent = near.agent()
    worked(agent, "a")
    near.undo("oops")
    agent.prompt("x")
    redone = near.undo("redo")
    assert agent.prompt("y").startswith(AGAIN)
    near.undo("undo", str(redone["op_id"]))
    assert agent.prompt("z").endswith("(oops): a")
    assert agent.prompt("z") == ""


def test_only_what_came_back_is_named(near: Near, repo: Repo) -> None:
    agent = near.agent()
    worked(agent, "a", "b")
    near.undo("oops")
    agent.prompt("x")
    repo.write("b", "a person's\n")
    near.undo("redo")
    assert agent.prompt("y") == AGAIN + "a. Read these files again."


def test_session_that_redid_it_itself_is_not_told(near: Near) -> None:
    agent = near.agent()
    worked(agent, "a")
    near.undo("oops")
    agent.prompt("x")
    (session,) = near.context.workspace.db.rows(
        "SELECT id FROM sessions WHERE agent != ''"
    )
    near.undo("redo", runner=session[0])
    assert agent.prompt("y") == ""


def test_others_are_not_told_of_a_redo(near: Near) -> None:
    one, two = near.agent("one"), near.agent("two")
    worked(one, "a")
    worked(two, "b")
    near.undo("undo", "a")
    near.undo("redo")
    assert (one.prompt("x"), two.prompt("x")) == ("", "")


def test_op_that_ends_late_is_told_late(near: Near) -> None:
    """An op of another worktree may be applying while a prompt looks."""
    agent = near.agent()
    worked(agent, "a")
    near.undo("oops")
    db = near.context.workspace.db
    with db.write():
        db.run("UPDATE ops SET status = 'applying'")
    assert agent.prompt("x") == ""
    with db.write():
        db.run("UPDATE ops SET status = 'done'")
    assert agent.prompt("y").endswith("(oops): a")
