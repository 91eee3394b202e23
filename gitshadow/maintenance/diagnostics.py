"""Examining a worktree's recording: what is wrong with it, each finding with its remedy.

Invariant: reads only; a finding that is not ok always has a remedy, a command where one helps.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from gitshadow.capture.coverage import TOO_LARGE
from gitshadow.errors import StoreError
from gitshadow.maintenance.startup_repair import ref_locks
from gitshadow.maintenance.upkeep import TROUBLE
from gitshadow.model import Oid
from gitshadow.query.rows import rfc3339
from gitshadow.recording.context import RecorderContext
from gitshadow.recording.workspace import Workspace
from gitshadow.sharing import mirror, remotes
from gitshadow.sharing.transfer import secret_names
from gitshadow.store.journal import events, meta, ops, sessions
from gitshadow.store.refs import display_path
from gitshadow.words import counted

FIX = "git agent-undo doctor --fix"
REINDEX = "git agent-undo reindex"
FSCK = "git fsck"
MENDING, RECORDING = "mending", "recording now"
_OF_OBJECTS = ("refs", "objects", MENDING, RECORDING)
_SHOWN = 5
_NOTES = 2
_WATCHES = "/proc/sys/fs/inotify/max_user_watches"
_INSTANCES = "/proc/sys/fs/inotify/max_user_instances"
_WANTED_WATCHES = 1 << 20
_WANTED_INSTANCES = 512


@dataclass(frozen=True, slots=True)
class Check:
    """One finding; a warning is not ok and always has a remedy."""

    name: str
    ok: bool
    message: str
    remedy: str | None = None


def examine(context: RecorderContext, stuck: Sequence[Check] = ()) -> list[Check]:
    """Return all findings, the same ones in the same order whatever they say.

    Last come those of `stuck`: what could not be done before.
    """
    parts: tuple[Callable[[RecorderContext], Iterator[Check]], ...] = (
        _journal,
        _recording,
        _inotify,
        _refs,
        _objects,
        _rows,
        _locks,
        _undos,
        _spool,
        _coverage,
        _remotes,
        _gaps,
        _packing,
        _mirror,
        _secrets,
    )
    found = [check for part in parts for check in part(context)]
    return _with_owners(context.workspace, [*found, *stuck])


def missing(ws: Workspace) -> list[Oid]:
    """Return the objects that our refs need and the repository does not have."""
    tips = sorted(set(ws.repo.refs().values()))
    return ws.git.missing(tips) if tips else []


def _recording(context: RecorderContext) -> Iterator[Check]:
    enabled = context.workspace.config.enabled
    yield Check(
        "recording",
        enabled,
        "recording is on" if enabled else "recording is off",
        None if enabled else "git config agent-undo.enabled true",
    )
    degraded = context.observer.degraded
    yield Check("watcher", degraded is None, degraded or "nothing is missing", degraded)


def _journal(context: RecorderContext) -> Iterator[Check]:
    wrong = context.workspace.db.damage()
    yield Check(
        "journal",
        wrong is None,
        f"damaged: {wrong}" if wrong else "every page of the journal can be read",
        FIX if wrong else None,
    )


def _inotify(context: RecorderContext) -> Iterator[Check]:
    """A watch for each directory, and a few instances for each daemon."""
    paths = context.workspace.states.all()
    need = len({os.path.dirname(path) for path in paths}) + 1
    have, instances = _limit(_WATCHES), _limit(_INSTANCES)
    remedy = None
    # Other programs of the user have watches under the same limit.
    if have is not None and have < 2 * need:
        wanted = max(_WANTED_WATCHES, 4 * need)
        remedy = f"sudo sysctl fs.inotify.max_user_watches={wanted}"
    elif instances is not None and instances < _WANTED_INSTANCES // 4:
        remedy = f"sudo sysctl fs.inotify.max_user_instances={_WANTED_INSTANCES}"
    yield Check(
        "inotify",
        remedy is None,
        f"{counted(need, 'directory', 'directories')} to watch; the limits for all"
        f" your programs are {have or 'unknown'} watches and {instances or 'unknown'}"
        f" instances",
        remedy,
    )


def _limit(path: str) -> int | None:
    try:
        with open(path, encoding="ascii") as handle:
            return int(handle.read())
    except (OSError, ValueError):
        return None


def _refs(context: RecorderContext) -> Iterator[Check]:
    ws = context.workspace
    # Rows are read before refs: a session that begins in between has its ref first.
    chains = sessions.chains(ws.db)
    found = ws.repo.refs()
    broken = ws.repo.broken_refs()
    gone = [one.ref for one in chains if one.ref not in found and one.ref not in broken]
    for chain in chains:
        try:
            ws.repo.read_tree(ws.repo.commit(chain.tip).tree)
        except StoreError:
            broken.append(chain.ref)
    # Somebody who records at this moment moves a ref before its row: the new tip descends.
    changed = [
        one.ref
        for one in chains
        if one.ref not in broken
        and found.get(one.ref, one.tip) != one.tip
        and not ws.git.descends(found[one.ref], one.tip)
    ]
    findings = (
        ("cannot be read", broken),
        ("gone", gone),
        ("changed to something else", changed),
    )
    said = [f"{what}: {', '.join(which[:_SHOWN])}" for what, which in findings if which]
    yield Check(
        "refs",
        not said,
        "; ".join(said) or "all refs are intact",
        FIX if said else None,
    )


def _objects(context: RecorderContext) -> Iterator[Check]:
    broken = context.workspace.repo.loose.all_broken()
    if broken:
        said = f"broken in the object store: {_some(broken)}"
        yield Check("objects", False, said, FIX)
        return
    try:
        found = missing(context.workspace)
    except StoreError as error:
        yield Check("objects", False, error.message, FIX)
        return
    yield Check(
        "objects",
        not found,
        f"missing in the history: {_some(found)}"
        if found
        else "no object of the history is missing",
        FIX if found else None,
    )


def _with_owners(ws: Workspace, found: Sequence[Check]) -> list[Check]:
    """Name damaged objects of the user: `doctor --fix` writes only ours."""
    wrong = [one for one in found if one.name in _OF_OBJECTS and one.remedy]
    theirs: list[Oid] = []
    if wrong:
        with suppress(StoreError):
            theirs = _damage_of_user(ws)
    if not theirs:
        return [*found]
    said = f"not gitshadow's, your own history needs it: {_some(theirs)}"
    alone = theirs == sorted(ws.repo.loose.all_broken())
    remedy = FSCK if alone else f"{FSCK}; then {FIX}"
    return [
        replace(one, message=f"{one.message}; {said}", remedy=remedy)
        if one in wrong
        else one
        for one in found
    ]


def _damage_of_user(ws: Workspace) -> list[Oid]:
    """Return the broken and missing objects that the user's own refs, reflogs and index need."""
    reached, stops = ws.git.reached_by_user()
    broken = set(ws.repo.loose.all_broken())
    gone = {oid for oid in stops - broken if not ws.repo.has(oid)}
    return sorted(broken & (reached | stops) | gone)


