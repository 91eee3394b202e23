"""What `hooks install` and `hooks uninstall` have in common: show, ask, write, report.

Invariant: nothing is written before it was shown, and nobody's no is a yes.
"""

import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import click

from gitshadow.commands import error_handler
from gitshadow.commands.hooks_plan import InstallWork
from gitshadow.commands.options import ask_yes, is_interactive, json_option, yes_option
from gitshadow.commands.terminal import Screen, screen
from gitshadow.errors import ExitCode, ShadowError, UnsupportedError
from gitshadow.render import hooks as shown
from gitshadow.render import json, output
from gitshadow.render.document import Document, text
from gitshadow.render.style import View

_F = TypeVar("_F", bound=Callable[..., object])


class InstallOptions(NamedTuple):
    """Hold how to go about it."""

    yes: bool
    dry_run: bool
    as_json: bool


def writing_options(function: _F) -> _F:
    """Add what both verbs take: agents, a scope, `--dry-run`, `--yes`, `--json`."""
    for option in (
        json_option,
        yes_option,
        click.option(
            "--dry-run", is_flag=True, help="Show the changes, write nothing."
        ),
        click.option(
            "--project", "scope", flag_value="project", help="Files of this repository."
        ),
        click.option(
            "--user", "scope", flag_value="user", help="Your own settings files."
        ),
        click.argument("agents", nargs=-1, metavar="[AGENT]..."),
    ):
        function = option(function)
    return function


def find_screen() -> Screen:
    """Look at the terminal, also outside of a worktree."""
    try:
        return screen()
    except UnsupportedError:
        return Screen(View(terminal=sys.stdout.isatty()))


class InstallResult(NamedTuple):
    """Hold how it went: the report, and what could not be done."""

    document: Document
    errors: Sequence[ShadowError]

    @property
    def exit_code(self) -> int:
        """Return 5 where nobody agreed, 4 where some files failed and some did not."""
        return int(_exit_code(text(self.document, "status"), self.errors))


def carry_out(
    works: Sequence[InstallWork], notes: Sequence[str], manner: InstallOptions
) -> int:
    """Show the plans, ask where a person has to be asked, do them, report.

    Returns:
        The exit code, as `InstallResult` has it.
    """
    done = attempt(works, notes, manner)
    if manner.as_json:
        json.show(done.document)
    report(done, as_text=not manner.as_json)
    return done.exit_code


def report(done: InstallResult, *, as_text: bool) -> None:
    """Print what happened, and each error."""
    if as_text:
        output.show(shown.done_lines(done.document, find_screen().view))
    for error in done.errors:
        error_handler.complain(error)


def attempt(
    works: Sequence[InstallWork], notes: Sequence[str], manner: InstallOptions
) -> InstallResult:
    """Show the plans, ask where a person has to be asked, and do them.

    A long difference is shown by `--dry-run` and by the answer `d` alone.
    """
    view = find_screen().view
    items = [item for work in works for item in work.items()]
    changes = [item for item in items if text(item, "action") not in ("none", "fail")]
    plan: Document = {"items": items}
    brief = shown.is_long(plan) and not manner.dry_run
    if not manner.as_json:
        output.show(shown.plan_lines(plan, view, brief=brief))
        if brief:
            click.echo("for the whole diff: --dry-run")

    def details() -> None:
        output.show(shown.plan_lines(plan, view))

    asks = changes and not manner.dry_run and not manner.yes
    if asks and not _agreed(manner, details if brief else None):
        status = "refused"
    elif manner.dry_run:
        status = "planned"
    else:
        works = [work.apply() for work in works]
        status = "done" if changes else "nothing_to_do"
    return _outcome(works, notes, status)


def _agreed(manner: InstallOptions, details: Callable[[], None] | None) -> bool:
    if manner.as_json or not is_interactive():
        click.echo("hint: nothing was changed; to write this: --yes", err=True)
        return False
    return ask_yes("write this?", default=True, details=details)


def _outcome(
    works: Sequence[InstallWork], notes: Sequence[str], status: str
) -> InstallResult:
    items = [item for work in works for item in work.items()]
    errors = [error for work in works for error in work.errors()]
    went = any(text(item, "action") not in ("none", "fail") for item in items)
    if errors and status != "refused":
        status = "partial" if went and status == "done" else "failed"
    document: Document = {"status": status, "items": items, "notes": list(notes)}
    return InstallResult(document, errors)


def _exit_code(status: str, errors: Sequence[ShadowError]) -> ExitCode:
    if status == "refused":
        return ExitCode.REFUSED
    if status == "partial":
        return ExitCode.PARTIAL
    if status == "failed":
        codes = {error.exit_code for error in errors}
        return codes.pop() if len(codes) == 1 else ExitCode.ERROR
    return ExitCode.DONE
