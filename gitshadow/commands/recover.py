"""`git agent-undo recover`: finish what a crash interrupted in agent programs' sessions."""

import time
from collections.abc import Iterator, Mapping

import click

from gitshadow.commands.effects import (
    act,
    journal,
    load_toolbox,
    send_held,
    session_option,
)
from gitshadow.commands.options import json_option, tools_option
from gitshadow.commands.printing import print_rows
from gitshadow.render.effects import attention_lines


@click.command("recover")
@session_option
@tools_option
@json_option
def command(session: str | None, tools: str | None, as_json: bool) -> int:
    """Bring rollbacks, undos and rewinds to their end that lost their process.

    What was taken back is not repeated. Calls that began and never ended are asked about, where
    their tool can tell, and listed where it cannot: settle them with `resolve`. Held calls whose
    turn has committed and whose time has come are sent; `undo` of their turn drops them instead. An
    interrupted turn is not undone by itself: see `attention`, then `undo`.
    """
    from gitshadow.store.journal import outbox, saga
    from gitshadow.turns import looking

    with journal() as db:
        work = list(dict.fromkeys(_sessions(looking.attention_rows(db, session))))
        unfinished = any(saga.unfinished(db, name) for name in work)
        waiting = dict.fromkeys(one.session for one in outbox.waiting(db, session))
        moment = time.time_ns()
        sending = [name for name in waiting if outbox.due(db, name, moment)]
    toolbox = load_toolbox(tools, needed=unfinished or bool(sending))
    codes = [
        act(name, toolbox, lambda au: au.recover(), as_json=as_json) for name in work
    ]
    codes += [send_held(name, toolbox, as_json=as_json) for name in sending]
    with journal() as db:
        rows = looking.attention_rows(db, session)
        left = [row for row in rows if row["what"] == "call"]
    if left:
        print_rows({"rows": left}, attention_lines, as_json=as_json, empty="")
    elif not unfinished and not sending:
        click.echo("nothing to recover", err=True)
    return max(codes, default=0)


def _sessions(rows: Iterator[Mapping[str, object]]) -> Iterator[str]:
    """Return the sessions in which something was cut short; a failure alone is for `undo`."""
    return (
        str(row["session"])
        for row in rows
        if row["state"] != "failed" and row["what"] != "held"
    )