def _some(oids: Sequence[Oid]) -> str:
    return f"{len(oids)}, {', '.join(oid[:10] for oid in oids[:_SHOWN])}"


def _rows(context: RecorderContext) -> Iterator[Check]:
    """Rows whose commits are gone can be undone no more, and say so too late."""
    ws = context.workspace
    commits = events.commits(ws.db)
    there = ws.git.sizes(commits) if commits else {}
    gone = [oid for oid in commits if oid not in there]
    yield Check(
        "rows",
        not gone,
        f"the commits of {counted(len(gone), 'write')} are missing"
        if gone
        else "every change has its commit",
        REINDEX if gone else None,
    )


def _locks(context: RecorderContext) -> Iterator[Check]:
    found = ref_locks(context.workspace)
    stale = [one for one in found if one.is_stale]
    shown = "; ".join(one.describe() for one in (stale or found)[:_SHOWN])
    yield Check(
        "locks",
        not stale,
        f"left by a killed process: {shown}" if stale else shown or "no ref is locked",
        FIX if stale else None,
    )


def _undos(context: RecorderContext) -> Iterator[Check]:
    ws = context.workspace
    found = ops.applying(ws.db, ws.layout.worktree)
    yield Check(
        "undo",
        not found,
        f"{found[0].id} could not be finished yet" if found else "none is unfinished",
        FIX if found else None,
    )


