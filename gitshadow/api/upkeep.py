"""prune, purge: delete sessions, erase contents."""

import base64
from collections.abc import Sequence
from typing import NamedTuple

from gitshadow.maintenance import prune as forgetting
from gitshadow.maintenance import purge as purging
from gitshadow.maintenance import retention
from gitshadow.maintenance.purge import NOTHING_LEFT, Survey, remains
from gitshadow.maintenance.retention import RetentionLimits, RetentionUnit
from gitshadow.maintenance.upkeep import Scales
from gitshadow.messages.storage import (
    ClearedMirror,
    PruneAnswer,
    PrunedUnit,
    PruneRequest,
    PurgeAnswer,
    PurgeRequest,
)
from gitshadow.query.params import typed_paths
from gitshadow.query.rows import rfc3339
from gitshadow.recording.context import RecorderContext
from gitshadow.recording.workspace import Workspace
from gitshadow.sharing import mirror
from gitshadow.store.journal import purge as journal
from gitshadow.store.refs import display_path

_LOCK_S = 20.0


def prune(context: RecorderContext, request: PruneRequest) -> PruneAnswer:
    """Drop sessions for good: whole ones, closed ones, never a pin.

    With `all` every session goes that is not open in an agent, the person's own too; else what
    `older_than`, `keep` and `size` leave no room for, or what the settings do (`retention`).
    """
    context.observer.settle()
    found = forgetting.units_of(context.workspace)
    going = _going(context.workspace, found, request)
    mirrored: list[ClearedMirror] = []
    # Only refs and rows are deleted. The objects are left to Git's gc, which alone knows what else
    # still needs them.
    if not request.dry_run:
        names = forgetting.refs_of(context.workspace, going)
        for _ in forgetting.forget(context, going, wait_s=_LOCK_S):
            pass
        mirrored = mirror.forget(context.workspace, names)
    staying = [unit for unit in found if unit not in going]
    return PruneAnswer(
        dropped=tuple(
            PrunedUnit(
                id=unit.name,
                sessions=tuple(unit.ids),
                programs=tuple(unit.programs),
                started=rfc3339(unit.started_ns),
            )
            for unit in going
        ),
        dry_run=request.dry_run,
        mirror=_trouble(mirrored),
        mirrors=tuple(mirrored),
        open=sum(unit.is_open for unit in staying),
        kept=sum(unit.is_kept and not unit.is_open for unit in staying),
        needed=retention.needed(staying),
    )


def _trouble(mirrored: Sequence[ClearedMirror]) -> str | None:
    """Return what is in the way of the first mirror that something is in the way of."""
    found = (f"{one.place}: {one.trouble}" for one in mirrored if one.trouble)
    return next(found, None)


def _going(
    ws: Workspace, found: Sequence[RetentionUnit], request: PruneRequest
) -> list[RetentionUnit]:
    if request.all:
        return retention.everything(found)
    limits = RetentionLimits(request.older_than, request.keep, request.size)
    if request.retention:
        limits = forgetting.limits_of(ws)
    return retention.beyond(found, limits, ws.clock.now_ns(), Scales.of(ws))


def purge(context: RecorderContext, request: PurgeRequest) -> PurgeAnswer:
    """Rewrite the history without the content of paths, without texts, or without prompts.

    Without either only say what remains of what was purged. With `dry_run` nothing changes.
    """
    ws = context.workspace
    paths = typed_paths(ws.layout, request.cwd, request.paths)
    texts = [base64.b64decode(one) for one in request.texts]
    dry = request.dry_run
    found, said = purging.NOTHING, _Said()
    if paths or texts or request.prompts:
        context.observer.settle()
        survey = purging.survey_prompts(ws) if request.prompts else None
        found = survey or purging.survey(ws, paths, texts)
        said = (_planned if dry else _purged)(context, found, request)
    return PurgeAnswer(
        dry_run=dry,
        names=tuple(display_path(name) for name in found.gone.paths),
        contents=len(found.contents),
        rewritten=tuple(found.refs),
        rows=dict(found.elsewhere.found.rows),
        named=dict(found.elsewhere.found.names),
        named_files=len(found.holding.trees),
        effects=found.elsewhere.found.effects,
        files=tuple(found.elsewhere.files),
        holding=len(found.holding.blobs | found.holding.commits),
        unsearched=found.holding.unsearched,
        texts=len(texts),
        prompts=found.prompts,
        journal_holds=tuple(said.journal),
        fetched_dropped=tuple(said.fetched),
        mirror=_trouble(said.mirrors),
        mirrors=tuple(said.mirrors),
        on_disk=tuple(
            display_path(p) for p in found.on_disk if ws.files.look(p) is not None
        ),
        remains=NOTHING_LEFT if dry else remains(ws),
    )


class _Said(NamedTuple):
    """What a purge could not do, and what else it deleted."""

    mirrors: Sequence[ClearedMirror] = ()
    journal: Sequence[str] = ()
    fetched: Sequence[str] = ()


def _planned(context: RecorderContext, found: Survey, request: PurgeRequest) -> _Said:
    if not request.fetched:
        return _Said()
    return _Said(fetched=purging.fetched_holding(context.workspace, found))


def _purged(context: RecorderContext, found: Survey, request: PurgeRequest) -> _Said:
    purging.purge(context, found)
    fetched = purging.drop_fetched(context) if request.fetched else []
    ws = context.workspace
    held_by = purging.proof(ws, found)
    return _Said(mirror.scrub(ws, journal.awaited(ws.db)), held_by, fetched)
