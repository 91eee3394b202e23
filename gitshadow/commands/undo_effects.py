"""`undo` of a turn of an agent program, whole: effects by their inverses, state, files.

Invariant: as with files, nothing is done before a plan was shown, except with `--yes` or a
token.
"""

import os
import re
import sys
from collections.abc import Callable, Collection, Coroutine, Sequence
from typing import TYPE_CHECKING

from gitshadow.commands.client import find_layout
from gitshadow.commands.effects import (
    asking,
    is_told_of_tools,
    journal,
    load_toolbox,
    run_to_end,
)
from gitshadow.commands.options import ask_yes, is_interactive
from gitshadow.commands.terminal import screen
from gitshadow.commands.undo_flow import ProgramOptions, UndoFlags
from gitshadow.errors import ExitCode, UsageError
from gitshadow.render import output
from gitshadow.render.effects import report_text

if TYPE_CHECKING:
    from gitshadow.sdk.turns.report import UndoReport
    from gitshadow.sdk.turns.undo_request import UndoOptions

_TURN = re.compile(r"t-[0-9]+")
# A turn names its calls so if the program gives them no id.
_CALL = re.compile(r"t-[0-9]+\.[0-9]+")


def session_of(targets: Sequence[str], program: ProgramOptions) -> str | None:
    """Return the session of an agent program whose one turn or call is meant; None for all else.

    Raises:
        UsageError: several sessions have a turn of that name.
    """
    if len(targets) != 1 or not find_layout().initialised:
        return None
    if not _TURN.fullmatch(targets[0]):
        return _session_of_call(targets[0], program)
    from gitshadow.sdk.turns import queries
    from gitshadow.store.journal.saga import SagaTables

    with journal() as db:
        known = any(
            one.id == targets[0] for one in SagaTables(db).turns(program.session)
        )
        return queries.session_named(db, program.session, targets[0]) if known else None


def _session_of_call(call: str, program: ProgramOptions) -> str | None:
    """Return the session of a program's call; a file of that name, or a hook's call, is none."""
    from gitshadow.store.journal.saga import SagaTables

    is_own = _CALL.fullmatch(call) is not None
    # A file of that name is what a person most likely means.
    if os.path.lexists(call) or not (is_own or is_told_of_tools(program.tools)):
        return None
    with journal() as db:
        found = {
            one.session for one in SagaTables(db).calls_named(call, program.session)
        }
    if len(found) > 1:
        raise UsageError(
            f"ambiguous session: {', '.join(sorted(found))}",
            hint="choose one: --session ID",
        )
    return next(iter(found), None)


def session_of_op(op: str | None) -> str | None:
    """Return the session of an agent program whose undo an id names; None for all else."""
    if op is None or not find_layout().initialised:
        return None
    from gitshadow.store.journal.saga import SagaTables

    with journal() as db:
        found = SagaTables(db).op(op)
    return None if found is None else found.session


def undo(
    session: str,
    turn: str,
    program: ProgramOptions,
    manner: UndoFlags,
    only: Collection[str] = (),
) -> int:
    """Plan, ask, undo, report; return the exit code.

    Raises:
        UsageError: the program's tools are named, and cannot be imported.
    """
    toolbox = load_toolbox(program.tools, needed=False)
    if is_interactive() and not manner.request.yes:
        # An inverse that the program does not list may do anything, so a person decides.
        toolbox = asking(toolbox)
    options: UndoOptions = {
        "on_drift": program.on_drift,
        "on_conflict": manner.request.on_conflict,
        "only": only or None,
        "scope": program.scope or None,
    }

    async def plan() -> "UndoReport":
        async with toolbox.open(session) as au:
            return await au.plan(turn, **options)

    async def run(token: str | None) -> "UndoReport":
        async with toolbox.open(session) as au:
            options["token"] = token
            return await au.undo(turn, **options)

    return carry_out(plan, run, manner)


def redo(session: str, op: str, manner: UndoFlags) -> int:
    """Plan, ask, redo, report; return the exit code."""
    toolbox = load_toolbox(None, needed=False)

    async def plan() -> "UndoReport":
        async with toolbox.open(session) as au:
            return await au.drive(au.runtime.undoing.redo(op).plan())

    async def run(token: str | None) -> "UndoReport":
        async with toolbox.open(session) as au:
            return await au.redo(op, token=token)

    return carry_out(plan, run, manner)


def resume(op: str, program: ProgramOptions, manner: UndoFlags) -> int:
    """Continue an incomplete undo; return the exit code.

    Raises:
        UsageError: there is no such undo of an agent program.
    """
    session = session_of_op(op)
    if session is None:
        raise UsageError(
            f"cannot find undo {op} of an agent program",
            hint="to list incomplete undos: git agent-undo program attention",
        )
    toolbox = load_toolbox(program.tools, needed=False)

    async def run() -> "UndoReport":
        async with toolbox.open(session) as au:
            return await au.resume(op)

    return _show(run_to_end(run()), manner)


def carry_out(
    plan: Callable[[], Coroutine[object, object, "UndoReport"]],
    run: Callable[[str | None], Coroutine[object, object, "UndoReport"]],
    manner: UndoFlags,
) -> int:
    """Plan, ask where a person has to be asked, do it, report; return the exit code."""
    planned = run_to_end(plan())
    if manner.request.dry_run:
        return _show(planned, manner)
    token = manner.request.token
    if token is None and not manner.request.yes and planned.status == "planned":
        if not is_interactive():
            return _refused(planned, manner)
        output.show(report_text(planned, screen().view))
        if not ask_yes("apply this?", default=True):
            print("nothing was changed", flush=True)
            return int(ExitCode.REFUSED)
        token = planned.token
    return _show(run_to_end(run(token)), manner)


def _refused(plan: "UndoReport", manner: UndoFlags) -> int:
    if manner.as_json:
        output.show_json({**plan.to_json(), "status": "refused", "hint": "--yes"})
    else:
        output.show(report_text(plan, screen().view))
        print("hint: nothing was changed; to apply this plan: --yes", file=sys.stderr)
    return int(ExitCode.REFUSED)


def _show(report: "UndoReport", manner: UndoFlags) -> int:
    if manner.as_json:
        output.show_json(report.to_json())
    else:
        output.show(report_text(report, screen().view))
        if any(item.reason == "handler_missing" for item in report.items):
            print(
                "hint: name tools that have the handlers: --tools MODULE:NAME",
                file=sys.stderr,
            )
    return int(report.exit_code)
