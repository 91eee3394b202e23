"""`git agent-undo status`: is this protected right now, by what, and what is not covered."""

import functools
import os

import click

from gitshadow.commands.client import ask, find_layout
from gitshadow.commands.error_handler import error_document
from gitshadow.commands.health import judge, not_recorded, nothing_recorded
from gitshadow.commands.hooks_plan import find_surroundings
from gitshadow.commands.options import colour_option, json_option
from gitshadow.commands.output import print_document
from gitshadow.errors import ExitCode, NotInitialisedError, StoreError
from gitshadow.hookfiles import detect, presence
from gitshadow.hookfiles.catalog import AGENTS
from gitshadow.hookfiles.detect import InstallEnvironment
from gitshadow.render.document import Document
from gitshadow.render.status import status_lines


@click.command("status")
@click.option(
    "--all", "whole", is_flag=True, help="List every path that is not recorded."
)
@colour_option
@json_option
def command(whole: bool, as_json: bool) -> int:
    """Show whether you are protected right now, and what is not recorded.

    The first line answers, the last one shows what to type next. Exits 1 if nothing is
    recorded here.
    """
    document = _document()
    lines = functools.partial(status_lines, whole=whole)
    print_document(document, lines, as_json=as_json)
    return int(ExitCode.DONE if "events" in document else ExitCode.ERROR)


def _document() -> Document:
    try:
        status = ask("status", {})
    except NotInitialisedError as error:
        verdict = nothing_recorded(find_layout().root)
        return {**error_document(error), "protected": verdict}
    except StoreError as error:
        return {**error_document(error), "protected": not_recorded(error)}
    around, _ = find_surroundings()
    hooks = _hooks(around)
    served = {str(row["agent"]) for row in hooks}
    unhooked = [name for name in detect.detected(around) if name not in served]
    return {**status, "protected": judge(status, hooks, unhooked, os.environ)}


def _hooks(around: InstallEnvironment) -> list[Document]:
    """Return one row per installation; what that takes is loaded only where there is one."""
    there = list(presence.present(around))
    if not there:
        return []
    from gitshadow.hookfiles import health

    found = (health.look(AGENTS[agent.name], scope, around) for agent, scope in there)
    rows: list[Document] = []
    for state in found:
        if state is None or state.state is health.HealthState.ABSENT:
            continue
        worst = next((one for one in state.findings if one.state is state.state), None)
        rows.append(
            {
                "agent": state.agent,
                "scope": state.scope.value,
                "state": state.state.value,
                "path": state.path,
                "problem": worst.problem if worst else None,
                "fix": worst.fix if worst else None,
            }
        )
    return rows