def _spool(context: RecorderContext) -> Iterator[Check]:
    waiting = len(context.spool.waiting())
    yield Check(
        "spool",
        True,
        f"{waiting} hook payloads are waiting for their worktree"
        if waiting
        else "no hook payload is waiting",
    )


def _coverage(context: RecorderContext) -> Iterator[Check]:
    """Files that Git tracks and we do not record: their changes cannot be undone."""
    index = context.workspace.index
    holes = [
        one.path
        for one in context.walker.excluded_now()
        if one.reason == TOO_LARGE and index.contains(one.path)
    ]
    shown = ", ".join(display_path(path) for path in holes[:_SHOWN])
    yield Check(
        "coverage",
        not holes,
        f"{counted(len(holes), 'tracked file')} too large to be recorded: {shown}"
        if holes
        else "all tracked files are recorded",
        "git config agent-undo.maxFileSize 100M" if holes else None,
    )


def _remotes(context: RecorderContext) -> Iterator[Check]:
    leaks = remotes.leaks(context.workspace.repo)
    for leak in leaks:
        yield Check("remotes", False, remotes.warning(leak), remotes.remedy(leak))
    if not leaks:
        yield Check("remotes", True, "no remote mirrors all refs")


def _gaps(context: RecorderContext) -> Iterator[Check]:
    """A gap is a fault until somebody has seen it; then it is history."""
    db = context.workspace.db
    found = events.list_gaps(db)
    fresh = [one for one in found if one.is_new]
    if not found:
        yield Check("gaps", True, "no gaps")
    elif not fresh:
        last = rfc3339(found[-1].ts_ns)
        said = (
            f"{counted(len(found), 'gap')} in the past, all seen; the last was {last}"
        )
        yield Check("gaps", True, said)
    else:
        last = rfc3339(fresh[-1].ts_ns)
        said = f"{counted(len(fresh), 'gap')} in the recording, the last {last}"
        notes = dict.fromkeys(one.note for one in reversed(fresh) if one.note)
        said += "".join(f"; {note}" for note in [*notes][:_NOTES])
        look = "git agent-undo log --kind gap"
        yield Check("gaps", False, said, f"{look}; seen: {FIX}")


def _packing(context: RecorderContext) -> Iterator[Check]:
    trouble = meta.get(context.workspace.db, TROUBLE)
    yield Check(
        "packing",
        not trouble,
        trouble or "nothing prevents packing the history",
        "git agent-undo pack" if trouble else None,
    )


def _mirror(context: RecorderContext) -> Iterator[Check]:
    ws = context.workspace
    place, trouble = mirror.place_of(ws), meta.get(ws.db, mirror.TROUBLE)
    if place is None:
        yield Check("mirror", True, "none is set")
    else:
        said = trouble or f"the history is copied to {place}"
        yield Check("mirror", not trouble, said, _mirror_remedy(trouble))


def _mirror_remedy(trouble: str | None) -> str | None:
    """Return what to type; what the mirror alone has comes first, as it may be all there is."""
    if not trouble:
        return None
    if trouble.startswith(mirror.KEPT):
        return (
            "git agent-undo restore --from-mirror; where what is here counts:"
            " git agent-undo mirror"
        )
    return "git agent-undo mirror"


def _secrets(context: RecorderContext) -> Iterator[Check]:
    found = secret_names(context.workspace.states.all())
    shown = ", ".join(display_path(path) for path in found[:_SHOWN])
    yield Check(
        "secrets",
        True,
        f"{len(found)} recorded files look secret: {shown}"
        if found
        else "no recorded file looks secret",
    )
