"""`git agent-undo rewind`: rewind an agent program's session to before a turn."""

import click

from gitshadow.commands.effects import journal, load_toolbox, session_option
from gitshadow.commands.options import json_option, tools_option, yes_option
from gitshadow.commands.undo_effects import carry_out, scope_option
from gitshadow.commands.undo_flow import UndoFlags
from gitshadow.messages.codec import parse
from gitshadow.messages.undo import FileUndoRequest


@click.command("rewind")
@click.option("--before", required=True, metavar="ID", help="The turn to rewind to.")
@click.option("--effects", is_flag=True, help="Also undo outside effects.")
@click.option("--dry-run", is_flag=True, help="Print the plan, change nothing.")
@click.option("--token", help="Apply exactly the plan with this token, or nothing.")
@scope_option
@session_option
@tools_option
@yes_option
@json_option
def command(
    before: str,
    effects: bool,
    scope: tuple[str, ...],
    session: str | None,
    tools: str | None,
    as_json: bool,
    **options: object,
) -> int:
    """Restore state, artifacts and files, and hide what followed; nothing is deleted.

    The plan is shown first, and nothing is changed before your yes.
    """
    from gitshadow.sdk.turns import queries
    from gitshadow.sdk.turns.report import UndoReport
    from gitshadow.sdk.turns.undo_request import rewind_request

    toolbox = load_toolbox(tools, needed=effects or "effects" in scope)
    with journal() as db:
        named = queries.session_named(db, session)

    async def plan() -> UndoReport:
        request = rewind_request(effects=effects, scope=scope or None)
        async with toolbox.open(named) as au:
            return await au.drive(au.runtime.undoing.rewind(before, request).plan())

    async def run(agreed: str | None) -> UndoReport:
        wanted = scope or None
        async with toolbox.open(named) as au:
            return await au.rewind(before, effects=effects, scope=wanted, token=agreed)

    manner = UndoFlags(parse(FileUndoRequest, options), as_json)
    return carry_out(plan, run, manner)
