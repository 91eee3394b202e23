"""`git agent-undo reindex`: rebuild the journal from the refs."""

import click

from gitshadow.commands.asking import ask, find_layout
from gitshadow.commands.options import json_option
from gitshadow.commands.printing import print_document
from gitshadow.render.status import field_lines


@click.command("reindex")
@json_option
def command(as_json: bool) -> None:
    """Rebuild the journal from the refs; the old one is set aside, never overwritten."""
    from gitshadow.ipc import launch

    layout = find_layout()
    was_running = launch.stop(layout)
    document = ask("reindex", {})
    if was_running:
        launch.start(layout)
    print_document(document, lambda doc, _: field_lines(doc), as_json=as_json)
