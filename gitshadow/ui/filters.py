"""Filters of the timeline: words such as `agent:codex file:src since:2h parser`.

Invariant: pure; a filter's text gives the same filter, and a word that cannot be read is an
error that names it.
"""

import re
import shlex
from collections.abc import Callable, Mapping
from typing import NamedTuple

from gitshadow.errors import UsageError
from gitshadow.messages.history import HistoryRequest
from gitshadow.messages.lists import LogRequest

KEYS: Mapping[str, str] = {
    "agent": "changes by one agent: agent:codex",
    "session": "of one session: session:claude-code-2026",
    "file": "in a file or directory: file:src/app.py",
    "kind": "of one kind: kind:delete, kind:gap",
    "since": "since a time: since:2h, since:2026-11-21",
    "until": "until a time: until:10m",
}
"""The words that a filter knows, each with an example; all else is text to look for."""
_TEXT = "text"
_WORD = re.compile(r"[a-z]+(?=:(?!//))")
"""What looks like a word of a filter: not the beginning of a URL or of a path of Windows."""


class Filter(NamedTuple):
    """What restricts the timeline; an empty field does not."""

    text: str = ""
    agent: str = ""
    session: str = ""
    file: str = ""
    kind: str = ""
    since: str = ""
    until: str = ""

    def request(self, moment: Callable[[str], int]) -> HistoryRequest:
        """Return it as a request of `history`.

        Args:
            moment: What reads a time as typed, into nanoseconds.

        Raises:
            UsageError: a time cannot be read.
        """
        return HistoryRequest(
            text=self.text or None,
            agent=self.agent or None,
            session=self.session or None,
            paths=(self.file,) if self.file else (),
            kinds=(self.kind,) if self.kind else (),
            since=moment(self.since) if self.since else None,
            until=moment(self.until) if self.until else None,
        )

    def log_request(self, moment: Callable[[str], int]) -> LogRequest:
        """Return it as a request of `log`, as `request` does."""
        one = self.request(moment)
        return LogRequest(
            text=one.text,
            agent=one.agent,
            session=one.session,
            paths=one.paths,
            kinds=one.kinds,
            since=one.since,
            until=one.until,
        )

    def __str__(self) -> str:
        """Return the line that was typed, as `parse` reads it."""
        words = [
            f"{key}:{shlex.quote(value)}"
            for key, value in zip(self._fields[1:], self[1:], strict=True)
            if value
        ]
        plain = (
            f"{_TEXT}:{word}" if _WORD.match(word) else word
            for word in self.text.split()
        )
        return " ".join([*words, *map(shlex.quote, plain)])


def parse(line: str) -> Filter:
    """Read a filter as it is typed; words without a key are text to look for, in that order.

    Raises:
        UsageError: a quote is not closed, a key is given twice, or there is no such key.
    """
    try:
        # As a shell splits them, so that a value with blanks can be quoted.
        words = shlex.split(line)
    except ValueError as error:
        raise UsageError(f"invalid filter: {error}".lower()) from error
    found: dict[str, str] = {}
    plain: list[str] = []
    for word in words:
        key, _, value = word.partition(":")
        if key == _TEXT and value:
            plain.append(value)
        elif not _WORD.match(word):
            plain.append(word)
        elif key not in KEYS:
            raise UsageError(
                f"no such filter: {key}:",
                hint=f"filters: {', '.join(KEYS)}; for the text: {_TEXT}:{word}",
            )
        elif key in found:
            raise UsageError(f"invalid filter: {key} is given twice")
        else:
            found[key] = value
    return Filter(text=" ".join(plain), **found)
