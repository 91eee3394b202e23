"""status, prompt: whether this is protected right now, and what `oops` would undo."""

import os
from typing import NamedTuple

import click

from gitshadow.commands.client import find_layout, send
from gitshadow.commands.error_handler import error_document
from gitshadow.commands.health import judge, not_recorded, nothing_recorded
from gitshadow.commands.hooks_plan import find_surroundings
from gitshadow.commands.options import colour_option, json_option
from gitshadow.commands.terminal import screen
from gitshadow.errors import ExitCode, NotInitialisedError, StoreError
from gitshadow.hookfiles import detect
from gitshadow.hookfiles.catalog import AGENTS
from gitshadow.hookfiles.detect import InstallEnvironment
from gitshadow.ipc import prompt
from gitshadow.messages.codec import JsonObject, encode
from gitshadow.messages.status import (
    STATUS,
    HookRow,
    Protection,
    StatusAnswer,
    StatusRequest,
)
from gitshadow.render import output
from gitshadow.render.status import status_lines


@click.command("status")
@click.option(
    "--all", "whole", is_flag=True, help="List every path that is not recorded."
)
@colour_option
@json_option
def status_command(whole: bool, as_json: bool) -> int:
    """Show whether you are protected right now, and what is not recorded.

    The first line answers, the last one shows what to type next. Exits 1 if nothing is
    recorded here.
    """
    found = _found()
    if as_json:
        output.show_json({**found.document, "protected": encode(found.verdict)})
    else:
        view = screen().view
        output.show(status_lines(found.status, found.verdict, view, whole=whole))
    return int(ExitCode.DONE if found.status is not None else ExitCode.ERROR)


class _Found(NamedTuple):
    """The document of the engine, or of its error, with the verdict."""

    document: JsonObject
    status: StatusAnswer | None
    verdict: Protection


def _found() -> _Found:
    try:
        reply = send(STATUS, StatusRequest())
    except NotInitialisedError as error:
        verdict = nothing_recorded(find_layout().root)
        return _Found(error_document(error), None, verdict)
    except StoreError as error:
        return _Found(error_document(error), None, not_recorded(error))
    around, _ = find_surroundings()
    hooks = _hooks(around)
    served = {row.agent for row in hooks}
    unhooked = [name for name in detect.detected(around) if name not in served]
    verdict = judge(reply.answer, hooks, unhooked, os.environ)
    return _Found(reply.document, reply.answer, verdict)


def _hooks(around: InstallEnvironment) -> list[HookRow]:
    """Return one row per installation; what that takes is loaded only where there is one."""
    there = list(detect.present(around))
    if not there:
        return []
    from gitshadow.hookfiles import health

    found = (health.look(AGENTS[agent.name], scope, around) for agent, scope in there)
    rows: list[HookRow] = []
    for state in found:
        if state is None or state.state is health.HealthState.ABSENT:
            continue
        worst = next((one for one in state.findings if one.state is state.state), None)
        rows.append(
            HookRow(
                agent=state.agent,
                scope=state.scope.value,
                state=state.state.value,
                path=state.path,
                problem=worst.problem if worst else None,
                fix=worst.fix if worst else None,
                heard=None,
            )
        )
    return rows


@click.command("prompt")
@click.option("--ascii", "plain", is_flag=True, help="Use only ASCII characters.")
@json_option
def prompt_command(plain: bool, as_json: bool) -> int:
    """Print one short line for a shell's prompt, such as `<- claude-code 3`.

    This is what `oops` would undo: the latest changes of an agent, and their number of files.
    The sign alone means nothing to undo; a trailing `!` that changes are detected late; `off`
    that no daemon runs; `...` that it is busy. Nothing is printed outside a recorded
    repository. The command starts no daemon, takes at most 0.4 seconds and always exits 0.
    """
    words = [prompt.AS_ASCII] * plain + [prompt.AS_JSON] * as_json
    return prompt.main(words)
