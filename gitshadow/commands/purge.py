"""`git agent-undo purge`: drop a content from the whole history."""

import base64
from typing import IO

import click

from gitshadow.commands.asking import ask
from gitshadow.commands.options import json_option, spelled_paths, yes_option
from gitshadow.commands.printing import print_document
from gitshadow.commands.standstill import standstill
from gitshadow.errors import RefusedError, UsageError
from gitshadow.render.purge import purge_lines


@click.command("purge")
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option(
    "--content",
    "files",
    metavar="FILE",
    type=click.File("rb"),
    multiple=True,
    help="What a file holds, wherever it stands; - reads standard input.",
)
@click.option("--text", "texts", metavar="TEXT", multiple=True, help="The same, typed.")
@click.option(
    "--fetched", is_flag=True, help="Drop fetched sessions that hold it, too."
)
@click.option("--dry-run", is_flag=True, help="Say what would go, change nothing.")
@click.option("--check", is_flag=True, help="Only say what is left of what was purged.")
@yes_option
@json_option
def command(  # noqa: PLR0913 - one per option
    paths: tuple[str, ...],
    *,
    files: tuple[IO[bytes], ...],
    texts: tuple[str, ...],
    fetched: bool,
    dry_run: bool,
    check: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Drop files, or a text wherever it stands, from the whole recorded history.

    For secrets. PATH takes what files or directories held, in every session and under every name
    they ever had. --content and --text take every content that has a text in it, and the text
    itself out of prompts, arguments, reports and all else in the journal. What was purged cannot
    be undone any more; the bytes are gone from the repository after: git gc --prune=now. Your own
    commits, your index and the disk are not touched; where they hold a copy, it is named.
    """
    wanted = [file.read().rstrip(b"\r\n") for file in files]
    wanted += [text.encode("utf-8", "surrogateescape") for text in texts]
    if check == bool(paths or wanted):
        raise UsageError(
            "could not tell what to purge",
            hint="name paths, --content FILE, --text TEXT, or --check",
        )
    params: dict[str, object] = {
        "paths": spelled_paths(paths),
        "texts": [base64.b64encode(one).decode("ascii") for one in wanted],
        "fetched": fetched,
        "dry_run": dry_run,
    }
    if check or dry_run:
        print_document(ask("purge", params), purge_lines, as_json=as_json)
        return
    if not yes:
        raise RefusedError(
            "nothing was purged: this rewrites the history",
            hint="look with --dry-run first, then --yes",
        )
    with standstill():
        document = ask("purge", params)
    print_document(document, purge_lines, as_json=as_json)
