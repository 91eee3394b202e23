"""Whether what agents write here can be taken back right now: facts in, one verdict out.

Invariant: whatever is not as it should be is named, with what to type; only then is it "protected".
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from gitshadow.errors import ShadowError
from gitshadow.render.document import Document, flag, inner, text, texts

_PROTECTED, _PARTLY, _NOT = "protected", "partly", "not"
_COMES = "installed"
UNLESS_HEARD = frozenset({"untrusted", "shadowed", "disabled"})
"""States that are read from settings: a hook that came lately shows that they do not hold."""
_START = "git agent-undo start"
_INSTALL = "git agent-undo hooks install"


class _Lack(NamedTuple):
    """Hold one thing that is not as it should be, and what to type."""

    why: str
    fix: str


def nothing_recorded(root: str) -> Document:
    """Return the verdict on a repository in which `init` was not run."""
    why = f"nothing is recorded in {root}"
    return _verdict(_NOT, why, "git agent-undo init")


def not_recorded(error: ShadowError) -> Document:
    """Return the verdict where an error keeps us from recording."""
    cause = error.__cause__
    why = cause.strerror if isinstance(cause, OSError) else None
    said = f"{error.message} ({why})" if why else error.message
    return _verdict(_NOT, said, error.hint)


def judge(
    status: Mapping[str, object],
    hooks: Sequence[Document],
    unhooked: Sequence[str],
    environ: Mapping[str, str],
) -> Document:
    """Return `state`, `since`, `by`, `why`, `fix`, `hooks` and `unhooked` of a worktree.

    Args:
        status: The engine's document.
        hooks: One row per installation: `agent`, `scope`, `state`, `path`, `problem`, `fix`.
        unhooked: Agents that are found on this machine and have no hooks at all.
        environ: Settings in it count before those of Git.
    """
    lately = texts(status, "heard_lately")
    rows = [_with_heard(row, inner(status, "heard"), lately) for row in hooks]
    come = dict.fromkeys(
        text(row, "agent")
        for row in rows
        if text(row, "state") == _COMES or text(row, "agent") in lately
    )
    daemon = inner(status, "daemon")
    running = flag(daemon, "running")
    if status.get("enabled") is False:
        off = "recording is off (agent-undo.enabled is false)"
        verdict = _verdict(_NOT, off, _allow("enabled", "true", environ))
    else:
        allow = _allow("daemon", "auto", environ)
        lack = next(_lacking(status, rows, list(come), unhooked, allow), None)
        verdict = _verdict(_PARTLY if lack else _PROTECTED, *(lack or ()))
        verdict["since"] = _since(status) if running else None
        verdict["by"] = [*(["daemon"] if running else []), *come]
    return {**verdict, "hooks": rows, "unhooked": list(unhooked)}


def _with_heard(
    row: Document, heard: Mapping[str, object], lately: Sequence[str]
) -> Document:
    agent = text(row, "agent")
    if agent in lately and text(row, "state") in UNLESS_HEARD:
        row = {**row, "problem": None, "fix": None}
    return {**row, "heard": heard.get(agent)}


def _verdict(state: str, why: str | None = None, fix: str | None = None) -> Document:
    return {"state": state, "since": None, "by": [], "why": why, "fix": fix}


def _lacking(
    status: Mapping[str, object],
    hooks: Sequence[Document],
    come: Sequence[str],
    unhooked: Sequence[str],
    allow: str,
) -> Iterator[_Lack]:
    """Yield what is not as it should be, the worst first."""
    degraded = text(status, "degraded")
    if degraded:
        why, _, fix = degraded.partition(": ")
        said = f"{why}, so changes are detected late (by scanning)"
        yield _Lack(said, fix or "git agent-undo doctor")
    daemon = inner(status, "daemon")
    if not flag(daemon, "running"):
        at = "changes are recorded only at hooks and commands"
        if flag(daemon, "allowed"):
            yield _Lack(f"no daemon runs, so {at}", _START)
        else:
            yield _Lack(f"the daemon is switched off, so {at}", allow)
    for row in hooks:
        if text(row, "state") != _COMES and text(row, "agent") not in come:
            said = f"{text(row, 'agent')} is not running its hooks"
            yield _Lack(said, text(row, "fix") or f"{_INSTALL} {text(row, 'agent')}")
    if unhooked and not hooks:
        which = ", ".join(unhooked)
        yield _Lack(f"no hooks for {which}, so authorship is a guess", _INSTALL)


def _allow(key: str, value: str, environ: Mapping[str, str]) -> str:
    """Say how to take back a setting that keeps us from recording."""
    variable = f"GITSHADOW_{key.upper()}"
    if environ.get(variable):
        return f"unset {variable}"
    return f"git config agent-undo.{key} {value}"


def _since(status: Mapping[str, object]) -> str | None:
    """Return since when nothing was missed: the daemon's start, or the last gap after it.

    Both are RFC 3339 in UTC, so the later one is the greater text.
    """
    started = text(inner(status, "daemon"), "started")
    return max(started, text(status, "last_gap")) or None
