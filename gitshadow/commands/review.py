"""`git agent-undo review`: mark lines of agents as reviewed."""

import os

import click

from gitshadow.commands.check import surroundings
from gitshadow.commands.client import send
from gitshadow.commands.options import json_option, spelled_paths
from gitshadow.commands.output import print_answer, print_list
from gitshadow.errors import UsageError
from gitshadow.messages.check import (
    REVIEW,
    REVIEWS,
    UNREVIEW,
    ReviewRequest,
    ReviewsRequest,
    UnreviewRequest,
)
from gitshadow.render.check import review_lines, reviews_lines, unreview_lines

_EMPTY = "nothing is marked as reviewed; to mark lines: git agent-undo review PATH"


@click.command("review")
@click.option("--staged", is_flag=True, help="Staged changes (the default).")
@click.option("--range", "range_", metavar="A..B", help="The changes from A to B.")
@click.option("--commit", "rev", metavar="REV", help="The changes of a commit.")
@click.option("--list", "listed", is_flag=True, help="List the review marks.")
@click.option("--undo", metavar="ID", help="Remove a review mark.")
@json_option
@click.argument("targets", nargs=-1, metavar="[SESSION|PATH]...")
def command(
    targets: tuple[str, ...],
    as_json: bool,
    staged: bool,
    listed: bool,
    undo: str | None,
    **change: str | None,
) -> None:
    """Mark lines by agents as reviewed.

    For a SESSION or PATH these are the lines on disk, else those that the change adds. The
    mark records you, the time and exactly these lines; later changes need a new one.
    """
    named = [value for value in (undo, *change.values()) if value is not None]
    if len(named) + staged + listed + bool(targets) > 1:
        raise UsageError(
            "cannot do several of these at once",
            hint="use a SESSION, or PATHs, or one of the options alone",
        )
    if listed:
        print_list(
            send(REVIEWS, ReviewsRequest()),
            lambda answer: answer.rows,
            reviews_lines,
            as_json=as_json,
            empty=_EMPTY,
        )
    elif undo is not None:
        reply = send(UNREVIEW, UnreviewRequest(undo))
        print_answer(reply, unreview_lines, as_json=as_json)
    else:
        caller = surroundings()
        request = ReviewRequest(
            targets=tuple(spelled_paths(targets)),
            range=change["range_"],
            rev=change["rev"],
            index_=caller.index_,
            pid=caller.pid,
            agent=_agent(),
        )
        print_answer(send(REVIEW, request), review_lines, as_json=as_json)


def _agent() -> str | None:
    """Return the agent in whose environment this runs, if any."""
    from gitshadow.attribution import markers

    found = markers.detect(os.environ)
    return None if found is None else found.agent
