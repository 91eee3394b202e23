"""One undo from request to report: choose, survey, plan, and apply if the request says so.

Invariant: nothing in the working tree changes before the op and its steps are in the journal;
an op ends recorded as one commit, or as if it had never begun.
"""

import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import NamedTuple

from gitshadow.attribution.ladder import by_time_only
from gitshadow.errors import RefusedError, ShadowError, StoreError, UsageError
from gitshadow.messages.codec import encode
from gitshadow.messages.undo import FileUndoAnswer, FileUndoRequest, Uncovered
from gitshadow.model import (
    Oid,
    Op,
    OpKind,
    OpStatus,
    PathChange,
    RepoPath,
    micro,
    paths_of,
)
from gitshadow.store.journal import ops, stretches
from gitshadow.store.journal.stretches import NOTHING, Stretches
from gitshadow.store.purge import is_purged
from gitshadow.store.refs import display_path
from gitshadow.undo import oplog, report_context, restore_plan
from gitshadow.undo.about import about
from gitshadow.undo.apply import Result, StepHook, Tools, apply, no_hook
from gitshadow.undo.choose import (
    NOBODY,
    Chooser,
    Selection,
    UnitWindow,
    is_ambiguous,
    only_by,
)
from gitshadow.undo.effective import add_notes, singles_of, take_notes, undoings_of
from gitshadow.undo.engine import UndoEngine
from gitshadow.undo.path_plans import World
from gitshadow.undo.plan import PathFilter, Plan, PlanRequest, plan_states, plan_unit
from gitshadow.undo.report import Action, Item, Reason, Report, State, Status
from gitshadow.undo.reverse import ConflictPolicy, OnConflict
from gitshadow.undo.targets import Target, Undoings
from gitshadow.undo.unstored import Unstored
from gitshadow.undo.worktree_scan import (
    DirectoryOwner,
    survey,
    tree_at,
    tree_before,
)
from gitshadow.words import counted, shortened

_TRIES = 3
# A plan reads each content up to five times: to see that it is there, to merge, to count lines, to
# count bytes, and to write it.
_KEPT_BYTES = 32 << 20
_PROMPT_IN_MARKERS = 40
_VERBS: Mapping[OpKind, str] = {OpKind.REDO: "redo", OpKind.RESTORE: "restore"}
_PASSED = "later changes left nothing to undo"


class ResolvedUndo(NamedTuple):
    """A request, and what its words mean in a worktree.

    `paths` is what its `only` and `except_` select. `whose` are sessions: if it is given, `undo`
    reverts only what is surely theirs, whatever a target is. `is_settled` says that a barrier was
    made for this request already.
    """

    asked: FileUndoRequest
    targets: tuple[Target, ...] = ()
    paths: PathFilter = PathFilter()
    at_ns: int | None = None
    whose: frozenset[str] | None = None
    is_settled: bool = False

    @property
    def kind(self) -> OpKind:
        """Return the verb."""
        return OpKind(self.asked.verb)


def run(engine: UndoEngine, request: ResolvedUndo, hook: StepHook = no_hook) -> Report:
    """Plan one undo, and apply it if the request says so.

    Args:
        engine: The worktree; the caller holds its writer lock.
        request: What is to be undone, and how.
        hook: Called at every step of applying; tests interrupt there.

    Raises:
        UsageError: a target names nothing or several things.
        RefusedError: the token is that of another plan, or there is no room; nothing changed.
        StoreError: it could not be recorded; what was written is rolled back.
    """
    return _Undo(engine, request, hook).run()


def earlier_report(engine: UndoEngine, op: str) -> FileUndoAnswer | None:
    """Return the report of an op that is done; None where there is none of that id.

    Who repeats a request under the same id was killed before the answer came.

    Raises:
        StoreError, JournalError: an interrupted op could not be finished or rolled back.
    """
    recover(engine)
    return oplog.report_of(engine.db, op)


def recover(engine: UndoEngine, hook: StepHook = no_hook) -> list[oplog.Recovery]:
    """Finish or roll back what a crash interrupted; return what became of it.

    A note about it is kept until a verb shows it.

    Raises:
        StoreError, JournalError: it is not known yet how far the op came; it waits.
    """
    engine.catch_up()
    found = oplog.recover(engine.db, engine.worktree, _tools(engine, hook))
    sentences = [one.sentence() for one in found]
    add_notes(engine.db, engine.worktree, sentences)
    return found


