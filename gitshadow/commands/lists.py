"""sessions, turns, ops, show, pins: what was recorded, and its named states."""

from gitshadow.commands.client import send
from gitshadow.commands.options import colour_option, json_option, spelled_paths
from gitshadow.commands.parameters import argument, option, verb
from gitshadow.commands.terminal import print_answer, print_list
from gitshadow.messages.lists import (
    OPS,
    PIN,
    PINS,
    SESSIONS,
    TURNS,
    UNPIN,
    OpsRequest,
    PinRequest,
    PinsRequest,
    SessionsRequest,
    TurnsRequest,
    UnpinRequest,
)
from gitshadow.messages.states import SHOW, ShowRequest
from gitshadow.render.text import (
    op_lines,
    pin_lines,
    pinned_lines,
    session_lines,
    show_lines,
    turn_lines,
    unpinned_lines,
)


@verb("sessions")
@option("--all", "everything", is_flag=True, help="From all worktrees.")
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


@verb("turns")
@colour_option
@json_option
@argument("session", required=False)
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


@verb("ops")
@option("-n", "limit", least=0, help="Show at most this many.")
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


@verb("show")
@option("-s", "--no-patch", is_flag=True, help="Without the diff.")
@colour_option
@json_option
@argument("id")
@argument("paths", many=True)
def show_command(
    id: str, paths: tuple[str, ...], no_patch: bool, as_json: bool
) -> None:
    """Show an event, call, turn, burst, session, op or recorded commit, with its diff.

    ID is any id that another command or git log of a session's ref prints, or a unique
    prefix. For an id with several events, PATHS limit them and the diff.
    """
    request = ShowRequest(id, tuple(spelled_paths(paths)), patch=not no_patch)
    print_answer(send(SHOW, request), show_lines, as_json=as_json, paged=True)


@verb("pin")
@json_option
@argument("name")
def pin_command(name: str, as_json: bool) -> None:
    """Save the current state under NAME; `restore --pin NAME` restores it."""
    print_answer(send(PIN, PinRequest(name)), pinned_lines, as_json=as_json)


_EMPTY = "no pins; to save the current state: git agent-undo pin NAME"


@verb("pins")
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


@verb("unpin")
@json_option
@argument("name")
def unpin_command(name: str, as_json: bool) -> None:
    """Delete a pin; files are not changed."""
    print_answer(send(UNPIN, UnpinRequest(name)), unpinned_lines, as_json=as_json)
