"""Rows of events for tests: `wrote(3, "a", burst="b1")`; patches from what git prints."""

from collections.abc import Iterator

from gitshadow.messages.codec import decode
from gitshadow.messages.lists import PinRow
from gitshadow.messages.rows import EventRow, OpRow
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


def op_of(
    id: str,
    kind: str,
    ts: str = "",
    target: str = "",
    undoes: tuple[str, ...] = (),
    status: str = "",
    undone_by: str = "",
) -> OpRow:
    """Return an op of which only this is known."""
    known = decode(OpRow, {"id": id, "kind": kind, "ts": ts, "target": target})
    return known._replace(undoes=undoes, status=status, undone_by=undone_by)


def pin_of(name: str, ts: str) -> PinRow:
    """Return a pin of which only this is known."""
    return decode(PinRow, {"name": name, "ts": ts})


def by_hand(seq: int, path: str = "a") -> EventRow:
    """Return a person's write."""
    return wrote(seq, path, actor="human", agent="", session="H1", burst=f"h{seq}")


def gap(seq: int) -> EventRow:
    """Return a gap."""
    return wrote(seq, "", kind="gap", actor="", agent="", session="", note="killed")
