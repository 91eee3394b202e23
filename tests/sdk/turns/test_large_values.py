"""Large arguments: the journal has each once, and the log still proves it."""

from pathlib import Path

import pytest

from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.session import AgentUndo
from gitshadow.sdk.turns.values import Inverse
from gitshadow.undo.report import Reason
from tests.sdk.turns.front import journal_of

SIZE = 12_000_000


@pytest.fixture
def texts() -> list[str]:
    return []


@pytest.fixture
def au(place: Path, texts: list[str]) -> AgentUndo:
    tools = ToolRegistry()
    tools.handler("page.put", idempotent=True)(lambda text: texts.append(text))
    tools.add(
        "page.write",
        lambda text: None,
        reversibility="reversible",
        inverse=lambda a, c, r: Inverse.tool("page.put", text=a["text"]),
    )
    return AgentUndo.open(str(place), session="s", tools=tools)


def test_a_large_argument_and_its_inverse_are_stored_once_each(
    au: AgentUndo, place: Path, texts: list[str]
) -> None:
    text = "x" * SIZE
    journal = place / ".git" / "agent-undo" / "journal.db"
    with au.turn("large") as turn:
        turn.call("page.write", text=text)
    # The turn is over: until its next transaction, the log of SQLite has the one before.
    stored = sum(one.stat().st_size for one in journal.parent.glob("journal.db*"))
    assert stored < 2 * (2 * SIZE)
    assert au.undo("t-1").status == "reversed"
    assert texts == [text]
    au.close()


def test_a_large_inverse_that_was_changed_by_hand_does_not_run(
    au: AgentUndo, texts: list[str]
) -> None:
    with au.turn("large") as turn:
        turn.call("page.write", text="x" * SIZE)
    journal_of(au).db.run("UPDATE saga_calls SET inverse = replace(inverse, 'xx', 'y')")
    (item,) = au.undo("t-1").items
    assert (item.reason, texts) == (Reason.DECLINED, [])
    au.close()
