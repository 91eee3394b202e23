"""Common to `hooks install`, `hooks uninstall` and `uninstall`: plan, show, ask, write, report.

Invariant: nothing is written before it was shown, and only after an explicit yes. A plan in agents'
files is done file by file, one in Git's own hooks as a whole.
"""

import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import click

from gitshadow.commands import error_handler
from gitshadow.commands.options import ask_yes, is_interactive, json_option, yes_option
from gitshadow.commands.terminal import Screen, screen
from gitshadow.errors import ExitCode, ShadowError, UnsupportedError
from gitshadow.hookfiles import gitconfig, githooks, install, login
from gitshadow.hookfiles.detect import InstallEnvironment
from gitshadow.hookfiles.githooks import Act
from gitshadow.hookfiles.install import FileAction, FileStep
from gitshadow.messages.codec import encode
from gitshadow.messages.hooks import InstallItem, InstallReport
from gitshadow.render import hooks as shown
from gitshadow.render import output
from gitshadow.render.style import View
from gitshadow.store.git import Git

_F = TypeVar("_F", bound=Callable[..., object])
_ACTIONS = {
    Act.SET: "change",
    Act.UNSET: "change",
    Act.WRITE: "create",
    Act.MOVE: "move",
    Act.REMOVE: "delete",
}


class InstallItems(NamedTuple):
    """The items of a plan, before or after it was applied, and the errors of those that fail."""

    items: Sequence[InstallItem]
    errors: Sequence[ShadowError] = ()


class InstallWork(NamedTuple):
    """A plan, and the function that applies it and returns how it went."""

    plan: InstallItems
    apply: Callable[[], InstallItems]


def agent_work(
    steps: Sequence[FileStep], around: InstallEnvironment, *, installing: bool
) -> InstallWork:
    """Return steps in agents' files; one that fails leaves its file as it is."""
    return InstallWork(
        _items(steps),
        lambda: _items(install.apply(steps, around, installing=installing)),
    )


def config_work(steps: Sequence[FileStep]) -> InstallWork:
    """Return steps in Git's own configuration; the first that fails ends it."""
    return InstallWork(_items(steps), lambda: _items(gitconfig.apply(steps)))


def login_work(plan: login.LoginPlan, around: InstallEnvironment) -> InstallWork:
    """Return the steps that write or remove the unit and its links."""
    return InstallWork(
        _items(plan.steps), lambda: _items(login.apply(plan, around).steps)
    )


def git_work(plan: githooks.GitHookPlan, git: Git) -> InstallWork:
    """Return the steps in Git's own hooks."""

    def items(error: ShadowError | None = None) -> InstallItems:
        found = [_git_item(change, error) for change in plan.changes]
        return InstallItems(found, () if error is None else (error,))

    def apply() -> InstallItems:
        try:
            githooks.apply(plan, git)
        except ShadowError as error:
            return items(error)
        return items()

    return InstallWork(items(), apply)


def _items(steps: Sequence[FileStep]) -> InstallItems:
    items = [
        InstallItem(
            agent=step.agent,
            scope=step.scope.value,
            path=step.path,
            action=step.action.value,
            diff=tuple(step.diff()),
            error=None if step.error is None else step.error.message,
            hooks=step.entries,
        )
        for step in steps
    ]
    return InstallItems(items, [step.error for step in steps if step.error is not None])


def _git_item(change: githooks.HookChange, error: ShadowError | None) -> InstallItem:
    sign = "" if change.act is Act.MOVE else "+"
    lines = change.text.removesuffix("\n").split("\n") if change.text else []
    return InstallItem(
        agent="git",
        scope="project",
        path=change.place,
        action=_ACTIONS[change.act] if error is None else FileAction.FAIL.value,
        diff=tuple(f"{sign or 'to '}{line}" for line in lines),
        error=None if error is None else error.message,
    )


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
    # They are about files that were to be written.
    notes = () if status == "failed" else notes
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
