"""program: look at agent programs, and repair their sessions."""

import time
from collections.abc import Iterable, Iterator, Sequence

import click

from gitshadow.commands.effects import (
    act,
    journal,
    load_toolbox,
    send_held,
)
from gitshadow.commands.options import (
    ask_yes,
    is_interactive,
    json_option,
    session_option,
    tools_option,
    yes_option,
)
from gitshadow.commands.saga import (
    artifacts_command,
    attention_command,
    events_command,
    saga_command,
    state_command,
    tools_command,
    verify_command,
)
from gitshadow.commands.terminal import print_rows
from gitshadow.commands.undo_effects import carry_out
from gitshadow.commands.undo_flow import UndoFlags, scope_option
from gitshadow.commands.usage_errors import VerbGroup
from gitshadow.errors import ExitCode, UsageError
from gitshadow.messages.codec import parse
from gitshadow.messages.programs import Attention, AttentionRow, ClosingWindow
from gitshadow.messages.undo import FileUndoRequest
from gitshadow.render.effects import attention_lines
from gitshadow.render.style import printable


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
def rewind_command(
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
        request = rewind_request({"effects": effects, "scope": scope or None})
        async with toolbox.open(named) as au:
            return await au.drive(au.runtime.undoing.rewind(before, request).plan())

    async def run(agreed: str | None) -> UndoReport:
        wanted = scope or None
        async with toolbox.open(named) as au:
            return await au.rewind(before, effects=effects, scope=wanted, token=agreed)

    manner = UndoFlags(parse(FileUndoRequest, options), as_json)
    return carry_out(plan, run, manner)


_NOTHING = "nothing to recover"
_SETTLED = {
    "turn_interrupted": "marked {turn} of {session} as interrupted: its process has ended",
    "dropped": "dropped {call} {tool}: its turn was interrupted",
    "undo_skipped": "settled {call} {tool}: it did not happen",
    "probed": "settled {call} {tool}: it happened",
}
"""What is said of a step of the log that belongs to no undo."""


@click.command("recover")
@click.option("--dry-run", is_flag=True, help="List what would be done, do nothing.")
@session_option
@tools_option
@yes_option
@json_option
def recover_command(
    session: str | None, tools: str | None, *, dry_run: bool, yes: bool, as_json: bool
) -> int:
    """Finish rollbacks, undos and rewinds whose process died.

    What was already undone is not repeated. Calls that began and never ended are checked with
    their tool if it can tell, and listed if not: settle them with `program resolve`. Held calls
    whose turn has committed and whose time has come are sent; `undo` of their turn drops them
    instead. An interrupted turn is not undone automatically: see `program attention`, then
    `undo`. Everything that undoes or sends is listed first and needs your yes.
    """
    from gitshadow.sdk.turns import queries
    from gitshadow.store.journal import saga

    with journal() as db:
        moment = time.time_ns()
        found = list(queries.attention_rows(db, session, moment))
        work = list(dict.fromkeys(_sessions(found)))
        unfinished = any(saga.unfinished(db, name) for name in work)
        waiting = dict.fromkeys(one.session for one in saga.held_waiting(db, session))
        sending = [name for name in waiting if saga.held_due(db, name, moment)]
        logged = len(saga.log(db, session))
    todo = [row for row in found if _is_to_do(row)]
    if dry_run:
        print_rows(todo, attention_lines, as_json=as_json, empty=_NOTHING)
        return int(ExitCode.DONE)
    # Undoing and sending call the program's own functions, so its tools must be importable here.
    toolbox = load_toolbox(tools, needed=unfinished or bool(sending))
    if (unfinished or sending) and not yes and not _agreed(todo, as_json=as_json):
        return int(ExitCode.REFUSED)
    codes = [
        act(name, toolbox, lambda au: au.recover(), as_json=as_json) for name in work
    ]
    codes += [send_held(name, toolbox, as_json=as_json) for name in sending]
    with journal() as db:
        rows = queries.attention_rows(db, session)
        left = [row for row in rows if row.what == "call"]
        steps = list(queries.log_rows(db, session, None, None))[logged:]
    settled = [
        step for step in steps if step.kind in _SETTLED and "op" not in step.body
    ]
    for step in settled:
        click.echo(printable(_SETTLED[step.kind].format_map(step._asdict())), err=True)
    if left:
        print_rows(left, attention_lines, as_json=as_json, empty="")
    elif not unfinished and not sending and not settled:
        click.echo(_NOTHING, err=True)
    return max(codes, default=0)


def _is_to_do(row: Attention) -> bool:
    """Return whether `recover` deals with a row."""
    if isinstance(row, AttentionRow) and row.what == "held":
        return row.state == "due" and row.waits is False
    return row.state in ("unfinished", "in_doubt", "rolling_back")


def _agreed(todo: Sequence[Attention], *, as_json: bool) -> bool:
    """List what is to be done and ask; without a terminal, print how to continue."""
    print_rows(todo, attention_lines, as_json=as_json, empty=_NOTHING)
    if as_json or not is_interactive():
        click.echo("hint: nothing was done; to finish these: --yes", err=True)
        return False
    if ask_yes("finish these?", default=True):
        return True
    click.echo("nothing was done")
    return False


def _sessions(rows: Iterable[Attention]) -> Iterator[str]:
    """Yield the sessions in which something was cut short; a failure alone is for `undo`."""
    for row in rows:
        session = row.closing.session if isinstance(row, ClosingWindow) else row.session
        if row.state != "failed" and row.what != "held":
            yield session


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
def resolve_command(call: str, outcome: str, note: str, session: str | None) -> int:
    """Record what a person found out about CALL; what was recorded before is kept."""
    from gitshadow.sdk.turns.async_session import AsyncAgentUndo
    from gitshadow.sdk.turns.report import UndoReport
    from gitshadow.store.journal import saga

    with journal() as db:
        found = saga.calls_named(db, call, session)
        if len(found) > 1:
            # The same id can be in several turns; usually only one of them still needs a decision.
            found = [one for one in saga.unsettled(db, session) if one.id == call]
    if len(found) != 1:
        raise UsageError(
            f"cannot resolve {call}: unknown or ambiguous call",
            hint="to list calls: git agent-undo program attention; to choose a session: --session",
        )

    async def settle(au: AsyncAgentUndo) -> list[UndoReport]:
        au.resolve(found[0].turn, call, outcome, note=note)
        return []

    toolbox = load_toolbox(None, needed=False)
    return act(found[0].session, toolbox, settle, as_json=False)


@click.group("program", cls=VerbGroup)
def program_command() -> None:
    """Inspect and repair programs that use gitshadow's SDK.

    To undo a turn of one: git agent-undo undo TURN
    """


for _verb in (
    saga_command,
    tools_command,
    events_command,
    state_command,
    artifacts_command,
    rewind_command,
    recover_command,
    attention_command,
    resolve_command,
    verify_command,
):
    program_command.add_command(_verb)
