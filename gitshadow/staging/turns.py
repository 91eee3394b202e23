"""Find the turns that have uncommitted changes, oldest first."""

from collections.abc import Collection, Iterator

from gitshadow.model import PathChange, RepoPath
from gitshadow.staging.run import UnitWish
from gitshadow.staging.unit import UnitReader
from gitshadow.store.journal import events
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
