"""Agent programs beside the engine: a journal that is built anew, and the list of turns."""

import os

import pytest

from gitshadow.errors import LockedError
from gitshadow.maintenance import reindex as module
from gitshadow.sdk.turns import journal_store
from gitshadow.sdk.turns.errors import SessionBusy
from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.session import AgentUndo
from gitshadow.service import in_process
from gitshadow.store.layout import Layout
from gitshadow.store.lock import WriterLock
from tests.support.repo import Repo
from tests.support.studio import layout_of


@pytest.fixture
def layout(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> Layout:
    """Return a recorded repository without a daemon."""
    monkeypatch.setenv("GITSHADOW_DAEMON", "off")
    monkeypatch.setattr(module, "LOCK_S", 0.0)
    found = layout_of(repo)
    in_process.run(found, "init", {})
    return found


def opened(layout: Layout) -> AgentUndo:
    return AgentUndo.open(layout.root, session="s", tools=ToolRegistry())


def test_a_program_goes_on_in_a_journal_that_was_built_anew(layout: Layout) -> None:
    """LAW-07: nothing is written into the file that was set aside."""
    with opened(layout) as au:
        with au.turn("one"):
            pass
        before = os.stat(layout.journal).st_ino
        in_process.run(layout, "reindex", {})
        assert os.stat(layout.journal).st_ino != before
        with au.turn("two") as turn:
            turn.set_state({"n": 2})
        assert au.state == {"n": 2}
    with opened(layout) as again:
        assert [row.label for row in again.turns()] == ["one", "two"]
        assert again.state == {"n": 2}
        assert again.verify() is None


def test_the_journal_is_not_replaced_under_a_turn(layout: Layout) -> None:
    with opened(layout) as au:
        with au.turn("one"), pytest.raises(LockedError):
            in_process.run(layout, "reindex", {})
        in_process.run(layout, "reindex", {})
        assert [row.status for row in au.turns()] == ["committed"]


def test_no_turn_begins_while_the_journal_is_replaced(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_store, "_PROBE_S", 0.0)
    with opened(layout) as au:
        with WriterLock(layout.sagas_lock) as lock:
            lock.acquire(0)
            with pytest.raises(SessionBusy), au.turn("one"):
                raise AssertionError("the block must not run")
        assert au.turns() == []
        with au.turn("one"):
            pass


def test_turns_lists_those_of_programs_too(layout: Layout) -> None:
    """TX-02, TX-04: with their labels, also where no tool was called."""
    with opened(layout) as au, au.turn("rename clips"):
        pass
    rows = in_process.run(layout, "turns", {})["rows"]
    assert isinstance(rows, list)
    assert [(row["id"], row["prompt"], row["status"]) for row in rows] == [
        ("t-1", "rename clips", "committed")
    ]
