"""Read a unit: its events, what is left of it on the disk, and how to describe it.

Invariant: everything was recorded before (a barrier); only reads.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from gitshadow.errors import RefusedError, StoreError, UsageError
from gitshadow.model import Oid, RepoPath, paths_of
from gitshadow.recording.workspace import Workspace
from gitshadow.staging.survivors import Survivor, UnitQuery, survivors
from gitshadow.store.journal import events, turns
from gitshadow.store.journal.stretches import Stretches
from gitshadow.store.purge import is_purged
from gitshadow.store.refs import display_path
from gitshadow.undo.about import About, about
from gitshadow.undo.choose import Chooser, Selection
from gitshadow.undo.effective import undoings_of
from gitshadow.undo.engine import UndoEngine
from gitshadow.undo.path_plans import World
from gitshadow.undo.plan import PathFilter
from gitshadow.undo.reverse import Blobs
from gitshadow.undo.run import recover
from gitshadow.undo.targets import Target
from gitshadow.undo.worktree_scan import survey
from gitshadow.words import counted, shortened

_TRIES = 3
_SUBJECT_CHARS = 72
_BODY_CHARS = 4000


class SurvivingUnit(NamedTuple):
    """A unit and what is left of it."""

    selection: Selection
    survivors: tuple[Survivor, ...]
    maybe: tuple[str, ...]


class UnitReader:
    """Read units of one worktree."""

    def __init__(self, engine: UndoEngine, ws: Workspace) -> None:
        self.engine = engine
        self.ws = ws
        self.blobs = Blobs(self.read, lambda oid: not engine.repo.has(oid))

    def settle(self) -> None:
        """Finish interrupted undos and have everything recorded."""
        recover(self.engine)
        self.engine.flush()

    def read(self, oid: Oid) -> bytes | None:
        """Return a blob's bytes, None if it is gone."""
        try:
            data = self.engine.repo.read_blob(oid)
        except StoreError:
            return None
        return None if is_purged(data) else data

    def unit(
        self, targets: Sequence[Target], paths: PathFilter, *, include_low: bool = False
    ) -> SurvivingUnit:
        """Return a unit; `settle` was called before.

        Raises:
            UsageError: a target names nothing, or several things.
            RefusedError: the files keep changing.
        """
        db, worktree = self.engine.db, self.engine.worktree
        if not targets:
            raise UsageError("no turn or session given", hint="git agent-undo turns")
        chosen = Chooser(db, worktree, include_low).undo(targets)
        for _ in range(_TRIES):
            left, world = self._survivors(chosen.whole, paths)
            if not self._is_missing(world):
                break
            self.engine.flush()
        else:
            raise RefusedError(
                "cannot plan: the files keep changing", hint="try again in a moment"
            )
        if chosen.taken and not left and paths != PathFilter():
            raise UsageError(
                f"cannot use {chosen.target}: none of its paths is selected",
                hint="the paths are relative to the current directory",
            )
        maybe = (*chosen.maybe, *chosen.ambiguous)
        named = {row.path for row in maybe if paths.takes((row.path,))}
        return SurvivingUnit(
            chosen, tuple(left), tuple(map(display_path, sorted(named)))
        )

    def world(self, paths: Collection[RepoPath]) -> World:
        """Return the disk as it is at some paths."""
        engine = self.engine
        return survey(paths, engine.files, engine.state, engine.uncovered)

    def _survivors(
        self, whole: Stretches, paths: PathFilter
    ) -> tuple[list[Survivor], World]:
        db, worktree = self.engine.db, self.engine.worktree
        if not whole.rows:
            return [], World(present={})
        since = min(event.seq for event in whole.rows)
        history = events.history(db, worktree, paths_of(whole.rows), since)
        world = self.world(paths_of(history))
        query = UnitQuery(
            seqs=whole.seqs(),
            paths=paths,
            undoings=undoings_of(db, (row.op for row in history)),
        )
        return survivors(history, query, world, self.blobs), world

    def _is_missing(self, world: World) -> bool:
        """Return whether a file was read that is not recorded yet."""
        return any(
            version is not None
            and path not in world.excluded
            and not self.engine.repo.has(version.oid)
            for path, version in world.present.items()
        )

    # How a unit is described

    def about(self, unit: SurvivingUnit) -> tuple[About, ...]:
        """Return what a unit is about, the newest first."""
        return about(self.engine.db, self.engine.worktree, unit.selection.taken)

    def message(self, unit: SurvivingUnit) -> str:
        """Return a commit message from the prompts: the first line is the subject, shortened."""
        found = sorted(self.about(unit), key=lambda one: one.newest_ns)
        prompts = [self._prompt(one) for one in found]
        asked = [prompt for prompt in prompts if prompt]
        if not asked:
            return _without_prompt(found)
        if len(asked) == 1:
            return _with_prompt(asked[0])
        lines = [shortened(_first_line(one), _SUBJECT_CHARS - 2) for one in asked]
        subject = shortened(_first_line(asked[0]), _SUBJECT_CHARS)
        return "\n".join([subject, "", *(f"- {line}" for line in lines)]) + "\n"

    def _prompt(self, one: About) -> str:
        turn = (
            turns.get_turn(self.engine.db, one.session, one.turn) if one.turn else None
        )
        text = (turn.prompt or "") if turn is not None else ""
        kept = (
            char for char in text if char == "\n" or char == "\t" or char.isprintable()
        )
        return "".join(kept).strip()


def _first_line(prompt: str) -> str:
    return " ".join(prompt.split("\n", 1)[0].split())


def _with_prompt(prompt: str) -> str:
    first = _first_line(prompt)
    subject = shortened(first, _SUBJECT_CHARS)
    if subject == first and "\n" not in prompt:
        return f"{subject}\n"
    body = "\n".join(line.rstrip() for line in prompt.split("\n"))
    return f"{subject}\n\n{shortened(body, _BODY_CHARS)}\n"


def _without_prompt(found: Sequence[About]) -> str:
    agents = dict.fromkeys(one.agent for one in found if one.agent)
    files = counted(sum(one.files for one in found), "file")
    return (
        f"Changes by {' and '.join(agents)}: {files}\n"
        if agents
        else f"Change {files}\n"
    )
