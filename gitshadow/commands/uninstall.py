"""`git agent-undo uninstall`: remove everything of ours from a repository."""

import os

import click

from gitshadow.commands.client import find_layout
from gitshadow.commands.exchange import write_events
from gitshadow.commands.hooks_install import (
    InstallItems,
    InstallOptions,
    InstallWork,
    agent_work,
    carry_out,
    config_work,
    git_work,
    login_work,
)
from gitshadow.commands.options import json_option, yes_option
from gitshadow.commands.surroundings import find_surroundings
from gitshadow.errors import ShadowError
from gitshadow.hookfiles import gitconfig, githooks, install, login
from gitshadow.hookfiles.catalog import AGENTS
from gitshadow.hookfiles.placement import InstallScope
from gitshadow.messages.hooks import InstallItem
from gitshadow.store.git import Git
from gitshadow.store.layout import Layout, recorded
from gitshadow.words import byte_size, counted

_REFS = "refs/agent-undo"


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
    works.append(_leaving(layout))
    notes.append("to free the space now: git gc --prune=now")
    return carry_out(works, notes, InstallOptions(yes, dry_run, as_json))


def _hooks(layout: Layout) -> tuple[list[InstallWork], list[str]]:
    """Return the removal of our entries from this project's files and from Git's hooks."""
    # Hooks in the user's own files serve other repositories too, so only a project's are removed.
    around, _ = find_surroundings()
    git = Git(layout, dict(os.environ))
    steps = [
        step
        for agent in AGENTS.values()
        if InstallScope.PROJECT in agent.placements
        for step in install.plan_uninstall(agent, InstallScope.PROJECT, around)
        if step.is_found
    ]
    plan = githooks.plan_removal(layout, git)
    roots = list({layout.root, *(one.root for one in recorded(layout))})
    works: list[InstallWork] = [
        agent_work(steps, around, installing=False),
        config_work(gitconfig.plan_removal(layout)),
        git_work(plan, git),
        login_work(login.plan_removal(roots, around), around),
    ]
    return works, [*plan.advice.splitlines(), *gitconfig.left_alone(layout)]


def _leaving(layout: Layout) -> InstallWork:
    """Return the removal of refs and journal: an item for the refs, one for the directory."""
    from gitshadow.ipc import launch
    from gitshadow.maintenance import setup

    there = setup.what_is_there(layout)
    refs = counted(len(there.refs) + len(there.shown), "ref")
    items: list[InstallItem] = []
    if there.refs or there.shown or there.packs:
        packs = counted(there.packs, "pack")
        items.append(_item(_REFS, f"-{refs}; {packs} to be removed by git gc"))
    if there.state_bytes:
        said = f"-the journal and related files, {byte_size(there.state_bytes)}"
        items.append(_item(layout.state_dir, said))

    def apply() -> InstallItems:
        try:
            for one in recorded(layout):
                launch.stop(one)
            gone = setup.leave(layout)
        except ShadowError as error:
            failed = _item(layout.state_dir, "could not be removed")
            failed = failed._replace(action="fail", error=error.message)
            return InstallItems([failed], [error])
        count = len(gone.refs) + len(gone.shown)
        removed = [_item(_REFS, f"-{counted(count, 'ref')}")] if count else []
        return InstallItems([_item(layout.state_dir), *removed])

    return InstallWork(InstallItems(items), apply)


def _item(path: str, *diff: str) -> InstallItem:
    return InstallItem("gitshadow", "project", path, "delete", diff, None)
