"""stats: how many lines are whose, counted anew each time from the owners of lines."""

from collections import Counter
from collections.abc import Mapping
from typing import TypeVar

from gitshadow.api import Document, Params
from gitshadow.blame.line_owners import Owning
from gitshadow.blame.line_sets import Portions, Shares, Skipped
from gitshadow.blame.scope import scope_of
from gitshadow.model import Actor, Event
from gitshadow.query.rows import Row
from gitshadow.recording.context import RecorderContext
from gitshadow.store.journal import sessions, turns
from gitshadow.store.journal.db import Db
from gitshadow.store.refs import display_path

_T = TypeVar("_T")


def stats(context: RecorderContext, params: Params) -> Document:
    """Return the shares of agents, models, sessions, people and nobody known.

    The lines are those of the working tree; of a commit (`commit`); or what a commit or a range
    brought (`words`).
    """
    context.observer.settle()
    scope = scope_of(context, params)
    db = context.workspace.db
    shares = Shares(model_of=lambda event: _model(db, event))
    skipped: list[Row] = []
    for part in scope.parts(Portions(context, Owning(context))):
        if isinstance(part, Skipped):
            skipped.append({"path": display_path(part.path), "reason": part.why})
        else:
            shares.add(part)
    return {
        "scope": scope.row(),
        "lines": shares.lines,
        "files": shares.files,
        "classes": _classes(shares),
        "agents": _agents(shares),
        "sessions": _sessions(db, shares),
        "unknown": [
            {"reason": reason, **_part(lines, shares.lines)}
            for reason, lines in _ranked(shares.unknown)
        ],
        "claimed": [
            {**claim._asdict(), **_part(lines, shares.lines)}
            for claim, lines in _ranked(shares.claimed)
        ],
        "not_by_line": skipped,
    }


def _model(db: Db, event: Event) -> str | None:
    who = event.attribution
    return None if who is None else sessions.model_at(db, who.session, event.ts_ns)


def _part(lines: int, total: int) -> Row:
    return {"lines": lines, "share": round(lines / total, 4) if total else 0.0}


def _classes(shares: Shares) -> list[Row]:
    return [
        {"class": actor.value, **_part(shares.classes[actor], shares.lines)}
        for actor in Actor
    ]


def _agents(shares: Shares) -> list[Row]:
    """Return agents, each with its models."""
    agents: Counter[str] = Counter()
    by_model: dict[str, Counter[str | None]] = {}
    for writer, lines in shares.writers.items():
        agents[writer.agent] += lines
        by_model.setdefault(writer.agent, Counter())[writer.model] += lines
    return [
        {
            "agent": agent,
            **_part(lines, shares.lines),
            "models": [
                {"model": model, **_part(count, shares.lines)}
                for model, count in _ranked(by_model[agent])
            ],
        }
        for agent, lines in _ranked(agents)
    ]


def _sessions(db: Db, shares: Shares) -> list[Row]:
    """Return sessions, those with most lines first, with what they were first told."""
    found: Counter[tuple[str, str]] = Counter()
    for writer, lines in shares.writers.items():
        found[writer.session, writer.agent] += lines
    return [
        {
            "session": session,
            "agent": agent,
            **_part(lines, shares.lines),
            "prompt": turns.first_prompt(db, session),
        }
        for (session, agent), lines in _ranked(found)
    ]


def _ranked(counts: Mapping[_T, int]) -> list[tuple[_T, int]]:
    return sorted(counts.items(), key=lambda one: (-one[1], str(one[0])))
