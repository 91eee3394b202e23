"""Carry what a unit changed into another worktree of the repository, as uncommitted changes.

Invariant: the other worktree is changed by an op like any other: recorded before, journaled, rolled
back after a crash, and undone by its id.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gitshadow.errors import RefusedError
from gitshadow.messages.codec import encode
from gitshadow.messages.staging import CarriedFile, FileEnd, StagingAnswer, StagingItem
from gitshadow.model import FileVersion, Oid, Op, OpKind, OpStatus, RepoPath, micro
from gitshadow.staging.graft import Grafted, Grafter, as_stored, combined
from gitshadow.staging.run import UnitWish, item_of, planned_status
from gitshadow.staging.survivors import ChangeStep, Survivor
from gitshadow.staging.unit import UnitReader
from gitshadow.store.digests import digest
from gitshadow.store.journal import short_ids
from gitshadow.store.refs import display_path, parse_path
from gitshadow.store.trees import Entry
from gitshadow.undo import oplog
from gitshadow.undo.lineage import LineageRecord
from gitshadow.undo.path_plans import World
from gitshadow.undo.plan import Plan, PlanRequest, WantedState, plan_states
from gitshadow.undo.report import Item, Report, State
from gitshadow.undo.run import fresh_id, perform

_TOKEN_DIGITS = 16


def carried(reader: UnitReader, wish: UnitWish) -> StagingAnswer:
    """Return what undo of a unit would revert, as files for another worktree.

    Raises:
        UsageError: a target names nothing, or several things.
    """
    reader.settle()
    unit = reader.unit(wish.targets, wish.paths, include_low=wish.include_low)
    files: list[CarriedFile] = []
    items: list[StagingItem] = []
    for one in unit.survivors:
        live = one.live
        if live is None:
            shown = display_path(one.path)
            reason = one.reason.value if one.reason else "conflict"
            detail = one.detail or "the same lines were edited later"
            items.append(
                StagingItem(shown, "none", "skipped", one.session, reason, detail)
            )
        elif live.before != live.after:
            _keep(reader, live)
            names = tuple(map(display_path, sorted(one.paths)))
            files.append(
                CarriedFile(_end(live.before), _end(live.after), names, one.session)
            )
    status = "planned" if files or items else "nothing_to_do"
    return StagingAnswer(
        "carried",
        wish.name,
        status,
        items=tuple(items),
        files=tuple(files),
        maybe=unit.maybe,
        notes=() if status == "planned" else (unit.selection.headline,),
    )


@dataclass(frozen=True, slots=True)
class Carrier:
    """Apply changes that `carried` answered with to this worktree."""

    reader: UnitReader

    def carry(
        self, files: Sequence[CarriedFile], name: str, *, yes: bool, token: str | None
    ) -> StagingAnswer:
        """Plan to apply changes, and do it if asked.

        Raises:
            RefusedError: the token is that of another plan; nothing was changed.
            StoreError: it could not be recorded; what was written is rolled back.
        """
        self.reader.settle()
        found = [_survivor(one) for one in files]
        paths = {path for one in found for path in one.paths}
        world = self.reader.world(paths)
        base = _DiskBase(world)
        done = Grafter(blobs=self.reader.blobs, clean=as_stored, strict=True).graft(
            found, base
        )
        plan = self._plan(done, world)
        items = [item_of(one, base, self.reader) for one in done]
        answer = _answer(name, items, plan)
        if token is not None and token != answer.token:
            raise RefusedError(
                f"cannot apply plan {token}: the plan is different now",
                hint="nothing was changed; to see the new plan: --dry-run",
            )
        return self._apply(done, plan, answer) if yes and plan.steps else answer

    def _plan(self, done: Sequence[Grafted], world: World) -> Plan:
        reader = self.reader
        writes = combined(done)
        sessions = {path: one.survivor.session for one in done for path in one.writes}
        wanted = {
            path: WantedState(
                FileVersion(entry[1], entry[0]) if entry is not None else None,
                deletable=True,
                session=sessions.get(path),
            )
            for path, entry in sorted(writes.items())
        }
        for entry in writes.values():
            if entry is not None and entry[1] in reader.blobs.made:
                reader.engine.repo.write_blob(reader.blobs.made[entry[1]])
        wish = PlanRequest(is_missing=lambda oid: not reader.engine.repo.has(oid))
        return plan_states(wanted, wish, world, reader.read, 0)

    def _apply(
        self, done: Sequence[Grafted], plan: Plan, answer: StagingAnswer
    ) -> StagingAnswer:
        engine = self.reader.engine
        engine.record_present(plan.steps.keys())
        op = Op(
            id=fresh_id(engine),
            kind=OpKind.RESTORE,
            ts_ns=micro(engine.clock.now_ns()),
            worktree=engine.worktree,
            session=engine.actor_session(),
            target=f"apply {answer.target}",
            undoes=(),
            status=OpStatus.APPLYING,
            token=plan.token,
        )
        result, commit = perform(engine, op, plan)
        failed = {
            item.path: item for item in result.items if item.state is State.NOT_REVERSED
        }
        items = tuple(
            _failed(item, one, failed)
            for item, one in zip(answer.items, done, strict=True)
        )
        skipped = any(item.state == "skipped" for item in items)
        answer = answer._replace(status="partial" if skipped else "done", items=items)
        if not result.applied:
            return answer
        report = Report(
            kind=OpKind.RESTORE,
            target=op.target,
            items=result.items,
            token=plan.token,
            op_id=op.id,
            commit=commit,
        )
        oplog.finish(engine.db, op.id, commit, json.dumps(encode(report.answer())))
        return answer._replace(
            op_id=op.id, op_short=short_ids.of(engine.db, short_ids.OP, op.id)
        )


class _DiskBase:
    """The files of a worktree, as a target of changes."""

    where = "in that worktree"

    def __init__(self, world: World) -> None:
        self._world = world

    def entry(self, path: RepoPath) -> Entry | None:
        """Return the exact mode and the content of a path."""
        found = self._world.present.get(path)
        return (found.mode, found.oid) if found is not None else None

    def barred(self, path: RepoPath) -> str | None:
        """Return why a path is not recorded, so that its content could be lost."""
        return "it is not recorded there" if path in self._world.excluded else None

    def is_replaceable(self, path: RepoPath) -> bool:
        """Return False: what is there is the work of somebody."""
        del path
        return False

    def is_file(self, path: RepoPath) -> bool:
        """Return whether something that is no directory is there."""
        return self.entry(path) is not None or path in self._world.barriers

    def under(self, path: RepoPath) -> Iterable[RepoPath]:
        """Return the files below a directory."""
        below = self._world.directories.get(path)
        return below.files if below is not None else ()


def _keep(reader: UnitReader, step: ChangeStep) -> None:
    """Store what undo made, so that another process can read it."""
    for record in step:
        if record.version is not None and record.version.oid in reader.blobs.made:
            reader.engine.repo.write_blob(reader.blobs.made[record.version.oid])


def _answer(name: str, items: Sequence[StagingItem], plan: Plan) -> StagingAnswer:
    # The plan settles what the disk has no room for; an item has the reason of its paths.
    barred = {
        planned.item.path: planned.item
        for planned in plan.items
        if planned.item.state is State.NOT_REVERSED
    }
    settled = tuple(
        item._replace(
            action="none",
            state="skipped",
            reason=why.reason.value if why.reason else None,
            detail=why.detail,
        )
        if (why := barred.get(item.path)) is not None and item.state == "included"
        else item
        for item in items
    )
    return StagingAnswer(
        "apply",
        name,
        planned_status(settled),
        digest(f"{plan.token}{settled!r}")[:_TOKEN_DIGITS],
        settled,
    )


def _failed(item: StagingItem, one: Grafted, failed: Mapping[str, Item]) -> StagingItem:
    """Return an item as it ended."""
    for path in one.writes:
        found = failed.get(display_path(path))
        if found is not None and item.state == "included":
            reason = found.reason.value if found.reason else None
            return item._replace(
                action="none", state="skipped", reason=reason, detail=found.detail
            )
    return item


def _end(record: LineageRecord) -> FileEnd:
    version = record.version
    if version is None:
        return FileEnd(display_path(record.path))
    return FileEnd(display_path(record.path), version.mode, version.oid)


def _survivor(one: CarriedFile) -> Survivor:
    before, after = _record(one.before), _record(one.after)
    paths = frozenset(RepoPath(parse_path(path)) for path in one.paths)
    paths |= {before.path, after.path}
    return Survivor(after.path, paths, one.session, after, ChangeStep(before, after))


def _record(end: FileEnd) -> LineageRecord:
    version = FileVersion(Oid(end.oid), end.mode) if end.oid is not None else None
    return LineageRecord(RepoPath(parse_path(end.path)), version)
