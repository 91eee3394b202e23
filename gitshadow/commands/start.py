"""`git agent-undo start`: start the daemon of this worktree."""

from collections.abc import Iterator, Mapping

import click

from gitshadow.commands.client import ask, find_layout
from gitshadow.commands.options import json_option, yes_option
from gitshadow.commands.output import print_document
from gitshadow.errors import ExitCode
from gitshadow.render.document import Document, flag, inner, number, text
from gitshadow.render.style import View


@click.command("start")
@click.option(
    "--at-login", is_flag=True, help="Also start it at each login, with systemd."
)
@yes_option
@json_option
def command(at_login: bool, yes: bool, as_json: bool) -> int:
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
    from gitshadow.commands import hooks_install, login_plan
    from gitshadow.commands.install_env import find_surroundings
    from gitshadow.hookfiles import login

    login_plan.refuse_without_systemd()
    ask("status", {"brief": True})  # nothing is to start where nothing is recorded
    around, _ = find_surroundings()
    work = login_plan.LoginWork(login.plan(find_layout().root, around), around)
    manner = hooks_install.InstallOptions(yes, False, as_json)
    done = hooks_install.attempt([work], [], manner)
    if done.document["status"] in ("done", "nothing_to_do"):
        done.document["notes"] = [login_plan.NOTE]
    hooks_install.report(done, as_text=not as_json)
    return done.exit_code, done.document


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
