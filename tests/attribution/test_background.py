"""Which living processes are left over from a call."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gitshadow.attribution.background import outliving
from gitshadow.attribution.process import Living, ProcessId
from gitshadow.attribution.windows import ProcessHint
from gitshadow.model import Call, ToolClass
from gitshadow.store.journal import turns
from gitshadow.store.journal.db import Db

S = 1_000_000_000


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Db]:
    journal = Db.open(str(tmp_path / "journal.db"), create=True)
    with journal.write():
        turns.open_call(journal, window("shell", 10, 20, ToolClass.SHELL))
        turns.open_call(journal, window("edit", 30, 40, ToolClass.WRITE))
        turns.open_call(journal, window("open", 50, None, ToolClass.SHELL))
    yield journal
    journal.close()


def window(name: str, opened: int, closed: int | None, kind: ToolClass) -> Call:
    return Call(
        id=name,
        session="s1",
        turn="t1",
        tool=name,
        tool_class=kind,
        opened_ns=opened * S,
        closed_ns=None if closed is None else closed * S,
    )


def process(started: int, session: str = "s1") -> Living:
    return Living(ProcessId(7, 1), session, "sleep", started * S)


@pytest.mark.parametrize(
    ("living", "expected"),
    [
        (process(15), (ProcessHint(7, "s1", "sleep", "t1"),)),
        (process(5), ()),
        (process(35), ()),
        (process(55), ()),
        (process(15, "s2"), ()),
    ],
    ids=["left-over", "server", "file-tool", "still-open", "another-session"],
)
def test_process_is_left_over_when_a_shell_call_that_ended_started_it(
    db: Db, living: Living, expected: tuple[ProcessHint, ...]
) -> None:
    """ATT-17: not the servers that an agent keeps for itself."""
    assert outliving(db, [living], 60 * S) == expected
