"""Import of a file in our own format: what refs do not contain, as prompts, ends, models and gaps.

Events that have a commit come from the refs alone; sessions that this journal saw itself are left
as they are. So a second import changes nothing, and no file can make a session live here.
Invariant: one transaction; call it inside `db.write()`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from gitshadow.config import PromptPolicy
from gitshadow.interchange.event_lines import EventLine, Line, ModelLine
from gitshadow.model import Call, Event, Session, Turn
from gitshadow.recording.workspace import Workspace
from gitshadow.store.journal import events, models, sessions, turns
from gitshadow.store.replay import REBUILT

IMPORTED = "imported"
_MOST_AHEAD = 1_000_000
"""So far beyond the newest event a gap of a file may be numbered."""


@dataclass(slots=True)
class ImportCounts:
    """Count lines: `new` ones, those that were `known`, and events that are `elsewhere`.

    Elsewhere are those whose commits no ref here reaches.
    """

    new: int = 0
    known: int = 0
    elsewhere: int = 0


@dataclass(slots=True)
class Importer:
    """Take the lines of one file."""

    workspace: Workspace
    done: ImportCounts = field(default_factory=ImportCounts)
    _open: dict[str, bool] = field(default_factory=dict)

    def take(self, lines: Iterable[Line]) -> ImportCounts:
        """Take lines; those of a session stand behind the session's own."""
        for line in lines:
            if isinstance(line, Session):
                self._session(line)
            elif isinstance(line, ModelLine):
                self._model(line)
            elif isinstance(line, Turn):
                self._turn(line)
            elif isinstance(line, Call):
                self._call(line)
            else:
                self._event(line)
        return self.done

    def _count(self, changed: bool) -> None:
        self.done.new += changed
        self.done.known += not changed

    def _may_change(self, session: str) -> bool:
        """Tell whether all that is known here of a session came from elsewhere."""
        if session not in self._open:
            known = sessions.get(self.workspace.db, session)
            ours = known is None or known.end_reason not in (REBUILT, IMPORTED)
            self._open[session] = not ours
        return self._open[session]

    def _session(self, told: Session) -> None:
        known = sessions.get(self.workspace.db, told.id)
        if known is not None and not self._may_change(told.id):
            self._count(changed=False)
            return
        wanted = told
        if told.ended_ns is None:
            # It may be open there; here it ended when it last wrote.
            ended = known.ended_ns if known is not None else told.started_ns
            wanted = replace(told, ended_ns=ended, end_reason=REBUILT)
        self._open[told.id] = True
        if wanted != known:
            sessions.put(self.workspace.db, wanted)
        self._count(wanted != known)

    def _model(self, told: ModelLine) -> None:
        db = self.workspace.db
        before = models.at(db, told.session, told.since_ns)
        if self._may_change(told.session):
            models.note(db, told.session, told.since_ns, told.model)
        self._count(models.at(db, told.session, told.since_ns) != before)

    def _turn(self, told: Turn) -> None:
        db = self.workspace.db
        known = turns.get_turn(db, told.session, told.id)
        if self.workspace.config.prompts is PromptPolicy.OFF:
            told = replace(told, prompt=None)
        if told.ended_ns is None:
            ended = told.started_ns if known is None else known.ended_ns
            told = replace(told, ended_ns=ended)
        changes = told != known and self._may_change(told.session)
        if changes:
            turns.put_turn(db, told)
        self._count(changes)

    def _call(self, told: Call) -> None:
        db = self.workspace.db
        known = turns.get_call(db, told.session, told.id)
        if told.closed_ns is None:
            closed = told.opened_ns if known is None else known.closed_ns
            told = replace(told, closed_ns=closed)
        changes = told != known and self._may_change(told.session)
        if changes:
            turns.open_call(db, told)
        self._count(changes)

    def _event(self, told: EventLine) -> None:
        db = self.workspace.db
        known = events.get(db, told.seq)
        if told.gap is not None and known is None:
            self._gap(told.gap)
        elif known is None or known.commit != told.commit:
            self.done.elsewhere += 1
        else:
            self._count(changed=False)

    def _gap(self, gap: Event) -> None:
        db = self.workspace.db
        if gap.seq > events.last_seq(db) + _MOST_AHEAD:
            self.done.elsewhere += 1
            return
        events.insert(db, [gap])
        events.raise_next(db, 0)
        self._count(changed=True)
