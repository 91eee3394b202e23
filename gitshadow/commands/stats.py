"""`git agent-undo stats`: how many lines are whose."""

import click

from gitshadow.commands.client import send
from gitshadow.commands.options import (
    SeparatingCommand,
    colour_option,
    json_option,
    separated,
    spelled_paths,
)
from gitshadow.commands.output import print_answer
from gitshadow.messages.stats import STATS, StatsRequest
from gitshadow.render.stats import stats_lines


@click.command("stats", cls=SeparatingCommand)
@click.option("--commit", metavar="REV", help="All lines in a commit.")
@colour_option
@json_option
@click.argument("words", nargs=-1, metavar="[REV|A..B] [PATH]...")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    commit: str | None,
    as_json: bool,
    words: tuple[str, ...],
) -> None:
    """Count lines by author: class, agent, model and session.

    Without REV, the lines of the working tree; with REV, the lines that the commit added;
    with A..B, the lines in B that are not in A. With PATH, only lines below it.
    """
    request = StatsRequest(tuple(spelled_paths(words)), tuple(separated(ctx)), commit)
    print_answer(send(STATS, request), stats_lines, as_json=as_json, paged=True)
