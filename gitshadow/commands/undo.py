"""`git agent-undo undo`: take named units back."""

import click

from gitshadow.commands import undo_effects
from gitshadow.commands.asking import spelled
from gitshadow.commands.options import SeparatingCommand, separated, spelled_paths
from gitshadow.commands.undo_effects import Program
from gitshadow.commands.undoing import (
    Manner,
    Request,
    carry_out,
    manner_options,
    target,
)
from gitshadow.errors import UsageError


@click.command("undo", cls=SeparatingCommand)
@click.option("--only", multiple=True, metavar="PATH", help="Take back only this path.")
@click.option(
    "--except", "leave", multiple=True, metavar="PATH", help="Leave this path as it is."
)
@click.option("--include-low", is_flag=True, help="Take what is only maybe theirs too.")
@undo_effects.program_options
@manner_options
@click.argument("targets", nargs=-1, metavar="TARGET...")
def command(
    only: tuple[str, ...],
    leave: tuple[str, ...],
    include_low: bool,
    targets: tuple[str, ...],
    manner: Manner,
    program: Program,
) -> int:
    """Take a call, turn, session, burst, event, op or file back.

    TARGET is any id that another verb prints, or its beginning, or a path; behind `--` it
    is always a path. What others wrote since stays. The turn of an agent program (`t-3`)
    is undone whole: its effects by their inverses, which run here (`--tools` says where they
    are), its state and its files; there `--only` names calls.
    """
    if program.resume is not None:
        return undo_effects.resume(program.resume, program, manner)
    paths = separated(click.get_current_context())
    session = None if paths else undo_effects.session_of(targets, program)
    if session is not None:
        if leave or manner.interactive:
            raise UsageError(
                "could not choose: the effects of a turn are no paths",
                hint="--scope files takes back its files alone, --only CALL some calls",
            )
        return undo_effects.undo(session, targets[0], program, manner, only)
    wanted = [target(spelled(words)) for words in targets]
    wanted += [target(path, path_only=True) for path in paths]
    if not wanted:
        raise UsageError(
            "could not tell what to undo: no target given",
            hint="for the newest agent burst: git agent-undo oops",
        )
    request = Request(
        verb="undo",
        targets=wanted,
        only=spelled_paths(only),
        leave=spelled_paths(leave),
        include_low=include_low,
    )
    return carry_out(request, manner)
