"""status, prompt: whether changes can be undone right now, and what `oops` would undo.

`judge` is pure: facts in, one verdict out.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from click import option

from gitshadow.commands.client import find_layout, send
from gitshadow.commands.error_handler import error_document
from gitshadow.commands.options import colour_option, json_option, verb
from gitshadow.commands.surroundings import find_surroundings
from gitshadow.commands.terminal import screen
from gitshadow.errors import ExitCode, NotInitialisedError, ShadowError, StoreError
from gitshadow.hookfiles import detect
from gitshadow.hookfiles.catalog import AGENTS
from gitshadow.hookfiles.detect import InstallEnvironment
from gitshadow.ipc import prompt
from gitshadow.messages.codec import JsonObject, encode
from gitshadow.messages.status import (
    STATUS,
    UNLESS_HEARD,
    HookRow,
    Protection,
    StatusAnswer,
    StatusRequest,
)
from gitshadow.render import output
from gitshadow.render.status import status_lines

_PROTECTED, _PARTLY, _NOT = "protected", "partly", "not"
_COMES = "installed"
_START = "git agent-undo daemon start"
_INSTALL = "git agent-undo hooks install"


@verb("status")
@option("--all", "whole", is_flag=True, help="List every path that is not recorded.")
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


@verb("prompt")
@option("--ascii", "plain", is_flag=True, help="Use only ASCII characters.")
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


class _Lack(NamedTuple):
    """One thing that is not as it should be, and the command for it."""

    why: str
    fix: str


def nothing_recorded(root: str) -> Protection:
    """Return the verdict on a repository in which `init` was not run."""
    why = f"nothing is recorded in {root}"
    return _verdict(_NOT, why, "git agent-undo init")


def not_recorded(error: ShadowError) -> Protection:
    """Return the verdict where an error keeps us from recording."""
    cause = error.__cause__
    why = cause.strerror if isinstance(cause, OSError) else None
    is_new = why is not None and why not in error.message
    said = f"{error.message} ({why})" if is_new else error.message
    return _verdict(_NOT, said, error.hint)


def judge(
    status: StatusAnswer,
    hooks: Sequence[HookRow],
    unhooked: Sequence[str],
    environ: Mapping[str, str],
) -> Protection:
    """Return whether a worktree is protected.

    Args:
        status: What the engine knows.
        hooks: One row per installation, not yet with the time of its last event.
        unhooked: Agents that are found on this machine and have no hooks at all.
        environ: Settings in it count before those of Git.
    """
    lately = status.heard_lately
    rows = tuple(_with_heard(row, status) for row in hooks)
    come = dict.fromkeys(
        row.agent for row in rows if row.state == _COMES or row.agent in lately
    )
    running = status.daemon.running
    if not status.enabled:
        off = "recording is off (agent-undo.enabled is false)"
        verdict = _verdict(_NOT, off, _allow("enabled", "true", environ))
    else:
        allow = _allow("daemon", "auto", environ)
        # One reason is shown, the worst: a list would hide which one to fix first.
        lack = next(_lacking(status, rows, list(come), unhooked, allow), None)
        # Nothing was missed since the daemon's start, or since the last gap after it. Both are RFC
        # 3339 in UTC, so the later one is the greater text.
        since = max(status.daemon.started or "", status.last_gap or "") or None
        verdict = _verdict(_PARTLY if lack else _PROTECTED, *(lack or ()))._replace(
            since=since if running else None,
            by=(*(["daemon"] if running else []), *come),
        )
    return verdict._replace(hooks=rows, unhooked=tuple(unhooked))


def _with_heard(row: HookRow, status: StatusAnswer) -> HookRow:
    if row.agent in status.heard_lately and row.state in UNLESS_HEARD:
        row = row._replace(problem=None, fix=None)
    return row._replace(heard=status.heard.get(row.agent))


def _verdict(state: str, why: str | None = None, fix: str | None = None) -> Protection:
    return Protection(state, None, (), why, fix)


def _lacking(
    status: StatusAnswer,
    hooks: Sequence[HookRow],
    come: Sequence[str],
    unhooked: Sequence[str],
    allow: str,
) -> Iterator[_Lack]:
    """Yield what is not as it should be, the worst first."""
    if status.degraded:
        why, _, fix = status.degraded.partition(": ")
        said = f"{why}, so changes are detected late (by scanning)"
        yield _Lack(said, fix or "git agent-undo doctor")
    if not status.daemon.running:
        at = "changes are recorded only at hooks and commands"
        if status.daemon.allowed:
            yield _Lack(f"no daemon runs, so {at}", _START)
        else:
            yield _Lack(f"the daemon is switched off, so {at}", allow)
    for row in hooks:
        if row.state != _COMES and row.agent not in come:
            said = f"{row.agent} is not running its hooks"
            yield _Lack(said, row.fix or f"{_INSTALL} {row.agent}")
    for one in status.unreported:
        yield _Lack(one.problem, "git agent-undo doctor")
    if unhooked and not hooks:
        which = ", ".join(unhooked)
        yield _Lack(f"no hooks for {which}, so authorship is a guess", _INSTALL)


def _allow(key: str, value: str, environ: Mapping[str, str]) -> str:
    """Return the command that removes a setting which keeps us from recording."""
    # A variable counts before Git's configuration, so changing that would not help.
    variable = f"GITSHADOW_{key.upper()}"
    if environ.get(variable):
        return f"unset {variable}"
    return f"git config agent-undo.{key} {value}"
