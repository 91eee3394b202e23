"""What `hooks install` and `hooks uninstall` are going to do, as documents to be shown and done.

Invariant: a plan in agents' files is done file by file, one in Git's own hooks as a whole.
"""

import os
import sys
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from gitshadow.errors import ShadowError, UnsupportedError
from gitshadow.hookfiles import detect, gitconfig, githooks, install, login
from gitshadow.hookfiles.detect import InstallEnvironment
from gitshadow.hookfiles.githooks import Act
from gitshadow.hookfiles.steps import FileAction, FileStep
from gitshadow.render.document import Document
from gitshadow.store.git import Git
from gitshadow.store.layout import Layout, discover

_PROGRAM = "git-agent-undo"


def find_surroundings() -> tuple[InstallEnvironment, Layout | None]:
    """Take from this process what an installation depends on."""
    try:
        layout = discover(os.getcwd())
    except OSError:
        layout = None
    around = detect.surroundings(
        os.environ,
        os.path.expanduser("~"),
        executable=_executable(),
        worktree=None if layout is None else layout.root,
        common_state=None if layout is None else layout.state_dir,
    )
    return around, layout


def _executable() -> str:
    """Return the path by which this program was called; links to it stay links."""
    called = os.path.abspath(sys.argv[0])
    if os.path.basename(called) == _PROGRAM and os.access(called, os.X_OK):
        return called
    return os.path.join(os.path.dirname(sys.executable), _PROGRAM)


NOTE = "systemd starts it at your next login; to start it without a login: loginctl enable-linger"


class LoginWork(NamedTuple):
    """Hold the unit and the links."""

    plan: login.LoginPlan
    around: InstallEnvironment

    def items(self) -> list[Document]:
        """Return an item per file."""
        return [*map(item_of, self.plan.unit), *map(_link_item, self.plan.links)]

    def errors(self) -> list[ShadowError]:
        """Return what cannot be done, or could not."""
        found: Sequence[login.UnitLink | FileStep] = [*self.plan.unit, *self.plan.links]
        return [one.error for one in found if one.error is not None]

    def apply(self) -> "LoginWork":
        """Write or remove them."""
        return self._replace(plan=login.apply(self.plan, self.around))


def refuse_without_systemd() -> None:
    """Raise UnsupportedError where no systemd serves this user."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if not runtime or not os.path.exists(os.path.join(runtime, "systemd", "private")):
        raise UnsupportedError(
            "cannot start at login: no systemd user manager is running for you",
            hint="add `git agent-undo start` to your shell profile; hooks start it too",
        )


def _link_item(link: login.UnitLink) -> Document:
    sign = {"create": "+", "delete": "-"}.get(link.action.value)
    return {
        "agent": "systemd",
        "scope": "user",
        "path": link.path,
        "action": link.action.value,
        "diff": [f"{sign}a link to the unit"] if sign else [],
        "error": None if link.error is None else link.error.message,
    }


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
