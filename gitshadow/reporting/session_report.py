"""Report what one session did: its turns with their files, and its time line as lanes.

Lanes show the session's own bursts, those of other sessions at that time, and marks. Each lane and
mark is inside the stated interval; what came later is at its end and is marked as later.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeGuard

from gitshadow.messages.codec import UNSET
from gitshadow.messages.report import (
    ConfidenceCount,
    LaneMark,
    LaneRow,
    LaneSpan,
    ReportedFile,
    ReportedStep,
    StepFile,
    Timeline,
    ToolCount,
)
from gitshadow.model import (
    Burst,
    Confidence,
    Event,
    EventKind,
    Gap,
    HeadChange,
    Op,
    PathChange,
    RepoPath,
    Session,
    Turn,
)
from gitshadow.query.rows import rfc3339
from gitshadow.recording.context import RecorderContext
from gitshadow.reporting.patches import Patchwork
from gitshadow.store.journal import bursts, events, sessions, turns
from gitshadow.store.journal.events import EventFilter
from gitshadow.undo.effective import Undone
from gitshadow.undo.targets import family

# The report is read in a browser and sent by mail, so each list has a limit. What is left out is
# counted in `left_out`, so that a part is never taken for the whole.
EVENTS = 20_000
STEPS = 500
FILES = 500
PROMPT_CHARACTERS = 20_000
# Surest first: the weakest of several is the one with the greatest index.
_SURE = (
    Confidence.CERTAIN,
    Confidence.HIGH,
    Confidence.MEDIUM,
    Confidence.LOW,
    Confidence.AMBIGUOUS,
    Confidence.UNKNOWN,
)
BURSTS = 2_000
OTHERS = 5
MARKS = 200
_SHORTEST_NS = 2_000_000_000
_MARGIN = 20
_STRETCHES = 200


@dataclass(slots=True)
class ReportStep:
    """One turn, or one burst of a session without turns, with its events in order."""

    id: str
    session: str
    turn: Turn | None
    began_ns: int
    ended_ns: int
    events: list[PathChange] = field(default_factory=list)
    tools: Counter[str] = field(default_factory=Counter)


class Story:
    """One session with its subagents."""

    def __init__(self, context: RecorderContext, session: Session) -> None:
        self._ws = context.workspace
        db, here = self._ws.db, self._ws.layout.worktree
        self.session = session
        self.members = family(db, session.id)
        written = {chain.worktree for chain in sessions.chains_of(db, session.id)}
        self.worktree = here if here in written or not written else min(written)
        # Only one worktree is shown: paths of two would be mixed in one list of files.
        self.elsewhere = sorted(written - {self.worktree})
        chosen = EventFilter(
            sessions=self.members, worktree=self.worktree, limit=EVENTS
        )
        found = events.rows(db, chosen)
        self.is_cut = len(found) == EVENTS
        self.events = [event for event in reversed(found) if is_write(event)]
        undone = Undone(db, self.worktree)
        self._undone = {e.seq for e in self.events if undone.by(e) is not None}
        self.steps = self._steps()
        self._places = {
            event.seq: place
            for place, step in enumerate(self.steps[:STEPS], 1)
            for event in step.events
        }

    @property
    def began_ns(self) -> int:
        """Return when it began."""
        return self.session.started_ns

    @property
    def ended_ns(self) -> int:
        """Return when it ended, or the time of its last event."""
        last = max((step.ended_ns for step in self.steps), default=self.began_ns)
        seen = self.session.ended_ns or self.session.last_seen_ns or last
        return max(self.began_ns, last, seen)

    def undone(self, found: Sequence[PathChange]) -> str | None:
        """Return `whole` or `partly` if events are undone, None if none is."""
        count = sum(event.seq in self._undone for event in found)
        return None if not count else "whole" if count == len(found) else "partly"

    def places(self, found: Iterable[PathChange]) -> tuple[int, ...]:
        """Return the places, from 1, of the shown steps that some events belong to."""
        places = {self._places[e.seq] for e in found if e.seq in self._places}
        return tuple(sorted(places))

    def step_rows(self, patches: Patchwork) -> tuple[ReportedStep, ...]:
        """Return the steps in order, at most `STEPS`."""
        return tuple(self._step_row(step, patches) for step in self.steps[:STEPS])

    def file_rows(
        self, patches: Patchwork, others: Sequence[PathChange]
    ) -> tuple[ReportedFile, ...]:
        """Return what is left of it all per file, by path, at most `FILES`.

        Args:
            patches: Makes the patches.
            others: What other sessions wrote at the same time; their files are marked.
        """
        by_path = _by_path(self.events)
        theirs = {event.path for event in others}
        rows = []
        for path, change in patches.rows(self.events)[:FILES]:
            own = by_path.get(path, [])
            rows.append(
                ReportedFile(
                    change=change,
                    confidence=weakest(own),
                    events=len(own),
                    undone=self.undone(own),
                    now=self._now(path, own),
                    steps=self.places(own),
                    others=path in theirs,
                )
            )
        return tuple(rows)

    def confidence_rows(self) -> tuple[ConfidenceCount, ...]:
        """Return how many writes are how sure, surest first."""
        counts = Counter(event.attribution.confidence for event in self.events)
        return tuple(
            ConfidenceCount(one.value, counts[one]) for one in _SURE if counts[one]
        )

    def _steps(self) -> list[ReportStep]:
        """Group the events: those of a turn, its subagents' included, else those of a burst."""
        found: dict[str, ReportStep] = {}
        for turn in turns.list_turns(self._ws.db, self.session.id):
            ended_ns = turn.ended_ns or turn.started_ns
            found[turn.id] = ReportStep(
                turn.id, turn.session, turn, turn.started_ns, ended_ns
            )
        for session in self.members:
            for name, tool, count in turns.tool_counts(self._ws.db, session):
                step = found.get(_top(name, found))
                if step is not None:
                    step.tools[tool] += count
        for event in self.events:
            step = self._step_of(event, found)
            step.events.append(event)
            step.ended_ns = max(step.ended_ns, event.ts_ns)
        return sorted(found.values(), key=lambda step: (step.began_ns, step.id))

    def _step_of(self, event: PathChange, found: dict[str, ReportStep]) -> ReportStep:
        who = event.attribution
        turn = _top(who.turn, found)
        key = turn or event.burst or f"{event.seq}"
        if key not in found:
            found[key] = ReportStep(key, who.session, None, event.ts_ns, event.ts_ns)
        return found[key]

    def _step_row(self, step: ReportStep, patches: Patchwork) -> ReportedStep:
        turn = step.turn
        prompt = turn.prompt if turn else None
        by_path = _by_path(step.events)
        files = []
        for path, change in patches.rows(step.events):
            own = by_path.get(path, [])
            files.append(StepFile(change, weakest(own), self.undone(own)))
        tools = sorted(step.tools.items(), key=lambda one: (-one[1], one[0]))
        return ReportedStep(
            kind="turn" if turn else "burst",
            id=step.id,
            session=step.session,
            prompt=_beginning(prompt) if prompt else prompt,
            prompt_cut=bool(prompt) and len(prompt or "") > PROMPT_CHARACTERS,
            started=rfc3339(step.began_ns),
            ended=rfc3339(step.ended_ns),
            open=turn is not None and turn.ended_ns is None,
            tools=tuple(ToolCount(tool, calls) for tool, calls in tools),
            events=len(step.events),
            confidence=weakest(step.events),
            undone=self.undone(step.events),
            files=tuple(files),
            short=turn.short_id if turn else "",
        )

    def _now(self, path: RepoPath, own: Sequence[PathChange]) -> str | None:
        """Return how a path differs from what the session left there; None if that is not known."""
        if not own or self.worktree != self._ws.layout.worktree:
            return None
        state = self._ws.states.get(path)
        present = state.version if state else None
        if self.undone(own) == "whole":
            return "taken back"
        if present == own[-1].after:
            return "as left"
        return "deleted since" if present is None else "changed since"


