"""program: look at agent programs (saga, tools, events, …), and repair their sessions."""

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing

import click

from gitshadow.commands.client import find_layout, made_here
from gitshadow.commands.effects import act, journal, load_toolbox, send_held
from gitshadow.commands.options import (
    ask_yes,
    colour_option,
    dry_run_option,
    is_interactive,
    json_option,
    scope_option,
    session_option,
    token_option,
    tools_option,
    utf8,
    yes_option,
)
from gitshadow.commands.terminal import print_answer, print_rows
from gitshadow.commands.undo_effects import carry_out
from gitshadow.commands.undo_flow import UndoFlags
from gitshadow.commands.usage_errors import VerbGroup
from gitshadow.errors import ExitCode, UsageError
from gitshadow.messages.codec import parse
from gitshadow.messages.programs import Attention, AttentionRow, ClosingWindow
from gitshadow.messages.undo import FileUndoRequest
from gitshadow.model import Oid
from gitshadow.render import output
from gitshadow.render.effects import (
    artifact_lines,
    attention_lines,
    call_lines,
    event_lines,
    log_lines,
    state_lines,
    tool_lines,
    turn_lines,
)
from gitshadow.render.style import printable

_EMPTY = "no agent program has run here; for turns of agents: git agent-undo turns"


@click.group("saga", cls=VerbGroup)
def saga_command() -> None:
    """Inspect what agent programs did outside the file tree."""


@saga_command.command("log")
@session_option
@click.option(
    "--turn", metavar="ID", callback=utf8, help="Only the steps of this turn."
)
@click.option("--tool", metavar="PATTERN", help="Only calls of these tools (`crm.*`).")
@json_option
def log(session: str | None, turn: str | None, tool: str | None, as_json: bool) -> None:
    """List every step: intents, outcomes with their inverses, undos."""
    from gitshadow.sdk.turns import queries

    with journal(session) as db:
        found = list(queries.log_rows(db, session, turn, tool))
    print_rows(found, log_lines, as_json=as_json, empty=_EMPTY)


@saga_command.command("turns")
@session_option
@colour_option
@json_option
def turns(session: str | None, as_json: bool) -> None:
    """List the turns of agent programs and how they ended."""
    from gitshadow.sdk.turns import queries

    with journal(session) as db:
        found = list(queries.turn_rows(db, session))
    print_rows(found, turn_lines, as_json=as_json, empty=_EMPTY)


@saga_command.command("show")
@session_option
@json_option
@click.argument("turn", callback=utf8)
def show(turn: str, session: str | None, as_json: bool) -> None:
    """Show the calls of TURN: their outcomes, inverses and undo states."""
    from gitshadow.sdk.turns import queries

    with journal(session) as db:
        named = queries.session_named(db, session, turn)
        found = list(queries.call_rows(db, named, turn))
    print_rows(found, call_lines, as_json=as_json, empty="the turn made no call")


@click.command("tools")
@tools_option
@json_option
def tools_command(tools: str | None, as_json: bool) -> None:
    """List the tools of a program and whether they can be undone."""
    from gitshadow.sdk.turns import queries

    registry = load_toolbox(tools, needed=True).tools
    found = [queries.tool_row(tool) for tool in registry]
    print_rows(
        found,
        tool_lines,
        as_json=as_json,
        empty="the program declares no tools",
    )


@click.command("events")
@click.option("--live", is_flag=True, help="Only those that no rewind has hidden.")
@click.option("--all", "everything", is_flag=True, help="All of them (the default).")
@session_option
@colour_option
@json_option
def events_command(
    live: bool, everything: bool, session: str | None, as_json: bool
) -> None:
    """List the events of a session, including those that a rewind has hidden."""
    from gitshadow.sdk.turns import queries

    with journal(session) as db:
        named = queries.session_named(db, session)
        found = list(queries.event_rows(db, named, live=live and not everything))
    print_rows(found, event_lines, as_json=as_json, empty="no events")


@click.command("state")
@click.option(
    "--at", "before", metavar="ID", callback=utf8, help="The state before this turn."
)
@session_option
@json_option
def state_command(before: str | None, session: str | None, as_json: bool) -> None:
    """Show the state of a session, now or at an earlier turn."""
    from gitshadow.sdk.turns import queries

    with journal(session) as db:
        named = queries.session_named(db, session)
        answer = queries.state_document(db, named, before)
    print_answer(made_here(answer), state_lines, as_json=as_json)


