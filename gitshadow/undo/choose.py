"""Choose the unit to undo, from `oops`, `undo TARGET` and `redo`.

A tool may write a temporary file and rename it, which is one write. The hook of the call names only
the final file, so the temporary may have no author.
Invariant: human work is never part of an agent's burst. What is only thought to be the agent's is
listed, and undone on request. A temporary counts as the call's only if it was created in the call's
own window and no other author is known.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from gitshadow.attribution.ladder import may_follow_an_end
from gitshadow.attribution.lifecycle import SILENCE_NS
from gitshadow.attribution.native_ids import is_guessed
from gitshadow.errors import UsageError
from gitshadow.model import (
    Actor,
    Burst,
    Call,
    Confidence,
    Event,
    Op,
    OpKind,
    PathChange,
    RepoPath,
    Session,
    Turn,
    paths_of,
)
from gitshadow.store.journal import bursts, events, sessions, turns
from gitshadow.store.journal.db import Db
from gitshadow.store.journal.events import EventFilter
from gitshadow.store.journal.stretches import NOTHING, Stretches
from gitshadow.store.paths import is_within
from gitshadow.store.refs import display_path
from gitshadow.undo.effective import BACKWARD, Undone, newest_backward, undoings_of
from gitshadow.undo.lineage import course_of, trace
from gitshadow.undo.targets import (
    NEWEST,
    Named,
    Target,
    Unit,
    check_undoable,
    family,
    is_agents,
    is_undoable,
    resolve,
    root_of,
    stretches_of,
    undoes_of,
    unit_of,
)

# File times come from the kernel's coarse clock, which is up to one tick (10 ms) behind.
_TOLERANCE_NS = 10_000_000
_UNSURE = (Confidence.LOW, Confidence.AMBIGUOUS, Confidence.UNKNOWN)
NOBODY = "no agent reported these changes"


def begun_as_temporaries(
    db: Db, worktree: str, taken: Iterable[PathChange]
) -> list[PathChange]:
    """Return the unclaimed writes of files that calls of a unit then renamed."""
    found: list[PathChange] = []
    for event in taken:
        who = event.attribution
        if event.old_path is None or who.call is None:
            continue
        call = turns.get_call(db, who.session, who.call)
        if call is None:
            continue
        wanted = EventFilter(
            worktree=worktree,
            paths=(event.old_path,),
            before_seq=event.seq,
            since_ns=call.opened_ns - _TOLERANCE_NS,
        )
        found += _from_creation(events.rows(db, wanted), event)
    return found


def lasting(rows: Sequence[PathChange]) -> list[PathChange]:
    """Leave out the writes of files that came and went: nobody needs to choose about them."""
    return sorted(
        (
            event
            for lineage in trace(rows)
            for event in lineage.events
            if lineage.events[0].before is not None
            or lineage.events[-1].after is not None
        ),
        key=lambda event: event.seq,
    )


def _from_creation(
    newest_first: Sequence[Event], renamed: PathChange
) -> list[PathChange]:
    """Return the writes of a file from its creation to its rename; none if one is another's."""
    found: list[PathChange] = []
    for row in newest_first:
        if not isinstance(row, PathChange) or not _may_be(row, renamed):
            return []
        found.append(row)
        if row.before is None:
            return found
    return []


def _may_be(row: PathChange, renamed: PathChange) -> bool:
    """Return whether nobody else is known to have made a write than who renamed the file."""
    who, whose = row.attribution, renamed.attribution
    if row.path != renamed.old_path or row.switched or row.op is not None:
        return False
    if who.actor is Actor.AGENT and who.session != whose.session:
        return False
    return who.actor is not Actor.HUMAN and who.confidence in _UNSURE


