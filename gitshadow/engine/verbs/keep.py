"""prune, purge, du: dropping sessions, dropping contents, and what the history costs.

Invariant: objects are never removed; refs and rows go, Git's own gc does the rest.
"""

from collections.abc import Sequence

from gitshadow.engine import forgetting, mirroring, purging, retention
from gitshadow.engine import params as read
from gitshadow.engine.desk import Desk
from gitshadow.engine.retention import Limits, Unit
from gitshadow.engine.rows import Row, rfc3339
from gitshadow.engine.usage import Scales, usage
from gitshadow.engine.verbs import Document, Params
from gitshadow.engine.workspace import Workspace
from gitshadow.errors import StoreError
from gitshadow.store.refs import display_path

_LOCK_S = 20.0


def prune(desk: Desk, params: Params) -> Document:
    """Drop sessions for good: whole ones, closed ones, never a pin.

    With `all` every session goes that is not open in an agent, the person's own too; else what
    `older_than`, `keep` and `size` leave no room for, or what the settings do (`retention`).
    """
    desk.observer.settle()
    found = forgetting.units_of(desk.workspace)
    going = _going(desk.workspace, found, params)
    dry = read.flag(params, "dry_run")
    trouble = None
    if not dry:
        names = forgetting.refs_of(desk.workspace, going)
        for _ in forgetting.forget(desk, going, wait_s=_LOCK_S):
            pass
        trouble = _forgotten_elsewhere(desk.workspace, names)
    rows = [_row(unit) for unit in going]
    staying = [unit for unit in found if unit not in going]
    return {
        "dropped": rows,
        "dry_run": dry,
        "mirror": trouble,
        "open": sum(unit.is_open for unit in staying),
        "kept": sum(unit.is_kept and not unit.is_open for unit in staying),
    }


def _forgotten_elsewhere(
    ws: Workspace, names: Sequence[str], *, scrub: bool = False
) -> str | None:
    """Take out of the mirror what was dropped; return what is in the way."""
    try:
        mirroring.forget(ws, names, scrub=scrub)
    except StoreError as error:
        return error.message
    return None


def _going(ws: Workspace, found: Sequence[Unit], params: Params) -> list[Unit]:
    if read.flag(params, "all"):
        return retention.everything(found)
    limits = Limits(
        read.number(params, "older_than"),
        read.number(params, "keep"),
        read.number(params, "size"),
    )
    if read.flag(params, "retention"):
        limits = forgetting.limits_of(ws)
    return retention.beyond(found, limits, ws.clock.now_ns(), Scales(ws))


def _row(unit: Unit) -> Row:
    return {
        "id": unit.name,
        "sessions": list(unit.ids),
        "programs": list(unit.programs),
        "started": rfc3339(unit.started_ns),
    }


def purge(desk: Desk, params: Params) -> Document:
    """Rewrite the history without the content of paths; without paths only say what remains."""
    ws = desk.workspace
    paths = read.repo_paths(ws.layout, params, "paths")
    done, trouble = purging.Purged((), 0, ()), None
    if paths:
        desk.observer.settle()
        done = purging.purge(desk, paths)
        trouble = _forgotten_elsewhere(ws, (), scrub=True)
    left = purging.remains(ws)
    return {
        "names": [display_path(name) for name in done.names],
        "contents": done.contents,
        "rewritten": list(done.rewritten),
        "mirror": trouble,
        "on_disk": [
            display_path(p) for p in done.names if ws.files.look(p) is not None
        ],
        "remains": {
            "objects": left.waiting,
            "commits": [
                {"commit": commit, "path": display_path(path)}
                for commit, path in left.commits
            ],
            "staged": [display_path(path) for path in left.staged],
            "history": [display_path(path) for path in left.history],
            "fetched": list(left.fetched),
        },
    }


def du(desk: Desk, params: Params) -> Document:
    """Return what the history takes, session by session and in total."""
    del params
    ws = desk.workspace
    return usage(ws.layout, ws.git, ws.repo, ws.db)
