"""oops, undo, redo, restore."""

import os
from collections.abc import Sequence

from click import argument, option

from gitshadow.commands.client import send, spelled
from gitshadow.commands.options import (
    except_option,
    separated,
    spelled_paths,
    tools_option,
    utf8,
    verb,
)
from gitshadow.commands.terminal import screen
from gitshadow.commands.times import state_named
from gitshadow.commands.undo_flow import (
    HandOverError,
    ProgramOptions,
    UndoFlags,
    carry_out,
    manner_options,
    program_options,
    unit_options,
)
from gitshadow.errors import ExitCode, UsageError
from gitshadow.ipc import own_process
from gitshadow.messages.undo import FileUndoRequest, UndoTarget
from gitshadow.render import output


@verb("oops")
@option("--own", is_flag=True, help="For an agent: only the work of its own session.")
@tools_option
@manner_options
@unit_options
def oops_command(own: bool, tools: str | None, manner: UndoFlags) -> int:
    """Undo the latest changes of an agent; run it again to undo those before.

    Later edits by people or other agents are kept. `redo` reverses the undo. A turn of an
    agent program is undone as a whole, including its effects if `--tools` defines how.
    """
    if own:
        from gitshadow.attribution.process import ancestors

        above = tuple((one.pid, one.started) for one in ancestors(own_process.pid()))
        manner = manner._replace(request=manner.request._replace(ancestors=above))
    return _newest(tools, manner)


def _newest(tools: str | None, manner: UndoFlags) -> int:
    """Undo the latest changes of an agent, or the whole turn of an agent program."""
    request = manner.request._replace(verb="oops", hand_over=not manner.interactive)
    try:
        return carry_out(request, manner)
    except HandOverError as found:
        from gitshadow.commands import undo_effects

        whose = found.whose
        program = ProgramOptions(whose.session, tools, "skip")
        return undo_effects.undo(whose.session, whose.turn or "", program, manner)


@verb("undo", separates=True)
@option("--only", multiple=True, metavar="PATH", help="Undo only this path.")
@except_option
@program_options
@manner_options
@unit_options
@argument("targets", nargs=-1, metavar="[TARGET...]")
def undo_command(
    only: tuple[str, ...],
    leave: tuple[str, ...],
    targets: tuple[str, ...],
    manner: UndoFlags,
    program: ProgramOptions,
) -> int:
    """Undo a tool call, turn, session, burst, event, op or file; without TARGET, as `oops`.

    TARGET is any id that another command prints, or a unique prefix; `last`, `last~1`,
    `last:FILE` or `@claude-code` for a newest turn; or a path; after `--` it is always a path.
    Later edits by others are kept. The turn of an agent program (`t-3`) is undone as a whole:
    its effects by their inverses, which run here (`--tools` defines them), its state and its
    files; for it, `--only` names calls.
    """
    from gitshadow.commands import undo_effects

    if program.resume is not None:
        return undo_effects.resume(program.resume, program, manner)
    paths = separated()
    if not targets and not paths:
        if only or leave:
            raise UsageError(
                "undo what? no target given",
                hint="git agent-undo undo last --only PATH",
            )
        return _newest(program.tools, manner)
    # What is after `--` is a path, so it cannot be the turn of a program.
    session = None if paths else undo_effects.session_of(targets, program)
    if session is not None:
        if leave or manner.interactive:
            raise UsageError(
                "cannot choose paths: the effects of a turn are not files",
                hint="use --scope files for its files only, --only CALL for some calls",
            )
        return undo_effects.undo(session, targets[0], program, manner, only)
    wanted = [UndoTarget(spelled(words)) for words in targets]
    wanted += [UndoTarget(path, path_only=True) for path in paths]
    request = manner.request._replace(
        targets=tuple(wanted),
        only=tuple(spelled_paths(only)),
        except_=tuple(spelled_paths(leave)),
    )
    return carry_out(request, manner)


@verb("redo")
@manner_options
@argument("op", required=False, callback=utf8)
def redo_command(op: str | None, manner: UndoFlags) -> int:
    """Reverse the last undo, or the one that OP names.

    For a turn of an agent program, files, state and artifacts are redone; effects are listed.
    """
    targets = () if op is None else (UndoTarget(op),)
    request = manner.request._replace(
        verb="redo", targets=targets, hand_over=not manner.interactive
    )
    try:
        return carry_out(request, manner)
    except HandOverError as found:
        from gitshadow.commands import undo_effects

        whose = found.whose
        return undo_effects.redo(whose.session, whose.op or "", manner)


@verb("restore", separates=True)
@option("--at", metavar="WHEN", help="A time, a pin, or any printed id.")
@option("--pin", metavar="NAME", help="A pinned state.")
@option(
    "--from-mirror",
    "mirror",
    is_flag=False,
    flag_value="",
    metavar="[PATH]",
    help="The newest state in the mirror; restores the history first.",
)
@manner_options
@argument("paths", nargs=-1)
def restore_command(
    at: str | None,
    pin: str | None,
    mirror: str | None,
    paths: tuple[str, ...],
    manner: UndoFlags,
) -> int:
    """Restore an earlier state: of PATHS, or of everything at a time or a pin.

    The current state is recorded first. A newer file is deleted only if an agent provably
    created it. PATHS alone are restored to their state before an agent's latest change.
    """
    wanted = spelled_paths(paths) + separated()
    if sum(one is not None for one in (at, pin, mirror)) > 1:
        raise UsageError(
            "cannot restore several states at once",
            hint="use only one of: --at WHEN, --pin NAME, --from-mirror DIRECTORY",
        )
    if mirror is not None:
        return _from_mirror(mirror, wanted, manner)
    if not wanted and at is None and pin is None:
        raise UsageError(
            "restore what? nothing given",
            hint="name a path, --at WHEN or --pin NAME",
        )
    request = _restore_of(wanted, manner)._replace(at=state_named(at), pin=pin)
    return carry_out(request, manner)


def _restore_of(paths: Sequence[str], manner: UndoFlags) -> FileUndoRequest:
    targets = tuple(UndoTarget(path, path_only=True) for path in paths)
    return manner.request._replace(verb="restore", targets=targets)


def _from_mirror(mirror: str, paths: Sequence[str], manner: UndoFlags) -> int:
    """Fetch the history from the mirror, then restore its newest moment."""
    # Most undos need none of these.
    from gitshadow.commands.daemon import standstill
    from gitshadow.messages.codec import Nothing
    from gitshadow.messages.sharing import BRING_BACK, CAME_BACK, BringBackRequest
    from gitshadow.render.sharing import returned_lines

    named = BringBackRequest(os.path.abspath(mirror) if mirror else None)
    # The daemon must not write into the journal while it is replaced.
    with standstill():
        answer = send(BRING_BACK, named).answer
    if not manner.as_json:
        output.show(returned_lines(answer, screen().view))
    request = _restore_of(paths, manner)._replace(at=answer.at or 0)
    code = carry_out(request, manner)
    if code == ExitCode.DONE and not request.dry_run:
        send(CAME_BACK, Nothing())
    return code
