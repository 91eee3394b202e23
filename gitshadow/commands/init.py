"""`git agent-undo init`: record this repository from now on."""

from collections.abc import Sequence
from typing import NamedTuple

import click

from gitshadow.commands.client import ask, find_layout
from gitshadow.commands.hooks_install import InstallOptions, attempt, report
from gitshadow.commands.hooks_plan import InstallWork, agent_work, find_surroundings
from gitshadow.commands.options import is_interactive, json_option, yes_option
from gitshadow.commands.output import print_document
from gitshadow.errors import ExitCode, UsageError
from gitshadow.hookfiles import advice, detect, health, install, presence
from gitshadow.hookfiles.steps import FileAction
from gitshadow.messages.codec import encode
from gitshadow.render.document import Document, flag
from gitshadow.render.status import init_end_lines, init_lines


class _Plan(NamedTuple):
    """Hold what would be written into the settings of agents, and what to know about it."""

    works: Sequence[InstallWork]
    agents: Sequence[str]
    notes: Sequence[str]


@click.command("init")
@click.option(
    "--force", is_flag=True, help="Record even a home directory or file-system root."
)
@click.option(
    "--hooks/--no-hooks",
    default=None,
    help="Install hooks for the agents found here, or do not offer it.",
)
@yes_option
@json_option
def command(force: bool, hooks: bool | None, yes: bool, as_json: bool) -> int:
    """Start recording this repository.

    Every file to record is read once, then the daemon is started, unless agent-undo.daemon is
    off. If you run it again, it rescans all files. No setting, hook, index or branch of the
    repository is changed. On a terminal, hooks for the agents found on this machine are shown
    as diffs of your own settings files and offered once, with one question.
    """
    offered = hooks is not False and (hooks or yes or _can_ask(as_json))
    if hooks and not yes and not _can_ask(as_json):
        hint = "add --yes to write them, or omit --hooks"
        raise UsageError("cannot ask about hooks: no terminal", hint=hint)
    document = ask("init", {"force": force})
    if document.get("daemon_allowed") is True:
        from gitshadow.ipc import launch

        launch.start(find_layout())
        document["daemon"] = True
    if not as_json:
        print_document(document, init_lines, as_json=False)
    code = _offer(document, InstallOptions(yes, False, as_json)) if offered else 0
    document |= _protection(flag(document, "daemon"))
    print_document(document, init_end_lines, as_json=as_json)
    return code if hooks or yes else int(ExitCode.DONE)


def _can_ask(as_json: bool) -> bool:
    return is_interactive() and not as_json


def _offer(document: Document, manner: InstallOptions) -> int:
    """Show the hooks of all agents found here and ask; return the exit code of that."""
    plan = _plan()
    if not plan.works:
        return int(ExitCode.DONE)
    if not manner.as_json:
        names = ", ".join(plan.agents)
        click.echo(
            f"found here: {names}; these entries report which agent makes each change"
        )
    done = attempt(plan.works, plan.notes, manner)
    report(done, as_text=not manner.as_json)
    document["hooks"] = encode(done.report)
    return done.exit_code


def _plan() -> _Plan:
    """Plan the user's own hooks of every agent that is found; none where all are there."""
    around, _ = find_surroundings()
    chosen, _ = advice.choose((), None, around)
    steps = [
        step
        for agent in chosen
        for step in install.plan_install(agent, agent.default_scope, around)
        if step.action is not FileAction.NONE
    ]
    agents = list(dict.fromkeys(step.agent for step in steps))
    works = [agent_work(steps, around, installing=True)] if steps else []
    return _Plan(works, agents, advice.notes(steps, around, recorded=True))


def _protection(daemon: bool) -> Document:
    """Return who reports writes from now on, which agents' hooks do not run, and who has none."""
    around, _ = find_surroundings()
    found = [
        state
        for agent, scope in presence.present(around)
        if (state := health.look(agent, scope, around)) is not None
    ]
    told = list(
        dict.fromkeys(
            one.agent for one in found if one.state is health.HealthState.INSTALLED
        )
    )
    waiting = [
        {"agent": one.agent, "problem": finding.problem, "fix": finding.fix}
        for one in found
        if one.agent not in told
        for finding in one.findings[:1]
    ]
    named = {one.agent for one in found}
    mute = [name for name in detect.detected(around) if name not in named]
    by = [*(["daemon"] if daemon else []), *told]
    return {"by": by, "unhooked": mute, "waiting": waiting}
