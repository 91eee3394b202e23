"""Histories of a crew whose agents speak through their hooks, in one worktree or in two."""

import shutil
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from gitshadow.config import WatchBackend
from tests.support.repo import Repo
from tests.undo.histories import (
    AGENTS,
    GIT,
    HOOKED,
    WRITERS,
    Script,
    Step,
    Tree,
    changed,
)
from tests.undo.hooked_ground import Crew, HookedGround, hooked_in, writer_of
from tests.undo.trial import Outcome, Trial, lost_of

_DOES = (
    *("insert", "insert", "change", "create", "temporary", "delete"),
    *("rename", "chmod", "move", "bring", "swap", "endless"),
)
"""What a person or an agent does while the other one waits."""


@dataclass
class HookedTrial(Trial):
    """Play one history where agents speak through their hooks."""

    crew: Crew = field(kw_only=True)
    beside: "HookedTrial | None" = None

    def _edit(self, step: Step) -> None:
        number, verb, one, two, at = step
        if verb == "away":
            self._away(step)
            return
        if verb not in HOOKED:
            super()._edit(step)
            return
        who = AGENTS[number % 2]
        turn, before = self.script.turn(who), self.ground.tree()
        ground = self.ground
        assert isinstance(ground, HookedGround)
        assert turn is not None
        first = (WRITERS.index("human"), _DOES[two], one, two, at)
        second = (WRITERS.index(who), _DOES[at], one + at % 2, two, at)
        if verb in ("die", "unheard"):
            first, second = second, first
        theirs = self.script.edit(before, first)
        between = changed(before, theirs)
        mine = [] if verb in ("deny", "unheard") else self.script.edit(between, second)
        if verb == "unheard":
            rows = ground.unheard(who, turn, theirs)
        elif verb == "die":
            rows = ground.die(who, turn, theirs, mine)
        else:
            rows = ground.wait(who, turn, theirs, mine)
        assert ground.tree() == changed(between, mine)
        self._note(rows)

    def _away(self, step: Step) -> None:
        """Have a person write in the other worktree while a call is open in this one."""
        number, _, one, two, at = step
        who = AGENTS[number % 2]
        turn, beside = self.script.turn(who), self.beside
        if beside is None or turn is None:
            return
        ground, other = self.ground, beside.ground
        assert isinstance(ground, HookedGround)
        assert isinstance(other, HookedGround)
        step = (WRITERS.index("human"), _DOES[two], one, two, at)
        theirs = self.script.edit(other.tree(), step)
        step = (WRITERS.index(who), _DOES[at], one, two, at)
        mine = self.script.edit(ground.tree(), step)
        self._note(
            ground.play(
                who,
                turn,
                mine,
                lambda: beside._note(other.play("human", None, theirs)),
            )
        )

    def _check_kept(self, before: Tree, after: Tree, outcome: Outcome) -> None:
        """LAW-04 by what the test knows: a unit takes nothing that its own agent did not make."""
        super()._check_kept(before, after, outcome)
        ground = self.ground
        assert isinstance(ground, HookedGround)
        claims = {
            writer_of(ground.engine.db, row) for row in outcome.taken if not row.op
        }
        if None in claims or any(row.op for row in outcome.taken):
            return
        lost = lost_of(before, after, outcome)
        makers = self.crew.makers
        assert {one for one in lost if claims.isdisjoint(makers.get(one, ()))} == set()


class Company:
    """Play histories of a crew in a repository, and in a linked worktree once one is needed."""

    def __init__(
        self, root: Path, stack: ExitStack, backend: WatchBackend | None
    ) -> None:
        self._root = root
        self._stack = stack
        self.crew = Crew(backend=backend)
        self._script = Script()
        self.trials: dict[bool, HookedTrial] = {}

    def play(self, history: Iterable[tuple[bool, Step]]) -> None:
        """Make every step in its worktree; the other one stays as it is."""
        self._trial(linked=False)
        for linked, step in history:
            trial = self._trial(linked=linked)
            others = [one.ground for one in self.trials.values() if one is not trial]
            before = [ground.tree() for ground in others]
            trial.play([step])
            if step[1] != "away":
                assert [ground.tree() for ground in others] == before
            if step[1] in (*GIT, "trip", "unseen"):
                self._note_users()

    def check(self) -> None:
        """Check what must be so after every history."""
        for trial in self.trials.values():
            assert isinstance(trial.ground, HookedGround)
            trial.ground.check()

    def _note_users(self) -> None:
        """Have every worktree know what Git changed in the files that they share."""
        for trial in self.trials.values():
            assert isinstance(trial.ground, HookedGround)
            trial.ground.note_users()

    def _trial(self, *, linked: bool) -> HookedTrial:
        if linked not in self.trials:
            root = self._root
            if linked:
                root = root.with_name(f"{root.name}-linked")
                Repo(self._root).git("worktree", "add", "-q", "-b", "side", str(root))
                self._stack.callback(shutil.rmtree, root)
                self._note_users()
            ground = self._stack.enter_context(hooked_in(root, self.crew))
            trial = HookedTrial(ground, self._script, crew=self.crew)
            trial.beside = self.trials.get(not linked)
            if trial.beside is not None:
                trial.beside.beside = trial
            self.trials[linked] = trial
        return self.trials[linked]


@contextmanager
def company_in(
    template: Path, at: Path, backend: WatchBackend | None
) -> Iterator[Company]:
    """Give a copy of a template to a crew, watched or not, and take it away again."""
    shutil.copytree(template, at, symlinks=True)
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, at)
        yield Company(at, stack, backend)