class UnitWindow(NamedTuple):
    """When a unit was at work, and the sessions that it belongs to.

    `sessions` None: anybody's; `end_ns` None: until now.
    """

    sessions: frozenset[str] | None
    begin_ns: int
    end_ns: int | None
    call: str | None = None

    def contains(self, at_ns: int) -> bool:
        """Return whether the unit was at work at a time, its begin and its end included."""
        return self.begin_ns <= at_ns and (self.end_ns is None or at_ns <= self.end_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The unit to undo.

    `whole` are its events. `undoes` is how the op will remember it. `maybe` may be the unit's too
    and is only listed; `ambiguous` is listed as skipped. `windows` say where to look for what undo
    does not cover, and so do `later`, those of turns since that left nothing to undo.
    `headline` says something that must be read first.
    """

    kind: OpKind
    target: str
    label: str
    whole: Stretches = NOTHING
    undoes: tuple[str, ...] = ()
    maybe: tuple[PathChange, ...] = ()
    ambiguous: tuple[PathChange, ...] = ()
    windows: tuple[UnitWindow, ...] = ()
    later: tuple[UnitWindow, ...] = ()
    headline: str = ""
    notes: tuple[str, ...] = ()

    @property
    def taken(self) -> tuple[PathChange, ...]:
        """Return the events, without those inside stretches."""
        return self.whole.rows


@dataclass(slots=True)
class Chooser:
    """Choose units in one worktree."""

    db: Db
    worktree: str
    include_low: bool = False
    _undone: Undone = field(init=False)
    _read: dict[Unit, Stretches] = field(default_factory=dict)
    _families: dict[str, frozenset[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._undone = Undone(self.db, self.worktree)

    def oops(self, passed: Collection[str] = ()) -> Selection:
        """Return the newest agent burst in effect; without any agent, the newest burst.

        Args:
            passed: Ids of bursts that are not meant.
        """
        every = bursts.list_bursts(self.db, self.worktree)
        found = [burst for burst in every if burst.id not in passed]
        actors = {one: self._actor(one) for one in {burst.session for burst in found}}
        agents = [burst for burst in found if actors[burst.session] is Actor.AGENT]
        for burst in agents:
            if self._in_effect(burst, self._is_sure):
                left = [one for one in every if one.id in passed]
                return self._with_later(self._family_burst(burst), left)
        # Without hooks no agent was ever reported here, and the newest writes by unknown
        # authors are the best guess. Once agents report, such writes are probably a person's.
        if self._agents_known():
            return self._nothing(agents)
        even_low = Chooser(self.db, self.worktree, include_low=True)
        for burst in found:
            if actors[burst.session] is not Actor.HUMAN and self._in_effect(burst):
                chosen = even_low._of(OpKind.OOPS, burst.id, [burst])
                return replace(chosen, headline=NOBODY)
        return self._nothing(found)

    def _in_effect(
        self, burst: Burst, counts: Callable[[PathChange], bool] = lambda _: True
    ) -> bool:
        rows = [
            one for one in self._stretches(unit_of(self.db, burst)).rows if counts(one)
        ]
        return bool(rows) and self._undone.all(rows) is None

    def _stretches(self, unit: Unit) -> Stretches:
        # Whether the newest burst is in effect, and what is in it, are two questions.
        if unit not in self._read:
            self._read[unit] = stretches_of(
                self.db, self.worktree, unit, self._undone.singles
            )
        return self._read[unit]

    def _is_sure(self, event: PathChange) -> bool:
        if is_agents(event):
            return True
        return self.include_low and event.attribution.is_maybe

    def _family_burst(self, burst: Burst) -> Selection:
        """Return a burst with those of the parent and child sessions in the same turn."""
        root = root_of(self.db, burst.session)
        members = [burst]
        during: Turn | None = None
        # A subagent writes in a session of its own; for the user it is the same turn.
        whose = family(self.db, root)
        if burst.turn is not None and len(whose) > 1:
            turn = burst.turn.split("/", 1)[0] if burst.session != root else burst.turn
            members = self._of_turn(whose, turn)
            during = turns.get_turn(self.db, root, turn)
        return self._of(OpKind.OOPS, members[0].id, members, during)

    def _of_turn(self, sessions_of: Sequence[str], turn: str) -> list[Burst]:
        """Return each session's newest burst in a turn, since a checkout last ended one."""
        newest: dict[str, Burst] = {}
        floor = 0
        for session in sessions_of:
            for burst in bursts.list_bursts(self.db, self.worktree, session):
                if burst.turn != turn and not (burst.turn or "").startswith(turn + "/"):
                    continue
                if session in newest and newest[session].turn == burst.turn:
                    floor = max(floor, burst.last_seq)
                newest.setdefault(session, burst)
        chosen = [burst for burst in newest.values() if burst.last_seq > floor]
        return sorted(chosen, key=lambda one: one.last_seq, reverse=True)

    def _nothing(self, found: Sequence[Burst]) -> Selection:
        """Return an empty selection that says why it is empty."""
        last = found[0] if found else None
        headline = "nothing to undo: no agent has changed anything here"
        windows: tuple[UnitWindow, ...] = ()
        maybe: list[PathChange] = []
        if last is not None:
            rows = self._stretches(unit_of(self.db, last)).rows
            maybe = [
                one for one in rows if self._is_low(one) and not self._undone.by(one)
            ]
            windows = (self._window(last),)
            op = self._undone.all([one for one in rows if not self._is_low(one)])
            headline = (
                "nothing to undo: every agent change is already undone or was skipped"
            )
            if op is None and maybe:
                headline = "nothing to undo: no change is certain to be by an agent"
        else:
            windows = tuple(self._agent_windows())
        return self._with_later(
            Selection(
                kind=OpKind.OOPS,
                target="oops",
                label="oops",
                maybe=tuple(maybe),
                windows=windows,
                headline=headline,
            )
        )

    def _with_later(self, newest: Selection, passed: Iterable[Burst] = ()) -> Selection:
        """Add what came since the newest unit and left nothing to undo."""
        since_ns = max((one.begin_ns for one in newest.windows), default=0)
        later: list[Named] = [*passed, *turns.without_changes(self.db, since_ns)]
        return replace(newest, later=tuple(map(self._window, later)))

    def _agents_known(self) -> bool:
        """Return whether any agent ever reported an event here, whatever it wrote."""
        known = sessions.all_sessions(self.db)
        agents = (one for one in known if one.actor is Actor.AGENT)
        return not all(is_guessed(session) for session in agents)

    def _agent_windows(self) -> Iterable[UnitWindow]:
        for session in sessions.all_sessions(self.db):
            if session.actor is Actor.AGENT:
                yield self._window(session)

    def undo(self, typed: Sequence[Target]) -> Selection:
        """Return what several targets name together.

        Raises:
            UsageError: a target names nothing, or several things.
        """
        if not typed:
            raise UsageError(
                "undo what? no target given", hint="git agent-undo undo TARGET, or oops"
            )
        words = " ".join(target.text for target in typed)
        parts = [self._target(target, words) for target in typed]
        whole = parts[0]
        for part in parts[1:]:
            whole = _joined(whole, part)
        return whole

    def redo(self, typed: Sequence[Target] = ()) -> Selection:
        """Return an undo, the newest in effect by default, as a unit to reverse.

        Raises:
            UsageError: a target names nothing, several things, or no undo.
        """
        op = newest_backward(self.db, self.worktree)
        if typed:
            return self._of(OpKind.REDO, typed[0].text, [self._undo_named(typed[0])])
        if op is None:
            return Selection(
                kind=OpKind.REDO,
                target="redo",
                label="redo",
                headline="nothing to redo",
            )
        return self._of(OpKind.REDO, op.id, [op])

    def _undo_named(self, target: Target) -> Op:
        found = resolve(self.db, self.worktree, target)
        if isinstance(found, Op) and found.kind in BACKWARD:
            return found
        raise UsageError(
            f"cannot redo {target.text}: it is not an undo",
            hint="to list undos: git agent-undo ops",
        )

    def _target(self, target: Target, words: str) -> Selection:
        found = resolve(self.db, self.worktree, target)
        if isinstance(found, bytes):
            return self._file(found, words)
        check_undoable(found)
        chosen = self._of(OpKind.UNDO, words, [found])
        return self._with_later(chosen) if target.text == NEWEST else chosen

    def _file(self, path: RepoPath, words: str) -> Selection:
        """Return what the newest burst in effect did to a file, or below a directory."""
        # From the first event on: a rename long ago decides which file is at the path now.
        history = events.history(self.db, self.worktree, self._recorded(path), 0)
        undoings = undoings_of(self.db, (row.op for row in history))
        live: list[PathChange] = []
        for lineage in trace(history, undoings):
            if not any(is_within(one, path) for one in lineage.paths):
                continue
            undone = course_of(lineage, undoings).undone
            live += [
                one
                for one in lineage.events
                if is_undoable(one) and one.op is None and one.seq not in undone
            ]
        live.sort(key=lambda one: one.seq)
        sure = [one for one in live if self._is_sure(one)]
        nobody = not sure and not self._agents_known()
        chosen = sure or (live if nobody else [])
        shown = display_path(path)
        if not chosen:
            said = f"nothing to undo: no agent change to {shown}"
            return Selection(kind=OpKind.UNDO, target=words, label=shown, headline=said)
        newest = chosen[-1].burst
        taken = tuple(one for one in chosen if one.burst == newest)
        burst = bursts.get(self.db, newest) if newest else None
        return Selection(
            kind=OpKind.UNDO,
            target=words,
            label=shown,
            whole=Stretches(taken),
            undoes=tuple(str(one.seq) for one in taken),
            windows=(self._window(burst),) if burst else (),
            headline=NOBODY if nobody else "",
        )

    def _recorded(self, path: RepoPath) -> set[RepoPath]:
        rows = events.writes(
            self.db, EventFilter(worktree=self.worktree, paths=(path,))
        )
        return {end for end in paths_of(rows) if is_within(end, path)}

    def _of(
        self,
        kind: OpKind,
        words: str,
        things: Sequence[Named],
        during: Turn | None = None,
    ) -> Selection:
        """Return the selection of some things of the journal, that were made during a turn."""
        unit = Unit()
        for thing in things:
            unit |= unit_of(self.db, thing)
        whole = self._stretches(unit)
        rows = whole.rows
        picky = any(isinstance(one, Session | Turn | Burst) for one in things)
        low = [one for one in rows if picky and self._is_low(one)]
        mixed = [one for one in rows if picky and is_ambiguous(one)]
        out = {one.seq for one in [*low, *mixed]}
        times = things if during is None else (*things, during)
        windows = tuple(dict.fromkeys(map(self._window, times)))
        whole = whole.only(lambda one: one.seq not in out) if out else whole
        begun = begun_as_temporaries(self.db, self.worktree, whole.rows)
        whole += Stretches(tuple(begun))
        low = lasting([one for one in low if one not in begun])
        mixed += [] if kind is OpKind.REDO else self._ambiguous(windows)
        if kind is OpKind.OOPS:
            low, mixed = [*low, *mixed], []
        return Selection(
            kind=kind,
            target=words,
            label=", ".join(undoes_of(one) for one in things),
            whole=whole,
            undoes=(
                *(undoes_of(one) for one in things),
                *(str(one.seq) for one in begun),
            ),
            maybe=tuple(low),
            ambiguous=tuple(mixed),
            windows=windows,
            headline="" if whole.rows else self._why_empty(kind, words, rows),
        )

    def _why_empty(self, kind: OpKind, words: str, rows: Sequence[PathChange]) -> str:
        verb = "redo" if kind is OpKind.REDO else "undo"
        if rows:
            return f"nothing to {verb}: no change is certain to be by {words}"
        return f"nothing to {verb}: {words} changed nothing here"

    def _is_low(self, event: PathChange) -> bool:
        return not self.include_low and event.attribution.confidence is Confidence.LOW

    def _ambiguous(self, windows: Sequence[UnitWindow]) -> list[PathChange]:
        """Return the events that may be of these windows' sessions."""
        found: dict[int, PathChange] = {}
        for window in windows:
            end_ns = window.end_ns
            wanted = EventFilter(
                worktree=self.worktree,
                since_ns=window.begin_ns,
                until_ns=None if end_ns is None else end_ns + SILENCE_NS,
                ambiguous=True,
            )
            whose = window.sessions or frozenset()
            for row in events.writes(self.db, wanted) if whose else ():
                # A turn whose process died ends when that was last seen, maybe before its writes.
                is_in = window.contains(row.ts_ns) or may_follow_an_end(row)
                is_whose = not whose.isdisjoint(row.attribution.candidates)
                if is_in and is_whose and is_undoable(row):
                    found[row.seq] = row
        return [found[seq] for seq in sorted(found)]

    def _window(self, thing: Named) -> UnitWindow:
        if isinstance(thing, Session):
            whose = frozenset(family(self.db, thing.id))
            return UnitWindow(whose, thing.started_ns, thing.ended_ns)
        if isinstance(thing, Turn):
            return self._turn_window(thing)
        if isinstance(thing, Call):
            whose = frozenset({thing.session})
            return UnitWindow(whose, thing.opened_ns, thing.closed_ns, thing.id)
        if isinstance(thing, Burst):
            return self._burst_window(thing)
        return UnitWindow(frozenset(), thing.ts_ns, thing.ts_ns)

    def _turn_window(self, turn: Turn) -> UnitWindow:
        if turn.session not in self._families:
            self._families[turn.session] = frozenset(family(self.db, turn.session))
        whose = self._families[turn.session]
        return UnitWindow(whose, turn.started_ns, turn.ended_ns)

    def _burst_window(self, burst: Burst) -> UnitWindow:
        """Return a burst's time: its turn's, else from the burst before to the one after."""
        turn = (
            turns.get_turn(self.db, burst.session, burst.turn) if burst.turn else None
        )
        if turn is not None:
            return self._turn_window(turn)
        session = sessions.get(self.db, burst.session)
        begin = session.started_ns if session else burst.started_ns
        end: int | None = None
        for other in bursts.list_bursts(self.db, self.worktree, burst.session):
            if other.ordinal > burst.ordinal:
                end = other.started_ns
            elif other.ordinal < burst.ordinal:
                begin = max(begin, other.ended_ns)
        return UnitWindow(frozenset(family(self.db, burst.session)), begin, end)

    def _actor(self, session: str) -> Actor:
        known = sessions.get(self.db, session)
        return known.actor if known is not None else Actor.UNKNOWN


def _joined(one: Selection, two: Selection) -> Selection:
    whole = one.whole + two.whole
    return replace(
        one,
        label=f"{one.label}, {two.label}",
        whole=whole,
        undoes=tuple(dict.fromkeys((*one.undoes, *two.undoes))),
        maybe=(*one.maybe, *two.maybe),
        ambiguous=(*one.ambiguous, *two.ambiguous),
        windows=(*one.windows, *two.windows),
        later=(*one.later, *two.later),
        headline="" if whole.rows else one.headline,
    )


def is_ambiguous(event: PathChange) -> bool:
    """Return whether a write may be that of several, none of which is named."""
    return event.attribution.confidence is Confidence.AMBIGUOUS


def only_by(selection: Selection, whose: frozenset[str]) -> Selection:
    """Return a selection with only what calls of these sessions wrote.

    Where only a turn was open, a person may as well have written it.
    """
    whole = selection.whole.only(lambda one: _is_theirs(one, whose))
    left = tuple(one for one in selection.taken if not _is_theirs(one, whose))
    if not left:
        return selection
    said = f"nothing to undo: no change of {selection.target} is certain to be by this session"
    return replace(
        selection,
        whole=whole,
        undoes=tuple(map(str, sorted(whole.seqs()))),
        maybe=(*selection.maybe, *left),
        headline=selection.headline if whole.rows else said,
    )


def _is_theirs(event: PathChange, whose: frozenset[str]) -> bool:
    who = event.attribution
    return is_agents(event) and who.session in whose and who.call is not None
