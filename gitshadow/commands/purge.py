"""`git agent-undo purge`: drop a file's content from the whole history."""

import click

from gitshadow.commands.asking import ask
from gitshadow.commands.options import json_option, spelled_paths, yes_option
from gitshadow.commands.printing import print_document
from gitshadow.commands.standstill import standstill
from gitshadow.errors import RefusedError, UsageError
from gitshadow.render.keep import purge_lines


@click.command("purge")
@click.argument("paths", nargs=-1, metavar="PATH...")
@click.option("--check", is_flag=True, help="Only say what is left of what was purged.")
@yes_option
@json_option
def command(paths: tuple[str, ...], *, check: bool, yes: bool, as_json: bool) -> None:
    """Drop the content of files or directories from the whole recorded history.

    For secrets. Every session is rewritten, under every name the files ever had; what they held
    cannot be undone any more. The bytes are gone from the repository after: git gc --prune=now.
    Your own commits, your index and the disk are not touched; where they hold a copy, it is named.
    """
    if check == bool(paths):
        raise UsageError("could not tell what to purge", hint="name paths, or --check")
    if check:
        print_document(ask("purge", {"paths": []}), purge_lines, as_json=as_json)
        return
    if not yes:
        raise RefusedError(
            "nothing was purged: this rewrites the history", hint="--yes"
        )
    with standstill():
        document = ask("purge", {"paths": spelled_paths(paths)})
    print_document(document, purge_lines, as_json=as_json)
