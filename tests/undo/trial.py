"""A trial: one random history in one world, with the laws checked after every undo."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from gitshadow.model import LINK_MODE, Actor, FileVersion, PathChange, git_mode
from gitshadow.store.refs import parse_path
from gitshadow.undo.report import Action, Item, State
from tests.undo.histories import (
    GIT,
    MOMENTS,
    UNDOS,
    UNSEEN,
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
    """One requested undo; the numbers choose among the possible targets.

    `path` is the one of `only`. A moment is that of `at_ns`, or of the pin where there is none;
    `goal` is the tree of then, None where it is not known.
    """

    verb: str
    who: str
    turn: str
    pick: int
    on_conflict: str = "skip"
    path: bytes = b""
    at_ns: int | None = None
    goal: Tree | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of an undo: its items, the undone events, and its own rows."""

    items: Sequence[Item] = ()
    taken: Collection[PathChange] = ()
    op: str | None = None
    rows: Collection[PathChange] = ()


class Ground(Protocol):
    """Be a world in which histories happen."""

    def tree(self) -> Tree:
        """Return what is there."""
        ...

    def play(
        self, who: str, turn: str | None, changes: Sequence[Change]
    ) -> Collection[PathChange]:
        """Make changes and record them; return the events."""
        ...

    def git(
        self,
        verbs: Sequence[str],
        who: str,
        turn: str | None,
        changes: Sequence[Change] = (),
    ) -> Collection[PathChange]:
        """Make changes and run git commands, if it can be, and record what came of all that."""
        ...

    def pin(self) -> None:
        """Pin the present."""
        ...

    def data(self, version: FileVersion) -> bytes:
        """Return recorded bytes."""
        ...

    def undo(self, wanted: Wanted) -> Outcome:
        """Carry out an undo."""
        ...


@dataclass(slots=True)
class Trial:
    """Run one history.

    `put_by` are the events that put a token where it had not been; 0 stands for what no event
    created, but one may have brought. `mixed`: Git switched branches
    or markers stand in a file, so that a line of the unit may rightly stay.
    """

    ground: Ground
    script: Script = field(default_factory=Script)
    put_by: dict[bytes, set[int]] = field(default_factory=dict)
    mixed: bool = False
    pinned: Tree | None = None
    log: list[PathChange] = field(default_factory=list)
    trees: dict[int, Tree] = field(default_factory=dict)

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
        who, verb = WRITERS[step[0]], step[1]
        if verb == "pin":
            self.ground.pin()
            self.pinned = before
        elif verb in GIT:
            self._note(self.ground.git((verb,), who, self.script.turn(who)))
            self.mixed |= self.ground.tree() != before
        elif verb == "trip":
            self._trip(step, before)
        elif verb == "unseen":
            edit = self.script.edit(before, (step[0], "insert", *step[2:]))
            verbs = UNSEEN[step[3] % len(UNSEEN)]
            self._note(self.ground.git(verbs, who, self.script.turn(who), edit))
            self.mixed = True
        elif changes := self.script.edit(before, step):
            rows = self.ground.play(who, self.script.turn(who), changes)
            assert self.ground.tree() == changed(before, changes)
            self._note(rows)

    def _trip(self, step: Step, before: Tree) -> None:
        """Switch branches there and back again, looked at in between or not."""
        looks = (("switch",), ("switch",)) if step[4] % 2 else (("switch", "switch"),)
        for verbs in looks:
            self._note(self.ground.git(verbs, "human", None))
        after = self.ground.tree()
        # Git writes a file again that was removed and differs between the branches.
        kept = {path: entry for path, entry in after.items() if path in before}
        assert all_committed(kept) == all_committed(before)
        self.mixed |= kept != after

    def _undo(self, step: Step) -> None:
        wanted = self._wanted(step)
        if wanted is None:
            return
        before = self.ground.tree()
        outcome = self._checked(wanted)
        if outcome.op is not None and step[1] in _BACKWARD and step[4] % 2:
            self._checked(replace(wanted, verb="redo", pick=0, on_conflict="skip"))
            assert self.ground.tree() == before

    def _wanted(self, step: Step) -> Wanted | None:
        """Return what an undoing step asks for; None where there is no such moment."""
        who, verb, pick = WRITERS[step[0]], step[1], step[2]
        wanted = Wanted(
            verb=verb,
            who=who,
            turn=f"t{1 + pick % self.script.turns.get(who, 1)}",
            pick=pick,
            on_conflict=_MANNERS[step[3] % len(_MANNERS)],
        )
        if verb == "pinned" and self.pinned is None:
            self._edit((step[0], "pin", 0, 0, 0))
            return None
        if verb == "pinned":
            return (
                replace(wanted, goal=self.pinned) if self.pinned is not None else None
            )
        if verb in ("hunks", "only"):
            return self._in_part(wanted)
        if verb not in ("at", "restored"):
            return wanted
        log = self.log
        if verb == "restored":  # right before what an agent wrote last, or before that
            log = [one for one in self.log if one.seq < self._newest_of_agent(pick % 2)]
        if not log:
            return None
        at_ns = log[-1 - (pick % len(log) if verb == "at" else 0)].ts_ns
        return replace(wanted, at_ns=at_ns, goal=self._tree_at(at_ns))

    def _newest_of_agent(self, back: int) -> int:
        """Return the newest write of an agent, or one of those before it; 0 for none."""
        mine = [one.seq for one in self.log if one.attribution.turn]
        return mine[-1 - back] if len(mine) > back else 0

    def _tree_at(self, at_ns: int) -> Tree | None:
        """Return the tree of a moment; None where it falls between two writes of one step.

        A copied template's files are younger than what is known of them, and a commit's rows
        have one time: then times are not in the order of the rows, and no tree ever was so.
        """
        last = max(event.seq for event in self.log if event.ts_ns <= at_ns)
        so_far = [event for event in self.log if event.seq <= last]
        in_order = all(event.ts_ns <= at_ns for event in so_far)
        return self.trees.get(last) if in_order else None

    def _in_part(self, wanted: Wanted) -> Wanted | None:
        """Ask for a part of the turn that an agent wrote in last; None where there is none."""
        mine = [row for row in self.log if row.attribution.turn]
        if not mine:
            return None
        who = mine[-1].attribution
        turn = [one.path for one in mine if _turn_of(one) == (who.session, who.turn)]
        path = turn[wanted.pick % len(turn)]
        return replace(wanted, who=who.session, turn=who.turn or "", path=bytes(path))

    def _checked(self, wanted: Wanted) -> Outcome:
        before = self.ground.tree()
        outcome = self.ground.undo(wanted)
        after = self.ground.tree()
        check_named(before, after, outcome)
        check_items(before, after, outcome)
        if wanted.verb in MOMENTS:
            self._check_moment(before, after, outcome, wanted.goal)
        else:
            check_modes(before, after, outcome)
            self._check_kept(before, after, outcome)
        self.mixed |= any(_is_marked(item) for item in outcome.items)
        if wanted.verb in ("session", "turn_back") and not self.mixed:
            self._check_gone(after, outcome)
        self._note(outcome.rows)
        return outcome

    def _note(self, rows: Collection[PathChange]) -> None:
        """Remember who put each token where it had not been, and what is there by now."""
        newest = {(row.seq, row.path): row for row in (*self.log, *rows)}
        self.log = [newest[seq] for seq in sorted(newest)]
        if rows:
            self.trees[self.log[-1].seq] = self.ground.tree()
        for event in rows:
            old = tokens_in(self.ground.data(event.before) if event.before else b"")
            new = tokens_in(self.ground.data(event.after) if event.after else b"")
            for token in new - old:
                # Over a recorded file its content may go: that file is restored.
                created = event.moved_in and event.before is None
                by = 0 if created else event.seq
                self.put_by.setdefault(token, set()).add(by)

    def _check_moment(
        self, before: Tree, after: Tree, outcome: Outcome, goal: Tree | None
    ) -> None:
        """Each item is exactly as it was then; LAW-03: what goes came by agents alone."""
        for path in before.keys() - after.keys():
            assert is_agents_own(self.log, path)
        for item in outcome.items if goal is not None else ():
            assert goal is not None
            if item.state is not State.NOT_REVERSED:
                assert all(after.get(one) == goal.get(one) for one in paths_of(item))

    def _check_kept(self, before: Tree, after: Tree, outcome: Outcome) -> None:
        """LAW-04: nothing is lost that the unit did not put there, unless asked to."""
        unit = {event.seq for event in outcome.taken}
        lost = lost_of(before, after, outcome)
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


