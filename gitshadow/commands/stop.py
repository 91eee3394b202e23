"""`git agent-undo stop`: stop the daemon of this worktree."""

import click

from gitshadow.commands.client import find_layout
from gitshadow.commands.options import json_option, yes_option
from gitshadow.errors import ExitCode
from gitshadow.render import json
from gitshadow.render.document import Document


@click.command("stop")
@click.option("--at-login", is_flag=True, help="Also stop starting it at login.")
@yes_option
@json_option
def command(at_login: bool, yes: bool, as_json: bool) -> int:
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
    from gitshadow.commands import hooks_install, login_plan
    from gitshadow.commands.install_env import find_surroundings
    from gitshadow.hookfiles import login

    around, _ = find_surroundings()
    work = login_plan.LoginWork(
        login.plan_removal([find_layout().root], around), around
    )
    done = hooks_install.attempt(
        [work], [], hooks_install.InstallOptions(yes, False, as_json)
    )
    hooks_install.report(done, as_text=not as_json)
    return done.exit_code, done.document
