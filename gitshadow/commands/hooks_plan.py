"""What `hooks install` and `hooks uninstall` are going to do, as documents to be shown and done.

Invariant: a plan in agents' files is done file by file, one in Git's own hooks as a whole.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from gitshadow.errors import ShadowError
from gitshadow.hookfiles import gitconfig, githooks, install
from gitshadow.hookfiles.detect import InstallEnvironment
from gitshadow.hookfiles.githooks import Act
from gitshadow.hookfiles.steps import FileAction, FileStep
from gitshadow.render.document import Document
from gitshadow.store.git import Git

_ACTIONS = {
    Act.SET: "change",
    Act.UNSET: "change",
    Act.WRITE: "create",
    Act.MOVE: "move",
    Act.REMOVE: "delete",
}


class InstallWork(Protocol):
    """Hold a plan that can be shown and done."""

    def items(self) -> list[Document]:
        """Return what is planned, file by file."""

    def errors(self) -> list[ShadowError]:
        """Return what cannot be done, or could not."""

    def apply(self) -> "InstallWork":
        """Do it; return it as it went."""


class AgentWork(NamedTuple):
    """Hold the steps in agents' files."""

    steps: Sequence[FileStep]
    around: InstallEnvironment
    installing: bool

    def items(self) -> list[Document]:
        """Return an item per file."""
        return [item_of(step) for step in self.steps]

    def errors(self) -> list[ShadowError]:
        """Return the errors of steps that fail."""
        return [step.error for step in self.steps if step.error is not None]

    def apply(self) -> "AgentWork":
        """Write the files; a step that fails leaves its file as it is."""
        done = install.apply(self.steps, self.around, installing=self.installing)
        return self._replace(steps=done)


class ConfigWork(NamedTuple):
    """Hold the steps in Git's own configuration."""

    steps: Sequence[FileStep]

    def items(self) -> list[Document]:
        """Return an item per file."""
        return [item_of(step) for step in self.steps]

    def errors(self) -> list[ShadowError]:
        """Return the errors of steps that fail."""
        return [step.error for step in self.steps if step.error is not None]

    def apply(self) -> "ConfigWork":
        """Write the files, up to the first that fails."""
        return ConfigWork(gitconfig.apply(self.steps))


class GitWork(NamedTuple):
    """Hold the steps in Git's own hooks."""

    plan: githooks.GitHookPlan
    git: Git
    error: ShadowError | None = None

    def items(self) -> list[Document]:
        """Return an item per file or setting."""
        return [_git_item(change, self.error) for change in self.plan.changes]

    def errors(self) -> list[ShadowError]:
        """Return the error, if the plan could not be done."""
        return [] if self.error is None else [self.error]

    def apply(self) -> "GitWork":
        """Do the plan as a whole."""
        try:
            githooks.apply(self.plan, self.git)
        except ShadowError as error:
            return self._replace(error=error)
        return self


def item_of(step: FileStep) -> Document:
    """Return a step as an item of a plan or a report."""
    return {
        "agent": step.agent,
        "scope": step.scope.value,
        "path": step.path,
        "action": step.action.value,
        "diff": step.diff(),
        "error": None if step.error is None else step.error.message,
    }


def _git_item(change: githooks.HookChange, error: ShadowError | None) -> Document:
    sign = "" if change.act is Act.MOVE else "+"
    lines = change.text.removesuffix("\n").split("\n") if change.text else []
    return {
        "agent": "git",
        "scope": "project",
        "path": change.place,
        "action": _ACTIONS[change.act] if error is None else FileAction.FAIL.value,
        "diff": [f"{sign or 'to '}{line}" for line in lines],
        "error": None if error is None else error.message,
    }
