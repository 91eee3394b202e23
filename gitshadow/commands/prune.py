"""`git agent-undo prune`: drop old sessions."""

import click

from gitshadow.commands.asking import ask
from gitshadow.commands.options import (
    ask_yes,
    is_interactive,
    json_option,
    yes_option,
)
from gitshadow.commands.printing import print_document
from gitshadow.commands.times import parse_length
from gitshadow.errors import ExitCode, RefusedError, UsageError
from gitshadow.render.keep import prune_lines


@click.command("prune")
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="All but what is open in an agent.",
)
@click.option("--older-than", metavar="AGE", help="Those that ended so long ago: 30d.")
@click.option("--dry-run", is_flag=True, help="Say what would go, drop nothing.")
@yes_option
@json_option
def command(
    everything: bool, older_than: str | None, dry_run: bool, yes: bool, as_json: bool
) -> int:
    """Drop sessions: they cannot be undone any more.

    Pins stay, and what is open in an agent; your own writes go with the rest.
    """
    age_ns = None if older_than is None else parse_length(older_than)
    if older_than is not None and age_ns is None:
        raise UsageError(f"could not read age {older_than!r}", hint="use 30d or 12h")
    if everything == (age_ns is not None):
        raise UsageError(
            "could not tell what to drop", hint="--all or --older-than 30d"
        )
    params = {"all": everything, "older_than": age_ns, "dry_run": dry_run, "yes": yes}
    if not (dry_run or yes):
        if as_json or not is_interactive():
            raise RefusedError("nothing was dropped: nobody said yes", hint="--yes")
        plan = ask("prune", {**params, "dry_run": True})
        print_document(plan, prune_lines, as_json=False)
        if not ask_yes("drop these for good?", default=False):
            click.echo("nothing was dropped")
            return int(ExitCode.REFUSED)
    document = ask("prune", {**params, "yes": True})
    print_document(document, prune_lines, as_json=as_json)
    return int(ExitCode.DONE)
