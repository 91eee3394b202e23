"""`git agent-undo log`: what was written, newest first."""

import time

import click

from gitshadow.commands.asking import ask
from gitshadow.commands.options import colour_option, json_option, spelled_paths
from gitshadow.commands.printing import print_rows
from gitshadow.commands.times import parse_moment
from gitshadow.model import EventKind
from gitshadow.render.text import log_lines

_EMPTY = "no such write was recorded; all of them: git agent-undo log"


@click.command("log")
@click.option("-n", "limit", type=click.IntRange(min=0), help="At most this many.")
@click.option("--session", help="Those of one session (an id or its beginning).")
@click.option("--agent", help="Those of one agent.")
@click.option("--since", metavar="WHEN", help="Not older: 5m, '2 days ago', RFC 3339.")
@click.option("--until", metavar="WHEN", help="Not newer.")
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    type=click.Choice([kind.value for kind in EventKind]),
    help="Those of one kind; may be repeated.",
)
@click.option("--grep", "text", metavar="TEXT", help="Its path or prompt holds TEXT.")
@click.option("--below", type=int, metavar="SEQ", help="Those before event SEQ.")
@click.option(
    "--above", type=int, metavar="SEQ", help="Those after it; with -n the next ones."
)
@click.option("--all", is_flag=True, help="Those of all worktrees.")
@click.option("--prompts", is_flag=True, help="With the beginning of the prompt.")
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
    """List what was written, newest first; below PATHS only, where there are any."""
    now_ns = time.time_ns()
    params = {
        **filters,
        "since": None if since is None else parse_moment(since, now_ns),
        "until": None if until is None else parse_moment(until, now_ns),
        "paths": spelled_paths(paths),
        "kinds": list(kinds),
    }
    print_rows(ask("log", params), log_lines, as_json=as_json, empty=_EMPTY)
