"""The plans of `hooks install`, `hooks uninstall` and `uninstall`: to be shown, then done.

Invariant: a plan in agents' files is done file by file, one in Git's own hooks as a whole.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from gitshadow.errors import ShadowError
from gitshadow.hookfiles import gitconfig, githooks, install, login
from gitshadow.hookfiles.detect import InstallEnvironment
from gitshadow.hookfiles.githooks import Act
from gitshadow.hookfiles.install import FileAction, FileStep
from gitshadow.messages.hooks import InstallItem
from gitshadow.store.git import Git

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
