"""`git agent-undo witness`: the service of root that knows which process wrote what."""

from typing import NamedTuple

import click

from gitshadow.commands.options import json_option
from gitshadow.commands.usage_errors import VerbGroup
from gitshadow.errors import ExitCode, UnsupportedError
from gitshadow.messages.codec import encode
from gitshadow.platform import current
from gitshadow.platform.port import HERE_ALONE, WitnessService
from gitshadow.render import output


class WitnessState(NamedTuple):
    """Whether the service is installed and answers this user; `problem` is why not."""

    installed: bool
    answers: bool
    problem: str | None


def _service() -> WitnessService:
    found = current().witness_service()
    if found is None:
        raise UnsupportedError(
            f"cannot use the witness service: {HERE_ALONE}",
            hint="git config agent-undo.witness false",
        )
    return found


@click.group("witness", cls=VerbGroup)
def command() -> None:
    """Manage the witness: a system service through which the kernel reports who wrote.

    It answers only for directories and files of the user who asks, and never reads content. A
    repository uses it if agent-undo.witness is true.
    """


@command.command("install")
def install_command() -> None:
    """Install the service for all users of this machine, as root.

    It writes one file below /var/lib and a systemd unit, and starts it. Without systemd it
    says how to run the service in the foreground.
    """
    service = _service()
    started = service.install()
    click.echo(f"installed {service.FILE}")
    if started:
        click.echo(f"started {service.UNIT_NAME}, now and at each boot")
    else:
        click.echo("not started: systemd does not run this machine")
        click.echo("to run it in the foreground: sudo git agent-undo witness run")
    click.echo("to use it in a repository: git config agent-undo.witness true")


@command.command("uninstall")
def uninstall_command() -> None:
    """Stop the service and remove all that install wrote, as root."""
    there = _service().uninstall()
    click.echo("removed the witness service" if there else "nothing was installed")


@command.command("run")
def run_command() -> None:
    """Run the installed service in the foreground until interrupted, as root."""
    _service().run()


@command.command("status")
@json_option
def status_command(as_json: bool) -> int:
    """Show whether the service is installed and answers you."""
    service = current().witness_service()
    installed = service is not None and service.is_installed()
    problem = HERE_ALONE if service is None else service.problem()
    state = WitnessState(installed, problem is None, problem)
    if as_json:
        output.show_json(encode(state))
    elif state.answers:
        click.echo("the witness service answers")
    elif state.installed:
        click.echo(f"the witness service is installed, but cannot be used: {problem}")
    else:
        click.echo("the witness service is not installed")
    return int(ExitCode.DONE if state.answers else ExitCode.ERROR)
