"""The options that several verbs share, and what is typed in the spelling of documents.

Invariant: nothing here asks the engine.
"""

import sys
from collections.abc import Callable, Sequence
from typing import TypeVar

import click

from gitshadow.commands.client import spelled

_F = TypeVar("_F", bound=Callable[..., object])

# The variable that names an agent program's tools if `--tools` does not.
TOOLS_VARIABLE = "GITSHADOW_TOOLS"

# Keys in the `meta` of click's context: the value of `--color`, and the words after `--`. So they
# reach the screen and the paths without being parameters of every verb.
COLOUR = "gitshadow.colour"
SEPARATED = "gitshadow.separated"


def json_option(function: _F) -> _F:
    """Add `--json`."""
    return click.option(
        "--json", "as_json", is_flag=True, help="Print JSON instead of text."
    )(function)


def date_option(function: _F) -> _F:
    """Add `--date`."""
    return click.option(
        "--date",
        type=click.Choice(["relative", "iso"]),
        default="relative",
        help="Show ages, or dates and times.",
    )(function)


def colour_option(function: _F) -> _F:
    """Add `--color`, as Git spells it; `viewing.screen` looks for it in the context."""
    return click.option(
        "--color",
        type=click.Choice(["auto", "always", "never"]),
        expose_value=False,
        callback=_note_colour,
        help="When to use colour; color.ui by default.",
    )(function)


def _note_colour(
    ctx: click.Context, _: click.Parameter, value: str | None
) -> str | None:
    ctx.meta[COLOUR] = value
    return value


def chosen_colour() -> str | None:
    """Return what `--color` says in the command at work, None where it is not given."""
    context = click.get_current_context(silent=True)
    value = None if context is None else context.meta.get(COLOUR)
    return value if isinstance(value, str) else None


def tools_option(function: _F) -> _F:
    """Add `--tools`."""
    return click.option(
        "--tools",
        metavar="MODULE:NAME|FILE.toml",
        help=f"A ToolRegistry or Program, or your MCP servers; {TOOLS_VARIABLE} by default.",
    )(function)


def yes_option(function: _F) -> _F:
    """Add `--yes`."""
    return click.option("-y", "--yes", is_flag=True, help="Do not ask.")(function)


def spelled_paths(arguments: Sequence[str]) -> list[str]:
    """Return typed paths as documents spell them, in their order."""
    return [spelled(argument) for argument in arguments]


class SeparatingCommand(click.Command):
    """Keep the words after `--` apart: each of them is a path."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Remove the words after `--` before click reads the rest."""
        # click drops the `--` itself, and then a path would look like a revision.
        if "--" in args:
            at = args.index("--")
            ctx.meta[SEPARATED] = tuple(args[at + 1 :])
            args = args[:at]
        return super().parse_args(ctx, args)


def separated(ctx: click.Context) -> list[str]:
    """Return the paths that stood behind `--`, as documents spell them."""
    words = ctx.meta.get(SEPARATED, ())
    return spelled_paths([str(word) for word in words])


def is_interactive() -> bool:
    """Return whether a person can be asked: standard input and output are a terminal."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def ask_yes(
    question: str, *, default: bool, details: Callable[[], None] | None = None
) -> bool:
    """Ask on the terminal; Enter means the default, the end of the input means no.

    Args:
        question: What to ask.
        default: What Enter means.
        details: Prints more about the question, when the answer is `d`.
    """
    choice = "Y/n" if default else "y/N"
    choice = f"[{choice}/d]" if details is not None else f"[{choice}]"
    while True:
        sys.stdout.write(f"{question} {choice} ")
        sys.stdout.flush()
        line = sys.stdin.readline()
        # The end of the input is no yes: a pipe that ends must not approve anything.
        if not line:
            sys.stdout.write("\n")
            return False
        answer = line.strip().lower()
        if not answer:
            return default
        if answer == "d" and details is not None:
            details()
            continue
        if answer in ("y", "yes", "n", "no"):
            return answer.startswith("y")
