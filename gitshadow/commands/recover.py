"""`git agent-undo recover`: finish what a crash interrupted in agent programs' sessions."""

import click

from gitshadow.commands.effects import (
    act,
    journal,
    load_toolbox,
    session_option,
    tools_option,
)
from gitshadow.commands.options import json_option


@click.command("recover")
@session_option
@tools_option
@json_option
def command(session: str | None, tools: str | None, as_json: bool) -> int:
    """Bring rollbacks, undos and rewinds to their end that lost their process.

    What was taken back is not repeated. An interrupted turn is not undone by itself: see
    `attention`, then `undo`.
    """
    from gitshadow.store.journal import saga

    with journal() as db:
        found = {one.session for one in saga.turns(db, session)}
        work = [
            name
            for name in sorted(found)
            if any(op.status != "done" for op in saga.ops(db, name))
        ]
    if not work:
        click.echo("nothing to recover", err=True)
        return 0
    toolbox = load_toolbox(tools, needed=True)
    codes = [
        act(name, toolbox, lambda au: au.recover(), as_json=as_json) for name in work
    ]
    return max(codes)
