"""`git agent-undo doctor`: check the installation."""

import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import click

from gitshadow.commands.client import Reply, find_layout, made_here, send
from gitshadow.commands.daemon import standstill
from gitshadow.commands.options import colour_option, json_option
from gitshadow.commands.surroundings import find_surroundings
from gitshadow.commands.terminal import print_answer
from gitshadow.errors import ExitCode, ShadowError
from gitshadow.hookfiles import health, install
from gitshadow.hookfiles.catalog import AGENTS
from gitshadow.hookfiles.detect import InstallEnvironment
from gitshadow.hookfiles.health import Health, HealthState
from gitshadow.hookfiles.install import FileAction
from gitshadow.hookfiles.placement import InstallScope
from gitshadow.ipc import command_client
from gitshadow.messages.codec import encode
from gitshadow.messages.status import (
    DOCTOR,
    STATUS,
    UNLESS_HEARD,
    CheckRow,
    DoctorAnswer,
    DoctorRequest,
    StatusAnswer,
    StatusRequest,
)
from gitshadow.messages.storage import REINDEX, ReindexRequest
from gitshadow.platform import current
from gitshadow.render.status import doctor_lines
from gitshadow.words import counted

# Findings that only a new journal, built from the refs, resolves.
_REBUILT = ("rows", "journal")
_MENDABLE = frozenset({HealthState.STALE, HealthState.BROKEN})


@click.command("doctor")
@click.option("--fix", is_flag=True, help="Fix what can be fixed.")
@colour_option
@json_option
def command(fix: bool, as_json: bool) -> int:
    """Check the installation and suggest a fix for each problem. Exits 1 if there is one.

    --fix sets a damaged journal aside and rebuilds it from the refs, with all that can be
    read from the old one; resets a ref whose objects are lost to its last complete commit;
    finishes an interrupted undo; removes stale locks; marks past gaps as seen; starts the
    daemon; and updates outdated hooks.
    """
    killed = _was_killed()
    reply = _engine(fix=fix)
    answer = reply.answer
    if answer.unreadable:
        outside = [*_hooks([], fix=fix)]
    else:
        status = send(STATUS, StatusRequest(brief=True)).answer
        outside = [_daemon(status, killed=killed, fix=fix), _command_server()]
        outside += _hooks(status.heard_lately, fix=fix)
    mended = [one.mended for one in outside if one.mended is not None]
    answer = answer._replace(
        checks=(*answer.checks, *(one.check for one in outside)),
        mended=(*answer.mended, *mended),
    )
    print_answer(_with(reply, answer), doctor_lines, as_json=as_json)
    fine = all(check.ok for check in answer.checks)
    return int(ExitCode.DONE if fine else ExitCode.ERROR)


class _Outside(NamedTuple):
    """A finding outside the engine, and what was done about it."""

    check: CheckRow
    mended: str | None = None


def _with(reply: Reply[DoctorAnswer], answer: DoctorAnswer) -> Reply[DoctorAnswer]:
    """Return a reply that answers more; the document keeps what any verb may add to it."""
    return Reply(DoctorAnswer, {**reply.document, **encode(answer)})


def _engine(*, fix: bool) -> Reply[DoctorAnswer]:
    """Run the check; rebuild the journal if it asks for that, or if nothing else helps."""
    reply: Reply[DoctorAnswer] | None = None
    try:
        reply = send(DOCTOR, DoctorRequest(fix))
    except ShadowError as error:
        if not (error.hint and "reindex" in error.hint):
            raise
        if not fix:
            remedy = "git agent-undo doctor --fix"
            check = _check("journal", error.message, remedy)
            return made_here(DoctorAnswer((check,), (), unreadable=True))
    mended: tuple[str, ...] = ()
    if reply is not None:
        checks = reply.answer.checks
        lost = any(check.name in _REBUILT and not check.ok for check in checks)
        if not (fix and lost):
            return reply
        mended = reply.answer.mended
    # The daemon has the old journal open, and the writer lock.
    with standstill():
        send(REINDEX, ReindexRequest())
    again = send(DOCTOR, DoctorRequest(fix))
    said = (*mended, "rebuilt the journal from the refs", *again.answer.mended)
    return _with(again, again.answer._replace(mended=said))


