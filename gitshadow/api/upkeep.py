"""prune, purge, du: dropping sessions, dropping contents, and what the history costs.

Invariant: objects are never removed; refs and rows go, Git's own gc does the rest.
"""

import base64
from collections.abc import Sequence
from typing import NamedTuple

from gitshadow.api import Document, Params
from gitshadow.maintenance import prune as forgetting
from gitshadow.maintenance import purge as purging
from gitshadow.maintenance import retention
from gitshadow.maintenance.purge import Remains, Survey, remains
from gitshadow.maintenance.retention import RetentionLimits, RetentionUnit
from gitshadow.maintenance.upkeep import Scales, usage
from gitshadow.query import params as read
from gitshadow.query.rows import Row, rfc3339
from gitshadow.recording.context import RecorderContext
from gitshadow.recording.workspace import Workspace
from gitshadow.sharing import mirror
from gitshadow.sharing.mirror import Cleared
from gitshadow.store.journal import purge as journal
from gitshadow.store.refs import display_path

_LOCK_S = 20.0


def prune(context: RecorderContext, params: Params) -> Document:
    """Drop sessions for good: whole ones, closed ones, never a pin.

    With `all` every session goes that is not open in an agent, the person's own too; else what
    `older_than`, `keep` and `size` leave no room for, or what the settings do (`retention`).
    """
    context.observer.settle()
    found = forgetting.units_of(context.workspace)
    going = _going(context.workspace, found, params)
    dry = read.flag(params, "dry_run")
    mirrored: list[Cleared] = []
    if not dry:
        names = forgetting.refs_of(context.workspace, going)
        for _ in forgetting.forget(context, going, wait_s=_LOCK_S):
            pass
        mirrored = mirror.forget(context.workspace, names)
    rows = [_row(unit) for unit in going]
    staying = [unit for unit in found if unit not in going]
    return {
        "dropped": rows,
        "dry_run": dry,
        "mirror": _trouble(mirrored),
        "mirrors": _mirror_rows(mirrored),
        "open": sum(unit.is_open for unit in staying),
        "kept": sum(unit.is_kept and not unit.is_open for unit in staying),
        "needed": retention.needed(staying),
    }


def _trouble(mirrored: Sequence[Cleared]) -> str | None:
    """Return what is in the way of the first mirror that something is in the way of."""
    found = (f"{one.place}: {one.trouble}" for one in mirrored if one.trouble)
    return next(found, None)


def _mirror_rows(mirrored: Sequence[Cleared]) -> list[Row]:
    return [
        {
            "place": one.place,
            "dropped": list(one.dropped),
            "held": list(one.held),
            "trouble": one.trouble,
        }
        for one in mirrored
    ]


def _going(
    ws: Workspace, found: Sequence[RetentionUnit], params: Params
) -> list[RetentionUnit]:
    if read.flag(params, "all"):
        return retention.everything(found)
    limits = RetentionLimits(
        read.number(params, "older_than"),
        read.number(params, "keep"),
        read.number(params, "size"),
    )
    if read.flag(params, "retention"):
        limits = forgetting.limits_of(ws)
    return retention.beyond(found, limits, ws.clock.now_ns(), Scales(ws))


def _row(unit: RetentionUnit) -> Row:
    return {
        "id": unit.name,
        "sessions": list(unit.ids),
        "programs": list(unit.programs),
        "started": rfc3339(unit.started_ns),
    }


def purge(context: RecorderContext, params: Params) -> Document:
    """Rewrite the history without the content of paths, or without texts wherever they stand.

    Without either only say what remains of what was purged. With `dry_run` nothing changes.
    """
    ws = context.workspace
    paths = read.repo_paths(ws.layout, params, "paths")
    texts = [base64.b64decode(one) for one in read.strings(params, "texts")]
    dry = read.flag(params, "dry_run")
    found, said = purging.NOTHING, _Said()
    if paths or texts:
        context.observer.settle()
        found = purging.survey(ws, paths, texts)
        said = (_planned if dry else _purged)(context, found, params)
    left = Remains() if dry else remains(ws)
    return {
        "dry_run": dry,
        "names": [display_path(name) for name in found.names],
        "contents": len(found.contents),
        "rewritten": list(found.refs),
        "rows": dict(found.elsewhere.found.rows),
        "named": dict(found.elsewhere.found.names),
        "named_files": len(found.holding.trees),
        "effects": found.elsewhere.found.effects,
        "files": list(found.elsewhere.files),
        "holding": len(found.holding.blobs | found.holding.commits),
        "unsearched": found.holding.unsearched,
        "texts": len(texts),
        "journal_holds": said.journal,
        "fetched_dropped": said.fetched,
        "mirror": _trouble(said.mirrors),
        "mirrors": _mirror_rows(said.mirrors),
        "on_disk": [
            display_path(p) for p in found.on_disk if ws.files.look(p) is not None
        ],
        "remains": _remains_row(left),
    }


class _Said(NamedTuple):
    """Hold what a purge could not do, and what it dropped beside."""

    mirrors: Sequence[Cleared] = ()
    journal: Sequence[str] = ()
    fetched: Sequence[str] = ()


def _planned(context: RecorderContext, found: Survey, params: Params) -> _Said:
    if not read.flag(params, "fetched"):
        return _Said()
    return _Said(fetched=purging.fetched_holding(context.workspace, found))


def _purged(context: RecorderContext, found: Survey, params: Params) -> _Said:
    purging.purge(context, found)
    fetched = purging.drop_fetched(context) if read.flag(params, "fetched") else []
    ws = context.workspace
    held_by = purging.proof(ws, found)
    return _Said(mirror.scrub(ws, journal.awaited(ws.db)), held_by, fetched)


def _remains_row(left: Remains) -> Row:
    return {
        "objects": left.waiting,
        "commits": [
            {
                "commit": one.commit,
                "path": None if one.path is None else display_path(one.path),
                "refs": list(one.refs),
            }
            for one in left.commits
        ],
        "staged": [display_path(path) for path in left.staged],
        "history": [display_path(path) for path in left.history],
        "fetched": list(left.fetched),
        "standing": list(left.standing),
    }


def du(context: RecorderContext, params: Params) -> Document:
    """Return what the history takes, session by session and in total."""
    del params
    ws = context.workspace
    return usage(ws.layout, ws.git, ws.repo, ws.db)
