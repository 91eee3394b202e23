"""A trial: one random history in one world, with the laws checked after every undo."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from gitshadow.model import LINK_MODE, Event, FileVersion
from gitshadow.store.refs import parse_path
from gitshadow.undo.report import Action, Item, State
from tests.undo.histories import (
    UNDOS,
    WRITERS,
    Change,
    Script,
    Step,
    Tree,
    changed,
    tokens,
    tokens_in,
)

_MANNERS = ("skip", "skip", "skip", "skip", "overwrite", "markers")
_BACKWARD = frozenset(UNDOS) - {"redo"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Hold one undo that is asked for; the numbers choose among what there is."""

    verb: str
    who: str
    turn: str
    pick: int
    on_conflict: str = "skip"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Hold what came of an undo: its items, the events it took back, and its own rows."""

    items: Sequence[Item] = ()
    taken: Collection[Event] = ()
    op: str | None = None
    rows: Collection[Event] = ()


class Ground(Protocol):
    """Be a world in which histories happen."""

    def tree(self) -> Tree:
        """Return what is there."""
        ...

    def play(
        self, who: str, turn: str | None, changes: Sequence[Change]
    ) -> Collection[Event]:
        """Make changes and record them; return the events. Git switches where who is `git`."""
        ...

    def data(self, version: FileVersion) -> bytes:
        """Return recorded bytes."""
        ...

    def undo(self, wanted: Wanted) -> Outcome:
        """Carry out an undo."""
        ...


@dataclass(slots=True)
class Trial:
    """Play one history.

    `put_by` are the events that put a token where it had not been. `mixed`: Git switched branches
    or markers stand in a file, so that a line of the unit may rightly stay.
    """

    ground: Ground
    script: Script = field(default_factory=Script)
    put_by: dict[bytes, set[int]] = field(default_factory=dict)
    mixed: bool = False

    def __post_init__(self) -> None:
        self.put_by = {token: {0} for token in tokens(self.ground.tree())}

    def play(self, history: Iterable[Step]) -> None:
        """Make all steps and check the laws at each."""
        for step in history:
            if step[1] in UNDOS:
                self._undo(step)
            else:
                self._edit(step)

    def _edit(self, step: Step) -> None:
        before = self.ground.tree()
        who = WRITERS[step[0]]
        if step[1] == "switch":
            changes, who = self.script.switch(before), "git"
            self.mixed = True
        else:
            changes = self.script.edit(before, step)
        if not changes:
            return
        rows = self.ground.play(who, self.script.turn(who), changes)
        assert self.ground.tree() == changed(before, changes)
        self._note(rows)

    def _undo(self, step: Step) -> None:
        who, pick = WRITERS[step[0]], step[2]
        turn = f"t{1 + pick % self.script.turns.get(who, 1)}"
        manner = _MANNERS[step[3] % len(_MANNERS)]
        wanted = Wanted(verb=step[1], who=who, turn=turn, pick=pick, on_conflict=manner)
        before = self.ground.tree()
        outcome = self._checked(wanted)
        if outcome.op is not None and step[1] in _BACKWARD and step[4] % 2:
            done = Wanted(verb="redo", who=who, turn=turn, pick=0)
            self._checked(done)
            assert self.ground.tree() == before

    def _checked(self, wanted: Wanted) -> Outcome:
        before = self.ground.tree()
        outcome = self.ground.undo(wanted)
        after = self.ground.tree()
        check_named(before, after, outcome)
        check_items(before, after, outcome)
        check_modes(before, after, outcome)
        self._check_kept(before, after, outcome)
        self.mixed |= any(_is_marked(item) for item in outcome.items)
        if wanted.verb in ("session", "turn_back") and not self.mixed:
            self._check_gone(after, outcome)
        self._note(outcome.rows)
        return outcome

    def _note(self, rows: Iterable[Event]) -> None:
        """Remember who put each token where it had not been."""
        for event in rows:
            old = tokens_in(self.ground.data(event.before) if event.before else b"")
            new = tokens_in(self.ground.data(event.after) if event.after else b"")
            for token in new - old:
                self.put_by.setdefault(token, set()).add(event.seq)

    def _check_kept(self, before: Tree, after: Tree, outcome: Outcome) -> None:
        """Law 4: nothing is lost that the unit did not put there, unless asked to."""
        unit = {event.seq for event in outcome.taken}
        asked = {
            path: before[path]
            for item in outcome.items
            if item.overwrites
            for path in paths_of(item)
            if path in before
        }
        lost = tokens(before) - tokens(after) - tokens(asked)
        assert {one for one in lost if not self._is_of(one, unit)} == set()

    def _is_of(self, token: bytes, unit: set[int]) -> bool:
        return not unit.isdisjoint(self.put_by.get(token, ()))

    def _check_gone(self, after: Tree, outcome: Outcome) -> None:
        """What is called reversed is reversed: nothing that the unit alone put there stays."""
        unit = {event.seq for event in outcome.taken}
        if any(item.state is State.NOT_REVERSED for item in outcome.items):
            return
        stays = {
            token
            for token in tokens(after)
            if token in self.put_by and self.put_by[token] <= unit
        }
        assert stays == set()


def paths_of(item: Item) -> list[bytes]:
    """Return the paths that an item speaks of."""
    names = [item.path, item.old_path]
    return [bytes(parse_path(name)) for name in names if name is not None]


def check_named(before: Tree, after: Tree, outcome: Outcome) -> None:
    """Law 5: whatever changed is named, with a state that says so."""
    named = {
        path
        for item in outcome.items
        if item.state is State.REVERSED or _is_marked(item)
        for path in paths_of(item)
    }
    moved = {path for path in {*before, *after} if before.get(path) != after.get(path)}
    assert moved <= named
    assert bool(moved) == (outcome.op is not None)


def check_items(before: Tree, after: Tree, outcome: Outcome) -> None:
    """Law 5: every item says what the tree holds."""
    arrived = {
        paths_of(item)[0]
        for item in outcome.items
        if (item.state is State.REVERSED and item.action is not Action.DELETE)
        or _is_marked(item)
    }
    for item in outcome.items:
        path, *old = paths_of(item)
        if item.state is not State.REVERSED:
            assert item.state is State.NO_EFFECT or item.reason is not None
            still = (
                set() if _is_marked(item) else {path, *old} - arrived - _left(outcome)
            )
            assert all(before.get(one) == after.get(one) for one in still)
        elif item.action is Action.DELETE:
            assert path not in after or path in arrived
        else:
            assert path in after
            assert (after[path][0] == LINK_MODE) == (item.action is Action.LINK) or (
                item.action is Action.RENAME
            )
            assert all(one not in after or one in arrived for one in old)


def check_modes(before: Tree, after: Tree, outcome: Outcome) -> None:
    """A mode that the unit never set stays."""
    if any(_sets_mode(event) for event in outcome.taken):
        return
    for path in before.keys() & after.keys():
        if not any(item.old_path or item.overwrites for item in outcome.items):
            assert before[path][0] == after[path][0]


def _sets_mode(event: Event) -> bool:
    if event.before is None or event.after is None:
        return True
    return event.before.mode != event.after.mode


def _left(outcome: Outcome) -> set[bytes]:
    """Return the paths from which files were taken, whatever stays there by another item."""
    return {
        path
        for item in outcome.items
        if item.state is State.REVERSED or _is_marked(item)
        for path in paths_of(item)
    }


def _is_marked(item: Item) -> bool:
    return item.detail is not None and "marked in it" in item.detail
