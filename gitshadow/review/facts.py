"""What is known of a change, as plain values: the rules need nothing else.

Invariant: a run names added lines alone; what is unknown is left out, never made up.
"""

from typing import NamedTuple

from gitshadow.model import Actor, RepoPath

Span = tuple[int, int]
"""Neighbouring lines by the first and the last number, from 1; (0, 0): a file without lines."""


class LineWriter(NamedTuple):
    """Say who wrote something, and what that rests on."""

    actor: Actor
    reason: str = ""
    agent: str | None = None
    session: str | None = None
    turn: str | None = None
    prompt: str | None = None
    candidates: tuple[str, ...] = ()


class LineRun(NamedTuple):
    """Hold neighbouring lines that a change adds and one writer wrote.

    `undone_by` is the op that took these lines back and is in effect.
    """

    span: Span
    writer: LineWriter
    reviewed: bool = False
    undone_by: str | None = None


class OpenTurnFact(NamedTuple):
    """Hold a turn of another session that is open and wrote to a file of the change."""

    writer: LineWriter
    since_ns: int


class RecordingGap(NamedTuple):
    """Hold a hole in the recording of a file, or of a session that wrote to it."""

    seq: int
    note: str
    writer: LineWriter | None = None


class FileFacts(NamedTuple):
    """Hold what is known of one file of a change.

    `old_path` is its name before, where it was renamed. `touched` are the agents whose recorded
    writes led from the old content to the new one.
    `reviewed` tells that somebody reviewed exactly this content.
    """

    path: RepoPath
    runs: tuple[LineRun, ...] = ()
    touched: tuple[LineWriter, ...] = ()
    turns: tuple[OpenTurnFact, ...] = ()
    gaps: tuple[RecordingGap, ...] = ()
    reviewed: bool = False
    old_path: RepoPath | None = None


def line_count(span: Span) -> int:
    """Return how many lines a span has; a file without lines counts as one."""
    return span[1] - span[0] + 1
