"""`git agent-undo rewind`: take an agent program's session back to before a turn."""

import click

from gitshadow.commands.effects import act, journal, load_toolbox, session_option
from gitshadow.commands.options import json_option, tools_option
from gitshadow.commands.undo_effects import scope_option


@click.command("rewind")
@click.option("--before", required=True, metavar="ID", help="The turn to go back to.")
@click.option("--effects", is_flag=True, help="Take outside effects back too.")
@scope_option
@session_option
@tools_option
@json_option
def command(
    before: str,
    effects: bool,
    scope: tuple[str, ...],
    session: str | None,
    tools: str | None,
    as_json: bool,
) -> int:
    """Restore state, artifacts and files, and hide what followed; delete nothing."""
    from gitshadow.turns import looking
    from gitshadow.turns.aio import AsyncAgentUndo
    from gitshadow.turns.report import UndoReport

    toolbox = load_toolbox(tools, needed=effects or "effects" in scope)
    with journal() as db:
        named = looking.session_named(db, session)

    async def go_back(au: AsyncAgentUndo) -> list[UndoReport]:
        return [await au.rewind(before, effects=effects, scope=scope or None)]

    return act(named, toolbox, go_back, as_json=as_json)
