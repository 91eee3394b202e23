"""The time of one session as lanes: its own bursts, those of others meanwhile, and marks.

Invariant: every lane and mark lies in the stated interval; what came later stands at its end and
says so.
"""

from collections.abc import Iterable, Sequence

from gitshadow.model import Burst, Event, Op, Session
from gitshadow.query.rows import Row, rfc3339
from gitshadow.recording.context import RecorderContext
from gitshadow.reporting.session_report import Story
from gitshadow.store.journal import bursts, sessions

BURSTS = 2_000
OTHERS = 5
MARKS = 200
_SHORTEST_NS = 2_000_000_000
_MARGIN = 20
_STRETCHES = 200


class Lanes:
    """Lay one session out in time."""

    def __init__(self, context: RecorderContext, story: Story) -> None:
        self._db = context.workspace.db
        self._story = story
        length_ns = story.ended_ns - story.began_ns
        margin_ns = max(length_ns // _MARGIN, (_SHORTEST_NS - length_ns) // 2)
        self.begin_ns = story.began_ns - margin_ns
        self.end_ns = story.ended_ns + margin_ns

    def document(
        self, ops: Sequence[Op], rare: Sequence[Event], others: Sequence[Event]
    ) -> Row:
        """Return the lanes and marks.

        Args:
            ops: What was undone, redone or restored of the session.
            rare: Gaps and moves of HEAD.
            others: What somebody else wrote meanwhile, oldest first.
        """
        found = bursts.between(
            self._db, self._story.worktree, self.begin_ns, self.end_ns, BURSTS
        )
        mine = set(self._story.members)
        lanes = [
            self._own(),
            *self._agents([one for one in found if one.session not in mine]),
            *self._people(others),
        ]
        marks = [*map(self._op_mark, ops), *map(self._event_mark, rare)]
        return {
            "begin": rfc3339(self.begin_ns),
            "end": rfc3339(self.end_ns),
            "lanes": lanes,
            "marks": marks[:MARKS],
        }

    def _own(self) -> Row:
        story = self._story
        spans: list[Row] = [
            {
                "start": rfc3339(step.began_ns),
                "end": rfc3339(step.ended_ns),
                "events": len(step.events),
                "step": place,
                "undone": story.undone(step.events),
            }
            for place, step in enumerate(story.steps, 1)
        ]
        return {**_lane(story.session, "session", spans), "label": "this session"}

    def _agents(self, found: Iterable[Burst]) -> list[Row]:
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
        rows = [_lane(one, "agent", self._spans(by_session[one.id])) for one in shown]
        rest = [burst for one in agents[OTHERS:] for burst in by_session[one.id]]
        if rest:
            label = f"{len(agents) - OTHERS} more agents"
            rows.append({"kind": "agent", "label": label, "spans": self._spans(rest)})
        return rows

    def _people(self, others: Sequence[Event]) -> list[Row]:
        """Return one lane for all writes of no agent; what is near is one stretch."""
        near_ns = (self.end_ns - self.begin_ns) // _STRETCHES
        stretches: list[tuple[int, int]] = []
        for event in others:
            if event.attribution is None or event.attribution.agent is not None:
                continue
            if stretches and event.ts_ns - stretches[-1][1] <= near_ns:
                begin_ns, end_ns = stretches[-1]
                stretches[-1] = (begin_ns, max(end_ns, event.ts_ns))
            else:
                stretches.append((event.ts_ns, event.ts_ns))
        if not stretches:
            return []
        spans = [
            {"start": rfc3339(begin), "end": rfc3339(end)} for begin, end in stretches
        ]
        return [{"kind": "person", "label": "you?", "spans": spans}]

    def _spans(self, found: Iterable[Burst]) -> list[Row]:
        return [
            {
                "start": rfc3339(max(one.started_ns, self.begin_ns)),
                "end": rfc3339(min(one.ended_ns, self.end_ns)),
            }
            for one in found
        ]

    def _op_mark(self, op: Op) -> Row:
        return self._mark(op.kind.value, op.ts_ns, op.id)

    def _event_mark(self, event: Event) -> Row:
        return self._mark(event.kind.value, event.ts_ns, event.note or "")

    def _mark(self, kind: str, ts_ns: int, label: str) -> Row:
        later = ts_ns > self.end_ns
        return {
            "kind": kind,
            "ts": rfc3339(min(ts_ns, self.end_ns)),
            "label": label,
            "later": later,
        }


def _lane(session: Session, kind: str, spans: Sequence[Row]) -> Row:
    label = session.agent or session.id
    return {"kind": kind, "label": label, "session": session.id, "spans": list(spans)}
