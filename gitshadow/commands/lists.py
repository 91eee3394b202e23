"""log, sessions, turns, ops, show, pins: what was recorded, and its named states."""

import time

import click

from gitshadow.commands.client import send
from gitshadow.commands.options import colour_option, json_option, spelled_paths
from gitshadow.commands.terminal import print_answer, print_list
from gitshadow.commands.times import parse_moment
from gitshadow.messages.codec import parse
from gitshadow.messages.lists import (
    LOG,
    OPS,
    PIN,
    PINS,
    SESSIONS,
    TURNS,
    UNPIN,
    LogRequest,
    OpsRequest,
    PinRequest,
    PinsRequest,
    SessionsRequest,
    TurnsRequest,
    UnpinRequest,
)
from gitshadow.messages.states import SHOW, ShowRequest
from gitshadow.model import EventKind
from gitshadow.render.text import (
    log_lines,
    op_lines,
    pin_lines,
    pinned_lines,
    session_lines,
    show_lines,
    turn_lines,
    unpinned_lines,
)
from gitshadow.words import did_you_mean

_MORE = 8
_NO_CHANGES = "no matching changes; to list all: git agent-undo log"


@click.command("log")
@click.option("-n", "limit", type=click.IntRange(min=0), help="Show at most this many.")
@click.option("--session", help="Only this session (an id or a unique prefix).")
@click.option("--agent", help="Only this agent.")
@click.option(
    "--since", metavar="WHEN", help="Since this time: 5m, '2 days ago', RFC 3339."
)
@click.option("--until", metavar="WHEN", help="Until this time.")
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    type=click.Choice([kind.value for kind in EventKind]),
    help="Only this kind; may be repeated.",
)
@click.option("--grep", "text", metavar="TEXT", help="Path or prompt contains TEXT.")
@click.option("--below", type=int, metavar="SEQ", help="Before event SEQ.")
@click.option(
    "--above", type=int, metavar="SEQ", help="After event SEQ; with -n the next ones."
)
@click.option("--all", is_flag=True, help="From all worktrees.")
@click.option("--prompts", is_flag=True, help="Show the start of the prompt.")
@colour_option
@json_option
@click.argument("paths", nargs=-1)
def log_command(
    since: str | None,
    kinds: tuple[str, ...],
    paths: tuple[str, ...],
    until: str | None,
    as_json: bool,
    **filters: object,
) -> None:
    """List recorded changes, newest first; with PATHS, only those below them.

    What Git switched when HEAD moved is one line; `show` lists its files.
    """
    now_ns = time.time_ns()
    request = parse(LogRequest, filters)._replace(
        since=None if since is None else parse_moment(since, now_ns),
        until=None if until is None else parse_moment(until, now_ns),
        kinds=kinds,
        paths=tuple(spelled_paths(paths)),
    )
    reply = send(LOG, request)
    print_list(
        reply,
        lambda answer: answer.rows,
        log_lines,
        as_json=as_json,
        empty=_no_changes(request.agent),
    )


def _no_changes(agent: str | None) -> str:
    """Return what is said of an empty list; an agent may be known by a longer name."""
    from gitshadow.adapters.registry import KNOWN_AGENTS

    if agent is None or agent in KNOWN_AGENTS:
        return _NO_CHANGES
    longer = [name for name in KNOWN_AGENTS if name.startswith(agent)]
    near = f"did you mean {' or '.join(longer)}?" if longer else None
    near = near or did_you_mean(agent, KNOWN_AGENTS)
    return f"no matching changes; {near}" if near else _NO_CHANGES


@click.command("sessions")
@click.option("--all", "everything", is_flag=True, help="From all worktrees.")
@colour_option
@json_option
def sessions_command(everything: bool, as_json: bool) -> None:
    """List sessions: runs of agents, and periods of other work."""
    reply = send(SESSIONS, SessionsRequest())
    print_list(
        reply,
        lambda answer: answer.rows,
        session_lines,
        as_json=as_json,
        empty="no sessions were recorded",
    )


_NO_TURNS = "no turns yet: agents report them through hooks (git agent-undo status)"


@click.command("turns")
@colour_option
@json_option
@click.argument("session", required=False)
def turns_command(session: str | None, as_json: bool) -> None:
    """List turns and their prompts; with SESSION, only its turns."""
    reply = send(TURNS, TurnsRequest(session))
    print_list(
        reply,
        lambda answer: answer.rows,
        turn_lines,
        as_json=as_json,
        empty=_NO_TURNS,
    )


_NO_OPS = "nothing has been undone here yet"


@click.command("ops")
@click.option("-n", "limit", type=click.IntRange(min=0), help="Show at most this many.")
@json_option
def ops_command(limit: int | None, as_json: bool) -> None:
    """List undos, redos and restores, newest first."""
    reply = send(OPS, OpsRequest(limit))
    print_list(
        reply,
        lambda answer: answer.rows,
        op_lines,
        as_json=as_json,
        empty=_NO_OPS,
    )


@click.command("show")
@click.option("-s", "--no-patch", is_flag=True, help="Without the diff.")
@colour_option
@json_option
@click.argument("id")
@click.argument("paths", nargs=-1)
def show_command(
    id: str, paths: tuple[str, ...], no_patch: bool, as_json: bool
) -> None:
    """Show an event, call, turn, burst, session, op or recorded commit, with its diff.

    ID is any id that another command or git log of a session's ref prints, or a unique
    prefix. For an id with several events, PATHS limit them and the diff.
    """
    request = ShowRequest(id, tuple(spelled_paths(paths)), patch=not no_patch)
    print_answer(send(SHOW, request), show_lines, as_json=as_json, paged=True)


@click.command("pin")
@json_option
@click.argument("name")
def pin_command(name: str, as_json: bool) -> None:
    """Save the current state under NAME; `restore --pin NAME` restores it."""
    print_answer(send(PIN, PinRequest(name)), pinned_lines, as_json=as_json)


_EMPTY = "no pins; to save the current state: git agent-undo pin NAME"


@click.command("pins")
@colour_option
@json_option
def pins_command(as_json: bool) -> None:
    """List the pins."""
    print_list(
        send(PINS, PinsRequest()),
        lambda answer: answer.rows,
        pin_lines,
        as_json=as_json,
        empty=_EMPTY,
    )


@click.command("unpin")
@json_option
@click.argument("name")
def unpin_command(name: str, as_json: bool) -> None:
    """Delete a pin; files are not changed."""
    print_answer(send(UNPIN, UnpinRequest(name)), unpinned_lines, as_json=as_json)