def _tools(engine: UndoEngine, hook: StepHook) -> Tools:
    return Tools(
        engine.files,
        engine.repo.read_blob,
        engine.clock,
        hook,
        engine.directory_mode,
        engine.state,
        engine.databases.among,
    )


def fresh_id(engine: UndoEngine) -> str:
    """Return an id that no op has."""
    while True:
        op = f"op-{os.urandom(4).hex()}"
        if ops.get(engine.db, op) is None:
            return op


def perform(
    engine: UndoEngine,
    op: Op,
    plan: Plan,
    hook: StepHook = no_hook,
    read: Callable[[Oid], bytes] | None = None,
) -> tuple[Result, Oid | None]:
    """Apply a plan as an op; return what was done and the commit that has it.

    The caller has recorded the present before, and ends the op with `oplog.finish`; an op that
    changed nothing is gone already. `read` reads blobs, by default from the object store.

    Raises:
        StoreError: it could not be recorded; what was written is rolled back.
    """
    # The restore commit needs these objects, and a failure here leaves nothing to roll back.
    for data in plan.made.values():
        engine.repo.write_blob(data)
    tools = _tools(engine, hook)
    if read is not None:
        tools = tools._replace(read=read)
    oplog.begin(engine.db, op, plan, engine.files)
    hook("begun")
    try:
        result = apply(plan, tools)
        hook("applied")
        commit = engine.record_restore(op, result.applied) if result.applied else None
    # KeyboardInterrupt too: a person who stops an undo wants the files as they were.
    except BaseException:
        _give_up(engine, op, tools)
        raise
    hook("recorded")
    if not result.applied:
        oplog.roll_back(engine.db, op.id, tools)
    return result, commit


def _give_up(engine: UndoEngine, op: Op, tools: Tools) -> None:
    """Roll an op back, unless its commit exists; what cannot be done waits for `recover`."""
    with suppress(ShadowError):
        engine.catch_up()
        found = oplog.settle(engine.db, op.id, tools)
        if found.finished:
            add_notes(engine.db, engine.worktree, [found.sentence()])


class _Draft(NamedTuple):
    """A plan with what it was made from; `paths` are all that it depends on."""

    selection: Selection
    plan: Plan
    paths: frozenset[RepoPath]
    unstored: Sequence[Unstored] = ()


