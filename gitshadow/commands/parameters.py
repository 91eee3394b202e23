"""Verbs as commands of click, and the words after `--`."""

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, TypeAlias

import click

Function: TypeAlias = Callable[..., Any]

SEPARATED: ContextVar[tuple[str, ...]] = ContextVar("separated", default=())
"""The words after `--` of a verb that keeps them apart."""


def verb(name: str, *, separates: bool = False) -> Callable[[Function], click.Command]:
    """Make a function a verb; it returns the exit code, None for 0.

    Args:
        name: The verb.
        separates: Keep the words after `--` apart: each of them is a path.
    """
    kind = SeparatingCommand if separates else click.Command
    # As in the group: click keeps the option that the first context asked for.
    settings = {"help_option_names": ["-h", "--help"]}
    return click.command(name, cls=kind, context_settings=settings)


class SeparatingCommand(click.Command):
    """Remove the words after `--` before click reads the rest."""

    # click drops the `--` itself, and then a path would look like a revision.
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep the words after `--` apart."""
        at = args.index("--") if "--" in args else len(args)
        SEPARATED.set(tuple(args[at + 1 :]))
        return super().parse_args(ctx, args[:at])
