"""`git agent-undo show`: one thing in full."""

import click

from gitshadow.commands.client import ask
from gitshadow.commands.options import colour_option, json_option, spelled_paths
from gitshadow.commands.output import print_document
from gitshadow.render.text import show_lines


@click.command("show")
@click.option("-s", "--no-patch", is_flag=True, help="Without the diff.")
@colour_option
@json_option
@click.argument("id")
@click.argument("paths", nargs=-1)
def command(id: str, paths: tuple[str, ...], no_patch: bool, as_json: bool) -> None:
    """Show an event, call, turn, burst, session, op or recorded commit, with its diff.

    ID is any id that another command or git log of a session's ref prints, or a unique
    prefix. For an id with several events, PATHS limit them and the diff.
    """
    params = {"id": id, "paths": spelled_paths(paths), "patch": not no_patch}
    document = ask("show", params)
    print_document(document, show_lines, as_json=as_json, paged=True)