@dataclass(slots=True)
class _Undo:
    engine: UndoEngine
    request: ResolvedUndo
    hook: StepHook
    notes: list[str] = field(default_factory=list)
    _kept: dict[Oid, bytes] = field(default_factory=dict)
    _kept_bytes: int = 0

    @property
    def _on_conflict(self) -> OnConflict:
        return OnConflict(self.request.asked.on_conflict)

    def run(self) -> Report:
        """Return the report of the plan or of what was done."""
        recovered = recover(self.engine, self.hook)
        self.notes += take_notes(self.engine.db, self.engine.worktree)
        # What was recovered may have written files since the barrier.
        is_settled = self.request.is_settled and not recovered
        draft = self._settled_draft(is_settled=is_settled)
        # The token is checked for a plan too: --dry-run --token says whether it still applies.
        self._check_token(draft)
        planned = self._report(draft)
        if not self.request.asked.apply or planned.status is Status.NOTHING_TO_DO:
            return planned
        planned = replace(planned, planned=False)
        if not draft.plan.steps:
            items = tuple(one.item for one in draft.plan.items)
            return replace(planned, items=(*items, *self._delete_unstored(draft)))
        return self._apply(draft, planned)

    def _settled_draft(self, *, is_settled: bool) -> _Draft:
        """Plan on a fully recorded worktree; plan again if it changed during the plan."""
        lost: set[Oid] | None = None
        for _ in range(_TRIES):
            if not is_settled:
                self.engine.flush()
            is_settled = False
            draft, world = self._draft()
            lacking = self._lacking(draft.plan, world)
            if not lacking:
                return draft
            # An object that every try lacks is lost; one that one try lacks was just being written.
            lost = lacking if lost is None else lost & lacking
        if lost:
            raise StoreError(
                f"cannot plan: object {min(lost)} of the history is missing",
                hint="git agent-undo doctor --fix",
            )
        raise RefusedError(
            "cannot plan: the files keep changing", hint="try again in a moment"
        )

    def _lacking(self, plan: Plan, world: World) -> set[Oid]:
        """Return what is going to be replaced and is not in the object store.

        What is covered again by the plan itself is recorded right before it is replaced. A file
        that stays, like that of an open database, may hold what was never recorded.
        """
        # Usually both name the same content; to look whether it is there reads all of it.
        needed = {
            (path, version)
            for path, step in plan.steps.items()
            for version in (world.present.get(path), step.before)
        }
        return {
            version.oid
            for path, version in needed
            if version is not None
            and path not in world.excluded
            and not self._has(version.oid)
            and self.engine.uncovered(path) is None
        }

    def _draft(self) -> tuple[_Draft, World]:
        if self.request.kind is OpKind.RESTORE:
            return self._draft_moment()
        chooser = Chooser(
            self.engine.db, self.engine.worktree, self.request.asked.include_low
        )
        if self.request.kind is OpKind.OOPS:
            return self._draft_oops(chooser)
        if self.request.kind is OpKind.REDO:
            return self._draft_unit(chooser.redo(self.request.targets))
        chosen = chooser.undo(self.request.targets)
        whose = self.request.whose
        return self._draft_unit(chosen if whose is None else only_by(chosen, whose))

    def _draft_oops(self, chooser: Chooser) -> tuple[_Draft, World]:
        """Plan for the newest burst; a burst of temporary files only is passed over."""
        passed: list[str] = []
        first: tuple[_Draft, World] | None = None
        while True:
            selection = chooser.oops(passed)
            if passed and selection.taken:
                selection = replace(selection, notes=(_PASSED, *selection.notes))
            found = self._draft_unit(selection)
            if not selection.taken and first is not None:
                return first
            if not _is_fleeting(found[0]):
                return self._with_way_back(chooser, found, passed)
            first = first or found
            passed += selection.undoes

    def _with_way_back(
        self, chooser: Chooser, found: tuple[_Draft, World], passed: Sequence[str]
    ) -> tuple[_Draft, World]:
        """Add a note about the burst before, if nothing of this one is left to undo."""
        draft, world = found
        selection, plan = draft.selection, draft.plan
        items = [planned.item for planned in plan.items]
        if not items or any(item.state is not State.NO_EFFECT for item in items):
            return found
        before = chooser.oops([*passed, *selection.undoes])
        if before.taken:
            on = f"to go back further: git agent-undo undo {before.undoes[0]}"
            selection = replace(selection, notes=(*selection.notes, on))
        return draft._replace(selection=selection), world

    def _draft_unit(self, selection: Selection) -> tuple[_Draft, World]:
        engine, taken, seqs = self.engine, selection.taken, selection.whole.seqs()
        (history, between), undoings = self._history(taken, seqs)
        hidden = report_context.hidden_by(
            engine.db, engine.worktree, selection, engine.files
        )
        # They replace the rows that say that these paths are no longer recorded.
        instead = set(map(_seq_and_path, hidden.changes))
        kept = (row for row in history if _seq_and_path(row) not in instead)
        history = tuple(sorted((*kept, *hidden.changes), key=_seq_and_path))
        wish = PlanRequest(
            seqs=seqs.union(row.seq for row in hidden.changes),
            between=between,
            manner=ConflictPolicy(
                on_conflict=self._on_conflict, label=self._label(selection)
            ),
            paths=self.request.paths,
            undoings=undoings,
            is_missing=lambda oid: not engine.repo.has(oid),
            ambiguous=selection.ambiguous,
            unrecorded=hidden.others,
            databases=engine.databases.among,
            removable=self._owner(taken, seqs).owns,
            offer=self.request.asked.offer,
            choice=self.request.asked.choice,
        )
        plan, world = self._plan(
            paths_of(history),
            wish,
            lambda wish, world: plan_unit(history, wish, world, self._read),
        )
        if taken and not plan.seqs and self.request.paths != PathFilter():
            raise UsageError(
                f"cannot undo {selection.target}: none of its paths is selected",
                hint="check --only and --except",
            )
        unstored: Sequence[Unstored] = ()
        if selection.kind is not OpKind.REDO:
            unstored = engine.unstored(selection.windows)
        return _Draft(selection, plan, paths_of(history), unstored), world

    def _draft_moment(self) -> tuple[_Draft, World]:
        moment, selection, owner = self._moment()
        wish = PlanRequest(
            manner=ConflictPolicy(on_conflict=self._on_conflict, label=selection.label),
            paths=self._restored_paths(),
            is_missing=lambda oid: not self.engine.repo.has(oid),
            databases=self.engine.databases.among,
            removable=owner.owns,
            offer=self.request.asked.offer,
            choice=self.request.asked.choice,
        )
        plan, world = self._plan(
            moment.wanted,
            wish,
            lambda wish, world: plan_states(
                moment.wanted, wish, world, self._read, moment.newest_seq
            ),
        )
        return _Draft(selection, plan, frozenset(moment.wanted)), world

    def _moment(self) -> tuple[restore_plan.RestorePoint, Selection, DirectoryOwner]:
        """Return the state to restore, what to call it, and whose directories may go."""
        engine, request = self.engine, self.request
        db, worktree = engine.db, engine.worktree
        pin_name = request.asked.pin
        words = " ".join(target.text for target in request.targets)
        chosen = self._restored_paths()
        tree: Oid | None = None
        if pin_name is not None:
            pin = engine.snapshot(pin_name)
            now = (engine.tree(), engine.states())
            found = restore_plan.at_snapshot(db, worktree, engine.repo, pin, now)
            label, tree, since_ns = f"--pin {pin_name}", pin.tree, pin.ts_ns
        elif request.at_ns is not None:
            found = restore_plan.at_time(db, worktree, request.at_ns, chosen)
            tree = tree_at(engine.repo, db, worktree, request.at_ns)
            label, since_ns = "--at", request.at_ns
        elif request.targets:
            texts = (one.text for one in request.targets)
            typed = dict(zip(self._typed_paths(), texts, strict=True))
            found = restore_plan.before_agent(db, worktree, typed, self._is_missing)
            label, since_ns = "restore", 0
        else:
            raise UsageError(
                "restore what? no file, time or pin given",
                hint="git agent-undo restore FILE | --at WHEN | --pin NAME",
            )
        selection = Selection(
            kind=OpKind.RESTORE,
            target=f"{label} {words}".strip() if label != "restore" else words,
            label=label,
            windows=(UnitWindow(None, since_ns, None),) if since_ns else (),
        )
        owner = DirectoryOwner(
            engine.repo, db, worktree, tree, 0, restore_plan.is_provable
        )
        return found, selection, owner

    def _restored_paths(self) -> PathFilter:
        only, leave = self.request.paths
        return PathFilter((*only, *self._typed_paths()), leave)

    def _typed_paths(self) -> tuple[RepoPath, ...]:
        found: list[RepoPath] = []
        for target in self.request.targets:
            if target.path is None:
                raise UsageError(f"cannot restore {target.text}: outside the worktree")
            found.append(target.path)
        return tuple(found)

    def _is_missing(self, path: RepoPath) -> bool:
        return self.engine.files.glance(path) is None

    def _history(
        self, taken: Sequence[PathChange], seqs: frozenset[int]
    ) -> tuple[Stretches, Undoings]:
        if not taken:
            return NOTHING, {}
        db, worktree = self.engine.db, self.engine.worktree
        # Later events decide whether the unit's result is still there; earlier ones do not matter.
        stored = stretches.history(db, worktree, paths_of(taken), taken[0].seq)
        undoings = undoings_of(db, stored.ops())
        return stored.folded(
            seqs, singles_of(undoings.values()), by_time_only
        ), undoings

    def _owner(
        self, taken: tuple[PathChange, ...], seqs: frozenset[int]
    ) -> DirectoryOwner:
        engine = self.engine
        tree = tree_before(engine.repo, taken[0]) if taken else None
        return DirectoryOwner(
            engine.repo,
            engine.db,
            engine.worktree,
            tree,
            taken[0].seq if taken else 0,
            lambda row: row.seq in seqs,
        )

    def _plan(
        self,
        paths: Collection[RepoPath],
        wish: PlanRequest,
        make: Callable[[PlanRequest, World], Plan],
    ) -> tuple[Plan, World]:
        """Make a plan for the coverage rules that it restores, if it restores any."""
        world = self._survey(paths, {})
        # Only then a rule file of the plan can matter, and planning twice costs twice.
        if Reason.EXCLUDED in world.excluded.values():
            whole = replace(wish, choice=None)
            restored = report_context.restored_by(
                lambda given: make(whole, self._survey(paths, given)), self._read
            )
            world = self._survey(paths, restored)
        return make(wish, world), world

    def _label(self, selection: Selection) -> str:
        """Return how conflict markers name the unit: by its prompt, where it has just one."""
        if self._on_conflict is not OnConflict.MARKERS:
            return selection.label
        found = about(self.engine.db, self.engine.worktree, selection.taken)
        if len(found) != 1 or not found[0].prompt:
            return selection.label
        line = shortened(found[0].prompt, _PROMPT_IN_MARKERS)
        return f'the turn "{"".join(filter(str.isprintable, line))}"'

    def _survey(self, paths: Iterable[RepoPath], given: report_context.Rules) -> World:
        engine = self.engine
        uncovered = engine.uncovered_under(given) if given else engine.uncovered
        return survey(paths, engine.files, engine.state, uncovered)

    def _read(self, oid: Oid) -> bytes | None:
        try:
            data = self._blob(oid)
        except StoreError:
            return None
        return None if is_purged(data) else data

    def _blob(self, oid: Oid) -> bytes:
        data = self._kept.get(oid)
        if data is None:
            data = self.engine.repo.read_blob(oid)
            if self._kept_bytes + len(data) <= _KEPT_BYTES:
                self._kept[oid] = data
                self._kept_bytes += len(data)
        return data

    def _has(self, oid: Oid) -> bool:
        return oid in self._kept or self.engine.repo.has(oid)

    def _check_token(self, draft: _Draft) -> None:
        """Refuse where what somebody has looked at is not what would be done now."""
        plan, choice = draft.plan, self.request.asked.choice
        seen = [(self.request.asked.token, plan.token)]
        seen.append((choice.of if choice is not None else None, plan.whole))
        for token, now in seen:
            if token is not None and token != now:
                moved = self._moved(token, draft)
                raise RefusedError(
                    f"cannot apply plan {token}: {moved}",
                    hint="nothing was changed; to see the new plan: --dry-run",
                )

    def _moved(self, token: str, draft: _Draft) -> str:
        db, worktree = self.engine.db, self.engine.worktree
        return report_context.moved_since(db, worktree, token, draft.paths)

    def _apply(self, draft: _Draft, planned: Report) -> Report:
        engine, plan = self.engine, draft.plan
        engine.record_present(plan.steps.keys())
        op = Op(
            id=self.request.asked.op or fresh_id(engine),
            kind=self.request.kind,
            ts_ns=micro(engine.clock.now_ns()),
            worktree=engine.worktree,
            session=engine.actor_session(),
            target=draft.selection.target,
            undoes=self._undoes(draft),
            status=OpStatus.APPLYING,
            token=plan.token,
        )
        result, commit = perform(engine, op, plan, self.hook, self._blob)
        # Nothing changed, so there is nothing that a redo could reverse: no op, no commit.
        if not result.applied:
            items = (*result.items, *self._delete_unstored(draft))
            return self._ended(draft, replace(planned, items=items))
        # What no redo can bring back goes last, once all else is recorded.
        items = (*result.items, *self._delete_unstored(draft))
        report = replace(planned, items=items, op_id=op.id, commit=commit)
        lost = report_context.not_carried(result)
        report = replace(report, not_covered=(*report.not_covered, *lost))
        report = self._ended(draft, report)
        # Stored with the end of the op, so that a repeated request gets the same report.
        oplog.finish(engine.db, op.id, commit, json.dumps(encode(report.answer())))
        return report

    def _delete_unstored(self, draft: _Draft) -> list[Item]:
        if not self.request.asked.include_unstored:
            return []
        return [self.engine.delete_unstored(one) for one in draft.unstored]

    def _ended(self, draft: _Draft, report: Report) -> Report:
        return replace(report, headline=self._headline(draft.selection, report))

    def _undoes(self, draft: _Draft) -> tuple[str, ...]:
        """Return what the op undoes: single events if paths or hunks were chosen.

        What was skipped by choice is not among them, so that it can still be undone later.
        """
        request = self.request
        if request.kind is OpKind.RESTORE:
            return ()
        # A part is remembered by its events: under the unit's id all of it would count as undone.
        if request.paths != PathFilter() or request.asked.choice is not None:
            return tuple(str(seq) for seq in sorted(draft.plan.taken))
        return draft.selection.undoes

    def _report(self, draft: _Draft) -> Report:
        engine, selection = self.engine, draft.selection
        first = min(draft.plan.seqs, default=None)
        notes = selection.notes
        items = tuple(planned.item for planned in draft.plan.items)
        if self.request.asked.include_unstored:
            items += tuple(one.item() for one in draft.unstored)
        named = (Reason.EXCLUDED, Reason.NO_BASELINE)
        unrecorded = {item.path for item in items if item.reason in named}
        head = report_context.head_moves(engine.db, engine.worktree)
        if any(item.state is not State.NO_EFFECT for item in items):
            kept = {item.path for item in items if _keeps_later(item)}
            notes = report_context.notes_of(
                engine.db, engine.worktree, selection, kept, head
            )
        if self.request.paths.leave:
            left = ", ".join(map(display_path, self.request.paths.leave))
            notes = (*notes, f"skipped because of --except: {left}")
        report = Report(
            kind=self.request.kind,
            target=selection.target,
            items=items,
            token=draft.plan.token,
            planned=True,
            not_covered=tuple(self._not_covered(draft, unrecorded)),
            notes=(*self.notes, *notes),
            maybe=self._paths(selection.maybe),
            unclear=self._paths(one for one in selection.maybe if is_ambiguous(one)),
            head_moved=report_context.moves_since(head, first) if first else (),
            about=about(engine.db, engine.worktree, selection.taken),
        )
        return replace(report, headline=self._headline(selection, report))

    def _not_covered(
        self, draft: _Draft, unrecorded: Collection[str]
    ) -> Iterator[Uncovered]:
        """Yield what the unit did that no item is about."""
        engine, asked = self.engine, self.request.asked
        unstored = {display_path(one.top): one for one in draft.unstored}
        # A file that the unit made where something unrecorded was is deleted, but not replaced.
        made = {one.path: one.ts_ns for one in reversed(draft.selection.taken)}
        reverted = {
            path: made.get(path, 0) if step.after is None else 0
            for path, step in draft.plan.steps.items()
        }
        entries = report_context.not_covered(
            engine.db,
            engine.worktree,
            (*draft.selection.windows, *draft.selection.later),
            engine.inner_repositories(),
            reverted,
        )
        for entry in entries:
            one = unstored.get(entry.path or "")
            if one is None and entry.path not in unrecorded:
                yield entry
            if one is not None and not asked.include_unstored:
                hint = f"to delete {one.in_words()}, for good: --include-unstored"
                yield entry._replace(hint=hint)

    def _paths(self, rows: Iterable[PathChange]) -> tuple[str, ...]:
        paths = {
            event.path for event in rows if self.request.paths.takes((event.path,))
        }
        return tuple(display_path(path) for path in sorted(paths))

    def _headline(self, selection: Selection, report: Report) -> str:
        """Return what has to be read first; empty where the counts say it all."""
        if report.status is not Status.NOTHING_TO_DO:
            if selection.headline != NOBODY:
                return ""
            return f"{NOBODY}: {_counted(report)}"
        if selection.headline and selection.headline != NOBODY:
            return selection.headline
        back = [item.detail for item in report.items if item.detail]
        nothing = f"nothing to {_VERBS.get(selection.kind, 'undo')}"
        if back and len(back) == len(report.items):
            return f"{nothing}: {selection.target} is {back[-1]}"
        if selection.taken:
            latest = "latest " * (selection.kind is OpKind.OOPS)
            return (
                f"{nothing}: the {latest}changes of {selection.target} are already gone"
            )
        return f"{nothing}: already up to date"


def _is_fleeting(draft: _Draft) -> bool:
    """Return whether a unit created and deleted its files, so that there is nothing to choose."""
    selection = draft.selection
    if draft.plan.items or draft.unstored:
        return False
    return bool(selection.taken) and not selection.maybe


def _counted(report: Report) -> str:
    verbs = {
        State.REVERSED: "will restore" if report.planned else "restored",
        State.NOT_REVERSED: "will skip" if report.planned else "skipped",
    }
    found = [(said, report.counts[state.value]) for state, said in verbs.items()]
    words = [f"{said} {counted(count, 'file')}" for said, count in found if count]
    unchanged = report.counts[State.NO_EFFECT.value]
    words += [f"{unchanged} unchanged"] if unchanged else []
    return ", ".join(words)


_seq_and_path = attrgetter("seq", "path")


def _keeps_later(item: Item) -> bool:
    """Return whether later lines stay in a file of which others are undone."""
    merges = item.action is Action.MERGE and item.state is State.REVERSED
    return merges and not item.overwrites
