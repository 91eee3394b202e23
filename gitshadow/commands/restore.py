"""`git agent-undo restore`: write an earlier state of the files."""

import click

from gitshadow.commands.moments import state_named
from gitshadow.commands.options import SeparatingCommand, separated, spelled_paths
from gitshadow.commands.undoing import (
    Manner,
    Request,
    carry_out,
    manner_options,
    target,
)
from gitshadow.errors import UsageError


@click.command("restore", cls=SeparatingCommand)
@click.option("--at", metavar="WHEN", help="A time, a pin, or an id that is printed.")
@click.option("--pin", metavar="NAME", help="A pinned state.")
@manner_options
@click.argument("paths", nargs=-1)
@click.pass_context
def command(
    ctx: click.Context,
    at: str | None,
    pin: str | None,
    paths: tuple[str, ...],
    manner: Manner,
) -> int:
    """Write an earlier state: of PATHS, or of everything at a time or a pin.

    The present is recorded first. A file that came later is removed only where an agent
    provably made it. PATHS alone go back to what they were before an agent's newest write.
    """
    wanted = spelled_paths(paths) + separated(ctx)
    if at is not None and pin is not None:
        raise UsageError("could not restore two states at once: --at and --pin")
    if not wanted and at is None and pin is None:
        raise UsageError(
            "could not tell what to restore",
            hint="name a path, --at WHEN or --pin NAME",
        )
    request = Request(
        verb="restore",
        targets=[target(path, path_only=True) for path in wanted],
        at=state_named(at),
        pin=pin,
    )
    return carry_out(request, manner)
