"""`git agent-undo restore`: write an earlier state of the files."""

import os
from collections.abc import Sequence

from click import argument, option

from gitshadow.commands.client import send
from gitshadow.commands.daemon import standstill
from gitshadow.commands.options import separated, spelled_paths, verb
from gitshadow.commands.terminal import screen
from gitshadow.commands.times import state_named
from gitshadow.commands.undo_flow import UndoFlags, carry_out, manner_options
from gitshadow.errors import ExitCode, UsageError
from gitshadow.messages.codec import Nothing
from gitshadow.messages.sharing import (
    BRING_BACK,
    CAME_BACK,
    BringBackRequest,
)
from gitshadow.messages.undo import FileUndoRequest, UndoTarget
from gitshadow.render import output
from gitshadow.render.sharing import returned_lines


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
def command(
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