def _was_killed() -> bool:
    """Return whether a daemon died without its end: its socket is there, and nobody answers."""
    # A daemon that ends in order removes its socket.
    layout = find_layout()
    if not os.path.exists(layout.socket):
        return False
    from gitshadow.ipc import client

    return client.ping(layout) is None


def _daemon(status: StatusAnswer, *, killed: bool, fix: bool) -> _Outside:
    daemon = status.daemon
    if daemon.running:
        return _Outside(_check("daemon", f"running, {daemon.pid or 0}"))
    if not status.enabled or not daemon.allowed:
        return _Outside(_check("daemon", "off by your settings"))
    if not killed:
        return _Outside(_check("daemon", "not running; the next hook starts it"))
    if fix:
        from gitshadow.ipc import launch

        try:
            pid = launch.start(find_layout())
        except ShadowError as error:
            return _Outside(
                _check("daemon", error.message, "git agent-undo daemon start")
            )
        return _Outside(_check("daemon", f"running, {pid}"), "started the daemon")
    said = "it was killed: until the next hook, changes are recorded only at commands"
    return _Outside(_check("daemon", said, "git agent-undo daemon start"))


def _command_server() -> _Outside:
    found = command_client.running()
    if found is not None:
        pid, version = found
        number = len(current().process_facts().children(pid))
        said = f"running, {pid}, version {version}, {counted(number, 'process', 'processes')}"
        said += "; to turn it off: git config --global agent-undo.server off"
    elif current().world() is None:
        said = "not available on this system"
    elif command_client.is_off(find_layout()):
        said = "off by your settings"
    else:
        said = "not running; the next command starts it"
        if log := command_client.log():
            said += f"; the last one failed: {log}"
    return _Outside(_check("command server", said))


def _hooks(lately: Sequence[str], *, fix: bool) -> Iterator[_Outside]:
    """Yield a finding per installation; `lately` are the agents whose hooks came lately."""
    around, _ = find_surroundings()
    found = [
        state
        for agent in AGENTS.values()
        for scope in InstallScope
        if (state := health.look(agent, scope, around)) is not None
        and state.state is not HealthState.ABSENT
    ]
    for state in found:
        if fix and state.state in _MENDABLE and _written_anew(state, around):
            fresh = health.look(AGENTS[state.agent], state.scope, around) or state
            said = f"updated the hooks of {state.agent} ({state.path})"
            is_heard = state.agent in lately
            yield _Outside(_hook_check(fresh, is_heard=is_heard), said)
        else:
            yield _Outside(_hook_check(state, is_heard=state.agent in lately))
    if not found:
        said = "no agent hooks are installed: authorship is a guess"
        yield _Outside(_check("hooks", said))


def _written_anew(state: Health, around: InstallEnvironment) -> bool:
    steps = install.plan_install(AGENTS[state.agent], state.scope, around)
    done = install.apply(steps, around, installing=True)
    return all(step.action is not FileAction.FAIL for step in done)


def _hook_check(state: Health, *, is_heard: bool) -> CheckRow:
    name = f"hooks of {state.agent}"
    if not state.findings:
        return _check(name, f"installed in {state.path}")
    if is_heard and state.state in UNLESS_HEARD:
        return _check(name, f"installed in {state.path}; an event came recently")
    worst = max(state.findings, key=lambda one: list(HealthState).index(one.state))
    return _check(name, worst.problem, worst.fix)


def _check(name: str, message: str, remedy: str | None = None) -> CheckRow:
    """Return a finding as the engine's are; one with a remedy is not ok."""
    return CheckRow(name, remedy is None, message, remedy)
