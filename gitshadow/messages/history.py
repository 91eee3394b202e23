"""history: what happened, a row for each turn, undo, move of HEAD and group of changes."""

from typing import NamedTuple

from gitshadow.messages.codec import Verb


class HistoryRequest(NamedTuple):
    """Which rows are asked for; times are nanoseconds since the epoch."""

    limit: int | None = None
    session: str | None = None
    agent: str | None = None
    since: int | None = None
    until: int | None = None
    text: str | None = None
    lines: bool = True
    paths: tuple[str, ...] = ()
    cwd: str | None = None


class HistoryRow(NamedTuple):
    """One row.

    `kind` is `turn`, `changes` (of a person or of unknown authors, or of an agent without turns),
    `head`, `gap`, `coverage`, or the kind of an op. `id` is what other verbs take. `paths` are the
    first of its `files`; `added` and `removed` are lines, None where they were not counted.
    `undone` files are undone, of `unsure` ones the author is not sure. `note` describes what has no
    files, `alerts` what was alarming.
    """

    kind: str
    id: str
    ts: str | None
    actor: str | None = None
    agent: str | None = None
    session: str | None = None
    prompt: str = ""
    files: int = 0
    paths: tuple[str, ...] = ()
    added: int | None = None
    removed: int | None = None
    undone: int = 0
    unsure: int = 0
    note: str = ""
    machine: str = ""
    alerts: tuple[str, ...] = ()


class HistoryAnswer(NamedTuple):
    """Rows, newest first; `more` says that there are older ones.

    `machine` is set if they are another machine's: their ids are no ids here.
    """

    rows: tuple[HistoryRow, ...]
    more: bool = False
    machine: str = ""


HISTORY = Verb("history", HistoryRequest, HistoryAnswer)
