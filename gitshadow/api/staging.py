"""stage, commit, split, apply and move: what one turn changed, in Git."""

from collections.abc import Collection, Iterator, Sequence

from gitshadow.config import CONFIRM
from gitshadow.messages.staging import (
    AdoptRequest,
    CarriedRequest,
    CarryRequest,
    CommitRequest,
    SplitRequest,
    StageRequest,
    StagingAnswer,
    UnitRequest,
)
from gitshadow.model import Oid, PathChange, RepoPath
from gitshadow.query.params import typed_paths, typed_unit
from gitshadow.recording.context import RecorderContext
from gitshadow.recording.workspace import read_config
from gitshadow.staging.carry import Carrier
from gitshadow.staging.carry import carried as files_of
from gitshadow.staging.run import CommitWish, Go, Staging, UnitWish, dirty_paths
from gitshadow.staging.unit import UnitReader
from gitshadow.store.journal import events
from gitshadow.undo.engine import UndoEngine
from gitshadow.undo.plan import PathFilter
from gitshadow.undo.targets import Target, is_agents, is_undoable, root_of


def turns_on(
    reader: UnitReader, dirty: Collection[RepoPath], paths: PathFilter
) -> Iterator[UnitWish]:
    """Yield the turns of agents that wrote some paths, in the order of their first writes.

    Without turns it is a burst. The turn of a subagent is its parent's.
    """
    engine = reader.engine
    chosen = [path for path in dirty if paths.takes((path,))]
    found: dict[str, None] = {}
    roots: dict[str, str] = {}
    for row in events.history(engine.db, engine.worktree, chosen, 0):
        if not is_undoable(row) or row.op is not None or not is_agents(row):
            continue
        session = row.attribution.session
        if session not in roots:
            roots[session] = root_of(engine.db, session)
        name = _name(row, roots[session])
        if name is not None:
            found[name] = None
    for name in found:
        yield UnitWish((Target(name),), paths)


def _name(row: PathChange, root: str) -> str | None:
    who = row.attribution
    if who.turn is None:
        return row.burst
    turn = who.turn if root == who.session else who.turn.split("/", 1)[0]
    return f"{root}:{turn}"


def stage(context: RecorderContext, request: StageRequest) -> StagingAnswer:
    """Plan to stage a unit, or to restore what the last staging replaced; apply it if asked.

    Raises:
        UsageError: a target names nothing, or several things.
        RefusedError: the index cannot be changed now, or the token is that of another plan.
    """
    staging, go = _staging(context), Go(request.yes, request.token)
    if request.undo:
        answer = staging.unstage(go)
    else:
        answer = staging.stage(_wish(context, request.unit, request.cwd), go)
    return _with_confirm(context, answer, request.confirm)


def commit(context: RecorderContext, request: CommitRequest) -> StagingAnswer:
    """Plan a commit of units, and prepare it if asked.

    Raises:
        UsageError: a target or the branch names nothing, or several things.
        RefusedError: Git is in the middle of something, or the token is that of another plan.
    """

    def trailers(index: str) -> Sequence[tuple[str, str]]:
        # Imported only here, because it imports all of blame.
        from gitshadow.interchange import commit_trailers

        return commit_trailers.trailers_of(context, index)

    how = CommitWish(
        request.message, request.onto, trailers if request.trailers else None
    )
    wish = _wish(context, request.unit, request.cwd)
    answer = _staging(context).commit(wish, how, Go(request.yes, request.token))
    return _with_confirm(context, answer, request.confirm)


def adopt(context: RecorderContext, request: AdoptRequest) -> StagingAnswer:
    """Let the index have what a commit brought.

    Raises:
        RefusedError: another process keeps the index locked.
    """
    before = Oid(request.before) if request.before is not None else None
    return _staging(context).adopt(before, Oid(request.commit))


def split(context: RecorderContext, request: SplitRequest) -> StagingAnswer:
    """Plan one commit for each turn that has uncommitted changes."""
    staging = _staging(context)
    layout = context.workspace.layout
    paths = PathFilter(
        typed_paths(layout, request.cwd, request.only),
        typed_paths(layout, request.cwd, request.except_),
    )
    staging.reader.settle()
    dirty = dirty_paths(context.workspace)
    units = [
        one._replace(include_low=request.include_low)
        for one in turns_on(staging.reader, dirty, paths)
    ]
    return _with_confirm(context, staging.commits(units), request.confirm)


def carried(context: RecorderContext, request: CarriedRequest) -> StagingAnswer:
    """Return what a unit changed, for another worktree."""
    reader = UnitReader(UndoEngine(context, None), context.workspace)
    return files_of(reader, _wish(context, request.unit, request.cwd))


def carry(context: RecorderContext, request: CarryRequest) -> StagingAnswer:
    """Plan to apply changes of another worktree here, and do it if asked.

    Raises:
        RefusedError: the token is that of another plan; nothing was changed.
    """
    engine = UndoEngine(context, request.runner)
    carrier = Carrier(UnitReader(engine, context.workspace))
    answer = carrier.carry(
        request.files, request.name, yes=request.yes, token=request.token
    )
    return _with_confirm(context, answer, request.confirm)


def _staging(context: RecorderContext) -> Staging:
    return Staging.of(UndoEngine(context, None), context.workspace)


def _wish(context: RecorderContext, unit: UnitRequest, cwd: str | None) -> UnitWish:
    targets, paths = typed_unit(
        context.workspace.layout, cwd, unit.targets, unit.only, unit.except_
    )
    return UnitWish(targets, paths, unit.include_low)


def _with_confirm(
    context: RecorderContext, answer: StagingAnswer, confirm: str | None
) -> StagingAnswer:
    # Read again, because a daemon may be older than the setting and has another environment.
    environ = {CONFIRM.env_name: confirm} if confirm else {}
    return answer._replace(confirm=read_config(context.workspace.repo, environ).confirm)
