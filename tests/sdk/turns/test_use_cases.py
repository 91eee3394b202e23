"""UC-02, UC-03 and UC-05 with files on the disk: what goes back there, and what stays."""

import os

import pytest

from gitshadow.model import Oid
from gitshadow.sdk.turns.errors import NothingToUndo
from gitshadow.sdk.turns.model_io import TextDelta, ToolCall
from gitshadow.sdk.turns.report import UndoReport
from gitshadow.store.journal.saga_rows import NewEvent
from tests.sdk.turns.front import Session
from tests.sdk.turns.recorded import Recorded
from tests.sdk.turns.test_loop import DONE, Chat, Step
from tests.sdk.turns.world import BoomError

MANY = 120
EVENTS = 10_000
ARTIFACTS = 500


def write(recorded: Recorded, path: str, text: str, call: str = "c1") -> ToolCall:
    """Return a model's call that writes a file."""
    full = str(recorded.repo.root / path)
    return ToolCall(call, "file.write", {"path": full, "text": text})


def files_of(report: UndoReport) -> list[tuple[str, str]]:
    """Return path and state of every file that a report names."""
    found = [one for one in report.items if one.domain == "files"]
    return [(one.path or "", one.state.value) for one in found]


async def test_nothing_to_undo_leaves_the_files(recorded: Recorded) -> None:
    """UC-02: neither in a session that did nothing, nor when all of it was taken back."""
    recorded.hand("mine", "by hand\n")
    session = recorded.front.session()
    with pytest.raises(NothingToUndo):
        await session.undo_last()
    await session.called("shell.run", path="new", text="agent\n")
    recorded.hand("later", "by hand\n")
    assert files_of(await session.undo_last()) == [("new", "reversed")]
    before = recorded.rows("log")
    with pytest.raises(NothingToUndo):
        await session.undo_last()
    assert recorded.rows("log") == before
    texts = [recorded.text(path) for path in ("mine", "later", "new")]
    assert texts == ["by hand\n", "by hand\n", None]


async def test_a_failed_message_takes_its_files_along(recorded: Recorded) -> None:
    """UC-03: rewound, the error raised again; earlier messages' files stay, a person's too."""
    first: list[Step] = [write(recorded, "one", "1\n")]
    second: list[Step] = [
        write(recorded, "one", "2\n"),
        write(recorded, "two", "2\n", "c2"),
    ]
    failing: list[Step] = [TextDelta("so"), BoomError("x")]
    chat = Chat(recorded.front, first, DONE, second, failing, DONE)
    await chat.send("first")
    recorded.hand("mine", "by hand\n")
    with pytest.raises(BoomError) as caught:
        await chat.send("second", on_error="rewind")
    report = caught.value.undo_report  # type: ignore[attr-defined]
    assert files_of(report) == [("one", "reversed"), ("two", "reversed")]
    assert [recorded.text(path) for path in ("one", "two", "mine")] == [
        "1\n",
        None,
        "by hand\n",
    ]
    spoken = [one for one in chat.shown if one[0] in ("user", "assistant")]
    assert spoken == [("user", "first"), ("assistant", "done")]
    assert "second" in [event.text for event in chat.au.events()]


async def test_a_rewind_of_a_large_session_touches_what_changed(
    recorded: Recorded,
) -> None:
    """UC-05: 10,000 events, 500 artifacts, many files: one of each changed since, one goes back."""
    session = recorded.front.session()
    async with session.turn() as turn:
        for number in range(MANY):
            recorded.repo.write(f"src/f{number}", f"{number}\n")
        await turn.save("report", b"first")
    fill(session)
    async with session.turn() as turn:
        await turn.call("shell.run", path="src/f7", text="changed\n")
        await turn.save("report", b"second")
        await turn.set_state(k1="changed")
    stamps = standing(recorded)
    written = len(recorded.rows("log"))
    report = await session.undo_last()
    assert files_of(report) == [("src/f7", "reversed")]
    assert (report.state_delta, report.artifact_delta) == ({"k1": "1"}, {"report": 0})
    assert recorded.text("src/f7") == "7\n"
    after = standing(recorded)
    assert [path for path in stamps if stamps[path] != after[path]] == ["src/f7"]
    assert len(recorded.rows("log")) == written + 1
    assert session.au.artifacts.load("report") == b"first"


def fill(session: Session) -> None:
    """Give a session a long history, as a program that ran for weeks has."""
    store = session.au.runtime.store
    rows = [
        NewEvent(
            session=session.au.runtime.session,
            invocation=f"i-{number // 10}",
            author="user",
            kind="user",
            ts_ns=number,
            text="x" * 100,
            delta={f"k{number % 50}": f'"{number % 50}"'},
            artifacts={f"file{number}": Oid(f"{number:040d}")}
            if number < ARTIFACTS
            else {},
        )
        for number in range(EVENTS)
    ]
    store.save(rows)


def standing(recorded: Recorded) -> dict[str, tuple[int, int]]:
    """Return inode and time of each file, by its path."""
    found = {}
    for number in range(MANY):
        path = f"src/f{number}"
        stat = os.stat(recorded.repo.root / path)
        found[path] = (stat.st_ino, stat.st_mtime_ns)
    return found
