"""log: what happened, a line for each turn, undo and group of changes, or for each change."""

import sys
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from click import Choice, IntRange, argument, option

from gitshadow.commands.client import send
from gitshadow.commands.options import (
    colour_option,
    date_option,
    json_option,
    spelled_paths,
    verb,
)
from gitshadow.commands.terminal import print_list, screen
from gitshadow.commands.times import parse_moment
from gitshadow.messages.codec import parse
from gitshadow.messages.history import (
    HISTORY,
    HistoryAnswer,
    HistoryRequest,
    HistoryRow,
)
from gitshadow.messages.lists import LOG, LogRequest
from gitshadow.model import EventKind
from gitshadow.render import output
from gitshadow.render.history import age_of, columns_of, history_line, oneline_of
from gitshadow.render.style import View
from gitshadow.render.text import local_time, log_lines, patch_lines
from gitshadow.words import did_you_mean

_MOST_ROWS = 200
_NO_CHANGES = "no matching changes; to list all: git agent-undo log"
_WITHOUT_DIFF = frozenset({"head", "gap", "coverage"})
# Only events have what these ask for.
_OF_EVENTS = ("events", "turn", "kinds", "below", "above", "all", "prompts")


@verb("log")
@option("-n", "limit", type=IntRange(min=0), help="Show at most this many.")
@option("--session", help="Only this session (an id or a unique prefix).")
@option("--agent", help="Only this agent.")
@option("--since", metavar="WHEN", help="Since this time: 5m, '2 days ago', RFC 3339.")
@option("--until", metavar="WHEN", help="Until this time.")
@option(
    "--kind",
    "kinds",
    multiple=True,
    type=Choice([kind.value for kind in EventKind]),
    help="Only this kind; may be repeated.",
)
@option("--grep", "text", metavar="TEXT", help="Path or prompt contains TEXT.")
@option("--below", type=int, metavar="SEQ", help="Before event SEQ.")
@option(
    "--above",
    type=int,
    metavar="SEQ",
    help="After event SEQ; with -n the next ones.",
)
@option("--all", is_flag=True, help="From all worktrees.")
@option("--prompts", is_flag=True, help="Show the start of the prompt.")
@option("--turn", metavar="ID", help="Only changes of this turn.")
@option("--events", is_flag=True, help="List every change of a file.")
@option("--oneline", is_flag=True, help="Only the id and the prompt or files.")
@option("--stat", is_flag=True, help="Also list the files, with counts of lines.")
@option("-p", "--patch", is_flag=True, help="Also show the diff.")
@date_option
@colour_option
@json_option
@argument("paths", nargs=-1)
def log_command(
    since: str | None,
    until: str | None,
    paths: tuple[str, ...],
    as_json: bool,
    **filters: object,
) -> None:
    """List what happened, newest first: turns, your changes between them, and undos.

    With PATHS, only what changed files below them. --events lists every change of a file
    instead; so do --json, --turn, --kind, --below, --above, --all and --prompts.
    """
    now_ns = time.time_ns()
    asked = {
        **filters,
        "lines": not filters["oneline"],
        "since": None if since is None else parse_moment(since, now_ns),
        "until": None if until is None else parse_moment(until, now_ns),
        "paths": list(spelled_paths(paths)),
    }
    if not as_json and all(filters[name] in (None, False, ()) for name in _OF_EVENTS):
        history = parse(HistoryRequest, asked)
        limit = _MOST_ROWS if history.limit is None else history.limit
        answer = send(HISTORY, history._replace(limit=limit)).answer
        # Numbers of turns are only known here; events of other machines name theirs.
        if not answer.machine:
            _print_history(answer, history, parse(_Shown, filters))
            return
    kinds = filters["kinds"]
    given = list(kinds) if isinstance(kinds, tuple) else []
    request = parse(LogRequest, {**asked, "kinds": given})
    reply = send(LOG, request)
    print_list(
        reply,
        lambda answer: answer.rows,
        log_lines,
        as_json=as_json,
        empty=_no_changes(request.agent),
    )


class _Shown(NamedTuple):
    """How much of each row to print; `date` is `relative` or `iso`."""

    oneline: bool = False
    stat: bool = False
    patch: bool = False
    date: str = "relative"


def _print_history(
    answer: HistoryAnswer, request: HistoryRequest, shown: _Shown
) -> None:
    """Print what happened, through the pager on a terminal."""
    if not answer.rows:
        print(_no_changes(request.agent), file=sys.stderr)
        return
    found = screen()
    lines = _history_lines(answer.rows, request, shown, found.view)
    output.show(lines, pager=found.pager)
    if answer.more and request.limit is None:
        count = len(answer.rows)
        print(f"only the newest {count} are listed; for more: -n", file=sys.stderr)


def _history_lines(
    rows: Sequence[HistoryRow], request: HistoryRequest, shown: _Shown, view: View
) -> Iterator[str]:
    # Most lists have no diff, and nobody shall wait for what makes one.
    from gitshadow.messages.states import DIFF, DiffRequest
    from gitshadow.render.diffstat import stat_lines

    is_iso = shown.date == "iso"
    whens = [local_time(row.ts or "") if is_iso else age_of(row.ts) for row in rows]
    widths = columns_of(rows, whens)
    for row, when in zip(rows, whens, strict=True):
        if shown.oneline:
            yield oneline_of(row, view)
        else:
            yield history_line(row, when, widths, view)
        # An event alone would be compared with the present.
        if row.kind in _WITHOUT_DIFF or not (shown.stat or shown.patch):
            continue
        asked = DiffRequest(
            of=row.id, paths=request.paths, patch=shown.patch, cwd=request.cwd
        )
        answer = send(DIFF, asked).answer
        if shown.stat:
            yield from stat_lines(answer.stat, view)
        if shown.patch and answer.patch:
            yield ""
            yield from patch_lines(answer.patch, view)
        yield ""


def _no_changes(agent: str | None) -> str:
    """Return what is said of an empty list; an agent may be known by a longer name."""
    if agent is None:
        return _NO_CHANGES
    from gitshadow.adapters.registry import KNOWN_AGENTS

    if agent in KNOWN_AGENTS:
        return _NO_CHANGES
    longer = [name for name in KNOWN_AGENTS if name.startswith(agent)]
    near = f"did you mean {' or '.join(longer)}?" if longer else None
    near = near or did_you_mean(agent, KNOWN_AGENTS)
    return f"no matching changes; {near}" if near else _NO_CHANGES
