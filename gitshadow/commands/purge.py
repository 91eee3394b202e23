"""`git agent-undo purge`: drop a content from the whole history."""

import base64
from typing import IO

import click

from gitshadow.commands.client import send
from gitshadow.commands.daemon import standstill
from gitshadow.commands.options import json_option, spelled_paths, yes_option
from gitshadow.commands.output import print_answer
from gitshadow.errors import RefusedError, UsageError
from gitshadow.messages.storage import PURGE, PurgeRequest
from gitshadow.render.purge import purge_lines


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
@click.option(
    "--fetched", is_flag=True, help="Also delete fetched sessions that contain it."
)
@click.option(
    "--dry-run", is_flag=True, help="Show what would be erased, change nothing."
)
@click.option("--check", is_flag=True, help="Only show what is left of purged content.")
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
    """Erase files, or every copy of a text, from the whole recorded history.

    For secrets. PATH erases the content of files or directories, in every session and under
    every name they ever had. --content and --text erase every content that contains a text,
    and the text itself from prompts, arguments, reports and the rest of the journal. Purged
    content can no longer be undone; its bytes leave the repository with: git gc --prune=now.
    Your own commits, index and files are not touched; copies in them are listed.
    """
    wanted = [file.read().rstrip(b"\r\n") for file in files]
    wanted += [text.encode("utf-8", "surrogateescape") for text in texts]
    if check == bool(paths or wanted):
        raise UsageError(
            "purge what? nothing given",
            hint="name paths, --content FILE, --text TEXT, or --check",
        )
    request = PurgeRequest(
        paths=tuple(spelled_paths(paths)),
        texts=tuple(base64.b64encode(one).decode("ascii") for one in wanted),
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
