"""daemon start, stop, watch: the daemon of a worktree."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import click

from gitshadow.commands.client import find_layout, made_here, send
from gitshadow.commands.options import json_option, yes_option
from gitshadow.commands.terminal import print_answer
from gitshadow.commands.usage_errors import VerbGroup
from gitshadow.errors import ExitCode, NotInitialisedError
from gitshadow.messages.codec import UNSET, Unset, encode
from gitshadow.messages.hooks import InstallReport
from gitshadow.messages.status import STATUS, StartAnswer, StatusRequest, StopAnswer
from gitshadow.render import output
from gitshadow.render.style import View
from gitshadow.store.layout import recorded


@contextmanager
def standstill() -> Iterator[None]:
    """Stop the daemons of this repository for a block."""
    from gitshadow.ipc import launch

    stopped = [one for one in recorded(find_layout()) if launch.stop(one)]
    try:
        yield
    finally:
        for layout in stopped:
            launch.start(layout)


@click.group("daemon", cls=VerbGroup)
def daemon_command() -> None:
    """Start or stop the daemon of this worktree, or run it here.

    The daemon records every change within milliseconds. Without it, hooks and commands record.
    """


@daemon_command.command("start")
@click.option(
    "--at-login",
    is_flag=True,
    help="Also start it at each login, with systemd or launchd.",
)
@yes_option
@json_option
def start_command(at_login: bool, yes: bool, as_json: bool) -> int:
    """Start the daemon of this worktree, unless it is already running.

    With --at-login, a systemd user unit and the link that starts it are shown and, if you
    agree, written below ~/.config/systemd/user (on macOS a property list for launchd, in
    ~/Library/LaunchAgents); `daemon stop --at-login` and `uninstall` remove exactly these.
    """
    login: InstallReport | Unset = UNSET
    code = int(ExitCode.DONE)
    if at_login:
        code, login = _at_login(yes, as_json)
    answer = _started()._replace(at_login=login)
    print_answer(made_here(answer), _lines, as_json=as_json)
    return code


def _at_login(
    yes: bool, as_json: bool, *, stopping: bool = False
) -> tuple[int, InstallReport]:
    """Write, or remove, what starts the daemon at login; return the exit code and the report."""
    from gitshadow.commands import hooks_install
    from gitshadow.commands.surroundings import find_surroundings
    from gitshadow.hookfiles import login

    note = None if stopping else login.service(os.environ).note
    if not stopping:
        # A worktree that is not recorded raises here: there is nothing to start at login.
        send(STATUS, StatusRequest(brief=True))
    (around, _), root = find_surroundings(), find_layout().root
    plan = login.plan_removal([root], around) if stopping else login.plan(root, around)
    work = hooks_install.login_work(plan, around)
    manner = hooks_install.InstallOptions(yes, False, as_json)
    done = hooks_install.attempt([work], [], manner)
    if note is not None and done.report.status in ("done", "nothing_to_do"):
        noted = done.report._replace(notes=(note,))
        done = done._replace(report=noted)
    hooks_install.report(done, as_text=not as_json)
    return done.exit_code, done.report


def _lines(answer: StartAnswer, _: View) -> Iterator[str]:
    if not answer.running:
        yield answer.reason or ""
        return
    since = "already" if answer.already else "from now on"
    yield f"daemon {answer.pid} records this worktree {since}"


def _started() -> StartAnswer:
    status = send(STATUS, StatusRequest(brief=True)).answer
    if not status.enabled:
        reason = "recording is off: agent-undo.enabled is false"
        return StartAnswer(False, None, False, reason)
    if status.daemon.running:
        return StartAnswer(True, status.daemon.pid, True)
    from gitshadow.ipc import launch

    return StartAnswer(True, launch.start(find_layout()), False)


@daemon_command.command("stop")
@click.option("--at-login", is_flag=True, help="Also stop starting it at login.")
@yes_option
@json_option
def stop_command(at_login: bool, yes: bool, as_json: bool) -> int:
    """Stop the daemon of this worktree; hooks and commands still record."""
    from gitshadow.ipc import launch

    login: InstallReport | Unset = UNSET
    code = int(ExitCode.DONE)
    if at_login:
        code, login = _at_login(yes, as_json, stopping=True)
    stopped = launch.stop(find_layout())
    if as_json:
        output.show_json(encode(StopAnswer(login, stopped)))
    else:
        click.echo("stopped" if stopped else "no daemon was running")
    return code


@daemon_command.command("watch")
def watch_command() -> int:
    """Record in the foreground until interrupted: the daemon on this terminal.

    Unlike the background daemon it does not stop after a day without work.
    """
    layout = find_layout()
    if not layout.initialised:
        raise NotInitialisedError(
            "this repository is not recorded yet", hint="git agent-undo init"
        )
    from gitshadow.daemon import server

    return server.run(layout)
