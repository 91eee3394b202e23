"""`git agent-undo attention`: what of agent programs' effects a person should look at."""

import time

import click

from gitshadow.commands.effects import journal, session_option
from gitshadow.commands.options import json_option
from gitshadow.commands.output import print_rows
from gitshadow.render.effects import attention_lines


@click.command("attention")
@session_option
@json_option
def command(session: str | None, as_json: bool) -> None:
    """List interrupted turns and undos, failed or doubtful calls, and held calls.

    The last row is the effect whose undo window closes next.
    """
    from gitshadow.sdk.turns import queries

    with journal() as db:
        found = list(queries.attention_rows(db, session, time.time_ns()))
    print_rows(
        {"rows": found},
        attention_lines,
        as_json=as_json,
        empty="nothing needs attention",
    )
