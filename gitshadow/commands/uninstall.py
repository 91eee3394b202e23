"""`git agent-undo uninstall`: take everything of ours out of a repository."""

import os
from typing import NamedTuple

import click

from gitshadow.commands.client import find_layout
from gitshadow.commands.exchange import write_events
from gitshadow.commands.hooks_install import InstallOptions, carry_out
from gitshadow.commands.hooks_plan import (
    AgentWork,
    ConfigWork,
    GitWork,
    InstallWork,
    LoginWork,
    find_surroundings,
)
from gitshadow.commands.options import json_option, yes_option
from gitshadow.errors import ShadowError
from gitshadow.hookfiles import gitconfig, githooks, install, login
from gitshadow.hookfiles.catalog import AGENTS
from gitshadow.hookfiles.placement import InstallScope
from gitshadow.hookfiles.steps import FileAction
from gitshadow.render.document import Document
from gitshadow.render.status import size
from gitshadow.store.git import Git
from gitshadow.store.layout import Layout, recorded
from gitshadow.words import counted


@click.command("uninstall")
@click.option(
    "--export", "file", metavar="FILE", help="Export the history to FILE first."
)
@click.option(
    "--dry-run", is_flag=True, help="Show what would be removed, remove nothing."
)
@yes_option
@json_option
def command(file: str | None, dry_run: bool, yes: bool, as_json: bool) -> int:
    """Permanently remove history, journal and hooks from this repository.

    Branches, index, files and settings are not changed. Git's next gc frees the space. Hooks
    in your own settings files also serve other repositories; to remove them: git agent-undo
    hooks uninstall --user
    """
    layout = find_layout()
    if file is not None and layout.initialised and not dry_run:
        write_events(file)
    works, notes = _hooks(layout)
    works.append(_Leaving(layout))
    notes.append("to free the space now: git gc --prune=now")
    return carry_out(works, notes, InstallOptions(yes, dry_run, as_json))


def _hooks(layout: Layout) -> tuple[list[InstallWork], list[str]]:
    """Return what takes our entries out of this project's files and out of Git's hooks."""
    around, _ = find_surroundings()
    git = Git(layout, dict(os.environ))
    steps = [
        step
        for agent in AGENTS.values()
        if InstallScope.PROJECT in agent.placements
        for step in install.plan_uninstall(agent, InstallScope.PROJECT, around)
        if step.action is not FileAction.NONE or step.record
    ]
    plan = githooks.plan_removal(layout, git)
    works: list[InstallWork] = [
        AgentWork(steps, around, False),
        GitWork(plan, git),
        ConfigWork(gitconfig.plan_removal(layout)),
        LoginWork(login.plan_removal(_roots(layout), around), around),
    ]
    return works, [*plan.advice.splitlines(), *gitconfig.left_alone(layout)]


def _roots(layout: Layout) -> list[str]:
    return list({layout.root, *(one.root for one in recorded(layout))})


class _Leaving(NamedTuple):
    """Hold the removal of refs and journal, as `hooking` shows and does plans."""

    layout: Layout
    error: ShadowError | None = None

    def items(self) -> list[Document]:
        """Return an item for the refs, and one for the state directory."""
        from gitshadow.maintenance import uninstall

        if self.error is not None:
            return [self._item(self.layout.state_dir, ["could not be removed"])]
        there = uninstall.look(self.layout)
        rows: list[Document] = []
        if there.refs or there.shown or there.packs:
            count = len(there.refs) + len(there.shown)
            said = (
                f"{counted(count, 'ref')}; {counted(there.packs, 'pack')} to be"
                f" removed by git gc"
            )
            rows.append(self._item("refs/agent-undo", [f"-{said}"]))
        if there.state_bytes:
            said = f"the journal and related files, {size(there.state_bytes)}"
            rows.append(self._item(self.layout.state_dir, [f"-{said}"]))
        return rows

    def errors(self) -> list[ShadowError]:
        """Return the error, if it could not be done."""
        return [] if self.error is None else [self.error]

    def apply(self) -> InstallWork:
        """Stop the daemons, and remove everything."""
        from gitshadow.ipc import launch
        from gitshadow.maintenance import uninstall

        try:
            for one in recorded(self.layout):
                launch.stop(one)
            there = uninstall.leave(self.layout)
        except ShadowError as error:
            return self._replace(error=error)
        return _Left(len(there.refs) + len(there.shown), self.layout.state_dir)

    def _item(self, path: str, diff: list[str]) -> Document:
        failed = self.error is not None
        return {
            "agent": "gitshadow",
            "scope": "project",
            "path": path,
            "action": "fail" if failed else "delete",
            "diff": diff,
            "error": self.error.message if self.error is not None else None,
        }


class _Left(NamedTuple):
    """Hold what was removed."""

    refs: int
    state_dir: str

    def items(self) -> list[Document]:
        """Return what went."""
        item = {"agent": "gitshadow", "scope": "project", "action": "delete"}
        rows: list[Document] = [
            {**item, "path": self.state_dir, "diff": [], "error": None}
        ]
        if self.refs:
            said = [f"-{counted(self.refs, 'ref')}"]
            rows.append(
                {**item, "path": "refs/agent-undo", "diff": said, "error": None}
            )
        return rows

    def errors(self) -> list[ShadowError]:
        """Return nothing."""
        return []

    def apply(self) -> InstallWork:
        """Return itself: it is done."""
        return self
