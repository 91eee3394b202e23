"""`git agent-undo saga`: what agent programs did outside the file tree, step by step."""

import click

from gitshadow.commands.effects import journal, session_option
from gitshadow.commands.options import colour_option, json_option
from gitshadow.commands.output import print_rows
from gitshadow.commands.usage_errors import VerbGroup
from gitshadow.render.effects import call_lines, log_lines, turn_lines

_EMPTY = "no agent program has run here; for turns of agents: git agent-undo turns"


@click.group("saga", cls=VerbGroup)
def command() -> None:
    """Inspect what agent programs did outside the file tree."""


@command.command("log")
@session_option
@click.option("--turn", metavar="ID", help="Only the steps of this turn.")
@click.option("--tool", metavar="PATTERN", help="Only calls of these tools (`crm.*`).")
@json_option
def log(session: str | None, turn: str | None, tool: str | None, as_json: bool) -> None:
    """List every step: intents, outcomes with their inverses, undos."""
    from gitshadow.sdk.turns import queries

    with journal() as db:
        found = list(queries.log_rows(db, session, turn, tool))
    print_rows({"rows": found}, log_lines, as_json=as_json, empty=_EMPTY)


@command.command("turns")
@session_option
@colour_option
@json_option
def turns(session: str | None, as_json: bool) -> None:
    """List the turns of agent programs and how they ended."""
    from gitshadow.sdk.turns import queries

    with journal() as db:
        found = list(queries.turn_rows(db, session))
    print_rows({"rows": found}, turn_lines, as_json=as_json, empty=_EMPTY)


@command.command("show")
@session_option
@json_option
@click.argument("turn")
def show(turn: str, session: str | None, as_json: bool) -> None:
    """Show the calls of TURN: their outcomes, inverses and undo states."""
    from gitshadow.sdk.turns import queries

    with journal() as db:
        named = queries.session_named(db, session, turn)
        found = list(queries.call_rows(db, named, turn))
    print_rows(
        {"rows": found}, call_lines, as_json=as_json, empty="the turn made no call"
    )