def _beginning(prompt: str) -> str:
    """Return as much of a prompt as a report has, cut between words."""
    if len(prompt) <= PROMPT_CHARACTERS:
        return prompt
    return prompt[:PROMPT_CHARACTERS].rsplit(maxsplit=1)[0]


def weakest(found: Iterable[PathChange]) -> str | None:
    """Return the least sure confidence of some events, None for none."""
    levels = [_SURE.index(event.attribution.confidence) for event in found]
    return _SURE[max(levels)].value if levels else None


def is_write(event: Event) -> TypeGuard[PathChange]:
    """Return whether somebody wrote a path: no undo, no switch by Git, no change of coverage."""
    if not isinstance(event, PathChange) or event.op is not None or event.switched:
        return False
    return event.kind not in (EventKind.COVERAGE, EventKind.RESTORE)


def _top(name: str | None, found: Collection[str]) -> str:
    """Return the turn of the session that a turn is, or is part of; empty for none."""
    while name:
        if name in found:
            return name
        name = name.rpartition("/")[0]
    return ""


def _by_path(found: Iterable[PathChange]) -> dict[RepoPath, list[PathChange]]:
    """Return the events by the path at which their file stood in the end."""
    by_path: dict[RepoPath, list[PathChange]] = {}
    for event in found:
        moved = by_path.pop(event.old_path, []) if event.old_path else []
        by_path.setdefault(event.path, []).extend([*moved, event])
    return by_path


