"""blame, stats: who wrote each line, and how many lines are whose."""

import time

from click import argument, option

from gitshadow.commands.client import Reply, send
from gitshadow.commands.options import (
    colour_option,
    json_option,
    separated,
    spelled_paths,
    verb,
)
from gitshadow.commands.terminal import print_answer, screen
from gitshadow.commands.times import state_named
from gitshadow.errors import UsageError
from gitshadow.messages.blame import (
    BLAME,
    STATS,
    BlameAnswer,
    BlameRequest,
    StatsRequest,
)
from gitshadow.messages.codec import Params, parse
from gitshadow.render import blame, output
from gitshadow.render.blame import stats_lines


@verb("blame", separates=True)
@option("-L", "ranges", multiple=True, metavar="FROM,TO", help="Only these lines.")
@option("-w", "ignore_space", is_flag=True, help="Ignore changes of white space.")
@option("-C", "copies", is_flag=True, help="Follow lines moved or copied.")
@option("--at", metavar="WHEN", help="A time, a pin, or any printed id.")
@option("--commit", metavar="REV", help="The file in this commit.")
@option("--prompt", is_flag=True, help="Show the prompts behind the lines.")
@option("--why", is_flag=True, help="Explain the evidence for each author below.")
@option(
    "--removed", is_flag=True, help="List lines that one author removed from another."
)
@option("--porcelain", is_flag=True, help="Print Git's own blame format.")
@option(
    "--line-porcelain", is_flag=True, help="The same, with all fields on each line."
)
@colour_option
@json_option
@argument("words", nargs=-1, metavar="FILE")
def blame_command(
    at: str | None,
    words: tuple[str, ...],
    **options: object,
) -> None:
    """Show who wrote each line of FILE: which agent, in which session, and how certain that is.

    Lines from before recording come from git blame. FROM and TO are numbers, +N, -N or
    /REGEX/; -L :REGEX selects a function, as in git blame.
    """
    paths = spelled_paths(words) + separated()
    if len(paths) != 1:
        raise UsageError(
            "expected exactly one FILE",
            hint="usage: git agent-undo blame FILE",
        )
    request = parse(BlameRequest, {**options, "path": paths[0]})._replace(
        at=state_named(at),
        facts=bool(options["porcelain"] or options["line_porcelain"]),
    )
    _show(send(BLAME, request), options)


def _show(reply: Reply[BlameAnswer], options: Params) -> None:
    answer = reply.answer
    if options["as_json"]:
        output.show_json_lines(blame.blame_rows(answer))
        return
    if options["porcelain"] or options["line_porcelain"]:
        every = options["line_porcelain"] is True
        now = int(time.time())
        output.show_bytes(blame.porcelain(answer, every_line=every, now=now))
        return
    shown = screen()
    prompts, why = options["prompt"] is True, options["why"] is True
    lines = blame.blame_lines(answer, shown.view, prompts=prompts, reasons=why)
    output.show(lines, pager=shown.pager)


@verb("stats", separates=True)
@option("--commit", metavar="REV", help="All lines in a commit.")
@colour_option
@json_option
@argument("words", nargs=-1, metavar="[REV|A..B] [PATH]...")
def stats_command(
    commit: str | None,
    as_json: bool,
    words: tuple[str, ...],
) -> None:
    """Count lines by author: class, agent, model and session.

    Without REV, the lines of the working tree; with REV, the lines that the commit added;
    with A..B, the lines in B that are not in A. With PATH, only lines below it.
    """
    request = StatsRequest(tuple(spelled_paths(words)), tuple(separated()), commit)
    print_answer(send(STATS, request), stats_lines, as_json=as_json, paged=True)
