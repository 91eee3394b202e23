"""Rows for tests: `row(3)`, `wrote(3, "a")`; patches from what git prints."""

from collections.abc import Iterator

from gitshadow.messages.codec import decode
from gitshadow.messages.history import HistoryRow
from gitshadow.messages.lists import PinRow
from gitshadow.messages.rows import EventRow
from gitshadow.messages.states import FileDiff


def files_of_git(patch: str) -> Iterator[FileDiff]:
    """Yield the files of a patch that `git diff` printed, of which none was renamed."""
    for file in patch.split("diff --git a/")[1:]:
        title, *lines = file.removesuffix("\n").split("\n")
        path = title.partition(" b/")[2]
        at = next((n for n, line in enumerate(lines) if line[:2] == "@@"), len(lines))
        header = [line for line in lines[:at] if line[:4] not in ("--- ", "+++ ")]
        yield FileDiff(path, path, tuple(header), tuple(lines[at:]))


def wrote(seq: int, path: str = "a", **more: str) -> EventRow:
    """Return the write of an agent's session S1, one a second."""
    minutes, seconds = divmod(seq, 60)
    row = {
        "seq": seq,
        "ts": f"2026-01-01T{minutes // 60:02}:{minutes % 60:02}:{seconds:02}.000000Z",
        "kind": "modify",
        "path": path,
        "actor": "agent",
        "agent": "claude-code",
        "session": "S1",
        "confidence": "certain",
    }
    return decode(EventRow, {**row, **more})


def row(seq: int, id: str = "", **more: object) -> HistoryRow:
    """Return a turn of an agent's session S1 that ended with an event."""
    known = {
        "kind": "turn",
        "id": id or f"t{seq}",
        "ts": wrote(seq).ts,
        "actor": "agent",
        "agent": "claude-code",
        "session": "S1",
        "files": 1,
        "seq": seq,
        "worktree": "main",
    }
    return decode(HistoryRow, {**known, **more})


def rare(seq: int, kind: str, **more: object) -> HistoryRow:
    """Return a move of HEAD, a gap, or a change of coverage."""
    return row(seq, str(seq), kind=kind, actor=None, agent=None, session=None, **more)


def pin_of(name: str, ts: str) -> PinRow:
    """Return a pin of which only this is known."""
    return decode(PinRow, {"name": name, "ts": ts, "worktree": "main"})
