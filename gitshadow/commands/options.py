"""Verbs as commands of click, the options that several share, and spellings of documents.

Invariant: nothing here asks the engine.
"""

import functools
import inspect
import os
import stat
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any, BinaryIO, TypeAlias, TypeVar

import click
from click import Choice, option

from gitshadow.commands.client import spelled
from gitshadow.store.safe_files import replacing

Function: TypeAlias = Callable[..., Any]

SEPARATED: ContextVar[tuple[str, ...]] = ContextVar("separated", default=())
"""The words after `--` of a verb that keeps them apart."""
_F = TypeVar("_F", bound=Callable[..., object])

# The variable that names an agent program's tools if `--tools` does not.
TOOLS_VARIABLE = "GITSHADOW_TOOLS"

# So the value of `--color` reaches the screen without being a parameter of every verb.
_COLOUR: ContextVar[str | None] = ContextVar("colour", default=None)


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


def utf8(_context: object, _option: object, value: str | None) -> str | None:
    """Return a text as the journal can hold it; other bytes become question marks."""
    return None if value is None else value.encode("utf-8", "replace").decode()


json_option = option(
    "--json", "as_json", is_flag=True, help="Print JSON instead of text."
)
date_option = option(
    "--date",
    type=Choice(("relative", "iso")),
    default="relative",
    show_default=True,
    help="Show ages, or dates and times.",
)
# As Git spells it; `terminal.screen` asks `chosen_colour` for it.
colour_option = option(
    "--color",
    type=Choice(("auto", "always", "never")),
    expose_value=False,
    callback=lambda _context, _option, value: _COLOUR.set(value),
    help="When to use colour; color.ui by default.",
)
tools_option = option(
    "--tools",
    metavar="MODULE:NAME|FILE.toml",
    help=f"A ToolRegistry or Program, or your MCP servers; {TOOLS_VARIABLE} by default.",
)
session_option = option(
    "--session",
    metavar="ID",
    callback=utf8,
    help="The agent program's session, if there are several.",
)
yes_option = option("-y", "--yes", is_flag=True, help="Do not ask.")
dry_run_option = option(
    "--dry-run", is_flag=True, help="Print the plan, change nothing."
)
PLAN_OPTIONS = (yes_option, colour_option, json_option, dry_run_option)
"""What every verb has that shows a plan first."""
token_option = option(
    "--token", help="Apply exactly the plan with this token, or nothing."
)
include_low_option = option(
    "--include-low", is_flag=True, help="Also include uncertain changes."
)
except_option = option(
    "--except", "leave", multiple=True, metavar="PATH", help="Skip this path."
)
scope_option = option(
    "--scope",
    type=Choice(("files", "effects", "state", "artifacts", "events")),
    multiple=True,
    help="For a program's turn: only this part of it; may be repeated.",
)


def gathers(
    name: str, kind: Callable[..., object], *options: Callable[[_F], _F]
) -> Callable[[Function], Function]:
    """Make a decorator that adds options and hands them over as one argument.

    Args:
        name: The argument.
        kind: Makes it; its parameters are the names of the options that it takes.
        options: What to add, in the order of the help text.
    """
    taken = inspect.signature(kind).parameters

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def gathered(*args: object, **given: object) -> object:
            own = {key: given.pop(key) for key in taken if key in given}
            return function(*args, **given, **{name: kind(**own)})

        for added in reversed(options):
            gathered = added(gathered)
        return gathered

    return decorate


def chosen_colour() -> str | None:
    """Return what `--color` says in the command at work, None where it is not given."""
    return _COLOUR.get()


def spelled_paths(arguments: Sequence[str]) -> list[str]:
    """Return typed paths as documents spell them, in their order."""
    return [spelled(argument) for argument in arguments]


def separated() -> list[str]:
    """Return the paths after `--`, as documents spell them."""
    return spelled_paths(SEPARATED.get())


def named_file(path: str) -> AbstractContextManager[BinaryIO]:
    """Return the file that an option names, to be written.

    A file is replaced as a whole. A device or a pipe is written to: replaced, `/dev/null` would be
    a file from then on.
    """
    try:
        is_file = stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        is_file = True
    # The shell may have opened a file there.
    if is_file and not path.startswith(("/dev/std", "/dev/fd/")):
        return replacing(path, 0o666)
    return open(path, "wb")


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
