"""`git agent-undo state`: the state of an agent program's session."""

import click

from gitshadow.commands.effects import journal, session_option
from gitshadow.commands.options import json_option
from gitshadow.commands.output import print_document
from gitshadow.render.effects import state_lines


@click.command("state")
@click.option("--at", "before", metavar="ID", help="The state before this turn.")
@session_option
@json_option
def command(before: str | None, session: str | None, as_json: bool) -> None:
    """Show the state of a session, now or at an earlier turn."""
    from gitshadow.sdk.turns import queries

    with journal() as db:
        named = queries.session_named(db, session)
        document = queries.state_document(db, named, before)
    print_document(document, state_lines, as_json=as_json)
