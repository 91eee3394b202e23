"""start, stop, watch: the daemon of a worktree."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import click

from gitshadow.commands.client import ask, find_layout
from gitshadow.commands.options import json_option, yes_option
from gitshadow.commands.output import print_document
from gitshadow.errors import ExitCode, NotInitialisedError
from gitshadow.messages.codec import encode
from gitshadow.render import json
from gitshadow.render.document import Document, flag, inner, number, text
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


@click.command("start")
@click.option(
    "--at-login", is_flag=True, help="Also start it at each login, with systemd."
)
@yes_option
@json_option
def start_command(at_login: bool, yes: bool, as_json: bool) -> int:
    """Start the daemon of this worktree, unless it is already running.

    With --at-login, a systemd user unit and the link that starts it are shown and, if you
    agree, written below ~/.config/systemd/user; `stop --at-login` and `uninstall` remove
    exactly these.
    """
    code, login = int(ExitCode.DONE), None
    if at_login:
        code, login = _at_login(yes, as_json)
    document = _started()
    if login is not None:
        document["at_login"] = login
    print_document(document, _lines, as_json=as_json)
    return code


def _at_login(yes: bool, as_json: bool) -> tuple[int, Document]:
    from gitshadow.commands import hooks_install, hooks_plan
    from gitshadow.commands.hooks_plan import find_surroundings
    from gitshadow.hookfiles import login

    hooks_plan.refuse_without_systemd()
    ask("status", {"brief": True})  # nothing is to start where nothing is recorded
    around, _ = find_surroundings()
    work = hooks_plan.login_work(login.plan(find_layout().root, around), around)
    manner = hooks_install.InstallOptions(yes, False, as_json)
    done = hooks_install.attempt([work], [], manner)
    if done.report.status in ("done", "nothing_to_do"):
        noted = done.report._replace(notes=(hooks_plan.NOTE,))
        done = done._replace(report=noted)
    hooks_install.report(done, as_text=not as_json)
    return done.exit_code, encode(done.report)


def _lines(document: Mapping[str, object], _: View) -> Iterator[str]:
    if not flag(document, "running"):
        yield text(document, "reason")
        return
    since = "already" if flag(document, "already") else "from now on"
    yield f"daemon {number(document, 'pid')} records this worktree {since}"


def _started() -> Document:
    status = ask("status", {"brief": True})
    if status.get("enabled") is False:
        reason = "recording is off: agent-undo.enabled is false"
        return {"running": False, "pid": None, "already": False, "reason": reason}
    daemon = inner(status, "daemon")
    if flag(daemon, "running"):
        return {"running": True, "pid": number(daemon, "pid"), "already": True}
    from gitshadow.ipc import launch

    return {"running": True, "pid": launch.start(find_layout()), "already": False}


@click.command("stop")
@click.option("--at-login", is_flag=True, help="Also stop starting it at login.")
@yes_option
@json_option
def stop_command(at_login: bool, yes: bool, as_json: bool) -> int:
    """Stop the daemon of this worktree; hooks and commands still record."""
    from gitshadow.ipc import launch

    code, document = int(ExitCode.DONE), Document()
    if at_login:
        code, document["at_login"] = _not_at_login(yes, as_json)
    document["stopped"] = stopped = launch.stop(find_layout())
    if as_json:
        json.show(document)
    else:
        click.echo("stopped" if stopped else "no daemon was running")
    return code


def _not_at_login(yes: bool, as_json: bool) -> tuple[int, Document]:
    from gitshadow.commands import hooks_install, hooks_plan
    from gitshadow.commands.hooks_plan import find_surroundings
    from gitshadow.hookfiles import login

    around, _ = find_surroundings()
    work = hooks_plan.login_work(
        login.plan_removal([find_layout().root], around), around
    )
    done = hooks_install.attempt(
        [work], [], hooks_install.InstallOptions(yes, False, as_json)
    )
    hooks_install.report(done, as_text=not as_json)
    return done.exit_code, encode(done.report)


@click.command("watch")
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

    return server.run(layout, foreground=True)
