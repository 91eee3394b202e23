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
from gitshadow.config import parse_size
from gitshadow.errors import ExitCode, RefusedError, UsageError
from gitshadow.render.keep import prune_lines


@click.command("prune")
@click.option(
    "--all", "everything", is_flag=True, help="All but what is open in an agent."
)
@click.option("--older-than", metavar="AGE", help="Those that ended so long ago: 30d.")
@click.option("--keep", metavar="N", type=click.IntRange(0), help="All but the newest.")
@click.option("--size", metavar="SIZE", help="The oldest, down to this size: 500m.")
@click.option("--retention", is_flag=True, help="What the settings leave no room for.")
@click.option("--dry-run", is_flag=True, help="Say what would go, drop nothing.")
@yes_option
@json_option
def command(  # noqa: PLR0913 - one per option
    *,
    everything: bool,
    older_than: str | None,
    keep: int | None,
    size: str | None,
    retention: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """Drop sessions: they cannot be undone any more.

    Whole sessions go, with their subagents, oldest first. Pins stay, and what is open in an
    agent; but for --all also a session in whose time something was pinned. Your own writes go
    with the rest. The daemon does the same by itself, as agent-undo.retention* say.
    """
    limits = {"older_than": _age(older_than), "keep": keep, "size": _size(size)}
    limited = any(value is not None for value in limits.values())
    if everything + retention + limited != 1:
        raise UsageError(
            "could not tell what to drop",
            hint="--all, --retention, or limits as --older-than 30d, --keep 100, --size 500m",
        )
    params = {"all": everything, "retention": retention, **limits, "dry_run": dry_run}
    if not (dry_run or yes):
        if as_json or not is_interactive():
            raise RefusedError("nothing was dropped: nobody said yes", hint="--yes")
        plan = ask("prune", {**params, "dry_run": True})
        print_document(plan, prune_lines, as_json=False)
        if not plan["dropped"]:
            return int(ExitCode.DONE)
        if not ask_yes("drop these for good?", default=False):
            click.echo("nothing was dropped")
            return int(ExitCode.REFUSED)
    document = ask("prune", params)
    print_document(document, prune_lines, as_json=as_json)
    return int(ExitCode.DONE)


def _age(words: str | None) -> int | None:
    found = None if words is None else parse_length(words)
    if words is not None and found is None:
        raise UsageError(
            f"could not read age {words!r}",
            hint="use 30d, 12h or 90s; 0s is all that is closed",
        )
    return found


def _size(words: str | None) -> int | None:
    try:
        return None if words is None else parse_size(words)
    except ValueError as error:
        raise UsageError(
            f"could not read size {words!r}", hint="use 500m or 2g"
        ) from error
