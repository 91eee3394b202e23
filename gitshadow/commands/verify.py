"""`git agent-undo verify`: check that nobody changed the log of agent programs' turns."""

import click

from gitshadow.commands.effects import journal
from gitshadow.commands.options import json_option
from gitshadow.errors import ExitCode
from gitshadow.render import json


@click.command("verify")
@json_option
def command(as_json: bool) -> int:
    """Check the digests of the saga log. Exits 1 if a row was changed or is missing."""
    from gitshadow.store.journal import saga

    with journal() as db:
        broken = saga.broken_at(db)
    if as_json:
        json.show({"ok": broken is None, "broken_at": broken})
    elif broken is None:
        click.echo("the saga log is intact")
    else:
        click.echo(
            f"the saga log was changed at row {broken}, or the row before it is missing"
        )
    return int(ExitCode.DONE if broken is None else ExitCode.ERROR)
