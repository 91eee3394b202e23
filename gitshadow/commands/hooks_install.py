"""Common to `hooks install`, `hooks uninstall` and `uninstall`: show, ask, write, report.

Invariant: nothing is written before it was shown, and only after an explicit yes.
"""

import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import click

from gitshadow.commands import error_handler
from gitshadow.commands.hooks_plan import InstallItems, InstallWork
from gitshadow.commands.options import ask_yes, is_interactive, json_option, yes_option
from gitshadow.commands.terminal import Screen, screen
from gitshadow.errors import ExitCode, ShadowError, UnsupportedError
from gitshadow.messages.codec import encode
from gitshadow.messages.hooks import InstallReport
from gitshadow.render import hooks as shown
from gitshadow.render import output
from gitshadow.render.style import View

_F = TypeVar("_F", bound=Callable[..., object])


class InstallOptions(NamedTuple):
    """Whether to ask, to write, and to print JSON."""

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
    """The report, and the errors of what failed."""

    report: InstallReport
    errors: Sequence[ShadowError]

    @property
    def exit_code(self) -> int:
        """Return 5 if the user refused, 4 if some files failed and some did not."""
        return int(_exit_code(self.report.status, self.errors))


def carry_out(
    works: Sequence[InstallWork], notes: Sequence[str], manner: InstallOptions
) -> int:
    """Show the plans, ask if a person must be asked, apply them, report.

    Returns:
        The exit code, as `InstallResult` has it.
    """
    done = attempt(works, notes, manner)
    if manner.as_json:
        output.show_json(encode(done.report))
    report(done, as_text=not manner.as_json)
    return done.exit_code


def report(done: InstallResult, *, as_text: bool) -> None:
    """Print what happened, and each error."""
    if as_text:
        output.show(shown.done_lines(done.report, find_screen().view))
    for error in done.errors:
        error_handler.complain(error)


def attempt(
    works: Sequence[InstallWork], notes: Sequence[str], manner: InstallOptions
) -> InstallResult:
    """Show the plans, ask if a person must be asked, and apply them.

    A long difference is shown by `--dry-run` and by the answer `d` alone.
    """
    view = find_screen().view
    plans = [work.plan for work in works]
    items = [item for plan in plans for item in plan.items]
    changes = any(item.is_change for item in items)
    brief = shown.is_long(items) and not manner.dry_run
    if not manner.as_json:
        output.show(shown.plan_lines(items, view, brief=brief))
        if brief:
            click.echo("for the whole diff: --dry-run")

    def details() -> None:
        output.show(shown.plan_lines(items, view))

    asks = changes and not manner.dry_run and not manner.yes
    if asks and not _agreed(manner, details if brief else None):
        return _outcome(plans, notes, "refused")
    if manner.dry_run:
        return _outcome(plans, notes, "planned")
    done = [work.apply() for work in works]
    return _outcome(done, notes, "done" if changes else "nothing_to_do")


def _agreed(manner: InstallOptions, details: Callable[[], None] | None) -> bool:
    if manner.as_json or not is_interactive():
        click.echo("hint: nothing was changed; to write this: --yes", err=True)
        return False
    return ask_yes("write this?", default=True, details=details)


def _outcome(
    results: Sequence[InstallItems], notes: Sequence[str], status: str
) -> InstallResult:
    items = tuple(item for result in results for item in result.items)
    errors = [error for result in results for error in result.errors]
    if errors and status != "refused":
        went = status == "done" and any(item.is_change for item in items)
        status = "partial" if went else "failed"
    return InstallResult(InstallReport(status, items, tuple(notes)), errors)


def _exit_code(status: str, errors: Sequence[ShadowError]) -> ExitCode:
    if status == "refused":
        return ExitCode.REFUSED
    if status == "partial":
        return ExitCode.PARTIAL
    if status == "failed":
        codes = {error.exit_code for error in errors}
        return codes.pop() if len(codes) == 1 else ExitCode.ERROR
    return ExitCode.DONE
