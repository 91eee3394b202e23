"""`undo` of a turn of an agent program: its effects, by the inverses in the journal.

Invariant: as with files, nothing is done before a plan was shown, unless `--yes` or a token
says so.
"""

import asyncio
import functools
import os
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import click

from gitshadow.commands.asking import find_layout
from gitshadow.commands.effects import (
    Toolbox,
    asking,
    is_told_of_tools,
    journal,
    load_toolbox,
    session_option,
    tools_option,
)
from gitshadow.commands.options import ask_yes, is_interactive
from gitshadow.commands.undoing import Manner
from gitshadow.commands.viewing import screen
from gitshadow.errors import ExitCode, UsageError
from gitshadow.render import json, output
from gitshadow.render.effects import report_text

if TYPE_CHECKING:
    from gitshadow.turns.report import UndoReport

_TURN = re.compile(r"t-[0-9]+")


class Program(NamedTuple):
    """Hold what `undo` is told of an agent program."""

    session: str | None
    tools: str | None
    on_drift: str


def program_options(function: Callable[..., int]) -> Callable[..., int]:
    """Add the options that make up a `Program`; hand it over as `program`."""

    @functools.wraps(function)
    def gathered(
        *args: object,
        session: str | None,
        tools: str | None,
        on_drift: str,
        **others: object,
    ) -> int:
        return function(*args, program=Program(session, tools, on_drift), **others)

    on_drift = click.option(
        "--on-drift",
        type=click.Choice(["skip", "overwrite"]),
        default="skip",
        show_default=True,
        help="For a program's turn: what to do where the world was changed since.",
    )
    return on_drift(session_option(tools_option(gathered)))


def session_of(targets: Sequence[str], program: Program) -> str | None:
    """Return the session of an agent program whose one turn or call is meant; None for all else.

    Raises:
        UsageError: several sessions have a turn of that name.
    """
    if len(targets) != 1 or not find_layout().initialised:
        return None
    if not _TURN.fullmatch(targets[0]):
        return _session_of_call(targets[0], program)
    from gitshadow.store.journal import saga
    from gitshadow.turns import looking

    with journal() as db:
        known = any(one.id == targets[0] for one in saga.turns(db, program.session))
        return looking.session_named(db, program.session, targets[0]) if known else None


def _session_of_call(call: str, program: Program) -> str | None:
    """Return the session of a program's call; a file of that name, or a hook's call, is none."""
    from gitshadow.store.journal import saga

    if os.path.lexists(call) or not is_told_of_tools(program.tools):
        return None
    with journal() as db:
        found = {one.session for one in saga.calls_named(db, call, program.session)}
    if len(found) > 1:
        raise UsageError(
            f"could not tell which session is meant: {', '.join(sorted(found))}",
            hint="name it: --session ID",
        )
    return next(iter(found), None)


def undo(session: str, turn: str, program: Program, manner: Manner) -> int:
    """Plan, ask, take back, report; return the exit code.

    Raises:
        UsageError: the program's tools are not named, or cannot be imported.
    """
    toolbox = load_toolbox(program.tools, needed=True)
    if is_interactive() and not manner.yes:
        toolbox = asking(toolbox)
    undo = _Undo(session, turn, toolbox, program.on_drift)
    plan = undo.plan()
    if manner.dry_run:
        return _show(plan, manner)
    token = manner.token
    if token is None and not manner.yes and plan.status == "planned":
        if not is_interactive():
            return _refused(plan, manner)
        output.show(report_text(plan.to_json(), screen().view))
        if not ask_yes("apply this?", default=True):
            click.echo("nothing was changed")
            return int(ExitCode.REFUSED)
        token = plan.token
    return _show(undo.run(token), manner)


class _Undo(NamedTuple):
    session: str
    turn: str
    toolbox: Toolbox
    on_drift: str

    def plan(self) -> "UndoReport":
        return asyncio.run(self._plan())

    def run(self, token: str | None) -> "UndoReport":
        return asyncio.run(self._run(token))

    async def _plan(self) -> "UndoReport":
        async with self.toolbox.open(self.session) as au:
            return await au.plan(self.turn, on_drift=self.on_drift)

    async def _run(self, token: str | None) -> "UndoReport":
        async with self.toolbox.open(self.session) as au:
            return await au.undo(self.turn, on_drift=self.on_drift, token=token)


def _refused(plan: "UndoReport", manner: Manner) -> int:
    if manner.as_json:
        json.show({**plan.to_json(), "status": "refused", "hint": "--yes"})
    else:
        output.show(report_text(plan.to_json(), screen().view))
        click.echo("hint: nothing was changed; to apply this plan: --yes", err=True)
    return int(ExitCode.REFUSED)


def _show(report: "UndoReport", manner: Manner) -> int:
    if manner.as_json:
        json.show(report.to_json())
    else:
        output.show(report_text(report.to_json(), screen().view))
    return int(report.exit_code)
