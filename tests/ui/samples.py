"""Rows of events for tests: `wrote(3, "a", burst="b1")`; patches from what git prints."""

from collections.abc import Iterator

from gitshadow.messages.states import FileDiff
from gitshadow.ui.rows import EventRow


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
    row = EventRow(
        seq=seq,
        ts=f"2026-01-01T{minutes // 60:02}:{minutes % 60:02}:{seconds:02}.000000Z",
        kind="modify",
        path=path,
        actor="agent",
        agent="claude-code",
        session="S1",
        confidence="certain",
    )
    return row._replace(**more)  # type: ignore[arg-type]


def by_hand(seq: int, path: str = "a") -> EventRow:
    """Return a person's write."""
    return wrote(seq, path, actor="human", agent="", session="H1", burst=f"h{seq}")


def gap(seq: int) -> EventRow:
    """Return a gap."""
    return wrote(seq, "", kind="gap", actor="", agent="", session="", note="killed")
