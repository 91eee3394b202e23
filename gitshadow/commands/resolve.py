"""`git agent-undo resolve`: record that a person has settled a call."""

import click

from gitshadow.commands.effects import act, journal, load_toolbox, session_option
from gitshadow.errors import UsageError


@click.command("resolve")
@click.option(
    "--as",
    "outcome",
    type=click.Choice(["reversed", "compensated", "not_reversed", "no_effect"]),
    required=True,
    help="Undone, compensated, left as it is, or never happened.",
)
@click.option(
    "--note", required=True, metavar="TEXT", help="A note about what was found or done."
)
@session_option
@click.argument("call")
def command(call: str, outcome: str, note: str, session: str | None) -> int:
    """Record what a person found out about CALL; what was recorded before is kept."""
    from gitshadow.sdk.turns.async_session import AsyncAgentUndo
    from gitshadow.sdk.turns.report import UndoReport
    from gitshadow.store.journal import saga

    with journal() as db:
        found = saga.calls_named(db, call, session)
        if len(found) > 1:
            found = [one for one in saga.unsettled(db, session) if one.id == call]
    if len(found) != 1:
        raise UsageError(
            f"cannot resolve {call}: unknown or ambiguous call",
            hint="to list calls: git agent-undo attention; to choose a session: --session",
        )

    async def settle(au: AsyncAgentUndo) -> list[UndoReport]:
        au.resolve(found[0].turn, call, outcome, note=note)
        return []

    toolbox = load_toolbox(None, needed=False)
    return act(found[0].session, toolbox, settle, as_json=False)