class Lanes:
    """Lay one session out in time."""

    def __init__(self, context: RecorderContext, story: Story) -> None:
        self._db = context.workspace.db
        self._story = story
        length_ns = story.ended_ns - story.began_ns
        margin_ns = max(length_ns // _MARGIN, (_SHORTEST_NS - length_ns) // 2)
        self.begin_ns = story.began_ns - margin_ns
        self.end_ns = story.ended_ns + margin_ns

    def timeline(
        self,
        ops: Sequence[Op],
        rare: Sequence[Gap | HeadChange],
        others: Sequence[PathChange],
    ) -> Timeline:
        """Return the lanes and marks.

        Args:
            ops: What was undone, redone or restored of the session.
            rare: Gaps and moves of HEAD.
            others: What others wrote at the same time, oldest first.
        """
        found = bursts.between(
            self._db, self._story.worktree, self.begin_ns, self.end_ns, BURSTS
        )
        mine = set(self._story.members)
        lanes = (
            self._own(),
            *self._agents([one for one in found if one.session not in mine]),
            *self._people(others),
        )
        marks = (*map(self._op_mark, ops), *map(self._event_mark, rare))
        return Timeline(
            rfc3339(self.begin_ns), rfc3339(self.end_ns), lanes, marks[:MARKS]
        )

    def _own(self) -> LaneRow:
        story = self._story
        spans = tuple(
            LaneSpan(
                start=rfc3339(step.began_ns),
                end=rfc3339(step.ended_ns),
                events=len(step.events),
                step=place,
                undone=story.undone(step.events),
            )
            for place, step in enumerate(story.steps, 1)
        )
        return LaneRow("session", "this session", story.session.id, spans)

    def _agents(self, found: Iterable[Burst]) -> list[LaneRow]:
        """Return a lane for each other agent, the busiest ones, and one for the rest."""
        by_session: dict[str, list[Burst]] = {}
        for burst in reversed(list(found)):
            by_session.setdefault(burst.session, []).append(burst)
        known = {one.id: one for one in sessions.all_sessions(self._db)}
        agents = sorted(
            (one for name, one in known.items() if name in by_session and one.agent),
            key=lambda one: (-len(by_session[one.id]), one.id),
        )
        shown = sorted(agents[:OTHERS], key=lambda one: one.started_ns)
        rows = [
            LaneRow(
                "agent", one.agent or one.id, one.id, self._spans(by_session[one.id])
            )
            for one in shown
        ]
        rest = [burst for one in agents[OTHERS:] for burst in by_session[one.id]]
        if rest:
            label = f"{len(agents) - OTHERS} more agents"
            rows.append(LaneRow("agent", label, UNSET, self._spans(rest)))
        return rows

    def _people(self, others: Sequence[PathChange]) -> list[LaneRow]:
        """Return one lane for all writes of no agent; what is near is one stretch."""
        near_ns = (self.end_ns - self.begin_ns) // _STRETCHES
        stretches: list[tuple[int, int]] = []
        for event in others:
            if event.attribution.agent is not None:
                continue
            if stretches and event.ts_ns - stretches[-1][1] <= near_ns:
                begin_ns, end_ns = stretches[-1]
                stretches[-1] = (begin_ns, max(end_ns, event.ts_ns))
            else:
                stretches.append((event.ts_ns, event.ts_ns))
        if not stretches:
            return []
        spans = tuple(
            LaneSpan(rfc3339(begin), rfc3339(end)) for begin, end in stretches
        )
        return [LaneRow("person", "you?", UNSET, spans)]

    def _spans(self, found: Iterable[Burst]) -> tuple[LaneSpan, ...]:
        return tuple(
            LaneSpan(
                rfc3339(max(one.started_ns, self.begin_ns)),
                rfc3339(min(one.ended_ns, self.end_ns)),
            )
            for one in found
        )

    def _op_mark(self, op: Op) -> LaneMark:
        return self._mark(op.kind.value, op.ts_ns, op.id)

    def _event_mark(self, event: Gap | HeadChange) -> LaneMark:
        return self._mark(event.kind.value, event.ts_ns, event.note or "")

    def _mark(self, kind: str, ts_ns: int, label: str) -> LaneMark:
        later = ts_ns > self.end_ns
        return LaneMark(kind, rfc3339(min(ts_ns, self.end_ns)), label, later)
