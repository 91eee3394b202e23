"""`git agent-undo log`: what was written, newest first."""

import time

import click

from gitshadow.commands.client import ask
from gitshadow.commands.options import colour_option, json_option, spelled_paths
from gitshadow.commands.output import print_rows
from gitshadow.commands.times import parse_moment
from gitshadow.model import EventKind
from gitshadow.render.document import Document, rows
from gitshadow.render.text import log_groups, log_lines
from gitshadow.words import did_you_mean

_MORE = 8
_EMPTY = "no matching changes; to list all: git agent-undo log"


@click.command("log")
@click.option("-n", "limit", type=click.IntRange(min=0), help="Show at most this many.")
@click.option("--session", help="Only this session (an id or a unique prefix).")
@click.option("--agent", help="Only this agent.")
@click.option(
    "--since", metavar="WHEN", help="Since this time: 5m, '2 days ago', RFC 3339."
)
@click.option("--until", metavar="WHEN", help="Until this time.")
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    type=click.Choice([kind.value for kind in EventKind]),
    help="Only this kind; may be repeated.",
)
@click.option("--grep", "text", metavar="TEXT", help="Path or prompt contains TEXT.")
@click.option("--below", type=int, metavar="SEQ", help="Before event SEQ.")
@click.option(
    "--above", type=int, metavar="SEQ", help="After event SEQ; with -n the next ones."
)
@click.option("--all", is_flag=True, help="From all worktrees.")
@click.option("--prompts", is_flag=True, help="Show the start of the prompt.")
@colour_option
@json_option
@click.argument("paths", nargs=-1)
def command(
    since: str | None,
    until: str | None,
    kinds: tuple[str, ...],
    paths: tuple[str, ...],
    as_json: bool,
    **filters: object,
) -> None:
    """List recorded changes, newest first; with PATHS, only those below them.

    Files that Git switched together are one line; --json lists each of them.
    """
    now_ns = time.time_ns()
    params = {
        **filters,
        "since": None if since is None else parse_moment(since, now_ns),
        "until": None if until is None else parse_moment(until, now_ns),
        "paths": spelled_paths(paths),
        "kinds": list(kinds),
    }
    document = ask("log", params)
    empty = _empty(filters.get("agent"))
    if not as_json:
        document = _enough(document, params)
    print_rows(document, log_lines, as_json=as_json, empty=empty)


def _empty(agent: object) -> str:
    """Return what is said of an empty list; an agent may be known by a longer name."""
    from gitshadow.adapters.registry import KNOWN_AGENTS

    if not isinstance(agent, str) or agent in KNOWN_AGENTS:
        return _EMPTY
    longer = [name for name in KNOWN_AGENTS if name.startswith(agent)]
    near = f"did you mean {' or '.join(longer)}?" if longer else None
    near = near or did_you_mean(agent, KNOWN_AGENTS)
    return f"no matching changes; {near}" if near else _EMPTY


def _enough(document: Document, params: dict[str, object]) -> Document:
    """Return a document with as many lines as were asked for, where several rows are one."""
    limit = params["limit"]
    if not isinstance(limit, int) or not limit:
        return document
    asked = limit
    while True:
        found = rows(document, "rows")
        groups = list(log_groups(found))
        if len(found) < asked or len(groups) == len(found) or len(groups) > limit:
            break
        asked *= _MORE
        document = ask("log", {**params, "limit": asked})
    kept = groups[:limit] if params["above"] is None else groups[-limit:]
    return {**document, "rows": [row for group in kept for row in group]}
