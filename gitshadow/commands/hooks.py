"""`git agent-undo hooks`: install our entries in agents' settings, and remove them."""

import os
from collections.abc import Iterator
from dataclasses import replace

import click

from gitshadow.commands.client import find_layout
from gitshadow.commands.hooks_install import (
    InstallOptions,
    InstallWork,
    agent_work,
    carry_out,
    config_work,
    find_screen,
    git_work,
    writing_options,
)
from gitshadow.commands.options import colour_option, json_option
from gitshadow.commands.surroundings import find_surroundings
from gitshadow.commands.usage_errors import VerbGroup
from gitshadow.errors import ExitCode, UsageError
from gitshadow.hookfiles import (
    advice,
    detect,
    gitconfig,
    githooks,
    health,
    install,
    versions,
)
from gitshadow.hookfiles.catalog import AGENTS
from gitshadow.hookfiles.detect import InstallEnvironment
from gitshadow.hookfiles.health import HealthState
from gitshadow.hookfiles.install import FileStep
from gitshadow.hookfiles.placement import Agent, InstallScope
from gitshadow.hookfiles.versions import HostVersion
from gitshadow.messages.codec import encode
from gitshadow.messages.hooks import AgentRow, HookFindingRow, HooksPlace, HooksRow
from gitshadow.render import hooks as shown
from gitshadow.render import output
from gitshadow.store.git import Git

_GIT = advice.GIT
_CONFIG = gitconfig.AGENT


@click.group("hooks", cls=VerbGroup)
def command() -> None:
    """Install hooks in agents' settings files, or remove them.

    With --user (the default) they apply to all your repositories and run this program by its
    absolute path. With --project they are in files that can be committed, run it by name, and
    do nothing where it is not installed. Nothing is recorded until you run `git agent-undo
    init` in a repository.
    """


@command.command("install")
@click.option(
    "--check/--no-check",
    default=None,
    help="With `git`: run `check` at each commit.",
)
@click.option(
    "--with",
    "extras",
    metavar="EXTRAS",
    help="Add commands, skill, statusline, or all of them.",
)
@writing_options
def install_command(
    agents: tuple[str, ...],
    scope: str | None,
    check: bool | None,
    extras: str | None,
    **manner: bool,
) -> int:
    """Install the hooks of each AGENT; by default of every agent found on this machine.

    The hooks for each file are listed first; the answer `d` shows the diff. Other content is
    not changed, and a copy of each file is kept for `hooks uninstall`. In this repository, the
    name `git` stands for Git's own hooks, and `git-config` for settings that hide the recorded
    history from Git's listings.

    With `--with`, an agent also gets what it has a place for: the commands /oops and /who, a
    skill about its own history, and a status line, unless you have one.
    """
    if check is not None and _GIT not in agents:
        raise UsageError(
            "cannot use --check: it needs the name git",
            hint="git agent-undo hooks install git --check",
        )
    around, layout = find_surroundings()
    wanted = None if scope is None else InstallScope(scope)
    works: list[InstallWork] = []
    chosen, notes = advice.choose(agents, wanted, around)
    named = advice.extras_of(extras)
    steps: list[FileStep] = []
    for agent in chosen:
        where = wanted or agent.default_scope
        steps += install.plan_install(agent, where, around, named)
    if steps:
        works.append(agent_work(steps, around, installing=True))
        notes += advice.notes(
            steps, around, recorded=layout is None or layout.initialised
        )
        notes += advice.notes_on_extras(chosen, wanted, named, steps)
    # First, because since git 2.54 the hooks change the same file, and that counts as a change of
    # the user's. They themselves are only compared with what they were.
    if _CONFIG in agents:
        layout = find_layout()
        works.append(config_work(gitconfig.plan(layout, Git(layout, dict(os.environ)))))
    if _GIT in agents:
        git = Git(find_layout(), dict(os.environ))
        plan = githooks.plan(find_layout(), git, around.executable, check=check)
        works.append(git_work(plan, git))
        notes += plan.advice.splitlines()
    if not works:
        notes.append(
            "no agent was found here; to list their names: git agent-undo hooks list"
        )
    return carry_out(works, notes, InstallOptions(**manner))


