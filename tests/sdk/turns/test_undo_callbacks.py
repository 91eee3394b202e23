"""AN-27: outsiders are told of undos and rewinds, and cannot make them fail afterwards."""

import json
import subprocess
from pathlib import Path

import pytest

from gitshadow.errors import RefusedError
from gitshadow.sdk.turns.host import Host
from gitshadow.sdk.turns.report import UndoReport
from tests.sdk.turns.front import Front, Session, in_journal
from tests.sdk.turns.world import BoomError, World


class Ear:
    """Takes note of what it is told, and may not like it."""

    def __init__(self, front: Front, error: Exception | None = None) -> None:
        self.heard: list[UndoReport] = []
        self.seen: list[list[str]] = []
        self._front = front
        self._error = error

    def __call__(self, report: UndoReport) -> object:
        self.heard.append(report)
        self.seen.append(self._front.world.inverses)
        if self._error is not None:
            raise self._error
        return later() if self._front.name == "async" else None


async def later() -> None:
    """Be awaited, where the front awaits."""


async def one_draft(session: Session) -> None:
    """Run one turn with one call."""
    await session.called("draft.create", title="a")


async def test_an_undo_is_told_of_before_and_after(front: Front) -> None:
    """AN-27: with the plan, then with the report."""
    before, after = Ear(front), Ear(front)
    session = front.session(host=Host(pre_undo=before, post_undo=after))
    await one_draft(session)
    report = await session.undo("t-1")
    assert [one.status for one in before.heard] == ["planned"]
    assert after.heard == [report]
    assert (before.seen, after.seen) == ([[]], [["undo:draft"]])


async def test_who_is_told_before_can_refuse(front: Front, world: World) -> None:
    """AN-27: nothing is done, and nothing is written."""
    before, after = Ear(front, ValueError("not now")), Ear(front)
    session = front.session(host=Host(pre_undo=before, post_undo=after))
    await one_draft(session)
    rows = session.au.log()
    with pytest.raises(RefusedError, match="pre_undo failed: ValueError: not now"):
        await session.undo("t-1")
    assert (world.inverses, after.heard, session.au.log()) == ([], [], rows)


async def test_a_rollback_is_told_of_and_not_refused(
    front: Front, world: World
) -> None:
    """AN-27, AN-14: the cause stays primary, and the report names who did not like it."""
    host = Host(
        pre_undo=Ear(front, ValueError("no")), post_undo=Ear(front, OSError("cursor"))
    )
    session = front.session(host=host)
    with pytest.raises(BoomError):
        async with session.turn() as turn:
            await turn.call("draft.create", title="a")
            await turn.call("toy.boom")
    report = turn.report
    assert report.notes == (
        "pre_undo failed: ValueError: no",
        "post_undo failed: OSError: cursor",
    )
    assert (report.status, world.state["drafts"]) == ("reversed", {})


async def test_a_rewind_is_told_of_with_what_it_hid(front: Front) -> None:
    """AN-27: so that nobody's cursor points at what is gone."""
    ear = Ear(front, OSError("cursor"))
    session = front.session(host=Host(post_rewind=ear))
    await one_draft(session)
    await one_draft(session)
    report = await session.rewind("t-1")
    assert [one.hidden_invocations for one in ear.heard] == [("t-1", "t-2")]
    assert report.notes == ("post_rewind failed: OSError: cursor",)
    assert session.au.messages() == []


def configure(front: Front, name: str, command: str) -> None:
    """Set a hook command, as a user does."""
    key = f"agent-undo.{name}"
    subprocess.run(["git", "config", key, command], cwd=front.root, check=True)


def script(front: Front, text: str) -> Path:
    """Write a program."""
    path = front.root / "hook.sh"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@in_journal
async def test_a_hook_command_reads_the_report(front: Front) -> None:
    """AN-27: the ids of hidden invocations are in it; without a shell, in the working tree."""
    told = front.root / "told.json"
    command = script(
        front, f'cat > {told}; echo "$AGENT_UNDO_HOOK $AGENT_UNDO_SESSION $1 $PWD" >&2'
    )
    configure(front, "postRewind", f"{command} '$HOME x'")
    session = front.session()
    await one_draft(session)
    report = await session.rewind("t-1")
    assert json.loads(told.read_text()) == json.loads(json.dumps(report.to_json()))
    assert json.loads(told.read_text())["hidden_invocations"] == ["t-1"]


@in_journal
async def test_a_hook_command_that_fails_is_named(front: Front, world: World) -> None:
    """AN-27: the undo stands, and the report says which hook failed and why."""
    command = script(
        front, 'echo "$AGENT_UNDO_HOOK $AGENT_UNDO_SESSION $1"; pwd; exit 7'
    )
    configure(front, "postUndo", f"{command} '$HOME x'")
    session = front.session("s-9")
    await one_draft(session)
    report = await session.undo("t-1")
    assert report.notes == (
        f"post_undo command failed: CommandError: {command} ended with 7:"
        f" post_undo s-9 $HOME x\n{front.root}",
    )
    assert (report.status, world.state["drafts"]) == ("reversed", {})


@in_journal
async def test_a_hook_command_can_refuse(front: Front, world: World) -> None:
    """AN-27: `preUndo` reads the plan."""
    told = front.root / "told.json"
    configure(front, "preUndo", str(script(front, f"cat > {told}; exit 1")))
    session = front.session()
    await one_draft(session)
    with pytest.raises(RefusedError, match="pre_undo command failed"):
        await session.undo("t-1")
    assert world.inverses == []
    assert json.loads(told.read_text())["status"] == "planned"


@in_journal
async def test_a_hook_that_cannot_be_read_stops_what_it_was_to_guard(
    front: Front, world: World
) -> None:
    """AN-27, bad input: a `preUndo` with an open quote refuses; a `postUndo` is named."""
    session = front.session()
    await one_draft(session)
    configure(front, "postUndo", "echo 'x")
    with pytest.raises(RefusedError, match="cannot use"):
        await session.undo("t-1")
    assert world.inverses == []
