"""Spans: runs of lines of one writer, the common ground of all formats. Pure.

Invariant: the spans of a file are disjoint, ascending and within its length.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gitshadow.model import RepoPath


class Span(NamedTuple):
    """Hold lines from `first` to `last`, both from 1 and both included."""

    first: int
    last: int


class SpanWriter(NamedTuple):
    """Name who wrote: an agent's session with its model, or (without an agent) a person.

    `session` is ours, `native` what the agent calls it; `part` tells the calls of one session
    apart; `person` is `Name <email>`.
    """

    agent: str | None = None
    session: str | None = None
    native: str | None = None
    model: str | None = None
    part: str | None = None
    confidence: str | None = None
    person: str | None = None


class FileSpans(NamedTuple):
    """Hold a file of a commit, its content, and the spans of each writer."""

    path: RepoPath
    data: bytes
    spans: Sequence[tuple[SpanWriter, Sequence[Span]]]


def runs(lines: Iterable[int]) -> list[Span]:
    """Return ascending line numbers as spans."""
    found: list[Span] = []
    for line in lines:
        if found and found[-1].last == line - 1:
            found[-1] = Span(found[-1].first, line)
        else:
            found.append(Span(line, line))
    return found


def text_of(data: bytes, span: Span) -> bytes:
    """Return the bytes of a span, its line endings with it."""
    lines = data.split(b"\n")
    ended = [line + b"\n" for line in lines[:-1]] + lines[-1:]
    return b"".join(ended[span.first - 1 : span.last])
