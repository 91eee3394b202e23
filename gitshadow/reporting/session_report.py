"""What one session did, told in order: its turns with their files, and what became of it all.

Invariant: only the journal and the object store are asked; every list that a person reads is
bounded, and what was left out is counted in `left_out`.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from gitshadow.model import Confidence, Event, EventKind, RepoPath, Session, Turn
from gitshadow.query.rows import Row, rfc3339
from gitshadow.recording.context import RecorderContext
from gitshadow.reporting.patch_rows import Patchwork
from gitshadow.store.journal import events, sessions, turns
from gitshadow.store.journal.events import EventFilter
from gitshadow.undo.effective import Undone
from gitshadow.undo.targets import family

EVENTS = 20_000
STEPS = 500
FILES = 500
PROMPT_CHARACTERS = 20_000
_SURE = (
    Confidence.CERTAIN,
    Confidence.HIGH,
    Confidence.MEDIUM,
    Confidence.LOW,
    Confidence.AMBIGUOUS,
    Confidence.UNKNOWN,
)
_WRITES = frozenset(EventKind) - {
    EventKind.BASELINE,
    EventKind.HEAD,
    EventKind.GAP,
    EventKind.COVERAGE,
    EventKind.RESTORE,
}


@dataclass(slots=True)
class ReportStep:
    """Hold one turn, or one burst of a session that has no turns, with its events in order."""

    id: str
    session: str
    turn: Turn | None
    began_ns: int
    ended_ns: int
    events: list[Event] = field(default_factory=list)
    tools: Counter[str] = field(default_factory=Counter)


class Story:
    """Tell one session with its subagents."""

    def __init__(self, context: RecorderContext, session: Session) -> None:
        self._ws = context.workspace
        db, here = self._ws.db, self._ws.layout.worktree
        self.session = session
        self.members = family(db, session.id)
        written = {chain.worktree for chain in sessions.chains_of(db, session.id)}
        self.worktree = here if here in written or not written else min(written)
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
        """Return when it ended, or when the last was heard of it."""
        last = max((step.ended_ns for step in self.steps), default=self.began_ns)
        seen = self.session.ended_ns or self.session.last_seen_ns or last
        return max(self.began_ns, last, seen)

    def undone(self, found: Sequence[Event]) -> str | None:
        """Return `whole` or `partly` where events are taken back, None where none is."""
        count = sum(event.seq in self._undone for event in found)
        return None if not count else "whole" if count == len(found) else "partly"

    def places(self, found: Iterable[Event]) -> list[int]:
        """Return the places, from 1, of the shown steps that some events belong to."""
        return sorted({self._places[e.seq] for e in found if e.seq in self._places})

    def step_rows(self, patches: Patchwork) -> list[Row]:
        """Return the steps in order, at most `STEPS`."""
        return [self._step_row(step, patches) for step in self.steps[:STEPS]]

    def file_rows(self, patches: Patchwork, others: Sequence[Event]) -> list[Row]:
        """Return what is left of it all per file, by path, at most `FILES`.

        Args:
            patches: Makes the patches.
            others: What other sessions wrote meanwhile: a file of theirs is marked.
        """
        by_path = _by_path(self.events)
        theirs = {event.path for event in others}
        changed = patches.rows(self.events)[:FILES]
        for path, row in changed:
            own = by_path.get(path, [])
            row |= {
                "confidence": weakest(own),
                "events": len(own),
                "undone": self.undone(own),
                "now": self._now(path, own),
                "steps": self.places(own),
                "others": path in theirs,
            }
        return [row for _, row in changed]

    def confidence_rows(self) -> list[Row]:
        """Return how many writes are how sure, surest first."""
        counts = Counter(
            event.attribution.confidence for event in self.events if event.attribution
        )
        return [
            {"confidence": one.value, "events": counts[one]}
            for one in _SURE
            if counts[one]
        ]

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

    def _step_of(self, event: Event, found: dict[str, ReportStep]) -> ReportStep:
        who = event.attribution
        turn = _top(who.turn, found) if who else ""
        key = turn or event.burst or f"{event.seq}"
        if key not in found:
            session = who.session if who else self.session.id
            found[key] = ReportStep(key, session, None, event.ts_ns, event.ts_ns)
        return found[key]

    def _step_row(self, step: ReportStep, patches: Patchwork) -> Row:
        turn = step.turn
        prompt = turn.prompt if turn else None
        files = patches.rows(step.events)
        by_path = _by_path(step.events)
        for path, row in files:
            own = by_path.get(path, [])
            row |= {"confidence": weakest(own), "undone": self.undone(own)}
        return {
            "kind": "turn" if turn else "burst",
            "id": step.id,
            "session": step.session,
            "prompt": prompt[:PROMPT_CHARACTERS] if prompt else prompt,
            "prompt_cut": bool(prompt) and len(prompt or "") > PROMPT_CHARACTERS,
            "started": rfc3339(step.began_ns),
            "ended": rfc3339(step.ended_ns),
            "open": turn is not None and turn.ended_ns is None,
            "tools": [
                {"tool": tool, "calls": count}
                for tool, count in sorted(
                    step.tools.items(), key=lambda one: (-one[1], one[0])
                )
            ],
            "events": len(step.events),
            "confidence": weakest(step.events),
            "undone": self.undone(step.events),
            "files": [row for _, row in files],
        }

    def _now(self, path: RepoPath, own: Sequence[Event]) -> str | None:
        """Say how a path stands beside what was left there; None where it is not known."""
        if not own or self.worktree != self._ws.layout.worktree:
            return None
        state = self._ws.states.all().get(path)
        present = state.version if state else None
        if self.undone(own) == "whole":
            return "taken back"
        if present == own[-1].after:
            return "as left"
        return "deleted since" if present is None else "changed since"


def weakest(found: Iterable[Event]) -> str | None:
    """Return the least sure confidence of some events, None for none."""
    levels = [_SURE.index(e.attribution.confidence) for e in found if e.attribution]
    return _SURE[max(levels)].value if levels else None


def is_write(event: Event) -> bool:
    """Leave out what an undo wrote, and what Git switched."""
    plain = event.op is None and not event.switched
    return plain and event.path is not None and event.kind in _WRITES


def _top(name: str | None, found: Collection[str]) -> str:
    """Return the turn of the session that a turn is, or is part of; empty for none."""
    while name:
        if name in found:
            return name
        name = name.rpartition("/")[0]
    return ""


def _by_path(found: Iterable[Event]) -> dict[RepoPath, list[Event]]:
    """Return the events by the path at which their file stood in the end."""
    by_path: dict[RepoPath, list[Event]] = {}
    for event in found:
        if event.path is None:
            continue
        moved = by_path.pop(event.old_path, []) if event.old_path else []
        by_path.setdefault(event.path, []).extend([*moved, event])
    return by_path
