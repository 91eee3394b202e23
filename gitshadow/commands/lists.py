"""sessions, turns, ops, show, pin: what was recorded, and its named states."""

from click import IntRange, argument, option

from gitshadow.commands.client import Reply, send
from gitshadow.commands.options import colour_option, json_option, spelled_paths, verb
from gitshadow.commands.terminal import print_answer, print_list
from gitshadow.errors import UnsupportedError, UsageError
from gitshadow.messages.codec import Nothing, encode
from gitshadow.messages.lists import (
    OPS,
    PIN,
    PINS,
    SESSIONS,
    TURNS,
    UNPIN,
    OpsRequest,
    PinRequest,
    TurnsRequest,
    UnpinRequest,
)
from gitshadow.messages.states import SHOW, ShowAnswer, ShowRequest
from gitshadow.render.text import (
    ShowParts,
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
    reply = send(SESSIONS, Nothing())
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
    reply = send(TURNS, TurnsRequest(session, lines=not as_json))
    print_list(
        reply,
        lambda answer: answer.rows,
        turn_lines,
        as_json=as_json,
        empty=_NO_TURNS,
    )


_NO_OPS = "nothing has been undone here yet"


@verb("ops")
@option("-n", "limit", type=IntRange(min=0), help="Show at most this many.")
@json_option
def ops_command(limit: int | None, as_json: bool) -> None:
    """List undos, redos and restores, newest first."""
    reply = send(OPS, OpsRequest(limit, lines=not as_json))
    print_list(
        reply,
        lambda answer: answer.rows,
        op_lines,
        as_json=as_json,
        empty=_NO_OPS,
    )


@verb("show")
@option("-p", "--patch", is_flag=True, help="Show the diff, also with --stat.")
@option("-s", "--no-patch", is_flag=True, help="Without the diff.")
@option("--stat", is_flag=True, help="List the files, with counts of lines.")
@option("--name-only", is_flag=True, help="List only the names of the files.")
@option(
    "--transcript", is_flag=True, help="Show the turn's conversation, not the diff."
)
@colour_option
@json_option
@argument("id", required=False)
@argument("paths", nargs=-1)
def show_command(
    id: str | None,
    paths: tuple[str, ...],
    as_json: bool,
    **shown: bool,
) -> None:
    """Show a turn as git show shows a commit: who, when, the prompt, and the diff.

    ID is any id that another command or git log of a session's ref prints, or a unique
    prefix; the newest turn of an agent by default. A group of changes looks like a turn; an
    event, call, session, undo or recorded commit has all its fields. PATHS limit the files. The
    conversation is read from the agent's own file (Claude Code, Codex); it is not stored.
    """
    brief = any(shown[one] for one in ("no_patch", "stat", "name_only", "transcript"))
    request = ShowRequest(
        "last" if id is None else id,
        tuple(spelled_paths(paths)),
        patch=shown["patch"] or not brief,
        # The head of a turn has the sums.
        stat=not as_json or shown["stat"] or shown["name_only"],
    )
    parts = ShowParts(stat=shown["stat"], names=shown["name_only"])
    reply = send(SHOW, request)
    if shown["transcript"]:
        reply = _with_conversation(reply)
    print_answer(
        reply,
        lambda answer, view: show_lines(answer, view, parts),
        as_json=as_json,
        paged=True,
    )


def _with_conversation(reply: Reply[ShowAnswer]) -> Reply[ShowAnswer]:
    """Return an answer about a turn with its conversation, which this process reads.

    Raises:
        UsageError: it is not about a turn.
        UnsupportedError: no hook reported where the conversation is, or its format is not known.
    """
    answer = reply.answer
    if answer.type != "turn":
        raise UsageError(
            f"cannot show the conversation of a {answer.type}: only that of a turn",
            hint="git agent-undo turns",
        )
    if answer.transcript is None:
        raise UnsupportedError(
            "cannot show the conversation: the hooks of this turn did not report its file",
            hint="Claude Code and Codex report it: git agent-undo hooks install",
        )
    from gitshadow.reporting import transcript

    said = [encode(one) for one in transcript.read(answer.transcript)]
    return Reply(ShowAnswer, {**reply.document, "said": said})


_EMPTY = "no pins; to save the current state: git agent-undo pin NAME"


@verb("pin")
@option("-l", "--list", "listed", is_flag=True, help="List the pins; so does no NAME.")
@option("-d", "--delete", is_flag=True, help="Delete the pin; files are not changed.")
@colour_option
@json_option
@argument("name", required=False)
def pin_command(name: str | None, listed: bool, delete: bool, as_json: bool) -> None:
    """Save the current state under NAME; `restore --pin NAME` restores it."""
    if (listed and (delete or name is not None)) or (delete and name is None):
        raise UsageError(
            "cannot use --list with a name or --delete"
            if listed
            else "missing argument: NAME",
            hint="git agent-undo pin NAME, pin --list, or pin --delete NAME",
        )
    if name is None:
        print_list(
            send(PINS, Nothing()),
            lambda answer: answer.rows,
            pin_lines,
            as_json=as_json,
            empty=_EMPTY,
        )
    elif delete:
        print_answer(send(UNPIN, UnpinRequest(name)), unpinned_lines, as_json=as_json)
    else:
        print_answer(send(PIN, PinRequest(name)), pinned_lines, as_json=as_json)
