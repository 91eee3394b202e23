"""`git agent-undo resolve`: record that a person has settled a call."""

import click

from gitshadow.commands.effects import act, journal, load_toolbox, session_option
from gitshadow.errors import UsageError


@click.command("resolve")
@click.option("--note", required=True, metavar="TEXT", help="What was found or done.")
@session_option
@click.argument("call")
def command(call: str, note: str, session: str | None) -> int:
    """Record that a person has settled CALL; what the machine knew stays in the log."""
    from gitshadow.store.journal import saga
    from gitshadow.turns.aio import AsyncAgentUndo
    from gitshadow.turns.report import UndoReport

    with journal() as db:
        found = [one for one in saga.unsettled(db, session) if one.id == call]
    if len(found) != 1:
        raise UsageError(
            f"could not resolve {call}: nothing, or several things, open by that name",
            hint="see: git agent-undo attention",
        )

    async def settle(au: AsyncAgentUndo) -> list[UndoReport]:
        au.resolve(found[0].turn, call, note=note)
        return []

    toolbox = load_toolbox(None, needed=False)
    return act(found[0].session, toolbox, settle, as_json=False)
