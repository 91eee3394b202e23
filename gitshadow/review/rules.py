"""Judge a change: facts and the demands of each source in, findings out.

Each source of demands is judged by itself, and of equal findings the strictest one counts. So a new
source can add findings and raise their level, and never do the opposite.
Invariant: pure. A run names added lines only, what is unknown is left out of the facts, and a
finding names the command that settles it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from gitshadow.capture.patterns import RuleList, parse_patterns
from gitshadow.model import Actor, Demands, Level, RepoPath

Span = tuple[int, int]
"""Neighbouring lines by the first and the last number, from 1; (0, 0): a file without lines."""


class LineWriter(NamedTuple):
    """Store who wrote something, and what that rests on."""

    actor: Actor
    reason: str = ""
    agent: str | None = None
    session: str | None = None
    turn: str | None = None
    prompt: str | None = None
    candidates: tuple[str, ...] = ()


class LineRun(NamedTuple):
    """Store neighbouring lines that a change adds and one writer wrote.

    `undone_by` is the op in effect that undid these lines.
    """

    span: Span
    writer: LineWriter
    reviewed: bool = False
    undone_by: str | None = None


class OpenTurnFact(NamedTuple):
    """Store a turn of another session that is open and wrote to a file of the change."""

    writer: LineWriter
    since_ns: int


class RecordingGap(NamedTuple):
    """Store a hole in the recording of a file, or of a session that wrote to it."""

    seq: int
    note: str
    writer: LineWriter | None = None


class FileFacts(NamedTuple):
    """Store what is known of one file of a change.

    `old_path` is its name before, where it was renamed. `touched` are the agents whose recorded
    writes led from the old content to the new one.
    `reviewed` is set if somebody reviewed exactly this content.
    """

    path: RepoPath
    runs: tuple[LineRun, ...] = ()
    touched: tuple[LineWriter, ...] = ()
    turns: tuple[OpenTurnFact, ...] = ()
    gaps: tuple[RecordingGap, ...] = ()
    reviewed: bool = False
    old_path: RepoPath | None = None


def line_count(span: Span) -> int:
    """Return how many lines a span has; a file without lines counts as one."""
    return span[1] - span[0] + 1


class CheckRule(StrEnum):
    """The rules, named as in the settings; `policy` is about a policy file itself."""

    POLICY = "policy"
    OPEN_TURN = "openTurn"
    PROTECTED = "protected"
    REVIEW = "review"
    UNKNOWN = "unknown"
    UNDONE = "undone"
    GAPS = "gaps"


class PolicySource(NamedTuple):
    """Store one source of demands, and what to call it."""

    name: str
    demands: Demands


class PolicyFinding(NamedTuple):
    """Store one thing that is not as a source demands it.

    `about` is the op, the gap's number or the pattern that it is about. `source` is who demands
    it most strictly.
    """

    rule: CheckRule
    path: RepoPath | None
    reason: str
    level: Level = Level.OFF
    spans: tuple[Span, ...] = ()
    writer: LineWriter | None = None
    about: str | None = None
    source: str = ""


_Found = Iterator[PolicyFinding]
_Look = Callable[[Sequence[FileFacts], Demands], _Found]
_Key = tuple[
    CheckRule, RepoPath | None, tuple[Span, ...], LineWriter | None, str | None
]


def judge(
    files: Sequence[FileFacts], sources: Iterable[PolicySource]
) -> list[PolicyFinding]:
    """Return what is found, by path, strictest first."""
    found: dict[_Key, PolicyFinding] = {}
    for source in sources:
        for level, look in _rules(source.demands):
            if level is Level.OFF:
                continue
            for one in look(files, source.demands):
                made = one._replace(level=level, source=source.name)
                key = made.rule, made.path, made.spans, made.writer, made.about
                known = found.get(key)
                # Several sources may demand the same; it is reported once, by the strictest.
                if known is None or known.level.rank < level.rank:
                    found[key] = made
    return sorted(found.values(), key=_order)


def strictest(found: Iterable[PolicyFinding]) -> Level:
    """Return the level of the strictest finding, `off` where there is none."""
    return max(
        (one.level for one in found), key=lambda one: one.rank, default=Level.OFF
    )


def _order(one: PolicyFinding) -> tuple[bytes, int, str, tuple[Span, ...]]:
    return one.path or b"", -one.level.rank, one.rule.value, one.spans


def _open_turns(files: Sequence[FileFacts], _demands: Demands) -> _Found:
    for file in files:
        for turn in file.turns:
            who = turn.writer
            yield PolicyFinding(
                rule=CheckRule.OPEN_TURN,
                path=file.path,
                reason=f"an open turn of {who.agent or 'an agent'} changed it",
                spans=_spans_of(file, who.session),
                writer=who,
            )


def _protected(files: Sequence[FileFacts], demands: Demands) -> _Found:
    rules = parse_patterns(demands.protected_paths)
    for file in files if rules else ():
        names = (file.path, file.old_path)
        patterns = [_matching(rules, name) for name in names if name is not None]
        pattern = next(filter(None, patterns), None)
        if pattern is None:
            continue
        for who in file.touched:
            yield PolicyFinding(
                rule=CheckRule.PROTECTED,
                path=file.path,
                reason=f"protected from agents, changed by {who.agent or 'an agent'}",
                spans=_spans_of(file, who.session),
                writer=who,
                about=pattern,
            )


def _matching(rules: RuleList, path: RepoPath) -> str | None:
    """Return the pattern that a path or a directory above it falls under, as gitignore does."""
    # A pattern may name a directory, and then protects all that is in it.
    parts = path.split(b"/")
    for end in range(1, len(parts) + 1):
        rule = rules.decide(b"/".join(parts[:end]), is_dir=end < len(parts))
        if rule is not None and not rule.negated:
            return rule.text.decode("utf-8", "backslashreplace")
    return None


def _unreviewed(files: Sequence[FileFacts], demands: Demands) -> _Found:
    """Count over the whole change: lines spread over many files are as many."""

    def open_agent_run(run: LineRun) -> bool:
        return run.writer.actor is Actor.AGENT and not run.reviewed

    # A mark of the whole content counts also for lines whose owner is not known.
    open_files = [file for file in files if not file.reviewed]
    total = sum(
        line_count(run.span)
        for file in open_files
        for run in filter(open_agent_run, file.runs)
    )
    if total <= demands.review_lines:
        return
    for file in open_files:
        for who, spans in _by_writer(filter(open_agent_run, file.runs)).items():
            yield PolicyFinding(
                rule=CheckRule.REVIEW,
                path=file.path,
                reason=f"unreviewed lines by {who.agent or 'an agent'}"
                f" ({total} in total, limit {demands.review_lines})",
                spans=spans,
                writer=who,
            )


def _unknown(files: Sequence[FileFacts], _demands: Demands) -> _Found:
    for file in files:
        runs = [
            run
            for run in file.runs
            if run.writer.actor is Actor.UNKNOWN
            and not run.reviewed
            and not file.reviewed
        ]
        for who, spans in _by_writer(runs).items():
            yield PolicyFinding(
                rule=CheckRule.UNKNOWN,
                path=file.path,
                reason=f"unknown author: {who.reason or 'no evidence'}",
                spans=spans,
                writer=who,
            )


def _undone(files: Sequence[FileFacts], _demands: Demands) -> _Found:
    for file in files:
        spans: dict[str, list[Span]] = {}
        for run in file.runs:
            if run.undone_by is not None:
                spans.setdefault(run.undone_by, []).append(run.span)
        for op, found in spans.items():
            yield PolicyFinding(
                rule=CheckRule.UNDONE,
                path=file.path,
                reason="an undo removed these lines",
                spans=_joined(found),
                about=op,
            )


def _gaps(files: Sequence[FileFacts], _demands: Demands) -> _Found:
    """Yield a gap of a whole session once, however many files the session wrote to."""
    told: set[tuple[int, str | None]] = set()
    for file in files:
        for gap in () if file.reviewed else file.gaps:
            key = gap.seq, gap.writer.session if gap.writer else None
            if gap.writer is not None and key in told:
                continue
            told.add(key)
            yield _gap(file, gap)


def _gap(file: FileFacts, gap: RecordingGap) -> PolicyFinding:
    whose = "it" if gap.writer is None else "the session that wrote to it"
    return PolicyFinding(
        rule=CheckRule.GAPS,
        path=file.path,
        reason=f"the recording of {whose} has a gap: {gap.note}",
        writer=gap.writer,
        about=str(gap.seq),
    )


def _spans_of(file: FileFacts, session: str | None) -> tuple[Span, ...]:
    return _joined(run.span for run in file.runs if run.writer.session == session)


def _by_writer(runs: Iterable[LineRun]) -> Mapping[LineWriter, tuple[Span, ...]]:
    found: dict[LineWriter, list[Span]] = {}
    for run in runs:
        found.setdefault(run.writer, []).append(run.span)
    return {who: _joined(spans) for who, spans in found.items()}


def _joined(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Join spans that touch."""
    made: list[Span] = []
    # Sorted, so that each span can only touch the one before it.
    for first, last in sorted(set(spans)):
        if made and first <= made[-1][1] + 1:
            made[-1] = (made[-1][0], max(last, made[-1][1]))
        else:
            made.append((first, last))
    return tuple(made)


def _rules(demands: Demands) -> Iterator[tuple[Level, _Look]]:
    yield demands.open_turn, _open_turns
    yield demands.protected, _protected
    yield demands.review, _unreviewed
    yield demands.unknown, _unknown
    yield demands.undone, _undone
    yield demands.gaps, _gaps
