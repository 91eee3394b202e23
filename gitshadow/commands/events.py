"""`git agent-undo events`: the conversation of an agent program's session."""

import click

from gitshadow.commands.effects import journal, session_option
from gitshadow.commands.options import colour_option, json_option
from gitshadow.commands.output import print_rows
from gitshadow.render.effects import event_lines


@click.command("events")
@click.option("--live", is_flag=True, help="Only those that no rewind has hidden.")
@click.option("--all", "everything", is_flag=True, help="All of them (the default).")
@session_option
@colour_option
@json_option
def command(live: bool, everything: bool, session: str | None, as_json: bool) -> None:
    """List the events of a session, including those that a rewind has hidden."""
    from gitshadow.sdk.turns import queries

    with journal() as db:
        named = queries.session_named(db, session)
        found = list(queries.event_rows(db, named, live=live and not everything))
    print_rows({"rows": found}, event_lines, as_json=as_json, empty="no events")
