"""saga, tools, events, state, artifacts, verify, attention: look at agent programs."""

import sys
import time

import click

from gitshadow.commands.client import find_layout, made_here
from gitshadow.commands.effects import journal, load_toolbox
from gitshadow.commands.options import (
    colour_option,
    json_option,
    session_option,
    tools_option,
)
from gitshadow.commands.terminal import print_answer, print_rows
from gitshadow.commands.usage_errors import VerbGroup
from gitshadow.errors import ExitCode, UsageError
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

_EMPTY = "no agent program has run here; for turns of agents: git agent-undo turns"


@click.group("saga", cls=VerbGroup)
def saga_command() -> None:
    """Inspect what agent programs did outside the file tree."""


@saga_command.command("log")
@session_option
@click.option("--turn", metavar="ID", help="Only the steps of this turn.")
@click.option("--tool", metavar="PATTERN", help="Only calls of these tools (`crm.*`).")
@json_option
def log(session: str | None, turn: str | None, tool: str | None, as_json: bool) -> None:
    """List every step: intents, outcomes with their inverses, undos."""
    from gitshadow.sdk.turns import queries

    with journal() as db:
        found = list(queries.log_rows(db, session, turn, tool))
    print_rows(found, log_lines, as_json=as_json, empty=_EMPTY)


@saga_command.command("turns")
@session_option
@colour_option
@json_option
def turns(session: str | None, as_json: bool) -> None:
    """List the turns of agent programs and how they ended."""
    from gitshadow.sdk.turns import queries

    with journal() as db:
        found = list(queries.turn_rows(db, session))
    print_rows(found, turn_lines, as_json=as_json, empty=_EMPTY)


@saga_command.command("show")
@session_option
@json_option
@click.argument("turn")
def show(turn: str, session: str | None, as_json: bool) -> None:
    """Show the calls of TURN: their outcomes, inverses and undo states."""
    from gitshadow.sdk.turns import queries

    with journal() as db:
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

    with journal() as db:
        named = queries.session_named(db, session)
        found = list(queries.event_rows(db, named, live=live and not everything))
    print_rows(found, event_lines, as_json=as_json, empty="no events")


@click.command("state")
@click.option("--at", "before", metavar="ID", help="The state before this turn.")
@session_option
@json_option
def state_command(before: str | None, session: str | None, as_json: bool) -> None:
    """Show the state of a session, now or at an earlier turn."""
    from gitshadow.sdk.turns import queries

    with journal() as db:
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

    with journal() as db:
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
    from gitshadow.sdk.turns.blob_store import Vault

    with journal() as db:
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
    vault = Vault(find_layout())
    try:
        return vault.read(Oid(oid))
    finally:
        vault.close()


@click.command("verify")
@json_option
def verify_command(as_json: bool) -> int:
    """Check the digests of the saga log. Exits 1 if a row was changed or is missing."""
    from gitshadow.store.journal import saga

    with journal() as db:
        broken = saga.broken_at(db)
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

    with journal() as db:
        found = list(queries.attention_rows(db, session, time.time_ns()))
        found = [*queries.alert_rows(db, session), *found]
    print_rows(
        found,
        attention_lines,
        as_json=as_json,
        empty="nothing needs attention",
    )
