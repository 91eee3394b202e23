"""Which agents to install for, and the notes that are shown before a person agrees.

Invariant: an agent that was not named never gets a file in a project.
"""

import os
from collections.abc import Sequence

from gitshadow.errors import UsageError
from gitshadow.hookfiles import detect, gitconfig, health, install
from gitshadow.hookfiles.catalog import AGENTS, SERVED_BY
from gitshadow.hookfiles.detect import InstallEnvironment
from gitshadow.hookfiles.health import HealthState
from gitshadow.hookfiles.install import FileAction, FileStep
from gitshadow.hookfiles.placement import Agent, Extra, InstallScope
from gitshadow.words import did_you_mean

GIT = "git"
"""The name of Git's own hooks among those of agents."""

ALL = "all"
"""Every extra, for `--with`."""

_OFFER = "for /oops, /who, a skill and a status line in the agent"

NO_AGENTS = frozenset({GIT, gitconfig.AGENT})
"""Names that can be installed, but are not agents."""


def named(names: Sequence[str]) -> list[Agent]:
    """Return the agents of these names, each once; `git` and `git-config` are not agents.

    Raises:
        UsageError: nothing can be installed for one.
    """
    found = {
        agent.name: agent
        for agent in (
            install.find_agent(name) for name in names if name not in NO_AGENTS
        )
    }
    return list(found.values())


def choose(
    names: tuple[str, ...], scope: InstallScope | None, around: InstallEnvironment
) -> tuple[list[Agent], list[str]]:
    """Return the agents to install for, and notes about them.

    Args:
        names: As typed; empty for all that are found here.
        scope: None for the user's; an agent that has only a project's must be named.
        around: Where to look.

    Raises:
        UsageError: as `named`.
    """
    notes = [
        f"{name} reads the files of {SERVED_BY[name]}"
        for name in names
        if name in SERVED_BY
    ]
    if names:
        return named(names), notes
    chosen = []
    for name in detect.detected(around):
        agent = AGENTS[name]
        if (scope or InstallScope.USER) in agent.placements:
            chosen.append(agent)
        else:
            notes.append(f"{name} is skipped: it reads only hooks of a project")
    return chosen, notes


def extras_of(typed: str | None) -> frozenset[Extra]:
    """Return the extras that `--with` names: some of them with commas, or `all`.

    Raises:
        UsageError: there is no such extra.
    """
    names = [name.strip() for name in (typed or "").split(",") if name.strip()]
    known = [extra.value for extra in Extra]
    for name in names:
        if name not in (*known, ALL):
            raise UsageError(
                f"cannot install {name!r} with hooks",
                hint=did_you_mean(name, known) or f"use {', '.join(known)} or {ALL}",
            )
    return frozenset(Extra if ALL in names else map(Extra, names))


def notes_on_extras(
    agents: Sequence[Agent],
    scope: InstallScope | None,
    extras: frozenset[Extra],
    steps: Sequence[FileStep],
) -> list[str]:
    """Return a note on what the agents could have too, or on what none of them can have."""
    offers = {
        agent.name: agent.offers(scope or agent.default_scope) for agent in agents
    }
    if not extras:
        # An agent that has some has chosen; of one whose file cannot be used, the error speaks.
        done = {step.agent for step in steps if step.is_extra or step.error is not None}
        named = [name for name, found in offers.items() if found and name not in done]
        hint = f"git agent-undo hooks install {' '.join(named)} --with {ALL}"
        return [f"{_OFFER}: {hint}"] if named else []
    nowhere = extras.difference(*offers.values())
    return [f"no agent here can have: {', '.join(sorted(nowhere))}"] if nowhere else []


def is_possible(agent: Agent, scope: InstallScope, around: InstallEnvironment) -> bool:
    """Return whether an agent has that scope, and it exists here."""
    return scope in agent.placements and (
        scope is InstallScope.USER or around.worktree is not None
    )


def left_over(names: Sequence[str], around: InstallEnvironment) -> list[str]:
    """Return a note on what an uninstallation without a scope leaves in a project."""
    there = [
        agent.name
        for agent in (named(names) if names else AGENTS.values())
        if agent.default_scope is InstallScope.USER
        and (state := health.look(agent, InstallScope.PROJECT, around)) is not None
        and state.state is not HealthState.ABSENT
    ]
    if not there:
        return []
    return [
        f"this project's files still have the hooks of {', '.join(there)}; to remove"
        f" them too: hooks uninstall --project"
    ]


def notes(
    steps: Sequence[FileStep], around: InstallEnvironment, *, recorded: bool
) -> list[str]:
    """Return notes on the files that are written; `recorded` is this repository's state."""
    said = [f"{step.agent}: {step.note}" for step in steps if step.note]
    written = [
        step for step in steps if step.action in (FileAction.CREATE, FileAction.CHANGE)
    ]
    for step in written:
        agent = AGENTS[step.agent]
        known = [*agent.notes]
        if step.scope is InstallScope.PROJECT:
            known += agent.project_notes
        said += [f"{step.agent}: {note}" for note in known]
        (other,) = {*InstallScope} - {step.scope}
        there = health.look(agent, other, around)
        if there is not None and there.state is not HealthState.ABSENT:
            said.append(
                f"{step.agent} also has them installed for the {other.value};"
                f" duplicate events are ignored"
            )
    inside = around.worktree is not None and around.executable.startswith(
        around.worktree + os.sep
    )
    if inside and any(step.scope is InstallScope.USER for step in written):
        said.append(f"{around.executable} is in a worktree, which may change")
    if written and not recorded:
        said.append("to record this repository: git agent-undo init")
    return list(dict.fromkeys(said))