def lost_of(before: Tree, after: Tree, outcome: Outcome) -> set[bytes]:
    """Return the tokens that an undo removed without having been asked to overwrite them."""
    asked = {
        path: before[path]
        for item in outcome.items
        if item.overwrites
        for path in paths_of(item)
        if path in before
    }
    return tokens(before) - tokens(after) - tokens(asked)


def all_committed(tree: Tree) -> Tree:
    """Return a tree as Git keeps it: without permissions of its own."""
    return {path: (git_mode(mode), data) for path, (mode, data) in tree.items()}


def _turn_of(event: PathChange) -> tuple[str, str | None]:
    return event.attribution.session, event.attribution.turn


def some_parts(items: Sequence[Item], pick: int) -> dict[int, frozenset[int]]:
    """Choose most of the hunks that are offered."""
    return {
        number: frozenset(
            part
            for at, hunk in enumerate(item.hunks)
            if (pick + number + at) % 3
            for part in hunk.parts
        )
        for number, item in enumerate(items)
    }


def is_agents_own(log: Iterable[PathChange], path: bytes) -> bool:
    """Return whether only agents or ops wrote a path since it exists."""
    mine = True
    for event in log:
        if path not in (event.path, event.old_path):
            continue
        agents = event.attribution.actor is Actor.AGENT and not event.switched
        came = path == event.path and (event.before is None or event.old_path)
        mine = (agents or event.op is not None) and (bool(came) or mine)
        mine &= not event.moved_in
    return mine


def paths_of(item: Item) -> list[bytes]:
    """Return the paths that an item speaks of."""
    names = [item.path, item.old_path]
    return [bytes(parse_path(name)) for name in names if name is not None]


def check_named(before: Tree, after: Tree, outcome: Outcome) -> None:
    """LAW-05: whatever changed is named, with a state that says so."""
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
    """LAW-05: every item says what the tree holds."""
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


def _sets_mode(event: PathChange) -> bool:
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
    """Return whether an item was changed in part: marked conflicts or chosen hunks."""
    return item.state is State.NOT_REVERSED and item.action is not Action.NONE
