"""doctor: what is wrong with the recording of this worktree, each with its remedy."""

from collections.abc import Iterator
from dataclasses import dataclass

from gitshadow.engine import params as read
from gitshadow.engine import remotes
from gitshadow.engine.desk import Desk
from gitshadow.engine.mending import repair
from gitshadow.engine.secrets import secret_names
from gitshadow.engine.upkeep import TROUBLE
from gitshadow.engine.verbs import Document, Params
from gitshadow.errors import StoreError
from gitshadow.store.journal import events, meta, sessions
from gitshadow.store.refs import display_path

_SHOWN = 5
_WATCHES = "/proc/sys/fs/inotify/max_user_watches"


@dataclass(frozen=True, slots=True)
class Check:
    """Hold one finding; a warning is not ok and always has a remedy."""

    name: str
    ok: bool
    message: str
    remedy: str | None = None


def doctor(desk: Desk, params: Params) -> Document:
    """Check refs, journal, watcher, remotes and names."""
    if read.flag(params, "fix"):
        repair(desk)
    desk.observer.settle()
    checks = [
        *_recording(desk),
        *_refs(desk),
        *_remotes(desk),
        *_gaps(desk),
        *_packing(desk),
        *_secrets(desk),
    ]
    rows = [
        {"name": c.name, "ok": c.ok, "message": c.message, "remedy": c.remedy}
        for c in checks
    ]
    return {"checks": rows}


def _recording(desk: Desk) -> Iterator[Check]:
    enabled = desk.workspace.config.enabled
    yield Check(
        "recording",
        enabled,
        "recording is on" if enabled else "recording is off",
        None if enabled else "git config agent-undo.enabled true",
    )
    degraded = desk.observer.degraded
    yield Check("watcher", degraded is None, degraded or "nothing is missed", degraded)
    need, have = len(desk.workspace.states.all()) // 4, _watch_limit()
    yield Check(
        "inotify",
        have is None or have > need,
        f"{have or 'unknown'} watches allowed",
        "sudo sysctl fs.inotify.max_user_watches=1048576",
    )


def _watch_limit() -> int | None:
    try:
        with open(_WATCHES, encoding="ascii") as handle:
            return int(handle.read())
    except (OSError, ValueError):
        return None


def _refs(desk: Desk) -> Iterator[Check]:
    ws = desk.workspace
    broken = []
    for chain in sessions.chains(ws.db):
        try:
            info = ws.repo.commit(chain.tip)
            ws.repo.read_tree(info.tree)
        except StoreError:
            broken.append(chain.ref)
    yield Check(
        "refs",
        not broken,
        f"cannot be read: {', '.join(broken[:_SHOWN])}"
        if broken
        else "all refs are whole",
        "git agent-undo reindex" if broken else None,
    )


def _remotes(desk: Desk) -> Iterator[Check]:
    leaks = remotes.leaks(desk.workspace.repo)
    for leak in leaks:
        yield Check("remotes", False, remotes.warning(leak), remotes.remedy(leak))
    if not leaks:
        yield Check("remotes", True, "no remote mirrors all refs")


def _gaps(desk: Desk) -> Iterator[Check]:
    count = events.count_gaps(desk.workspace.db)
    yield Check(
        "gaps",
        count == 0,
        f"{count} gaps in the recording" if count else "no gaps",
        "git agent-undo log --kind gap" if count else None,
    )


def _packing(desk: Desk) -> Iterator[Check]:
    trouble = meta.get(desk.workspace.db, TROUBLE)
    yield Check(
        "packing",
        not trouble,
        trouble or "nothing keeps the history from being packed",
        "git agent-undo pack" if trouble else None,
    )


def _secrets(desk: Desk) -> Iterator[Check]:
    found = secret_names(desk.workspace.states.all())
    shown = ", ".join(display_path(path) for path in found[:_SHOWN])
    yield Check(
        "secrets",
        True,
        f"{len(found)} recorded files look secret: {shown}"
        if found
        else "no recorded file looks secret",
    )
