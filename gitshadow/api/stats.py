"""stats: how many lines are whose, counted anew each time from the owners of lines."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TypeVar

from gitshadow.blame.line_owners import Owning
from gitshadow.blame.line_sets import Portions, Shares, Skipped
from gitshadow.blame.scope import scope_of
from gitshadow.messages.stats import (
    AgentShare,
    ClaimShare,
    ClassShare,
    ModelShare,
    ScopeRow,
    SessionShare,
    SkippedFile,
    StatsAnswer,
    StatsRequest,
    UnknownShare,
)
from gitshadow.model import Actor, PathChange
from gitshadow.recording.context import RecorderContext
from gitshadow.store.journal import sessions, turns
from gitshadow.store.journal.db import Db
from gitshadow.store.refs import display_path

_T = TypeVar("_T")


def stats(context: RecorderContext, request: StatsRequest) -> StatsAnswer:
    """Return the shares of agents, models, sessions, people and unknown authors."""
    context.observer.settle()
    scope = scope_of(context, request)
    db = context.workspace.db
    shares = Shares(model_of=lambda event: _model(db, event))
    skipped: list[SkippedFile] = []
    for part in scope.parts(Portions(context, Owning(context))):
        if isinstance(part, Skipped):
            skipped.append(SkippedFile(display_path(part.path), part.why))
        else:
            shares.add(part)
    return StatsAnswer(
        scope=ScopeRow(scope.kind.value, scope.commit, scope.base),
        lines=shares.lines,
        files=shares.files,
        classes=tuple(
            ClassShare(actor.value, *_part(shares.classes[actor], shares))
            for actor in Actor
        ),
        agents=tuple(_agents(shares)),
        sessions=tuple(_sessions(db, shares)),
        unknown=tuple(
            UnknownShare(reason, *_part(lines, shares))
            for reason, lines in _ranked(shares.unknown)
        ),
        claimed=tuple(
            ClaimShare(*claim, *_part(lines, shares))
            for claim, lines in _ranked(shares.claimed)
        ),
        not_by_line=tuple(skipped),
    )


def _model(db: Db, event: PathChange) -> str | None:
    return sessions.model_at(db, event.attribution.session, event.ts_ns)


def _part(lines: int, shares: Shares) -> tuple[int, float]:
    """Return a number of lines with its share of all lines."""
    return lines, round(lines / shares.lines, 4) if shares.lines else 0.0


def _agents(shares: Shares) -> Iterator[AgentShare]:
    """Yield agents, each with its models."""
    agents: Counter[str] = Counter()
    by_model: dict[str, Counter[str | None]] = {}
    for writer, lines in shares.writers.items():
        agents[writer.agent] += lines
        by_model.setdefault(writer.agent, Counter())[writer.model] += lines
    for agent, lines in _ranked(agents):
        found = tuple(
            ModelShare(model, *_part(count, shares))
            for model, count in _ranked(by_model[agent])
        )
        yield AgentShare(agent, *_part(lines, shares), found)


def _sessions(db: Db, shares: Shares) -> Iterator[SessionShare]:
    """Yield sessions, those with most lines first, with their first prompt."""
    found: Counter[tuple[str, str]] = Counter()
    for writer, lines in shares.writers.items():
        found[writer.session, writer.agent] += lines
    for (session, agent), lines in _ranked(found):
        prompt = turns.first_prompt(db, session)
        yield SessionShare(session, agent, *_part(lines, shares), prompt)


def _ranked(counts: Mapping[_T, int]) -> list[tuple[_T, int]]:
    return sorted(counts.items(), key=lambda one: (-one[1], str(one[0])))
