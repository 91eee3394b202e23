"""stats as text: the answer first, then agents, sessions and what is not known.

Invariant: the first line answers; nothing from a repository is printed raw.
"""

from collections.abc import Iterator
from typing import TypeAlias

from gitshadow.messages.stats import (
    AgentShare,
    ClassShare,
    ModelShare,
    ScopeRow,
    SessionShare,
    StatsAnswer,
    UnknownShare,
)
from gitshadow.render.style import View, printable
from gitshadow.render.text import short
from gitshadow.words import counted

_CLASSES = {"agent": "by agents", "human": "by people", "unknown": "unknown"}
_STYLES = {"agent": "hunk", "human": "plain", "unknown": "faint"}
_SHOWN = 10
_SAID = 60
_Share: TypeAlias = AgentShare | ClassShare | ModelShare | SessionShare | UnknownShare


def stats_lines(answer: StatsAnswer, view: View) -> Iterator[str]:
    """Yield the shares of all lines, then what they are made of."""
    yield view.paint(_answer(answer), "bold")
    if answer.lines:
        yield ""
        yield from _classes(answer, view)
        yield from _sessions(answer, view)
    yield from _left_out(answer, view)


def _answer(answer: StatsAnswer) -> str:
    where = _where(answer.scope)
    if not answer.lines:
        return f"no lines {where}"
    lines, files = counted(answer.lines, "line"), counted(answer.files, "file")
    said = (
        f"{_percent(row)} {_CLASSES.get(row.class_, '')}"
        for row in answer.classes
        if row.lines
    )
    return f"{lines} in {files} {where}: {', '.join(said)}"


def _where(scope: ScopeRow) -> str:
    commit = short(scope.commit or "")
    if scope.kind == "commit":
        return f"of commit {commit}"
    if scope.kind == "added":
        return f"added by commit {commit}"
    if scope.kind == "range":
        return f"in {commit} but not in {short(scope.base or '') or 'nothing'}"
    return "of the working tree"


def _classes(answer: StatsAnswer, view: View) -> Iterator[str]:
    for row in answer.classes:
        if not row.lines:
            continue
        yield view.paint(_line(row.class_, row, 0), _STYLES.get(row.class_, "plain"))
        if row.class_ == "agent":
            yield from _agents(answer)
        if row.class_ == "unknown":
            yield from _cut(_line(one.reason, one, 2) for one in answer.unknown)


def _agents(answer: StatsAnswer) -> Iterator[str]:
    for agent in answer.agents:
        yield _line(agent.agent, agent, 2)
        for model in agent.models:
            yield _line(model.model or "model not reported", model, 4)


def _sessions(answer: StatsAnswer, view: View) -> Iterator[str]:
    if not answer.sessions:
        return
    yield ""
    yield view.paint("sessions", "bold")
    yield from _cut(_session(row) for row in answer.sessions)


def _session(row: SessionShare) -> str:
    first = (row.prompt or "").partition("\n")[0]
    told = printable(first[:_SAID]) + ("…" if len(first) > _SAID else "")
    return f"{_line(row.session, row, 0)}  {told}".rstrip()


def _left_out(answer: StatsAnswer, view: View) -> Iterator[str]:
    left = answer.not_by_line
    if not left:
        return
    yield ""
    yield f"{counted(len(left), 'file')} not counted by line"
    yield from _cut(f"  {view.path(row.path)}: {printable(row.reason)}" for row in left)


def _cut(lines: Iterator[str]) -> Iterator[str]:
    """Yield the first lines, and how many more there are."""
    found = list(lines)
    yield from found[:_SHOWN]
    if len(found) > _SHOWN:
        yield f"  … and {len(found) - _SHOWN} more (--json has all)"


def _line(name: str, row: _Share, indent: int) -> str:
    return f"{row.lines:>8}  {_percent(row):>7}  " + " " * indent + printable(name)


def _percent(row: _Share) -> str:
    said = f"{100 * row.share:.1f} %"
    if said == "0.0 %" and row.lines:
        return "<0.1 %"
    return ">99.9 %" if said == "100.0 %" and row.share < 1 else said