@command.command("uninstall")
@writing_options
def uninstall_command(
    agents: tuple[str, ...], scope: str | None, yes: bool, dry_run: bool, as_json: bool
) -> int:
    """Remove the hooks of each AGENT; by default of every agent that has them.

    A file that is unchanged since the install gets its original content back; from a changed
    file only the added entries are removed.
    """
    around, _ = find_surroundings()
    wanted = None if scope is None else InstallScope(scope)
    steps: list[FileStep] = []
    for agent in advice.named(agents) if agents else AGENTS.values():
        where = wanted or agent.default_scope
        if agents or advice.is_possible(agent, where, around):
            steps += install.plan_uninstall(agent, where, around)
    if not agents:
        steps = [step for step in steps if step.is_found]
    works: list[InstallWork] = [agent_work(steps, around, installing=False)]
    notes: list[str] = []
    if _CONFIG in agents:
        works.append(config_work(gitconfig.plan_removal(find_layout())))
        notes += gitconfig.left_alone(find_layout())
    if _GIT in agents:
        git = Git(find_layout(), dict(os.environ))
        plan = githooks.plan_removal(find_layout(), git)
        works.append(git_work(plan, git))
        notes += plan.advice.splitlines()
    if wanted is None:
        notes += advice.left_over(agents, around)
    return carry_out(works, notes, InstallOptions(yes, dry_run, as_json))


@command.command("list")
@colour_option
@json_option
def list_command(as_json: bool) -> None:
    """List every agent: whether it was found here, and where its hooks are installed."""
    around, _ = find_surroundings()
    rows = [
        AgentRow(
            agent.name,
            detect.is_detected(agent, around),
            user=_hooks_place(agent, InstallScope.USER, around),
            project=_hooks_place(agent, InstallScope.PROJECT, around),
        )
        for agent in AGENTS.values()
    ]
    if as_json:
        output.show_json_lines(map(encode, rows))
    else:
        output.show(shown.list_lines(rows, find_screen().view))


def _hooks_place(
    agent: Agent, scope: InstallScope, around: InstallEnvironment
) -> HooksPlace | None:
    found = health.look(agent, scope, around)
    return None if found is None else HooksPlace(found.state.value, found.path)


@command.command("status")
@colour_option
@json_option
@click.argument("agents", nargs=-1, metavar="[AGENT]...")
def status_command(agents: tuple[str, ...], as_json: bool) -> int:
    """Check that installed hooks work, and show how to fix them. Exits 1 if some do not.

    Shows each agent's version, and warns if it is too old for its hooks or does not have an
    event any more. A program whose files do not show its version is run with --version.
    """
    around, _ = find_surroundings()
    rows = [
        row
        for agent in (advice.named(agents) if agents else AGENTS.values())
        for row in _health_rows(agent, around, named=bool(agents))
    ]
    fine = all(row.state in (HealthState.INSTALLED, HealthState.ABSENT) for row in rows)
    if _GIT in agents:
        layout = find_layout()
        git = githooks.status(layout, Git(layout, dict(os.environ)), around.executable)
        rows.append(HooksRow(_GIT, "project", git.value))
        fine = fine and git is not githooks.GitHookState.STALE
    if _CONFIG in agents:
        there = (
            HealthState.INSTALLED
            if gitconfig.is_installed(find_layout())
            else HealthState.ABSENT
        )
        rows.append(HooksRow(_CONFIG, "project", there.value))
    if as_json:
        output.show_json_lines(map(encode, rows))
    else:
        output.show(shown.status_lines(rows, find_screen().view))
    return int(ExitCode.DONE if fine else ExitCode.ERROR)


def _health_rows(
    agent: Agent, around: InstallEnvironment, *, named: bool
) -> Iterator[HooksRow]:
    """Yield the state of an agent's hooks in each scope that has them, or that was named."""
    found = [
        state
        for scope in InstallScope
        if (state := health.look(agent, scope, around)) is not None
    ]
    host = None
    if any(state.state is not HealthState.ABSENT for state in found):
        host = versions.find(agent, around)
    for state in found:
        if state.state is HealthState.ABSENT:
            if named:
                yield _health_row(state, None)
            continue
        more = versions.findings(agent, host) if host is not None else ()
        found_all = (*state.findings, *more)
        yield _health_row(replace(state, findings=found_all), host)


def _health_row(state: health.Health, host: HostVersion | None) -> HooksRow:
    row = HooksRow(
        agent=state.agent,
        scope=state.scope.value,
        state=state.state.value,
        path=state.path,
        findings=tuple(
            HookFindingRow(item.state.value, item.problem, item.fix)
            for item in state.findings
        ),
        changed=state.changed,
    )
    if host is None:
        return row
    return row._replace(
        version=host.version,
        verified=host.verified,
        newer=bool(
            host.version
            and host.verified
            and versions.is_newer(host.version, host.verified)
        ),
        unknown_events=host.unknown_events,
    )
