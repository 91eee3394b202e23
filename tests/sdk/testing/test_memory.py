"""A store in memory is one for several sessions, as a journal is; the suite of turns runs on it."""

import pytest

from gitshadow.sdk.testing import MemoryStore
from gitshadow.sdk.turns.errors import SessionBusy
from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.session import AgentUndo


def opened(store: MemoryStore, session: str = "s") -> AgentUndo:
    return AgentUndo.with_store(store, session=session, tools=ToolRegistry())


def test_two_openings_of_a_session_see_the_same() -> None:
    store = MemoryStore()
    with opened(store) as au, au.turn("first") as turn:
        turn.set_state({"k": 1})
    assert opened(store).state == {"k": 1}
    assert opened(store, "other").turns() == []


def test_closing_another_opening_keeps_the_lock() -> None:
    """AN-13: within the process as between processes."""
    store = MemoryStore()
    with opened(store).turn("at work"):
        opened(store).close()
        with pytest.raises(SessionBusy), opened(store).turn("second"):
            raise AssertionError("the block must not run")
        with opened(store, "other").turn("elsewhere"):
            pass