@click.command("artifacts")
@click.option(
    "--version", "number", type=click.IntRange(min=0), help="Print this version."
)
@click.option(
    "--all", "every", is_flag=True, help="List all versions, not only the newest."
)
@session_option
@json_option
@click.argument("name", required=False)
def artifacts_command(
    number: int | None,
    every: bool,
    session: str | None,
    as_json: bool,
    name: str | None,
) -> None:
    """List the artifacts of a session, or write the bytes of NAME to standard output."""
    if name is None and number is not None:
        raise UsageError(
            "missing argument: --version needs a NAME",
            hint="to list artifacts: git agent-undo program artifacts --all",
        )
    if name is not None and not every:
        if as_json:
            raise UsageError(
                "cannot print bytes as JSON", hint="to list versions: --all"
            )
        sys.stdout.buffer.write(_bytes(session, name, number))
        return
    from gitshadow.sdk.turns import queries

    with journal(session) as db:
        named = queries.session_named(db, session)
        rows = queries.artifact_rows(db, named, name, every=every)
    print_rows(rows, artifact_lines, as_json=as_json, empty="no artifacts")


def _bytes(session: str | None, name: str, number: int | None) -> bytes:
    """Return a version's bytes.

    Raises:
        UsageError: there is no such artifact or version.
        StoreError: its bytes are gone.
    """
    from gitshadow.sdk.turns import queries
    from gitshadow.store.repo import Repo

    with journal(session) as db:
        named = queries.session_named(db, session)
        rows = queries.artifact_rows(db, named, name, every=number is not None)
    wanted = [row for row in rows if number is None or row.version == number]
    oid = wanted[0].oid if wanted else None
    if oid is None:
        which = "" if number is None else f" version {number}"
        raise UsageError(
            f"cannot find artifact {name}{which} in session {named}",
            hint="git agent-undo program artifacts --all",
        )
    with closing(Repo.open(find_layout())) as repo:
        return repo.read_blob(Oid(oid))


@click.command("verify")
@json_option
def verify_command(as_json: bool) -> int:
    """Check the digests of the saga log. Exits 1 if a row was changed or is missing."""
    from gitshadow.store.journal.saga import SagaTables

    with journal() as db:
        broken = SagaTables(db).broken_at()
    if as_json:
        output.show_json({"ok": broken is None, "broken_at": broken})
    elif broken is None:
        click.echo("the saga log is intact")
    else:
        click.echo(
            f"the saga log was changed at row {broken}, or the row before it is missing"
        )
    return int(ExitCode.DONE if broken is None else ExitCode.ERROR)


@click.command("attention")
@session_option
@json_option
def attention_command(session: str | None, as_json: bool) -> None:
    """List interrupted turns and undos, failed or doubtful calls, held calls, and alerts.

    The last row is the effect whose undo window closes next.
    """
    from gitshadow.sdk.turns import queries

    with journal(session) as db:
        found = list(queries.attention_rows(db, session, time.time_ns()))
        found = [*queries.alert_rows(db, session), *found]
    print_rows(
        found,
        attention_lines,
        as_json=as_json,
        empty="nothing needs attention",
    )


@click.command("rewind")
@click.option(
    "--before",
    required=True,
    metavar="ID",
    callback=utf8,
    help="The turn to rewind to.",
)
@click.option("--effects", is_flag=True, help="Also undo outside effects.")
@dry_run_option
@token_option
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
    with journal(session) as db:
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
    from gitshadow.store.journal.saga import SagaTables

    with journal(session) as db:
        moment, sagas = time.time_ns(), SagaTables(db)
        found = list(queries.attention_rows(db, session, moment))
        work = list(dict.fromkeys(_sessions(found)))
        unfinished = any(sagas.unfinished(name) for name in work)
        waiting = dict.fromkeys(one.session for one in sagas.waiting(session))
        sending = [name for name in waiting if sagas.due(name, moment)]
        logged = len(list(sagas.log(session)))
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
    with journal(session) as db:
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
@click.argument("call", callback=utf8)
def resolve_command(call: str, outcome: str, note: str, session: str | None) -> int:
    """Record what a person found out about CALL; what was recorded before is kept."""
    from gitshadow.sdk.turns.async_session import AsyncAgentUndo
    from gitshadow.sdk.turns.report import UndoReport
    from gitshadow.store.journal.saga import SagaTables

    with journal(session) as db:
        found = SagaTables(db).calls_named(call, session)
        if len(found) > 1:
            # The same id can be in several turns; usually only one of them still needs a decision.
            found = [one for one in SagaTables(db).unsettled(session) if one.id == call]
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
