"""`git agent-undo undo`: take named units back."""

import click

from gitshadow.commands import undo_effects
from gitshadow.commands.client import spelled
from gitshadow.commands.options import SeparatingCommand, separated, spelled_paths
from gitshadow.commands.undo_effects import ProgramOptions
from gitshadow.commands.undo_flow import (
    UndoCommand,
    UndoFlags,
    carry_out,
    manner_options,
    target,
)
from gitshadow.errors import UsageError


@click.command("undo", cls=SeparatingCommand)
@click.option("--only", multiple=True, metavar="PATH", help="Undo only this path.")
@click.option(
    "--except", "leave", multiple=True, metavar="PATH", help="Skip this path."
)
@click.option("--include-low", is_flag=True, help="Also include uncertain changes.")
@undo_effects.program_options
@manner_options
@click.argument("targets", nargs=-1, metavar="TARGET...")
def command(
    only: tuple[str, ...],
    leave: tuple[str, ...],
    include_low: bool,
    targets: tuple[str, ...],
    manner: UndoFlags,
    program: ProgramOptions,
) -> int:
    """Undo a tool call, turn, session, burst, event, op or file.

    TARGET is any id that another command prints, or a unique prefix, or a path; after `--` it
    is always a path. Later edits by others are kept. The turn of an agent program (`t-3`) is
    undone as a whole: its effects by their inverses, which run here (`--tools` defines them),
    its state and its files; for it, `--only` names calls.
    """
    if program.resume is not None:
        return undo_effects.resume(program.resume, program, manner)
    paths = separated(click.get_current_context())
    session = None if paths else undo_effects.session_of(targets, program)
    if session is not None:
        if leave or manner.interactive:
            raise UsageError(
                "cannot choose paths: the effects of a turn are not files",
                hint="use --scope files for its files only, --only CALL for some calls",
            )
        return undo_effects.undo(session, targets[0], program, manner, only)
    wanted = [target(spelled(words)) for words in targets]
    wanted += [target(path, path_only=True) for path in paths]
    if not wanted:
        raise UsageError(
            "undo what? no target given",
            hint="for the latest changes of an agent: git agent-undo oops",
        )
    request = UndoCommand(
        verb="undo",
        targets=wanted,
        only=spelled_paths(only),
        leave=spelled_paths(leave),
        include_low=include_low,
    )
    return carry_out(request, manner)
