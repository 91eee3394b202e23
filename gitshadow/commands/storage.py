"""du, pack, prune, purge, reindex: what the history takes, and what is deleted from it."""

import base64
import os
from typing import IO

import click

from gitshadow.commands.client import find_layout, made_here, send
from gitshadow.commands.daemon import standstill
from gitshadow.commands.options import (
    ask_yes,
    is_interactive,
    json_option,
    spelled_paths,
    yes_option,
)
from gitshadow.commands.terminal import print_answer
from gitshadow.commands.times import parse_length
from gitshadow.config import parse_size
from gitshadow.errors import ExitCode, RefusedError, UsageError
from gitshadow.messages.codec import Nothing
from gitshadow.messages.record import FLUSH
from gitshadow.messages.storage import (
    PRUNE,
    PURGE,
    REINDEX,
    PruneRequest,
    PurgeRequest,
    ReindexRequest,
)
from gitshadow.render.storage import (
    du_lines,
    pack_lines,
    prune_lines,
    purge_lines,
    reindex_lines,
)


@click.command("du")
@json_option
def du_command(as_json: bool) -> None:
    """Show how much disk space the history uses, by session and in total.

    Only objects count that the history's refs reach and your branches do not. Objects shared
    by two sessions count for both, and once in the total.
    """
    # Recorded first, so that the figures are those of now.
    send(FLUSH, Nothing())
    from gitshadow.maintenance.upkeep import usage

    found = usage(find_layout(), os.environ)
    print_answer(made_here(found), du_lines, as_json=as_json)


@click.command("pack")
@json_option
def pack_command(as_json: bool) -> None:
    """Pack the loose objects of the history and merge its packs.

    The daemon does so by itself, and so do commands where no daemon runs.
    """
    send(FLUSH, Nothing())
    from gitshadow.maintenance.upkeep import pack_now

    done = pack_now(find_layout(), os.environ)
    print_answer(made_here(done), pack_lines, as_json=as_json)


@click.command("prune")
@click.option(
    "--all", "everything", is_flag=True, help="Delete all except open agent sessions."
)
@click.option(
    "--older-than", metavar="AGE", help="Delete those that ended this long ago: 30d."
)
@click.option(
    "--keep", metavar="N", type=click.IntRange(0), help="Delete all but the newest."
)
@click.option(
    "--size", metavar="SIZE", help="Delete the oldest, down to this size: 500m."
)
@click.option(
    "--retention", is_flag=True, help="Delete those beyond the limits in your settings."
)
@click.option(
    "--dry-run", is_flag=True, help="Show what would be deleted, delete nothing."
)
@yes_option
@json_option
def prune_command(  # noqa: PLR0913 - one per option
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
    """Delete old sessions; they can then no longer be undone.

    Sessions are deleted whole, with their subagents, oldest first. Pins and open agent
    sessions are kept; so are sessions that contain a pin, except with --all. Sessions of your
    own edits are deleted too. The daemon prunes by itself, as set by agent-undo.retention*.
    """
    limits = (_age(older_than), keep, _size(size))
    limited = any(value is not None for value in limits)
    if everything + retention + limited != 1:
        raise UsageError(
            "delete what? no limit given",
            hint="--all, --retention, or limits as --older-than 30d, --keep 100, --size 500m",
        )
    request = PruneRequest(everything, retention, *limits, dry_run=dry_run)
    if not (dry_run or yes):
        if as_json or not is_interactive():
            raise RefusedError("nothing was deleted: it needs a yes", hint="--yes")
        plan = send(PRUNE, request._replace(dry_run=True))
        print_answer(plan, prune_lines, as_json=False)
        if not plan.answer.dropped:
            return int(ExitCode.DONE)
        if not ask_yes("delete these permanently?", default=False):
            click.echo("nothing was deleted")
            return int(ExitCode.REFUSED)
    print_answer(send(PRUNE, request), prune_lines, as_json=as_json)
    return int(ExitCode.DONE)


def _age(words: str | None) -> int | None:
    found = None if words is None else parse_length(words)
    if words is not None and found is None:
        raise UsageError(
            f"invalid age: {words!r}",
            hint="use 30d, 12h or 90s; 0s means all closed sessions",
        )
    return found


def _size(words: str | None) -> int | None:
    try:
        return None if words is None else parse_size(words)
    except ValueError as error:
        raise UsageError(f"invalid size: {words!r}", hint="use 500m or 2g") from error


@click.command("reindex")
@json_option
def reindex_command(as_json: bool) -> None:
    """Rebuild the journal from the refs; the old one is set aside, never overwritten."""
    with standstill():
        reply = send(REINDEX, ReindexRequest())
    print_answer(reply, reindex_lines, as_json=as_json)


@click.command("purge")
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option(
    "--content",
    "files",
    metavar="FILE",
    type=click.File("rb"),
    multiple=True,
    help="The content of a file, wherever it occurs; - reads standard input.",
)
@click.option(
    "--text", "texts", metavar="TEXT", multiple=True, help="The same, given as TEXT."
)
@click.option("--prompts", is_flag=True, help="All prompts, and nothing else.")
@click.option(
    "--fetched", is_flag=True, help="Also delete fetched sessions that contain it."
)
@click.option(
    "--dry-run", is_flag=True, help="Show what would be erased, change nothing."
)
@click.option("--check", is_flag=True, help="Only show what is left of purged content.")
@yes_option
@json_option
def purge_command(  # noqa: PLR0913 - one per option
    paths: tuple[str, ...],
    *,
    files: tuple[IO[bytes], ...],
    texts: tuple[str, ...],
    prompts: bool,
    fetched: bool,
    dry_run: bool,
    check: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Erase files, every copy of a text, or all prompts from the whole recorded history.

    For secrets. PATH erases the content of files or directories, in every session and under
    every name they ever had. --content and --text erase every content that contains a text,
    and the text itself from prompts, arguments, reports and the rest of the journal.
    --prompts erases what agents were asked; agent-undo.prompts=off stores no more. Purged
    content can no longer be undone; its bytes leave the repository with: git gc --prune=now.
    Your own commits, index and files are not touched; copies in them are listed.
    """
    wanted = [file.read().rstrip(b"\r\n") for file in files]
    wanted += [text.encode("utf-8", "surrogateescape") for text in texts]
    if check == bool(paths or wanted or prompts):
        raise UsageError(
            "purge what? nothing given",
            hint="name paths, --content FILE, --text TEXT, --prompts, or --check",
        )
    if prompts and (paths or wanted):
        raise UsageError(
            "cannot purge prompts and content at once", hint="run purge twice"
        )
    request = PurgeRequest(
        paths=tuple(spelled_paths(paths)),
        texts=tuple(base64.b64encode(one).decode("ascii") for one in wanted),
        prompts=prompts,
        fetched=fetched,
        dry_run=dry_run,
    )
    if check or dry_run:
        print_answer(send(PURGE, request), purge_lines, as_json=as_json)
        return
    if not yes:
        raise RefusedError(
            "nothing was purged: this rewrites the history",
            hint="check with --dry-run first, then use --yes",
        )
    with standstill():
        reply = send(PURGE, request)
    print_answer(reply, purge_lines, as_json=as_json)
