"""`git agent-undo init`: record this repository from now on."""

import click

from gitshadow.commands.asking import ask, find_layout
from gitshadow.commands.options import json_option
from gitshadow.commands.printing import print_document
from gitshadow.render.status import init_lines


@click.command("init")
@click.option("--force", is_flag=True, help="Record a home directory or a root too.")
@json_option
def command(force: bool, as_json: bool) -> None:
    """Record this repository from now on.

    Every covered file is read once, then the daemon is started, unless agent-undo.daemon is
    off. Run again, it looks at everything anew. No setting, hook, index or branch of the
    repository is changed.
    """
    document = ask("init", {"force": force})
    if document.get("daemon_allowed") is True:
        from gitshadow.ipc import launch

        launch.start(find_layout())
        document["daemon"] = True
    print_document(document, init_lines, as_json=as_json)
