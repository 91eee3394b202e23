"""`git agent-undo review`: mark lines of agents as reviewed."""

import os

import click

from gitshadow.commands.check import surroundings
from gitshadow.commands.client import ask
from gitshadow.commands.options import json_option, spelled_paths
from gitshadow.commands.output import print_document, print_rows
from gitshadow.errors import UsageError
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
def command(targets: tuple[str, ...], as_json: bool, **options: object) -> None:
    """Mark lines by agents as reviewed.

    For a SESSION or PATH these are the lines on disk, else those that the change adds. The
    mark records you, the time and exactly these lines; later changes need a new one.
    """
    named = [name for name, value in options.items() if value not in (None, False)]
    if len(named) + bool(targets) > 1:
        raise UsageError(
            "cannot do several of these at once",
            hint="use a SESSION, or PATHs, or one of the options alone",
        )
    if options["listed"]:
        print_rows(ask("reviews", {}), reviews_lines, as_json=as_json, empty=_EMPTY)
    elif options["undo"] is not None:
        document = ask("unreview", {"id": options["undo"]})
        print_document(document, unreview_lines, as_json=as_json)
    else:
        params = {
            "targets": spelled_paths(targets),
            "range": options["range_"],
            "rev": options["rev"],
            "agent": _agent(),
            **surroundings(),
        }
        print_document(ask("review", params), review_lines, as_json=as_json)


def _agent() -> str | None:
    """Return the agent in whose environment this runs, if any."""
    from gitshadow.attribution import markers

    found = markers.detect(os.environ)
    return None if found is None else found.agent
