"""`git agent-undo reindex`: rebuild the journal from the refs."""

import click

from gitshadow.commands.asking import ask, find_layout
from gitshadow.commands.options import json_option
from gitshadow.commands.printing import print_document
from gitshadow.render.keep import reindex_lines
from gitshadow.store.layout import recorded


@click.command("reindex")
@json_option
def command(as_json: bool) -> None:
    """Rebuild the journal from the refs; the old one is set aside, never overwritten."""
    from gitshadow.ipc import launch

    stopped = [one for one in recorded(find_layout()) if launch.stop(one)]
    try:
        document = ask("reindex", {})
    finally:
        for layout in stopped:
            launch.start(layout)
    print_document(document, reindex_lines, as_json=as_json)
