"""history: what happened, a row for each turn, undo, move of HEAD and group of changes."""

from typing import NamedTuple

from gitshadow.messages.codec import Verb
from gitshadow.messages.rows import EventRow


class HistoryRequest(NamedTuple):
    """Which rows are asked for; times are nanoseconds since the epoch.

    `below` and `above` are numbers of events: older or newer rows, those next to it. `of` is the
    number of an event: the row that has it, and older ones. `worktrees` are names; without any, it
    is this worktree. `events` asks for the changes of each row.
    """

    limit: int | None = None
    session: str | None = None
    agent: str | None = None
    since: int | None = None
    until: int | None = None
    text: str | None = None
    lines: bool = True
    paths: tuple[str, ...] = ()
    cwd: str | None = None
    kinds: tuple[str, ...] = ()
    below: int | None = None
    above: int | None = None
    of: int | None = None
    worktrees: tuple[str, ...] = ()
    events: bool = False


class HistoryRow(NamedTuple):
    """One row.

    `kind` is `turn`, `changes` (of a person or of unknown authors, or of an agent without turns),
    `head`, `gap`, `coverage`, or the kind of an op. `id` is what other verbs take. `paths` are the
    first of its `files`; `added` and `removed` are lines, None where they were not counted.
    `undone` files are undone, of `unsure` ones the author is not sure. `note` describes what has no
    files, `alerts` what was alarming. `seq` is the number of the newest event, `undone_by` the
    newest undo of some of it. `events` are the newest changes, newest first, if they were asked
    for.
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
    seq: int = 0
    worktree: str = ""
    undone_by: str = ""
    events: tuple[EventRow, ...] = ()


class HistoryAnswer(NamedTuple):
    """Rows, newest first; `more` says that there are older ones, or newer ones with `above`.

    `machine` is set if they are another machine's: their ids are no ids here.
    """

    rows: tuple[HistoryRow, ...]
    more: bool = False
    machine: str = ""


HISTORY = Verb("history", HistoryRequest, HistoryAnswer)
