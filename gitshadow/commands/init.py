"""`git agent-undo init`: record this repository from now on, and show how far that is."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from threading import Event, Thread
from typing import TYPE_CHECKING, NamedTuple

import click

from gitshadow.commands.client import find_layout, send
from gitshadow.commands.options import is_interactive, json_option, yes_option
from gitshadow.commands.terminal import screen
from gitshadow.errors import ExitCode, UsageError
from gitshadow.ipc import client, launch
from gitshadow.ipc.hook import daemon_allowed
from gitshadow.messages.codec import JsonObject, encode
from gitshadow.messages.status import INIT, InitProtection, InitRequest, WaitingHooks
from gitshadow.render import output
from gitshadow.store import progress
from gitshadow.store.layout import Layout
from gitshadow.store.progress import Progress
from gitshadow.words import byte_size, counted

if TYPE_CHECKING:
    from gitshadow.commands.hooks_install import InstallWork

_AFTER_S = 1.0
_EVERY_S = 0.25
# They take as long to import as the daemon takes to start, and are needed after its answer.
_NEEDED_LATER = (
    "gitshadow.commands.hooks_install",
    "gitshadow.commands.surroundings",
    "gitshadow.hookfiles.advice",
    "gitshadow.hookfiles.health",
    "gitshadow.render.status",
)


@contextmanager
def shown(layout: Layout) -> Iterator[None]:
    """Show on standard error, if that is a terminal, how far the block is after a second."""
    if not sys.stderr.isatty():
        yield
        return
    done = Event()
    thread = Thread(target=_show, args=(layout, done), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _show(layout: Layout, done: Event) -> None:
    width, pause = 0, _AFTER_S
    while not done.wait(pause):
        found, pause = progress.read(layout), _EVERY_S
        if found is not None:
            line = in_words(found)
            sys.stderr.write(f"\r{line:<{width}}")
            sys.stderr.flush()
            width = len(line)
    if width:
        sys.stderr.write(f"\r{'':<{width}}\r")
        sys.stderr.flush()


def in_words(found: Progress) -> str:
    """Return how far it is: `read 120 of 4000 files, 1.0 MiB of 4.0 MiB; 3 seconds left`."""
    said = (
        f"read {found.files} of {counted(found.of_files, 'file')},"
        f" {byte_size(found.size)} of {byte_size(found.of_size)}"
    )
    left = found.left_s
    return said if left is None else f"{said}; {counted(round(left), 'second')} left"


class _Plan(NamedTuple):
    """What would be written into the settings of agents, and what to know about it."""

    works: Sequence["InstallWork"]
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

    What Git's index knows to be unchanged is taken from there, every other file to record is read.
    Then the daemon is started, unless agent-undo.daemon is off. If you run it again, it rescans
    all files. No setting, hook, index or branch of the repository is changed. On a terminal,
    hooks for the agents found on this machine are shown as diffs of your own settings files and
    offered once, with one question.
    """
    offered = hooks is not False and (hooks or yes or _can_ask(as_json))
    if hooks and not yes and not _can_ask(as_json):
        hint = "add --yes to write them, or omit --hooks"
        raise UsageError("cannot ask about hooks: no terminal", hint=hint)
    layout = find_layout()
    with shown(layout):
        if daemon_allowed(layout) and client.ping(layout) is None:
            # It watches from the first moment on, and nothing has to be looked at twice.
            launch.first(layout, force=force, meanwhile=_import_rest)
        reply = send(INIT, InitRequest(force))
    answer = reply.answer
    if answer.daemon_allowed and not answer.daemon:
        launch.start(layout)
        answer = answer._replace(daemon=True)
    from gitshadow.render.status import init_end_lines, init_lines

    if not as_json:
        output.show(init_lines(answer, screen().view))
    document = {**reply.document, **encode(answer)}
    code = int(ExitCode.DONE)
    if offered:
        code, installed = _offer(yes=yes, as_json=as_json)
        document |= installed
    protection = _protection(answer.daemon)
    if as_json:
        output.show_json({**document, **encode(protection)})
    else:
        output.show(init_end_lines(protection, screen().view))
    return code if hooks or yes else int(ExitCode.DONE)


def _import_rest() -> None:
    for name in _NEEDED_LATER:
        import_module(name)


def _can_ask(as_json: bool) -> bool:
    return is_interactive() and not as_json


def _offer(*, yes: bool, as_json: bool) -> tuple[int, JsonObject]:
    """Show the hooks of all agents found here and ask.

    Returns:
        The exit code of that, and its document as `hooks`, if there was anything to install.
    """
    from gitshadow.commands.hooks_install import InstallOptions, attempt, report

    plan = _plan()
    if not plan.works:
        return int(ExitCode.DONE), {}
    manner = InstallOptions(yes, False, as_json)
    if not as_json:
        names = ", ".join(plan.agents)
        click.echo(
            f"found here: {names}; these entries report which agent makes each change"
        )
    done = attempt(plan.works, plan.notes, manner)
    report(done, as_text=not as_json)
    return done.exit_code, {"hooks": encode(done.report)}


def _plan() -> _Plan:
    """Plan the user's own hooks of every agent that is found; none where all are there."""
    from gitshadow.commands.hooks_install import agent_work
    from gitshadow.commands.surroundings import find_surroundings
    from gitshadow.hookfiles import advice, install
    from gitshadow.hookfiles.install import FileAction

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


def _protection(daemon: bool) -> InitProtection:
    """Return who reports writes from now on, which agents' hooks do not run, and who has none."""
    from gitshadow.commands.surroundings import find_surroundings
    from gitshadow.hookfiles import detect, health

    around, _ = find_surroundings()
    found = [
        state
        for agent, scope in detect.present(around)
        if (state := health.look(agent, scope, around)) is not None
    ]
    told = list(
        dict.fromkeys(
            one.agent for one in found if one.state is health.HealthState.INSTALLED
        )
    )
    waiting = tuple(
        WaitingHooks(one.agent, finding.problem, finding.fix)
        for one in found
        if one.agent not in told
        for finding in one.findings[:1]
    )
    named = {one.agent for one in found}
    mute = tuple(name for name in detect.detected(around) if name not in named)
    by = (*(["daemon"] if daemon else []), *told)
    return InitProtection(by, mute, waiting)
