"""Define spans of lines, the common ground of all formats, and claims about lines of a commit.

Claims are what other tools state. They are read from input that may be hostile.
Invariant: pure. The spans of a file are disjoint, ascending and within its length. A claim's ids,
names and numbers are bounded; what is wrong is counted and named, never raised.
"""

import itertools
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gitshadow.adapters.payload import Payload
from gitshadow.model import JsonValue, RepoPath
from gitshadow.store.digests import digest
from gitshadow.store.object_format import is_oid
from gitshadow.store.paths import safe_path

MOST_BYTES = 8 * 1024 * 1024
"""So large a note may be (git-ai's notes backend takes no larger one)."""
_MOST_NAME = 200
_MOST_LINE = 100_000_000
_MOST_ITEMS = 100_000
_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")


class Span(NamedTuple):
    """Lines from `first` to `last`, counted from 1, both included."""

    first: int
    last: int


class SpanWriter(NamedTuple):
    """The author of spans: an agent's session with its model, or (without an agent) a person.

    `session` is our id, `native` the agent's own; `part` distinguishes the calls of one session;
    `person` is `Name <email>`.
    """

    agent: str | None = None
    session: str | None = None
    native: str | None = None
    model: str | None = None
    part: str | None = None
    confidence: str | None = None
    person: str | None = None


class FileSpans(NamedTuple):
    """A file of a commit, its content, and the spans of each writer."""

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
    """Return the bytes of a span with its line endings."""
    lines = data.split(b"\n")
    ended = [line + b"\n" for line in lines[:-1]] + lines[-1:]
    return b"".join(ended[span.first - 1 : span.last])


@dataclass(slots=True)
class Reader:
    """Read one piece of foreign input; `skipped` lists the parts that could not be read."""

    what: str
    skipped: list[str] = field(default_factory=list)

    def skip(self, why: str) -> None:
        """Record why a part was skipped."""
        self.skipped.append(f"{self.what}: {why}")

    def object_of(self, text: str) -> Payload | None:
        """Return the JSON object in a text."""
        if len(text) > MOST_BYTES:
            self.skip("it is too large")
            return None
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            self.skip("it is not JSON")
            return None
        if not isinstance(value, dict):
            self.skip("it is not a JSON object")
            return None
        return Payload(value)

    def objects(self, row: Payload, key: str) -> Iterator[Payload]:
        """Yield the objects of a list."""
        if not isinstance(row.value(key), list):
            self.skip("a list is missing")
            return
        yield from itertools.islice(row.objects(key), _MOST_ITEMS)

    def is_commit(self, text: str) -> bool:
        """Return whether a text can be the oid of a commit."""
        return is_oid(text)

    def path(self, value: JsonValue) -> RepoPath | None:
        """Return a path that may be in a tree."""
        if isinstance(value, str):
            try:
                path = RepoPath(value.encode("utf-8"))
            except UnicodeEncodeError:
                path = RepoPath(b"")
            if safe_path(path):
                return path
        self.skip("a path is not one")
        return None

    def span(self, first: JsonValue, last: JsonValue) -> Span | None:
        """Return a span if its numbers can be lines of a file."""
        if (
            isinstance(first, int)
            and isinstance(last, int)
            and 1 <= first <= last <= _MOST_LINE
        ):
            return Span(first, last)
        self.skip("lines are not lines")
        return None


def bounded(text: str) -> str:
    """Return a name on one line, without control characters, at most 200 characters long."""
    clean = "".join(c if c.isprintable() else "_" for c in text[: _MOST_NAME + 1])
    return clean if len(clean) <= _MOST_NAME else clean[: _MOST_NAME - 1] + "…"


def identifier(text: str) -> str:
    """Return an id unchanged if it can be part of a name, else its digest."""
    if _ID.fullmatch(text):
        return text
    raw = text.encode("utf-8", "surrogatepass")
    return "x-" + digest(raw)


def decoded(data: bytes, reader: Reader) -> str | None:
    """Return foreign bytes as text; None if they are too large or not UTF-8."""
    if len(data) > MOST_BYTES:
        reader.skip("it is too large")
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        reader.skip("it is not UTF-8")
        return None
