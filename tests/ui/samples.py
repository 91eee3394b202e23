"""Rows of events for tests: `wrote(3, "a", burst="b1")`."""

from gitshadow.ui.rows import EventRow


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
