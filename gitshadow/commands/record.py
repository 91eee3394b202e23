"""record, flush, session: record by hand."""

from collections.abc import Iterator

import click

from gitshadow.commands.client import send
from gitshadow.commands.lists import sessions_command
from gitshadow.commands.options import json_option, spelled_paths, utf8
from gitshadow.commands.terminal import print_answer
from gitshadow.commands.usage_errors import VerbGroup
from gitshadow.messages.codec import Nothing
from gitshadow.messages.record import (
    FLUSH,
    RECORD,
    SESSION_END,
    SESSION_START,
    RecordAnswer,
    RecordRequest,
    SessionEndRequest,
    SessionStartRequest,
)
from gitshadow.render import output
from gitshadow.render.style import printable
from gitshadow.words import counted


@click.command("record")
@click.option(
    "--session", help="The session that made the changes (an id or a unique prefix)."
)
@click.option("--agent", callback=utf8, help="The agent that made the changes.")
@json_option
@click.argument("paths", nargs=-1, required=True)
def record_command(
    session: str | None, agent: str | None, as_json: bool, paths: tuple[str, ...]
) -> None:
    """Record the current content of PATHS."""
    request = RecordRequest(tuple(spelled_paths(paths)), session, agent)
    print_answer(send(RECORD, request), lambda done, _: _lines(done), as_json=as_json)


def _lines(answer: RecordAnswer) -> Iterator[str]:
    count = answer.recorded
    # "nothing new" would be confusing above a list of what somebody else wrote.
    if count or not answer.already:
        yield (
            f"{counted(count, 'event')} recorded" if count else "nothing new to record"
        )
    for row in answer.already:
        who = printable(row.agent or row.actor)
        path = printable(row.path)
        yield f"already recorded: {path}, written by {who} (event {row.seq})"


@click.command("flush")
@json_option
def flush_command(as_json: bool) -> None:
    """Wait for pending changes to be recorded. Prints nothing."""
    reply = send(FLUSH, Nothing())
    if as_json:
        output.show_json(reply.document)


@click.group("session", cls=VerbGroup, invoke_without_command=True)
@json_option
@click.pass_context
def session_command(ctx: click.Context, as_json: bool) -> None:
    """Open or close a session by hand; alone it lists them, as `sessions` does."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(sessions_command, everything=False, as_json=as_json)


@session_command.command("start")
@click.option("--agent", callback=utf8, help="The agent that makes the changes.")
@click.option("--human", is_flag=True, help="The changes are made by a person.")
@click.option(
    "--native", metavar="ID", callback=utf8, help="The agent's own id of the session."
)
@click.option(
    "--pid",
    type=click.IntRange(min=2),
    help="The process that makes all the changes, itself or by those that it starts.",
)
@json_option
def start(
    agent: str | None, human: bool, native: str | None, pid: int | None, as_json: bool
) -> None:
    """Open a session and print its id."""
    for option, given in (("--agent", agent), ("--pid", pid)):
        if human and given is not None:
            raise click.UsageError(f"--human and {option} exclude each other")
    reply = send(SESSION_START, SessionStartRequest(agent, human, native, pid))
    if as_json:
        output.show_json(reply.document)
    else:
        click.echo(printable(reply.answer.id))


@session_command.command("end")
@json_option
@click.argument("id", required=False)
def end(id: str | None, as_json: bool) -> None:
    """Close the session ID; by default the newest one that was opened by hand."""
    reply = send(SESSION_END, SessionEndRequest(id))
    if as_json:
        output.show_json(reply.document)
